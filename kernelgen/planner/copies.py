"""Operands in ANY: which blocks the kernel copies itself, and the loop that it copies them in.

Where an operand in ANY moves with the innermost axis of the grid, that axis becomes a loop inside
the kernel: blocks are copied ahead of the step that needs them, and the loop ends where the bounds
of the axis do. Every other operand along that axis is copied in the same loop.
"""

from __future__ import annotations

from kernelgen.diagnostics import Diagnostic
from kernelgen.language.program import Program
from kernelgen.planner import ir
from kernelgen.planner.bounds import block_count, both, first_block, operation
from kernelgen.planner.ir import Expr, Literal, Local
from kernelgen.planner.model import Axis, Copy, Loop, Operand, Walk
from kernelgen.planner.names import declared_names, unused
from kernelgen.planner.targets import LANES, SUBLANES
from kernelgen.spec import KernelSpec

DEFAULT_BUFFERS = 2


def looped_axis(spec: KernelSpec, program: Program) -> str | None:
    """The axis of the grid that is a loop inside the kernel, if there is one."""
    merged = {groups.axis for groups in program.domain.groups.values()}
    if not spec.grid or spec.grid[-1] in merged:  # a list tells its blocks
        return None
    seen = program.domain.seen
    moved = [
        name
        for name, operand in (*spec.inputs.items(), *spec.outputs.items())
        if operand.memory_space == "ANY" and spec.grid[-1] in seen[name]
    ]
    return spec.grid[-1] if moved else None


def copied(spec: KernelSpec, program: Program) -> frozenset[str]:
    """The inputs and outputs that the kernel copies itself."""
    loop = looped_axis(spec, program)
    return frozenset(
        name
        for name, operand in (*spec.inputs.items(), *spec.outputs.items())
        if operand.memory_space == "ANY"
        or (operand.memory_space == "VMEM" and loop in program.domain.seen[name])
    )


def check_copies(spec: KernelSpec, program: Program) -> list[Diagnostic]:
    """Findings about operands that no DMA moves, and about buffers of those that do not move."""
    loop, names = looped_axis(spec, program), copied(spec, program)
    findings = []
    for section, operands in (("inputs", spec.inputs), ("outputs", spec.outputs)):
        for name, operand in operands.items():
            moves = name in names and loop in program.domain.seen[name]
            if operand.buffers is not None and not moves:
                findings.append(
                    Diagnostic(
                        "KG413",
                        f"{name} is not copied ahead in a loop of the kernel",
                        'place it in "ANY" with the innermost axis of the grid, or remove buffers',
                        (section, name, "buffers"),
                        on_key=True,
                    )
                )
            if operand.dtype == "bool" and name in names:
                findings.append(
                    Diagnostic(
                        "KG416",
                        f"{name} is bool, and the kernel copies its blocks itself",
                        f"make it int8, and write {name} != 0 in the body",
                        (section, name, "dtype"),
                    )
                )
    return findings


def loop(
    spec: KernelSpec,
    axes: dict[str, Axis],
    walks: dict[str, Walk],
    grid: tuple[str, ...],
    copies: tuple[Copy, ...],
    name: str | None,
    segment: Expr | None,
) -> Loop | None:
    """The loop inside the kernel.

    Args:
        spec: The kernel.
        axes: The schedule of every axis.
        walks: For axes with bounds, what they mean for the steps.
        grid: The axes outside of the loop.
        copies: What is copied.
        name: The looped axis, or None.
        segment: Whether a step of the grid has a segment; None where it walks none.
    """
    if name is None:
        return None
    axis, walk = axes[name], walks.get(name)
    outer = [walks[a].live for a in grid if a in walks]
    if segment is not None:
        outer = [segment]
    # Two groups may share a block: the zeros of one must not take the place of another's results.
    shared = segment is not None and any(
        copy.writes and copy.looped and spec.outputs[copy.name].outside == "zero" for copy in copies
    )
    first: Expr = Literal(0)
    size: Expr = ir.Extent(name)
    ends = {end.name for end in walk.ends} if walk and not shared else set()
    if axis.start in ends:
        first = first_block(axis)
    if axis.stop in ends:
        size = Local(axis.stop)
    end = block_count(axis, size)
    if outer:
        end = operation("where", both(outer), end, first)
    return Loop(name, first, end)


def plan_copies(
    spec: KernelSpec,
    program: Program,
    operands: dict[str, Operand],
    axes: dict[str, Axis],
    grid: tuple[str, ...],
    names: frozenset[str],
    looped: str | None,
) -> tuple[Copy, ...]:
    """How each operand that the kernel copies itself moves between memories.

    All blocks of a step are copied together, as far ahead as the operand with the most buffers.
    """
    declared = [spec.inputs.get(name) or spec.outputs[name] for name in names]
    depth = max((operand.buffers or DEFAULT_BUFFERS for operand in declared), default=1)
    taken = declared_names(spec, program)
    walked = {looped, *grid} & {*program.domain.bounds}
    filled = set()
    if walked and not program.domain.groups:
        filled = {name for name, output in spec.outputs.items() if output.outside == "zero"}
    return tuple(
        _copy(spec, operand, axes, grid, looped, depth, taken, filled)
        for operand in operands.values()
        if operand.name in names
    )


def _copy(
    spec: KernelSpec,
    operand: Operand,
    axes: dict[str, Axis],
    grid: tuple[str, ...],
    looped: str | None,
    depth: int,
    taken: set[str],
    filled: set[str],
) -> Copy:
    inner = _inner(operand, grid)
    once = tuple(axis for axis in inner if axis in spec.reduction)
    moves = looped is not None and looped in operand.seen
    zeros = moves and operand.name in filled
    return Copy(
        operand.name,
        unused(f"{operand.name}_buffer", taken),
        unused(f"{operand.name}_sem", taken),
        unused(f"{operand.name}_tile", taken),
        operand.kind == "output",
        moves,
        depth if moves else 1,
        tuple(_place(operand, i, axes) for i in range(len(operand.view))),
        () if moves or once != inner else once,
        unused(f"{operand.name}_zeros", taken) if zeros else "",
        unused(f"{operand.name}_zeros_sem", taken) if zeros else "",
    )


def _inner(operand: Operand, grid: tuple[str, ...]) -> tuple[str, ...]:
    """The grid axes inside of all that move an operand's block."""
    moving = [grid.index(axis) for axis in operand.fetched_every if axis in grid]
    return grid[max(moving, default=-1) + 1 :]


def _place(operand: Operand, dim: int, axes: dict[str, Axis]) -> Expr | str | None:
    """Where a block lies along one dimension: at a position, as a tile of an axis, or all of it."""
    name = operand.view[dim]
    if name is None:
        return None
    if name not in operand.layout:
        return operand.index[dim]
    return name if axes[name].tile is not None else None


def plan_units(
    operands: dict[str, Operand], axes: dict[str, Axis], names: frozenset[str]
) -> dict[str, dict[str, int]]:
    """For arrays that the kernel copies, the units of their tiled axes: whole tiles of memory.

    An axis has one unit in all of them, so that they have the same blocks.
    """
    own = {name: _units(operands[name], axes) for name in operands if name in names}
    largest: dict[str, int] = {}
    for found in own.values():
        largest |= {axis: max(unit, largest.get(axis, 1)) for axis, unit in found.items()}
    units = {name: {axis: largest[axis] for axis in found} for name, found in own.items()}
    for operand in operands.values():
        if operand.alias is not None and operand.name in units:
            units[operand.alias] = units[operand.name]
    return units


def _units(operand: Operand, axes: dict[str, Axis]) -> dict[str, int]:
    units = {}
    for axis, unit in zip(reversed(operand.layout), (LANES, SUBLANES), strict=False):
        if axis is not None and axes[axis].tile is not None:
            units[axis] = unit
    return units
