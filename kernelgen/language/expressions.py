"""The typing of expressions: axes and an element type for every value."""

from __future__ import annotations

import math
from functools import reduce
from types import SimpleNamespace

from kernelgen.diagnostics import listing, nearest
from kernelgen.language.dtypes import DTYPES, INT32_MIN, REFUSED, supported
from kernelgen.language.indexing import Indexing, combined
from kernelgen.language.operations import FUNCTIONS, OPERATIONS, Operation
from kernelgen.language.program import (
    Apply,
    Cast,
    Constant,
    Element,
    Positions,
    Read,
    Size,
    Type,
    Value,
)
from kernelgen.language.scope import MeaninglessError, Scope
from kernelgen.language.syntax import Call, Expression, Name, Number, Span, Subscript
from kernelgen.language.types import WEAK, WEAK_FLOAT, WEAK_INT, real
from kernelgen.spec import Operand

CONSTANTS = {"inf": float("inf")}
SYNTAX_FUNCTIONS = ("cast", "count", "index", "size")
CALLABLE = tuple(sorted((*FUNCTIONS, *SYNTAX_FUNCTIONS)))

MAX_ABS_INT = 2**31 - 1
"""Whole numbers in a body are int32 in the kernel."""

MAX_FLOAT32 = 3.4028234e38

_SCALARS = SimpleNamespace(sqrt=math.sqrt, minimum=min, maximum=max, abs=abs)
"""NumPy's part in operations on numbers alone, with exceptions for what has no value."""


class Expressions:
    """Types the expressions of statements in a scope."""

    def __init__(self, scope: Scope, indexing: Indexing) -> None:
        self.scope = scope
        self.indexing = indexing

    def value(self, expression: Expression) -> Value:
        match expression:
            case Number():
                return self.number(expression)
            case Name():
                return self.name(expression)
            case Subscript():
                return self.element(expression)
            case Call():
                return self.call(expression)

    def number(self, number: Number) -> Value:
        if isinstance(number.value, int):
            if number.value > MAX_ABS_INT:
                raise self.scope.fail(
                    "KG206", "whole number beyond int32", number.span, "write it as a float, 1e10"
                )
            return Constant(number.value, Type((), WEAK_INT), number.span)
        if number.value > MAX_FLOAT32:
            raise self.scope.fail("KG206", "number beyond float32", number.span, "write inf")
        return Constant(number.value, Type((), WEAK_FLOAT), number.span)

    def name(self, name: Name) -> Value:
        text, span = name.name, name.span
        spec = self.scope.spec
        if text in self.scope.locals:
            type_ = self.scope.locals[text]
            if type_ is None:
                raise MeaninglessError
            return Read(text, "local", type_, span)
        if text in spec.inputs:
            self.scope.read.add(text)
            return self.input(text, spec.inputs[text], span)
        if text in spec.scratch:
            return self.scratch(text, spec.scratch[text], span)
        if text in CONSTANTS:
            return Constant(CONSTANTS[text], Type((), WEAK_FLOAT), span)
        raise self.unknown_name(text, span)

    def input(self, name: str, operand: Operand, span: Span) -> Value:
        type_ = Type(self.scope.axes_of(name), supported(operand.dtype))
        if operand.memory_space != "SMEM":
            return Read(name, "input", type_, span)
        if operand.axes:
            raise self.scope.fail(
                "KG205",
                f"{name} is in SMEM: the body reads its scalars, not its tile",
                span,
                f"write {name}[{', '.join(operand.axes)}], or place {name} in VMEM",
            )
        return Element(name, (), type_, span)

    def scratch(self, name: str, operand: Operand, span: Span) -> Value:
        self.scope.read.add(name)
        if name not in self.scope.written:
            later = any(name == statement.target for statement in self.scope.statements["step"])
            raise self.scope.fail(
                "KG209",
                f"scratch buffer {name} is read before it is written",
                span,
                f"set {name} in init"
                if self.scope.phase == "step" and later
                else f"write {name} first",
            )
        if self.scope.phase == "step" and name not in self.scope.written_here:
            self.scope.carried.add(name)
        return Read(name, "scratch", Type(operand.axes, supported(operand.dtype)), span)

    def unknown_name(self, text: str, span: Span) -> MeaninglessError:
        spec = self.scope.spec
        if text in spec.outputs:
            return self.scope.fail(
                "KG208",
                f"{text} is an output: it is written, not read",
                span,
                "keep the value in a local and assign both from it",
            )
        if text in spec.axes:
            return self.scope.fail(
                "KG202",
                f"{text} is an axis, not a value",
                span,
                f"write index({text}) for its positions or size({text}) for its extent",
            )
        if text in self.scope.earlier:
            return self.scope.fail(
                "KG202",
                f"local {text} belongs to an earlier phase",
                span,
                f"keep {text} in a scratch buffer: locals do not outlive their phase",
            )
        if text in CALLABLE:
            return self.scope.fail(
                "KG202", f"{text} is an operation: call it", span, f"write {text}(...)"
            )
        known = (*self.scope.locals, *spec.inputs, *spec.scratch, *CONSTANTS)
        return self.scope.fail("KG202", f"unknown name {text}", span, nearest(text, known))

    def element(self, subscript: Subscript) -> Value:
        name = subscript.name
        operand = self.scope.spec.inputs.get(name)
        if operand is None or operand.memory_space != "SMEM":
            if (
                operand is None
                and name not in self.scope.locals
                and name not in self.scope.spec.scratch
            ):
                raise self.unknown_name(name, subscript.name_span)
            raise self.scope.fail(
                "KG205",
                f"{name} is a tile: it has no subscripts",
                subscript.span,
                "reduce it over an axis, or place the operand in SMEM",
            )
        self.scope.read.add(name)
        assert self.scope.statement is not None
        self.indexing.pointer = self.scope.statement.pointer
        return self.indexing.element(subscript, supported(operand.dtype))

    def axis(self, expression: Expression) -> str:
        if not isinstance(expression, Name):
            raise self.scope.fail(
                "KG204", "an axis name should stand here", expression.span,
                nearest("", self.scope.spec.axes),
            )  # fmt: skip
        if expression.name not in self.scope.spec.axes:
            raise self.scope.fail(
                "KG204", f"unknown axis {expression.name}", expression.span,
                nearest(expression.name, self.scope.spec.axes),
            )  # fmt: skip
        return expression.name

    def call(self, call: Call) -> Value:
        lowest = call.args[0] if call.function == "negative" else None
        if isinstance(lowest, Number) and lowest.value == -INT32_MIN:
            return Constant(INT32_MIN, Type((), WEAK_INT), call.span)
        if call.function in SYNTAX_FUNCTIONS:
            return self.syntax_call(call)
        operation = OPERATIONS.get(call.function)
        if operation is None:
            raise self.scope.fail(
                "KG203", f"unknown operation {call.function}", call.name_span,
                nearest(call.function, CALLABLE),
            )  # fmt: skip
        if operation.infix and call.name_span[1] - call.name_span[0] > 3:
            raise self.scope.fail(
                "KG203", f"unknown operation {call.function}", call.name_span,
                f"write the operator {operation.infix}",
            )  # fmt: skip
        self.check_arity(call, operation)
        ordered = _axes_last(call.args, operation)
        args = tuple(self.value(argument) for argument in ordered[: operation.arity])
        axes = tuple(self.axis(argument) for argument in ordered[operation.arity :])
        return self.apply(operation, args, axes, call.span)

    def check_arity(self, call: Call, operation: Operation) -> None:
        given = len(call.args)
        wanted = operation.arity + abs(operation.axes)
        if given == wanted or (operation.axes < 0 and given > wanted):
            return
        raise self.scope.fail(
            "KG205",
            f"{call.function} takes {usage(operation)}; {given} given",
            call.span,
            f"write {signature(operation)}",
        )

    def syntax_call(self, call: Call) -> Value:
        wanted = 2 if call.function == "cast" else 1
        if len(call.args) != wanted:
            text = "cast(value, dtype)" if wanted == 2 else f"{call.function}(axis)"
            raise self.scope.fail(
                "KG205",
                f"{call.function} with {len(call.args)} arguments",
                call.span,
                f"write {text}",
            )
        if call.function == "cast":
            return self.cast(call)
        axis = self.axis(call.args[0])
        if call.function == "size":
            return Size(axis, Type((), WEAK_INT), call.span)
        if call.function == "count":
            return self.count(axis, call.span)
        return Positions(axis, Type((axis,), "int32"), call.span)

    def count(self, axis: str, span: Span) -> Value:
        """How many positions of an axis are in bounds."""
        size = Size(axis, Type((), WEAK_INT), span)
        bounds = self.scope.domain.bounds.get(axis)
        if bounds is None:
            return size
        count = bounds.stop or size
        if bounds.start is not None:
            count = combined("subtract", (count, bounds.start), span)
        return combined("maximum", (count, Constant(0, Type((), WEAK_INT))), span)

    def cast(self, call: Call) -> Value:
        value, dtype = self.value(call.args[0]), call.args[1]
        name = dtype.name if isinstance(dtype, Name) else ""
        if name not in DTYPES:
            instead = f"use {REFUSED[name]}" if name in REFUSED else nearest(name, DTYPES)
            raise self.scope.fail(
                "KG206", f"{name or 'this'} is no dtype of the language", dtype.span, instead
            )
        if name == "bool" or value.type.dtype == "bool":
            if name == value.type.dtype:
                return value
            instead = "compare, as in x != 0" if name == "bool" else "write where(condition, 1, 0)"
            raise self.scope.fail("KG206", "booleans are not cast", call.span, instead)
        return Cast(value, Type(value.type.axes, name), call.span)

    def apply(
        self, operation: Operation, args: tuple[Value, ...], axes: tuple[str, ...], span: Span
    ) -> Value:
        self.check_axes(operation, args, axes, span)
        try:
            wanted, dtype = operation.typing(tuple(arg.type.dtype for arg in args))
        except TypeError as error:
            raise self.scope.fail("KG206", f"{spelling(operation)}: {error}", span) from None
        if dtype in WEAK and operation.python is None:
            dtype = "float32" if dtype == WEAK_FLOAT else "int32"
        if operation.typing is real and operation.python is None:
            wanted = ("float32",) * len(wanted)
        args = tuple(converted(arg, to) for arg, to in zip(args, wanted, strict=True))
        self.check_constant(operation, args, span)
        if operation.name == "negative" and isinstance(args[0], Constant):
            return Constant(-args[0].value, args[0].type, span)
        if operation.name in ("minimum", "maximum") and set(wanted) <= {"int32", WEAK_INT}:
            return combined(operation.name, args, span)
        gone = axes if operation.kind in ("reduction", "contraction", "select") else ()
        along = self.scope.domain.axes_of_bounds(axes)
        along = tuple(axis for axis in along if axis not in gone)
        result = union(result_axes(operation, args, axes), along)
        if operation.name == "mean" and any(axis in self.scope.domain.bounds for axis in axes):
            return self.bounded_mean(args[0], axes, result, span)
        return Apply(operation, args, axes, Type(result, dtype), span)

    def bounded_mean(
        self, value: Value, axes: tuple[str, ...], result: tuple[str, ...], span: Span
    ) -> Value:
        """The sum over positions in bounds, divided by how many there are; of none it is 0."""
        total = Apply(OPERATIONS["sum"], (value,), axes, Type(result, "float32"), span)
        counts = [self.count(axis, span) for axis in axes]
        count = reduce(lambda x, y: combined("multiply", (x, y), span), counts)
        count = combined("maximum", (count, Constant(1, Type((), WEAK_INT))), span)
        divisor = converted(count, "float32")
        return Apply(OPERATIONS["divide"], (total, divisor), (), Type(result, "float32"), span)

    def check_constant(self, operation: Operation, args: tuple[Value, ...], span: Span) -> None:
        """An expression of numbers alone has to have a value, in 32 bits."""
        numbers = [arg.value for arg in args if isinstance(arg, Constant)]
        if len(numbers) < len(args) or operation.python is None:
            return
        try:
            value = operation.numpy(_SCALARS, *numbers)
            if isinstance(value, complex) or (isinstance(value, int) and abs(value) > MAX_ABS_INT):
                raise ValueError
        except (ArithmeticError, ValueError):
            raise self.scope.fail(
                "KG205", f"{spelling(operation)} of these numbers has no 32-bit value", span
            ) from None

    def check_axes(
        self, operation: Operation, args: tuple[Value, ...], axes: tuple[str, ...], span: Span
    ) -> None:
        if len(set(axes)) < len(axes):
            raise self.scope.fail("KG205", "an axis is named twice", span)
        if operation.name == "power" and not _whole_constant(args[1]):
            raise self.scope.fail(
                "KG205", "the power is not a whole constant", span,
                "write a whole number from 0 to 8, or exp(p * log(x))",
            )  # fmt: skip
        carriers = args if operation.kind == "contraction" else args[:1]
        if operation.name == "linear_scan":
            carriers = args[1:2]
        self.check_bounds(
            operation, args if operation.kind == "contraction" else carriers, axes, span
        )
        for axis in axes:
            for carrier in carriers:
                if axis not in carrier.type.axes:
                    held = ", ".join(carrier.type.axes)
                    raise self.scope.fail(
                        "KG207",
                        f"{spelling(operation)} runs along {axis}, but its operand has [{held}]",
                        carrier.span,
                        nearest("", carrier.type.axes) if held else "",
                    )
            self.check_extent(operation, axis, span)
        if operation.name == "linear_scan" and axes[0] in args[2].type.axes:
            raise self.scope.fail(
                "KG207", f"the state before a scan along {axes[0]} does not carry {axes[0]}",
                args[2].span, f"write last(..., {axes[0]})",
            )  # fmt: skip
        if operation.name == "roll" and args[1].type.dtype != WEAK_INT:
            raise self.scope.fail(
                "KG205",
                "roll moves by a whole constant",
                args[1].span,
                "write a whole number, size(...), or // for /",
            )

    def check_bounds(
        self, operation: Operation, carriers: tuple[Value, ...], axes: tuple[str, ...], span: Span
    ) -> None:
        """What is in bounds is told for each position of the axes that the bounds vary along."""
        for axis in axes:
            varying = [
                a
                for a in self.scope.domain.axes_of_bounds((axis,))
                if self.scope.spec.axes[a].tile != 1
            ]
            if operation.kind == "shift" and axis in self.scope.domain.bounds:
                raise self.scope.fail(
                    "KG218",
                    f"{spelling(operation)} along {axis} moves positions into its bounds",
                    span,
                    f"choose what counts by position, as in where(index({axis}) < ..., x, 0)",
                )
            if operation.kind == "select" and varying:
                raise self.scope.fail(
                    "KG218",
                    f"the bounds of {axis} vary along {listing(varying)}: it has several last ones",
                    span,
                    f"give {listing(varying)} tile 1",
                )
            if not any(set(varying) <= set(carrier.type.axes) for carrier in carriers):
                raise self.scope.fail(
                    "KG218",
                    f"{spelling(operation)} along {axis}, whose bounds vary along "
                    f"{listing(varying)}, of a value that does not",
                    span,
                    f"combine it with a value along {listing(varying)} first",
                )

    def check_extent(self, operation: Operation, axis: str, span: Span) -> None:
        """Whatever combines positions has to see all of them, in one tile or step by step."""
        tiled = self.scope.spec.axes[axis].tile is not None
        if tiled and axis not in self.scope.spec.reduction:
            raise self.scope.fail(
                "KG214",
                f"{spelling(operation)} along {axis}, of which a step sees one tile only",
                span,
                f"add {axis} to reduction and collect in scratch, or give {axis} no tile",
            )
        if tiled and operation.kind == "shift":
            raise self.scope.fail(
                "KG214", f"roll along {axis} needs the whole axis in one tile", span,
                f"give {axis} no tile",
            )  # fmt: skip


def converted(value: Value, dtype: str) -> Value:
    """The value in the element type that an operation works in."""
    if value.type.dtype == dtype:
        return value
    return Cast(value, Type(value.type.axes, dtype), value.span)


def _axes_last(arguments: tuple[Expression, ...], operation: Operation) -> tuple[Expression, ...]:
    """The arguments of a call with the axis behind the values."""
    at = operation.axis_at
    if at is None:
        return arguments
    return (*arguments[:at], *arguments[at + 1 :], arguments[at])


def result_axes(
    operation: Operation, args: tuple[Value, ...], axes: tuple[str, ...]
) -> tuple[str, ...]:
    """The axes of an operation's result; batch axes of a contraction come first."""
    if operation.kind == "contraction":
        x, y = args[0].type.axes, args[1].type.axes
        batch = tuple(axis for axis in x if axis in y and axis not in axes)
        free = tuple(axis for axis in (*x, *y) if axis not in axes and axis not in batch)
        return (*batch, *free)
    every: tuple[str, ...] = ()
    for arg in args:
        every = union(every, arg.type.axes)
    if operation.kind in ("reduction", "select"):
        return tuple(axis for axis in every if axis not in axes)
    return every


def union(x: tuple[str, ...], y: tuple[str, ...]) -> tuple[str, ...]:
    """The axes of both, those of the first in front."""
    return (*x, *(axis for axis in y if axis not in x))


def _whole_constant(value: Value) -> bool:
    return isinstance(value, Constant) and isinstance(value.value, int) and 0 <= value.value <= 8


def spelling(operation: Operation) -> str:
    """How a body writes the operation: its operator or its name."""
    return operation.infix or operation.name


def signature(operation: Operation) -> str:
    """How a call looks: ``dot(x, y, axis)``."""
    arguments = [("x", "y", "z")[i] for i in range(operation.arity)]
    if operation.axes:
        at = operation.arity if operation.axis_at is None else operation.axis_at
        arguments.insert(at, "axis")
    return f"{operation.name}({', '.join(arguments)})"


def usage(operation: Operation) -> str:
    """What an operation takes, in words."""
    values = f"{operation.arity} value{'s' if operation.arity > 1 else ''}"
    if not operation.axes:
        return values
    return f"{values} and {'one or more axes' if operation.axes < 0 else 'an axis'}"
