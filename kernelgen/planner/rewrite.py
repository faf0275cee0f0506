"""Values that the TPU has no operation for, written in those that it has."""

from __future__ import annotations

from kernelgen.language.dtypes import INT32_MAX, widened
from kernelgen.language.operations import OPERATIONS
from kernelgen.language.program import Apply, Cast, Constant, Positions, Size, Type, Value
from kernelgen.language.types import WEAK_INT
from kernelgen.planner.ir import Expr, Literal


def integer_position(value: Apply, x: Value, axis: str) -> Value:
    """The TPU finds positions of extremes in float32 only; for int32 they are searched for."""
    extreme = OPERATIONS["max" if value.operation.name == "argmax" else "min"]
    top = Apply(extreme, (x,), (axis,), Type(value.type.axes, "int32"))
    found = Apply(OPERATIONS["equal"], (x, top), (), Type(x.type.axes, "bool"))
    positions = Positions(axis, Type((axis,), "int32"))
    beyond = Constant(INT32_MAX, Type((), WEAK_INT))
    where = OPERATIONS["where"]
    candidates = Apply(where, (found, positions, beyond), (), Type(x.type.axes, "int32"))
    return Apply(OPERATIONS["min"], (candidates,), (axis,), value.type)


def sum_of_products(value: Apply) -> Value:
    """A product that is no matrix product, on the vector unit."""
    dtype = value.type.dtype
    args = []
    for arg in value.args:
        wide = widened(arg.type.dtype) if dtype == "int32" else "float32"
        args.append(arg if arg.type.dtype == wide else Cast(arg, Type(arg.type.axes, wide)))
    axes = (*value.type.axes, *value.axes)
    products = Apply(OPERATIONS["multiply"], tuple(args), (), Type(axes, dtype))
    return Apply(OPERATIONS["sum"], (products,), value.axes, value.type)


def scan_operands(value: Apply, axis: str) -> list[Value]:
    """The operands of a scan; a decay that does not vary along it is 1 past the extent."""
    args = list(value.args)
    if value.operation.name == "linear_scan" and axis not in args[0].type.axes:
        size = Size(axis, Type((), WEAK_INT))
        positions = Positions(axis, Type((axis,), "int32"))
        inside = Apply(OPERATIONS["less"], (positions, size), (), Type((axis,), "bool"))
        one = Constant(1, Type((), WEAK_INT))
        axes = tuple(dict.fromkeys((*args[0].type.axes, axis)))
        args[0] = Apply(OPERATIONS["where"], (inside, args[0], one), (), Type(axes, "float32"))
    return args


def recurrence(value: Apply, args: list[Value]) -> Value:
    """A scan along an axis of one position a step: the recurrence itself."""
    if value.operation.name == "cumsum":
        return args[0]
    a, x, h = args
    axes = tuple(dict.fromkeys((*a.type.axes, *h.type.axes)))
    decayed = Apply(OPERATIONS["multiply"], (a, h), (), Type(axes, "float32"))
    return Apply(OPERATIONS["add"], (decayed, x), (), value.type)


def last_inside(value: Apply, axis: str) -> Value:
    """The value at the last position of the extent, selected by its position."""
    arg, dtype = value.args[0], value.type.dtype
    end = Apply(
        OPERATIONS["subtract"],
        (Size(axis, Type((), WEAK_INT)), Constant(1, Type((), WEAK_INT))),
        (),
        Type((), WEAK_INT),
    )
    is_last = Apply(
        OPERATIONS["equal"],
        (Positions(axis, Type((axis,), "int32")), end),
        (),
        Type((axis,), "bool"),
    )
    zero = Constant(0, Type((), WEAK_INT))
    chosen = Apply(OPERATIONS["where"], (is_last, arg, zero), (), Type(arg.type.axes, dtype))
    return Apply(OPERATIONS["sum"], (chosen,), (axis,), value.type)


def without_zeros(name: str, args: tuple[Expr, ...]) -> Expr | None:
    """A sum or product with the zero that an empty axis leaves, simplified; 0 / 0 counts as 0."""
    zeros = [isinstance(arg, Literal) and arg.value == 0 for arg in args]
    if name == "add" and any(zeros):
        return args[1] if zeros[0] else args[0]
    if name == "subtract" and zeros[1]:
        return args[0]
    if (name == "multiply" and any(zeros)) or (name in ("divide", "square") and zeros[0]):
        return Literal(0)
    return None
