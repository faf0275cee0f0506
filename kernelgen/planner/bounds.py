"""What follows from the bounds of an axis: which steps do work, which need masks, which blocks.

A bound may vary inside the block of an outer axis. Steps are skipped by its loosest value there,
and need no mask where they lie inside its tightest; both come from interval arithmetic.
"""

from __future__ import annotations

from functools import reduce

from kernelgen.language.indexing import nonnegative
from kernelgen.language.operations import OPERATIONS
from kernelgen.language.program import (
    Apply,
    Bounds,
    Constant,
    Element,
    Positions,
    Size,
    Value,
    is_static,
)
from kernelgen.planner import ir
from kernelgen.planner.ir import Bind, Expr, Literal, Local
from kernelgen.planner.model import Axis, Walk
from kernelgen.records import record

Axes = dict[str, Axis]


def operation(name: str, *args: Expr, static: bool = False) -> Expr:
    """A call of an operation of the table."""
    return ir.Call(OPERATIONS[name], args, static=static)


def both(conditions: list[Expr]) -> Expr:
    """Whether all conditions hold."""
    return reduce(lambda x, y: operation("logical_and", x, y), conditions)


def first_position(axis: Axis) -> Expr:
    """The global position at which the current block of an axis starts."""
    if axis.origin:
        return Local(axis.origin)
    if axis.tile is None:
        return Literal(0)
    if axis.squeezed:
        return ir.Step(axis.name)
    return operation("multiply", ir.Step(axis.name), Local(axis.block))


def end_position(axis: Axis) -> Expr:
    """One past the last position of the current block of an axis, also where the array ends."""
    if axis.origin:
        return operation("add", Local(axis.origin), Local(axis.length))
    if axis.tile is None:
        return ir.Extent(axis.name)
    after = operation("add", ir.Step(axis.name), Literal(1))
    return after if axis.squeezed else operation("multiply", after, Local(axis.block))


@record
class Range:
    """The least and the greatest value of an integer expression in the block of a step."""

    low: Expr
    high: Expr

    @property
    def exact(self) -> bool:
        """Whether the expression has one value in a step."""
        return self.low == self.high


def extremes(value: Value, axes: Axes) -> Range:
    """The range of an integer expression over the current blocks of its axes."""
    match value:
        case Constant(value=number):
            return _single(Literal(number))
        case Size(axis=axis):
            return _single(ir.Extent(axis))
        case Element(name=name, indices=indices):
            return _single(ir.Scalar(name, tuple(extremes(i, axes).low for i in indices)))
        case Positions(axis=axis):
            at = axes[axis]
            if at.squeezed:
                return _single(ir.Step(axis))
            end = end_position(at)
            if at.tile is not None:
                end = operation("minimum", end, ir.Extent(axis))
            return Range(first_position(at), operation("subtract", end, Literal(1)))
        case Apply():
            return _applied(value, axes)
    raise AssertionError(value)


def _single(expr: Expr) -> Range:
    return Range(expr, expr)


def _applied(value: Apply, axes: Axes) -> Range:
    x, y = (extremes(arg, axes) for arg in value.args)
    name, static = value.operation.name, is_static(value)
    if name == "subtract":
        y = Range(y.high, y.low)
    elif name == "multiply":
        x, y = _ordered(value, x, y)
    if name == "floor_divide" and not static and nonnegative(value.args[0]):
        return Range(ir.Quotient(x.low, y.low), ir.Quotient(x.high, y.high))
    return Range(_combined(name, x.low, y.low, static), _combined(name, x.high, y.high, static))


def _ordered(value: Apply, x: Range, y: Range) -> tuple[Range, Range]:
    """The factors with their ends so placed that the products of low and high ends are ordered."""
    if isinstance(value.args[0], Constant) and value.args[0].value < 0:
        y = Range(y.high, y.low)
    elif isinstance(value.args[1], Constant) and value.args[1].value < 0:
        x = Range(x.high, x.low)
    return x, y


def _combined(name: str, x: Expr, y: Expr, static: bool) -> Expr:
    """The operation; a number added to a sum that ends in a number joins it."""
    if name in ("add", "subtract") and isinstance(y, Literal):
        sign = 1 if name == "add" else -1
        base, number = _with_number(x)
        return _sum(base, number + sign * int(y.value))
    match name, x, y:
        case "minimum", ir.Call(operation=made, args=(inner, ir.Extent() as size)), ir.Extent():
            if made.name == "minimum" and size != y:  # the smaller size is known in the trace
                return operation("minimum", inner, operation("minimum", size, y, static=True))
    return operation(name, x, y, static=static)


def _with_number(expr: Expr) -> tuple[Expr, int]:
    if isinstance(expr, ir.Call) and expr.operation.name in ("add", "subtract"):
        x, y = expr.args
        if isinstance(y, Literal):
            return x, int(y.value) if expr.operation.name == "add" else -int(y.value)
    return expr, 0


def _sum(base: Expr, number: int) -> Expr:
    if number == 0:
        return base
    return operation("add" if number > 0 else "subtract", base, Literal(abs(number)))


def walk(bounds: Bounds, axes: Axes, shifts: bool) -> Walk:
    """What the bounds of an axis mean for the steps of the grid.

    Args:
        bounds: Of the axis.
        axes: The schedule of every axis.
        shifts: Whether the grid may walk the axis from its first block in bounds on.
    """
    axis = axes[bounds.axis]
    start = extremes(bounds.start, axes) if bounds.start is not None else None
    stop = extremes(bounds.stop, axes) if bounds.stop is not None else None
    reach = span(bounds, axes) if shifts else None
    ends = []
    if start is not None:
        ends.append(Bind(axis.start, start.low, (), "int32"))
    if stop is not None:
        ends.append(Bind(axis.stop, stop.high, (), "int32"))
    return Walk(
        axis=axis.name,
        ends=tuple(ends),
        varies=tuple(name for name in bounds.axes if not axes[name].squeezed),
        live=_live(axis, start, stop, reach is not None),
        whole=_whole(axis, start, stop),
        span=reach,
    )


def is_never_empty(bounds: Bounds) -> bool:
    """Whether bounds hold some position whatever they depend on."""
    terms = _terms(bounds.stop) if bounds.stop is not None else []
    return bounds.start is None and all(map(_positive, terms))


def starts_empty(bounds: Bounds, axes: Axes) -> bool:
    """Whether some position may have nothing in bounds in the first step that does work."""
    varies = [name for name in bounds.axes if not axes[name].squeezed]
    if not varies:
        return False
    if bounds.start is not None and set(varies) & set(bounds.start.type.axes):
        return True
    terms = _terms(bounds.stop) if bounds.stop is not None else []
    varying = [term for term in terms if set(varies) & set(term.type.axes)]
    return bounds.start is not None or not all(_positive(term) for term in varying)


def _terms(value: Value, extreme: str = "minimum") -> list[Value]:
    """The values of which a value is the smallest, or the greatest."""
    if isinstance(value, Apply) and value.operation.name == extreme:
        return [term for arg in value.args for term in _terms(arg, extreme)]
    return [value]


def _positive(value: Value) -> bool:
    """Whether an integer expression is at least 1, in a call where no axis is empty."""
    match value:
        case Constant(value=number):
            return number > 0
        case Size():
            return True
        case Apply(operation=made, args=args) if made.name == "add":
            return all(map(nonnegative, args)) and any(map(_positive, args))
        case Apply(operation=made, args=args) if made.name == "maximum":
            return any(map(_positive, args))
        case Apply(operation=made, args=args) if made.name in ("minimum", "multiply"):
            return all(map(_positive, args))
        case _:
            return False


def _live(axis: Axis, start: Range | None, stop: Range | None, shifted: bool) -> Expr:
    """Whether a step has any position in bounds; one that is shifted starts in them."""
    conditions = []
    if stop is not None and axis.tile is not None:
        conditions.append(operation("less", first_position(axis), Local(axis.stop)))
    elif stop is not None and start is None:
        conditions.append(operation("greater", Local(axis.stop), Literal(0)))
    if start is not None and (axis.tile is not None or stop is None) and not shifted:
        conditions.append(operation("greater", end_position(axis), Local(axis.start)))
    if start is not None and stop is not None and not axis.squeezed:
        conditions.append(operation("less", Local(axis.start), Local(axis.stop)))
    return both(conditions)


def _whole(axis: Axis, start: Range | None, stop: Range | None) -> Expr:
    """Whether every position of a step's block is in bounds for every position of the others."""
    conditions = []
    if stop is not None:
        low = Local(axis.stop) if stop.exact else stop.low
        reach = ("greater_equal", low, end_position(axis))
        if axis.tile is not None:
            reach = ("less_equal", end_position(axis), low)
        conditions.append(operation(*reach))
    elif axis.tile is not None:
        conditions.append(operation("less_equal", end_position(axis), ir.Extent(axis.name)))
    if start is not None:
        high = Local(axis.start) if start.exact else start.high
        conditions.append(operation("greater_equal", first_position(axis), high))
    return both(conditions)


def blocks(
    walks: dict[str, Walk], axes: Axes, grid: tuple[str, ...], listed: dict[str, Expr]
) -> dict[str, Expr]:
    """For each grid axis that needs it: the block that inputs name in a step.

    A step outside the bounds names a block that the last step inside them named too, along every
    axis, so that nothing is fetched for it. The positions of axes in ``listed`` come from a list
    that repeats its last entry, where a condition tells steps that have none of their own.
    """
    found = {}
    outer: list[Expr] = []
    for name in grid:
        if name in listed:
            outer = [listed[name]]
            continue
        block = _block(axes[name], walks.get(name), both(outer) if outer else None)
        if block != ir.Step(name):
            found[name] = block
        if name in walks:
            outer.append(walks[name].live)
    return found


def first_block(axis: Axis) -> Expr:
    """The first block of an axis that is in bounds."""
    start = Local(axis.start)
    return start if axis.squeezed else ir.Quotient(start, Local(axis.block))


def block_count(axis: Axis, size: Expr) -> Expr:
    """How many blocks of an axis the first ``size`` positions take."""
    return size if axis.squeezed else ir.Quotient(size, Local(axis.block), up=True)


def _block(axis: Axis, walk: Walk | None, live: Expr | None) -> Expr:
    block: Expr = ir.Step(axis.name)
    ends = {end.name for end in walk.ends} if walk else set()
    size: Expr = ir.Extent(axis.name)
    if axis.stop in ends:
        size = operation("maximum", Local(axis.stop), Literal(1))
    last = _sum(block_count(axis, size), -1)
    if walk is not None and axis.start in ends and walk.span is None:
        block = operation("maximum", block, first_block(axis))
    if ends:
        block = operation("minimum", block, last)
    return block if live is None else operation("where", live, block, last)


def replaced(expr: Expr, blocks: dict[str, Expr]) -> Expr:
    """An expression in which the axes of ``blocks`` stand at the block that inputs name."""
    match expr:
        case ir.Step(axis=axis) if axis in blocks:
            return ir.Walked(axis)
        case ir.Scalar(name=name, indices=indices):
            return ir.Scalar(name, tuple(replaced(index, blocks) for index in indices))
        case ir.Quotient(x=x, y=y, up=up):
            return ir.Quotient(replaced(x, blocks), replaced(y, blocks), up)
        case ir.Call(operation=made, args=args, dims=dims, static=static):
            return ir.Call(made, tuple(replaced(arg, blocks) for arg in args), dims, static)
        case _:
            return expr


def span(bounds: Bounds, axes: Axes) -> Expr | None:
    """How many blocks of an axis the bounds can reach in a step, if that is known in the trace.

    ``stop - start`` is known where the positions and scalars in them cancel, as in a window.
    """
    if bounds.start is None or bounds.stop is None:
        return None
    for stop in _terms(bounds.stop):
        for start in _terms(bounds.start, "maximum"):
            width = _width(_linear(stop), _linear(start), axes)
            if width is not None:
                return _sum(block_count(axes[bounds.axis], width), 1)
    return None


Linear = dict[Value | None, int]
"""A sum of values, each times a number; None stands for 1."""


def _linear(value: Value) -> Linear:
    match value:
        case Constant(value=number):
            return {None: int(number)}
        case Apply(operation=made, args=(x, y)) if made.name in ("add", "subtract"):
            return _added(_linear(x), _linear(y), 1 if made.name == "add" else -1)
        case _:
            return {value: 1}


def _added(x: Linear, y: Linear, sign: int) -> Linear:
    keys = dict.fromkeys((*x, *y))
    return {key: x.get(key, 0) + sign * y.get(key, 0) for key in keys}


def _width(stop: Linear, start: Linear, axes: Axes) -> Expr | None:
    """One less than how many positions lie between two ends in the block of a step."""
    difference = _added(stop, start, -1)
    if any(count for key, count in difference.items() if key is not None):
        return None
    number = difference.get(None, 0) - 1
    width: Expr = Literal(0)
    for key, count in stop.items():
        if isinstance(key, Positions) and not axes[key.axis].squeezed:
            if count != 1 or axes[key.axis].tile is None or width != Literal(0):
                return None
            width, number = Local(axes[key.axis].block), number - 1
    return _sum(width, number) if width != Literal(0) else Literal(number)
