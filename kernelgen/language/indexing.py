"""Integer expressions over positions: bounds of axes, indices of operands, sizes that follow.

They use the grammar of a body, but a bare axis name means its global position, and only what the
scalar core computes is allowed: SMEM scalars, ``size(...)``, whole numbers, ``+ - * //``, ``min``
and ``max``. Scalars are read at one position, so that axes in a subscript have tile 1.
"""

from __future__ import annotations

from functools import reduce

from kernelgen.diagnostics import Diagnostic, KernelgenError, Pointer, nearest
from kernelgen.language import syntax
from kernelgen.language.dtypes import INT32_MAX
from kernelgen.language.operations import OPERATIONS
from kernelgen.language.program import (
    Apply,
    Constant,
    Element,
    Positions,
    Size,
    Type,
    Value,
    is_static,
)
from kernelgen.language.scope import MeaninglessError
from kernelgen.language.syntax import Call, Expression, Name, Number, Span, Subscript
from kernelgen.language.types import WEAK_INT
from kernelgen.spec import KernelSpec

_ARITHMETIC = ("add", "subtract", "multiply", "floor_divide")
_EXTREMES = {"min": "minimum", "max": "maximum", "minimum": "minimum", "maximum": "maximum"}
_ALLOWED = "whole numbers, axes, size(...), SMEM scalars, + - * //, min and max"


class Indexing:
    """Types integer expressions, and collects the findings about them.

    Attributes:
        spec: The kernel.
        sizes: The extents that follow from other axes.
        read: SMEM inputs that were read.
        findings: What was found.
    """

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.sizes: dict[str, Value] = {}
        self.read: set[str] = set()
        self.findings: list[Diagnostic] = []
        self.pointer: Pointer = ()

    def parse(self, text: str, pointer: Pointer) -> Value:
        """The value of an expression that stands at ``pointer``.

        Raises:
            MeaninglessError: It has no meaning; the finding has been made.
        """
        self.pointer = pointer
        try:
            expression = syntax.parse_expression(text, pointer)
        except KernelgenError as error:
            self.findings += error.diagnostics
            raise MeaninglessError from None
        return self.value(expression, pointer)

    def value(self, expression: Expression, pointer: Pointer) -> Value:
        """The value of a parsed expression."""
        self.pointer = pointer
        return self._value(expression)

    def fail(self, code: str, message: str, span: Span, instead: str = "") -> MeaninglessError:
        """Make a finding about the current expression; raise what this returns."""
        self.findings.append(Diagnostic(code, message, instead, self.pointer, span))
        return MeaninglessError()

    def _value(self, expression: Expression) -> Value:
        match expression:
            case Number(value=int(number), span=span) if number <= INT32_MAX:
                return Constant(number, Type((), WEAK_INT), span)
            case Name():
                return self._name(expression)
            case Subscript():
                return self.element(expression)
            case Call():
                return self._call(expression)
        raise self.fail(
            "KG216", "a position is a whole 32-bit number", expression.span, f"use {_ALLOWED}"
        )

    def _name(self, name: Name) -> Value:
        text, span = name.name, name.span
        if text in self.spec.axes:
            return Positions(text, Type((text,), "int32"), span)
        if text in self.spec.inputs:
            return self.element(Subscript(text, (), span, span))
        known = (*self.spec.axes, *self._scalars())
        raise self.fail("KG202", f"unknown name {text}", span, nearest(text, known))

    def _scalars(self) -> list[str]:
        return [n for n, operand in self.spec.inputs.items() if operand.memory_space == "SMEM"]

    def element(self, subscript: Subscript, dtype: str = "int32") -> Element:
        """One scalar of an SMEM input; of another type than ``dtype`` it is a finding."""
        name, span = subscript.name, subscript.span
        operand = self.spec.inputs.get(name)
        if operand is None:
            hint = nearest(name, self._scalars())
            raise self.fail("KG202", f"unknown name {name}", subscript.name_span, hint)
        if operand.memory_space != "SMEM":
            raise self.fail(
                "KG216",
                f"{name} is a tile in {operand.memory_space}: positions are computed from scalars",
                span,
                f'place {name} in "SMEM"',
            )
        self.read.add(name)
        if len(subscript.indices) != len(operand.axes):
            held, given = len(operand.axes), len(subscript.indices)
            raise self.fail(
                "KG205",
                f"{name} has {held} {'axis' if held == 1 else 'axes'}, {given} given",
                span,
                f"write {name}[{', '.join(operand.axes)}]" if held else f"write {name}",
            )
        if dtype == "int32" and operand.dtype != "int32":
            raise self.fail(
                "KG216", f"{name} is {operand.dtype}: a position is a whole number", span,
                "use int32",
            )  # fmt: skip
        values = [self._value(index) for index in subscript.indices]
        indices = tuple(
            self.clamped(index, axis) for index, axis in zip(values, operand.axes, strict=True)
        )
        axes = _union(indices)
        for axis in axes:
            self._check_single(name, axis, span)
        return Element(name, indices, Type(axes, operand.dtype), span)

    def clamped(self, value: Value, axis: str) -> Value:
        """A position that lies on an axis whatever the scalars in it are."""
        if not nonnegative(value):
            value = combined("maximum", (value, ZERO))
        if not self._is_on(value, axis):
            last = combined("subtract", (Size(axis, Type((), WEAK_INT)), ONE))
            value = combined("minimum", (value, last))
        return value

    def _is_on(self, value: Value, axis: str) -> bool:
        """Whether an expression that is not negative is always less than the size of an axis."""
        match value:
            case Positions(axis=own) if own == axis:
                return True
            case Apply(operation=operation, args=(x, y)) if operation.name == "minimum":
                return self._is_on(x, axis) or self._is_on(y, axis)
            case Apply(operation=operation, args=(x, Size(axis=whole))) if (
                operation.name == "floor_divide" and isinstance(x, Apply)
            ):
                # h * size(g) // size(h) is a position of g.
                factors = {(type(arg), getattr(arg, "axis", "")) for arg in x.args}
                return x.operation.name == "multiply" and factors == {
                    (Positions, whole),
                    (Size, axis),
                }
        position, shift = _shifted(value)
        if not isinstance(position, Positions):
            return False
        size, room = _shifted(self.sizes.get(axis, Size(axis, Type((), WEAK_INT))))
        if isinstance(size, Size) and position.axis == size.axis:
            return shift <= room
        size, room = _shifted(self.sizes.get(position.axis, size))
        return isinstance(size, Size) and size.axis == axis and shift + room <= 0

    def _check_single(self, name: str, axis: str, span: Span) -> None:
        tile = self.spec.axes[axis].tile
        if tile != 1:
            seen = "all positions" if tile is None else f"{tile} positions"
            raise self.fail(
                "KG406",
                f"{name} is read one scalar a step, but a step sees {seen} of {axis}",
                span,
                f'give {axis} tile 1, or write "memory_space": "VMEM"',
            )

    def _call(self, call: Call) -> Value:
        name, span = call.function, call.span
        if name == "size":
            return self._size(call)
        args = tuple(self._value(argument) for argument in call.args)
        if name == "negative":
            if isinstance(args[0], Constant):
                return Constant(-args[0].value, args[0].type, span)
            zero = Constant(0, Type((), WEAK_INT), span)
            return combined("subtract", (zero, args[0]), span)
        if name in _EXTREMES and len(args) > 1:
            return reduce(lambda x, y: combined(_EXTREMES[name], (x, y), span), args)
        if name not in _ARITHMETIC:
            shown = OPERATIONS[name].infix or name if name in OPERATIONS else name
            raise self.fail(
                "KG216", f"{shown} has no part in positions", call.name_span, f"use {_ALLOWED}"
            )
        if name == "floor_divide" and not _positive(args[1]):
            raise self.fail(
                "KG216",
                "the divisor of // may be 0 or negative",
                args[1].span,
                "divide by a positive number or by size(...)",
            )
        return combined(name, args, span)

    def _size(self, call: Call) -> Value:
        (argument,) = call.args if len(call.args) == 1 else (call,)
        if not isinstance(argument, Name) or argument.name not in self.spec.axes:
            wanted = argument.name if isinstance(argument, Name) else ""
            message = f"unknown axis {wanted}" if wanted else "size takes an axis"
            raise self.fail("KG204", message, argument.span, nearest(wanted, self.spec.axes))
        return Size(argument.name, Type((), WEAK_INT), call.span)


ZERO = Constant(0, Type((), WEAK_INT))
ONE = Constant(1, Type((), WEAK_INT))


def nonnegative(value: Value) -> bool:
    """Whether an integer expression is 0 or more whatever its scalars are."""
    match value:
        case Constant(value=number):
            return number >= 0
        case Size() | Positions():
            return True
        case Apply(operation=operation, args=args):
            signs = [nonnegative(arg) for arg in args]
            if operation.name == "maximum":
                return any(signs)
            return operation.name in ("add", "multiply", "floor_divide", "minimum") and all(signs)
        case _:
            return False


def _shifted(value: Value) -> tuple[Value, int]:
    """An expression as another one plus a number."""
    match value:
        case Apply(operation=operation, args=(x, Constant(value=number))):
            if operation.name == "add":
                return x, int(number)
            if operation.name == "subtract":
                return x, -int(number)
    return value, 0


def combined(name: str, args: tuple[Value, ...], span: Span = (0, 0)) -> Value:
    """An integer operation on positions and sizes; numbers are folded."""
    numbers = [arg.value for arg in args if isinstance(arg, Constant)]
    operation = OPERATIONS[name]
    if len(numbers) == len(args):
        left, right = (int(number) for number in numbers)
        folded = {"minimum": min, "maximum": max}.get(name)
        return Constant(
            folded(left, right) if folded else operation.numpy(None, left, right),
            args[0].type,
            span,
        )
    if name in _EXTREMES and isinstance(args[1], Constant):
        match args[0]:  # max(max(x, 0), 1) is max(x, 1)
            case Apply(operation=inner, args=(x, Constant() as bound)) if inner is operation:
                return combined(name, (x, combined(name, (bound, args[1]))), span)
    dtype = WEAK_INT if all(is_static(arg) for arg in args) else "int32"
    return Apply(operation, args, (), Type(_union(args), dtype), span)


def _union(values: tuple[Value, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(axis for value in values for axis in value.type.axes))


def _positive(value: Value) -> bool:
    match value:
        case Constant(value=number):
            return number > 0
        case Size():
            return True
        case Apply(operation=operation, args=args):
            return operation.name in ("add", "multiply", "minimum", "maximum") and all(
                _positive(arg) for arg in args
            )
        case _:
            return False
