"""The plan as a table, for ``kernelgen show``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .diagnostics import listing

if TYPE_CHECKING:
    from .planner.model import Axis, Operand, Plan

_ROLES = {"parallel": "in any order", "arbitrary": "in order", "whole": "one block"}


def table(plan: Plan) -> str:
    """A plan in words and numbers.

    Args:
        plan: The plan.

    Returns:
        Lines: grid, axes, operands with their blocks and index maps, the map of VMEM at the
        default tiles, and what each TPU generation needs.
    """
    sections = [
        [f"{plan.spec.name}: {' '.join(plan.spec.doc.split())}"],
        [f"grid  {_grid(plan)}"],
        _columns(
            [("axis", "tile", "walked", "bounds"), *(_axis(plan, a) for a in plan.axes.values())]
        ),
        _columns(
            [
                ("operand", "kind", "dtype", "memory", "array", "block", "index map", "residency"),
                *(_operand(plan, operand) for operand in plan.operands.values()),
            ]
        ),
        ["VMEM at the default tiles", *_indented(_buffers(plan))],
        _columns(
            [("target", "VMEM bytes", "limit", "SMEM bytes"), *_memory(plan)], right=(1, 2, 3)
        ),
    ]
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def _grid(plan: Plan) -> str:
    segments = plan.segments
    counts = []
    for axis in plan.grid:
        if segments is not None and axis == segments.group:
            counts.append(f"blocks of {segments.axis} by {axis}")
        elif segments is None or axis != segments.axis:
            counts.append(_count(plan.axes[axis]))
    grid = " x ".join(counts) or "a single step"
    return f"{grid}, then a loop over {plan.loop.axis}" if plan.loop is not None else grid


def _count(axis: Axis) -> str:
    return axis.name if axis.tile == 1 else f"cdiv({axis.name}, {axis.tile})"


def _axis(plan: Plan, axis: Axis) -> tuple[str, ...]:
    tile = "whole" if axis.tile is None else str(axis.tile)
    if plan.part is not None and plan.part.axis == axis.name:
        tile += f", cut {plan.part.tile}"
    loop = plan.loop is not None and plan.loop.axis == axis.name
    return (axis.name, tile, "in a loop" if loop else _ROLES[axis.role], _bounds(plan, axis.name))


def _bounds(plan: Plan, name: str) -> str:
    axis = plan.spec.axes[name]
    if axis.start is None and axis.stop is None:
        return "-"
    return f"from {axis.start or 0} up to {axis.stop or name}"


def _operand(plan: Plan, operand: Operand) -> tuple[str, ...]:
    return (
        operand.name,
        operand.kind,
        operand.dtype,
        operand.memory_space,
        f"({', '.join(operand.axes)})",
        " x ".join(_dimension(plan, axis) for axis in operand.layout),
        _index_map(plan, operand),
        _residency(plan, operand),
    )


def _dimension(plan: Plan, axis: str | None) -> str:
    from .planner.ir import REPLICATED
    from .planner.targets import LANES

    if axis is None:
        return "1"
    return str(LANES) if axis == REPLICATED else _extent(plan.axes[axis])


def _extent(axis: Axis) -> str:
    return axis.name if axis.tile is None else str(axis.tile)


def _index_map(plan: Plan, operand: Operand) -> str:
    """Which part of the array a block is, in words."""
    if operand.kind == "scratch":
        return "-"
    if operand.memory_space == "SMEM":
        return "the whole array"
    declared = plan.spec.inputs.get(operand.name) or plan.spec.outputs[operand.name]
    parts = [
        f"{axis} {declared.index[axis]}" if axis in declared.index else _part(plan.axes[axis])
        for axis in operand.axes
    ]
    return ", ".join(parts) or "the scalar"


def _part(axis: Axis) -> str:
    if axis.tile is None:
        return f"all of {axis.name}"
    return f"one {axis.name}" if axis.tile == 1 else f"tile of {axis.name}"


def _residency(plan: Plan, operand: Operand) -> str:
    """How long a block stays in place."""
    verb = "written" if operand.kind == "output" else "fetched"
    if operand.kind == "scratch":
        return "kept across steps"
    if operand.memory_space == "ANY" and not operand.layout:
        return f"updated by {_updater(plan, operand.name)}"
    copies = {copy.name: copy for copy in plan.copies}
    if operand.name in copies:
        verb = "copied back" if operand.kind == "output" else "copied"
    if operand.memory_space == "SMEM" or not operand.fetched_every:
        return f"{verb} once"
    if operand.name in copies and copies[operand.name].looped:
        return f"{verb} by the kernel, {copies[operand.name].buffers} blocks in VMEM"
    # A block is fetched again when any axis outside the innermost one that moves it advances.
    moving = max(plan.walked.index(axis) for axis in operand.fetched_every) + 1
    text = f"{verb} per step of {listing(plan.walked[:moving])}"
    stays = plan.walked[moving:]
    return f"{text}, stays along {listing(stays)}" if stays else text


def _updater(plan: Plan, name: str) -> str:
    return next(o.name for o in plan.of_kind("output") if o.alias == name)


def _buffers(plan: Plan) -> list[str]:
    rows = [
        (b.name, " x ".join(map(str, b.shape)), b.dtype, f"x {b.copies}", f"{b.bytes:,}")
        for b in plan.buffers
    ]
    return _columns([("buffer", "shape", "dtype", "copies", "bytes"), *rows], right=(4,))


def _memory(plan: Plan) -> Iterable[tuple[str, ...]]:
    for memory in plan.memory:
        limit = f"{memory.vmem_limit_bytes:,}"
        yield memory.target, f"{memory.vmem_bytes:,}", limit, f"{memory.smem_bytes:,}"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _columns(rows: Sequence[tuple[str, ...]], right: Sequence[int] = ()) -> list[str]:
    """Rows as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
