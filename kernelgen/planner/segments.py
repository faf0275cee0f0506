"""Groups that lie side by side along an axis: one dimension of the grid for both.

A block of the axis that several groups share is visited once for each of them, by consecutive
steps, and every visit stores the rows of its group. Walking groups and blocks as two dimensions
would visit every block for every group.
"""

from __future__ import annotations

from kernelgen.diagnostics import Diagnostic, listing
from kernelgen.language.program import Program
from kernelgen.planner import ir
from kernelgen.planner.bounds import operation
from kernelgen.planner.ir import Expr, Literal, Local
from kernelgen.planner.model import Segments
from kernelgen.planner.names import declared_names, unused
from kernelgen.planner.schedule import as_written
from kernelgen.spec import KernelSpec


def plan_segments(spec: KernelSpec, program: Program) -> Segments | None:
    """The dimension of the grid that walks groups and blocks together, if an output needs it."""
    found = next(iter(program.domain.groups.values()), None)
    if found is None:
        return None
    taken = declared_names(spec, program)
    return Segments(
        found.axis,
        found.group,
        found.offsets,
        spec.grid.index(found.group),
        unused("segment_i", taken),
        unused(f"{found.group}_list", taken),
        unused(f"{found.axis}_list", taken),
        unused("segments", taken),
        unused("first_visit", taken),
    )


def check_segments(spec: KernelSpec, program: Program) -> list[Diagnostic]:
    """Findings about the order of the grid: visits of one block have to follow one another."""
    findings = []
    for name, groups in program.domain.groups.items():
        others = [a for a in spec.grid if a not in (groups.group, groups.axis, *spec.reduction)]
        inner = [axis for axis in spec.grid if axis in spec.reduction]
        legal = (*others, groups.group, groups.axis, *inner)
        if tuple(spec.grid) != legal:
            findings.append(
                Diagnostic(
                    "KG307",
                    f"blocks of {groups.axis} that groups {groups.group} share in {name} are not "
                    "visited by consecutive steps",
                    as_written(legal),
                    ("grid",),
                )
            )
        mixed = [output for output in spec.outputs if output not in program.domain.groups]
        if mixed:
            findings.append(
                Diagnostic(
                    "KG307",
                    f"{listing(mixed)} {'has' if len(mixed) == 1 else 'have'} the groups "
                    f"{groups.group} as an axis, {name} has them side by side along {groups.axis}",
                    "compute them in two kernels",
                    ("outputs", mixed[0], "axes"),
                )
            )
    return findings


def is_segment(segments: Segments) -> Expr:
    """Whether a step has a segment: the grid has as many steps as there can be at most."""
    return operation("less", Local(segments.step), ir.Scalar(segments.count, (Literal(0),)))
