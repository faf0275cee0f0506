"""Sub-blocks: what a step computes of a block that a bound cuts.

A large block is computed at once where all of it is in bounds; where it is not, most of it may be
out of bounds, and only the sub-blocks that hold positions in bounds are computed.
"""

from __future__ import annotations

from dataclasses import replace

from kernelgen.diagnostics import Diagnostic
from kernelgen.language.program import Program
from kernelgen.planner import ir
from kernelgen.planner.bounds import first_position, operation, walk
from kernelgen.planner.ir import Expr, Literal, Local, Store
from kernelgen.planner.model import Axis, Operand, Part, Walk
from kernelgen.planner.names import declared_names, unused
from kernelgen.planner.targets import LANES
from kernelgen.spec import KernelSpec


def parted(spec: KernelSpec) -> str | None:
    """The axis with sub-blocks, if there is one."""
    return next((name for name, axis in spec.axes.items() if axis.subtile is not None), None)


def check_parts(spec: KernelSpec, program: Program) -> list[Diagnostic]:
    """Findings about sub-blocks that do not divide a block, or that no bound leads to."""
    findings = []
    for name, axis in spec.axes.items():
        if axis.subtile is None:
            continue
        message = instead = ""
        if name not in program.domain.bounds:
            message = f"no bound cuts the blocks of {name}"
            instead = "give it a start or a stop, or remove subtile"
        elif name != parted(spec):
            message = f"{parted(spec)} has sub-blocks already"
            instead = "keep one of the two"
        elif axis.tile is None or axis.tile % axis.subtile or axis.subtile % LANES:
            message = f"sub-blocks of {axis.subtile} do not divide a block of {axis.tile or name}"
            if axis.subtile % LANES:
                message = f"a sub-block of {axis.subtile} positions is no multiple of {LANES}"
            instead = f"use a multiple of {LANES} that divides the tile"
        if message:
            where = ("axes", name, "subtile")
            findings.append(Diagnostic("KG308", message, instead, where))
    return findings


def plan_part(
    spec: KernelSpec,
    program: Program,
    axes: dict[str, Axis],
    walks: dict[str, Walk],
    operands: dict[str, Operand],
    copied: frozenset[str],
    zeros: tuple[Store, ...],
) -> Part | None:
    """The sub-blocks of the axis that has some; ``zeros`` is what is written out of bounds."""
    name = parted(spec)
    if name is None:
        return None
    taken = declared_names(spec, program)
    names = (f"{name}_sub", f"{name}_from", f"{name}_size", f"subblock_{name}")
    step, origin, length, block = (unused(each, taken) for each in names)
    subs = {**axes, name: replace(axes[name], origin=origin, length=block)}
    bounds = program.domain.bounds
    wholes = {each: walk(bounds[each], subs, False).whole for each in walks}
    tile = spec.axes[name].subtile
    assert tile is not None
    tiles = {
        operand.name: (operand.layout.index(name), unused(f"{operand.name}_part", taken))
        for operand in operands.values()
        if (operand.memory_space == "VMEM" or operand.name in copied) and name in operand.layout
    }
    return Part(
        axis=name,
        tile=tile,
        block=block,
        step=step,
        axes={**axes, name: replace(axes[name], origin=origin, length=length)},
        first=_first(axes[name], walks[name], block),
        end=_end(axes[name], walks[name], block),
        wholes=wholes,
        tiles=tiles,
        zeros=tuple(store for store in zeros if store.name in tiles),
    )


def _first(axis: Axis, walk: Walk, block: str) -> Expr:
    if axis.start not in {end.name for end in walk.ends}:
        return Literal(0)
    skipped = operation("subtract", Local(axis.start), first_position(axis))
    return ir.Quotient(operation("maximum", skipped, Literal(0)), Local(block))


def _end(axis: Axis, walk: Walk, block: str) -> Expr:
    stop: Expr = ir.Extent(axis.name)
    if axis.stop in {end.name for end in walk.ends}:
        stop = Local(axis.stop)
    left = operation("subtract", stop, first_position(axis))
    return ir.Quotient(operation("minimum", left, Local(axis.block)), Local(block), up=True)
