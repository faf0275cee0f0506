"""The grid and the index maps: which block of each operand a step names."""

from __future__ import annotations

from kernelgen.language.operations import ATOM
from kernelgen.planner.bounds import first_block
from kernelgen.planner.ir import Expr, Walked, locals_in, parts
from kernelgen.planner.model import Axis, Operand, Plan
from kernelgen.planner.names import names_of, unused
from kernelgen.renderer.printer import Printer, Text, shape_text


def dimensions(plan: Plan) -> list[str]:
    """The axes of the grid; groups stand for the axis that is walked with them."""
    merged = plan.segments.axis if plan.segments is not None else None
    return [name for name in plan.grid if name != merged]


def steps(plan: Plan) -> list[str]:
    """The names of the grid positions."""
    segments = plan.segments
    return [
        segments.step if segments and name == segments.group else grid_step(plan, name)
        for name in dimensions(plan)
    ]


def grid_step(plan: Plan, name: str) -> str:
    """The name of the grid position along an axis: its block, or a step from its first one on."""
    walk = plan.walks.get(name)
    axis = plan.axes[name]
    return axis.walked if walk is not None and walk.span is not None else axis.step


def prefetched_names(plan: Plan) -> list[str]:
    """What is delivered to SMEM before the kernel starts: scalars, and lists for the grid."""
    lists = plan.segments.lists if plan.segments is not None else ()
    return [*(operand.name for operand in prefetched(plan)), *lists]


def prefetched(plan: Plan) -> list[Operand]:
    """The inputs that are delivered to SMEM before the kernel starts."""
    return [operand for operand in plan.of_kind("input") if operand.memory_space == "SMEM"]


def blocked(plan: Plan) -> list[Operand]:
    """The inputs of which the kernel sees blocks."""
    return [operand for operand in plan.of_kind("input") if operand.memory_space != "SMEM"]


def is_shifted(plan: Plan, name: str) -> bool:
    """Whether the grid walks an axis from its first block in bounds on."""
    return grid_step(plan, name) != plan.axes[name].step


def index_functions(plan: Plan) -> list[str]:
    """Index maps that take several lines: those that keep steps out of bounds from fetching."""
    lines: list[str] = []
    for index, name in _named_indices(plan).items():
        lines += _index_function(plan, index, name)
    return lines


def _named_indices(plan: Plan) -> dict[tuple[Expr, ...], str]:
    """The index maps that have names: those of their first operands."""
    taken = set(names_of(plan))
    named: dict[tuple[Expr, ...], str] = {}
    for operand in (*plan.of_kind("input"), *plan.of_kind("output")):
        printer = IndexPrinter(plan)
        texts = [printer.text(block) for block in operand.index]
        looks_up = bool(printer.refs) or any(_walked(block) for block in operand.index)
        if operand.memory_space == "VMEM" and texts and looks_up:
            named.setdefault(operand.index, unused(f"{operand.name}_index", taken))
    return named


def _walked(expr: Expr) -> set[str]:
    """The axes along which a block is named that a step out of bounds does not have."""
    found = {expr.axis} if isinstance(expr, Walked) else set()
    return found.union(*(_walked(part) for part in parts(expr)))


def _index_function(plan: Plan, index: tuple[Expr, ...], name: str) -> list[str]:
    printer = IndexPrinter(plan)
    axes = [axis for axis in plan.blocks if any(axis in _walked(block) for block in index)]
    used = {name for axis in axes for name in locals_in(plan.blocks[axis])}
    used |= {plan.axes[a].start for a in axes if is_shifted(plan, a)}
    ends = [end for walk in plan.walks.values() for end in walk.ends if end.name in used]
    shifted = [plan.axes[axis] for axis in axes if is_shifted(plan, axis)]
    body = [
        *printer.statements(tuple(ends)),
        *(shift_line(printer, axis) for axis in shifted),
        *(f"{printer.block(axis)} = {printer.text(plan.blocks[axis])}" for axis in axes),
        f"return {', '.join(printer.text(block) for block in index)}",
    ]
    doc = "The block of a step; out of bounds, one that has been fetched already."
    return [
        f"def {name}({', '.join(_index_arguments(plan, printer))}):",
        f'    """{doc if axes else "The block of a step."}"""',
        *(f"    {line}" for line in body),
        "",
    ]


def shift_line(printer: Printer, axis: Axis) -> str:
    """The block of a step along an axis that the grid walks from its first block in bounds on."""
    return f"{axis.step} = {printer.text(first_block(axis))} + {axis.walked}"


def _index_arguments(plan: Plan, printer: Printer) -> list[str]:
    names = prefetched_names(plan)
    if printer.refs:
        return [*steps(plan), *(f"{name}_ref" for name in names)]
    return [*steps(plan), "*_"] if names else steps(plan)


def block_spec(plan: Plan, operand: Operand) -> str:
    """``pl.BlockSpec(block shape, index map)``"""
    if operand.memory_space == "SMEM":
        return "pl.BlockSpec(memory_space=pltpu.SMEM)"
    if operand.memory_space == "ANY":
        return "pl.BlockSpec(memory_space=pl.ANY)"
    shape = []
    for name in operand.view:
        single = name is not None and (name not in operand.layout or plan.axes[name].squeezed)
        shape.append("None" if single else plan.axes[name].block if name is not None else "1")
    index = _named_indices(plan).get(operand.index)
    if index is None:
        printer = IndexPrinter(plan)
        blocks = shape_text([printer.text(block) for block in operand.index])
        index = f"lambda {', '.join(_index_arguments(plan, printer))}: {blocks}"
    return f"pl.BlockSpec({shape_text(shape)}, {index})"


class IndexPrinter(Printer):
    """Prints index maps, in which the blocks that are fetched have names."""

    def block(self, axis: str) -> str:
        """The variable that holds the block of an axis to fetch."""
        return unused(f"{axis}_block", set(names_of(self.plan)))

    def step(self, axis: str) -> str:
        """The grid position along an axis; in a list, where it is walked with another."""
        segments = self.plan.segments
        if segments is None or axis not in (segments.axis, segments.group):
            return super().step(axis)
        name = segments.groups if axis == segments.group else segments.blocks
        self.refs[name] = None
        return f"{name}_ref[{segments.step}]"

    def expr(self, expr: Expr) -> Text:
        """The source of an expression and its precedence."""
        if isinstance(expr, Walked):
            return self.block(expr.axis), ATOM
        return super().expr(expr)
