"""Columns that fill all lanes: where they meet rows, and where one lane of them is enough."""

from __future__ import annotations

from kernelgen.diagnostics import Diagnostic
from kernelgen.planner import ir
from kernelgen.planner.context import Lowered
from kernelgen.planner.ir import REPLICATED, Layout, plain
from kernelgen.planner.model import Operand
from kernelgen.spec import KernelSpec


def check_replicated(spec: KernelSpec, operands: dict[str, Operand]) -> list[Diagnostic]:
    """Findings about scratch that is no column: its values lie in lanes of their own."""
    return [
        Diagnostic(
            "KG414",
            f"{name} is no statistic of rows: its values lie along lanes of their own",
            "remove replicated",
            ("scratch", name, "replicated"),
            on_key=True,
        )
        for name, scratch in spec.scratch.items()
        if scratch.replicated and operands[name].layout[-1:] != (REPLICATED,)
    ]


def laid_out(layout: Layout) -> Layout:
    """The layout of a replicated buffer that would lie as a column."""
    is_column = len(layout) > 1 and layout[-1] is None and layout[-2] is not None
    return (*layout[:-1], REPLICATED) if is_column else layout


def narrowed(part: Lowered) -> Lowered:
    """A value with one lane of what is replicated."""
    if REPLICATED not in part.layout:
        return part
    expr = ir.Lanes(part.expr, "one", len(part.layout))
    return Lowered(expr, plain(part.layout), part.dtype)


def met(parts: list[Lowered], layout: Layout) -> tuple[list[Lowered], Layout]:
    """Values that meet elementwise in a layout: what is replicated as wide as the others.

    Returns the values, and the layout of the result, which is replicated where all of them are
    columns.
    """
    fitting = [part if _is_aligned(part.layout, layout) else narrowed(part) for part in parts]
    if not any(REPLICATED in part.layout for part in fitting):
        return fitting, layout
    axis = layout[-1]
    if axis is None:
        return fitting, (*layout[:-1], REPLICATED)
    return [_across(part, axis) for part in fitting], layout


def _is_aligned(layout: Layout, frame: Layout) -> bool:
    """Whether a column stands where the frame has its axes, so that it need not be moved."""
    return all(
        own in (None, REPLICATED, other)
        for own, other in zip(reversed(layout), reversed(frame), strict=False)
    )


def _across(part: Lowered, axis: str) -> Lowered:
    if REPLICATED not in part.layout:
        return part
    return Lowered(ir.Across(part.expr, axis), (*part.layout[:-1], axis), part.dtype)
