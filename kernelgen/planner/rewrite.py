"""Values that the TPU has no operation for, written in those that it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from kernelgen.language.dtypes import INT32_MAX, widened
from kernelgen.language.operations import OPERATIONS
from kernelgen.language.program import (
    Apply,
    Assignment,
    Bounds,
    Cast,
    Constant,
    Positions,
    Read,
    Size,
    Type,
    Value,
    walk,
)
from kernelgen.language.types import WEAK_FLOAT, WEAK_INT
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


ZERO = Constant(0, Type((), WEAK_INT))


def applied(name: str, args: tuple[Value, ...], dtype: str) -> Apply:
    """An elementwise operation on values of any axes."""
    axes = tuple(dict.fromkeys(axis for arg in args for axis in arg.type.axes))
    return Apply(OPERATIONS[name], args, (), Type(axes, dtype))


def inside(axis: str, bounds: Bounds | None, positions: Value | None = None) -> Value:
    """Whether each position of an axis counts; ``positions`` stands in for ``index(axis)``."""
    positions = positions or Positions(axis, Type((axis,), "int32"))
    stop = bounds.stop if bounds is not None else None
    end = stop if stop is not None else Size(axis, Type((), WEAK_INT))
    before = applied("less", (positions, end), "bool")
    if bounds is None or bounds.start is None:
        return before
    behind = applied("greater_equal", (positions, bounds.start), "bool")
    return applied("logical_and", (behind, before), "bool")


def nonempty(bounds: Bounds) -> Value:
    """Whether an axis has any position in bounds."""
    stop = bounds.stop if bounds.stop is not None else Size(bounds.axis, Type((), WEAK_INT))
    return applied("greater", (stop, bounds.start or ZERO), "bool")


def chosen(condition: Value, value: Value) -> Value:
    """The value where a condition holds, 0 or false elsewhere."""
    if value.type.dtype == "bool":
        return applied("logical_and", (condition, value), "bool")
    return applied("where", (condition, value, ZERO), value.type.dtype)


def either(condition: Value, value: Value, other: Value) -> Value:
    """One value where a condition holds, another elsewhere; booleans have no select on the TPU."""
    dtype = other.type.dtype
    if dtype != "bool":
        return applied("where", (condition, value, other), dtype)
    kept = applied("logical_and", (applied("logical_not", (condition,), dtype), other), dtype)
    if value == ZERO:
        return kept
    return applied("logical_or", (chosen(condition, value), kept), dtype)


def scan_operands(value: Apply, axis: str, bounds: Bounds | None) -> list[Value]:
    """The operands of a scan; a decay that does not vary along it is 1 where nothing counts."""
    args = list(value.args)
    if value.operation.name == "linear_scan" and axis not in args[0].type.axes:
        one = Constant(1, Type((), WEAK_INT))
        args[0] = applied("where", (inside(axis, bounds), args[0], one), "float32")
    return args


def recurrence(value: Apply, args: list[Value]) -> Value:
    """A scan along an axis of one position a step: the recurrence itself."""
    if value.operation.name == "cumsum":
        return args[0]
    a, x, h = args
    axes = tuple(dict.fromkeys((*a.type.axes, *h.type.axes)))
    decayed = Apply(OPERATIONS["multiply"], (a, h), (), Type(axes, "float32"))
    return Apply(OPERATIONS["add"], (decayed, x), (), value.type)


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


def with_safe_differences(
    statements: tuple[Assignment, ...], name: Callable[[str], str]
) -> tuple[Assignment, ...]:
    """Statements in which x - y is safe where y is an extreme over no positions yet.

    Such an extreme is infinite, and so is every x that nothing has masked in: their difference
    would be NaN. 0 stands in for the extreme, so that exp(x - y) is the exp(-inf) = 0 it should be.

    Args:
        statements: Of the step phase.
        name: Makes a new name for a variable from a stem.
    """
    made: list[Assignment] = []
    kinds: dict[str, str] = {}
    stand_ins: dict[str, str] = {}
    for statement in statements:
        target, kind = statement.target, _extreme(statement.value, kinds)
        made.append(replace_value(statement, _with_stand_ins(statement.value, stand_ins)))
        if kind is None or statement.storage != "local":
            continue
        own = Read(target, "local", statement.type)
        infinite = Constant(-math.inf if kind == "max" else math.inf, Type((), WEAK_FLOAT))
        condition = applied("equal", (own, infinite), "bool")
        safe = applied("where", (condition, ZERO, own), statement.type.dtype)
        kinds[target], stand_ins[target] = kind, name(f"safe_{target}")
        made.append(
            Assignment(
                stand_ins[target],
                "local",
                "",
                safe,
                statement.type,
                statement.pointer,
                statement.target_span,
            )
        )
    return _without_unread(tuple(made), set(stand_ins.values()))


def replace_value(statement: Assignment, value: Value) -> Assignment:
    """The statement with another value."""
    if value is statement.value:
        return statement
    return Assignment(
        statement.target, statement.storage, statement.operator, value, statement.type,
        statement.pointer, statement.target_span,
    )  # fmt: skip


def _extreme(value: Value, known: Mapping[str, str]) -> str | None:
    """Whether a value is a maximum or minimum of positions, however it has been combined.

    ``known`` holds the locals that are one.
    """
    match value:
        case Read(name=name):
            return known.get(name)
        case Apply(operation=operation, args=args) if operation.name in ("max", "min"):
            return operation.name
        case Apply(operation=operation, args=args) if operation.name in ("maximum", "minimum"):
            found = [kind for arg in args if (kind := _extreme(arg, known))]
            return found[0] if found else None
        case _:
            return None


def _with_stand_ins(value: Value, stand_ins: dict[str, str]) -> Value:
    """The value in which what is subtracted is read from the stand-ins of extremes."""
    match value:
        case Cast(value=inner, type=type_):
            return Cast(_with_stand_ins(inner, stand_ins), type_, value.span)
        case Apply(operation=operation, args=args):
            args = tuple(_with_stand_ins(arg, stand_ins) for arg in args)
            if operation.name == "subtract" and isinstance(args[1], Read):
                stand_in = stand_ins.get(args[1].name)
                if stand_in is not None:
                    args = (args[0], Read(stand_in, "local", args[1].type))
            return Apply(operation, args, value.axes, value.type, value.span)
        case _:
            return value


def _without_unread(
    statements: tuple[Assignment, ...], stand_ins: set[str]
) -> tuple[Assignment, ...]:
    read = {p.name for s in statements for p in walk(s.value) if isinstance(p, Read)}
    return tuple(s for s in statements if s.target not in stand_ins or s.target in read)
