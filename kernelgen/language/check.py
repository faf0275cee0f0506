"""From the text of a body to a typed program, or to every finding about it."""

from __future__ import annotations

from kernelgen.diagnostics import Diagnostic, KernelgenError, listing, nearest
from kernelgen.language import syntax
from kernelgen.language.dtypes import DTYPES, REFUSED
from kernelgen.language.operations import (
    FUNCTIONS,
    OPERATIONS,
    WEAK,
    WEAK_FLOAT,
    WEAK_INT,
    Operation,
)
from kernelgen.language.program import (
    PHASES,
    Apply,
    Assignment,
    Cast,
    Constant,
    Element,
    Phase,
    Positions,
    Program,
    Read,
    Size,
    Type,
    Value,
    is_static,
    walk,
)
from kernelgen.language.syntax import Call, Expression, Name, Number, Span, Statement, Subscript
from kernelgen.names import alternative, problem
from kernelgen.spec import KernelSpec, Operand

CONSTANTS = {"inf": float("inf")}
SYNTAX_FUNCTIONS = ("cast", "index", "size")
CALLABLE = tuple(sorted((*FUNCTIONS, *SYNTAX_FUNCTIONS)))

MAX_ABS_INT = 2**31 - 1
"""Whole numbers in a body are int32 in the kernel."""


class _Unknown(Exception):
    """A part of the statement has no meaning; the finding has been made already."""


def check(spec: KernelSpec) -> Program:
    """Type the body of a spec.

    Args:
        spec: A spec whose names and axes have been validated.

    Returns:
        The typed program.

    Raises:
        KernelgenError: With every finding of the KG2xx rules.
    """
    checker = _Checker(spec)
    program = checker.program()
    if checker.findings:
        raise KernelgenError(checker.findings)
    return program


class _Checker:
    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.findings: list[Diagnostic] = []
        self.locals: dict[str, Type | None] = {}
        self.other_locals: dict[str, Phase] = {}
        self.statements = {phase: self.parse(phase) for phase in PHASES}
        self.written: set[str] = set()
        self.written_in_phase: set[str] = set()
        self.read: set[str] = set()
        self.carried: set[str] = set()
        self.phase: Phase = "init"
        self.statement: Statement | None = None

    # Findings

    def report(self, code: str, message: str, span: Span | None, instead: str = "") -> None:
        assert self.statement is not None
        self.findings.append(Diagnostic(code, message, instead, self.statement.pointer, span))

    def fail(self, code: str, message: str, span: Span, instead: str = "") -> _Unknown:
        self.report(code, message, span, instead)
        return _Unknown()

    # Statements

    def program(self) -> Program:
        phases: dict[Phase, tuple[Assignment, ...]] = {}
        for phase in PHASES:
            self.phase = phase
            self.other_locals.update(dict.fromkeys(self.locals, phase))
            self.locals = {}
            self.written_in_phase = set()
            phases[phase] = tuple(self.assignments(phase))
        self.check_coverage()
        return Program(**phases, carried=frozenset(self.carried))

    def parse(self, phase: Phase) -> list[Statement]:
        statements = []
        for i, text in enumerate(getattr(self.spec.body, phase)):
            try:
                statements.append(syntax.parse_statement(text, self.spec.body.pointer(phase, i)))
            except KernelgenError as error:
                self.findings.extend(error.diagnostics)
        return statements

    def assignments(self, phase: Phase) -> list[Assignment]:
        if getattr(self.spec.body, phase) and phase != "step" and not self.spec.reduction:
            self.findings.append(
                Diagnostic(
                    "KG213",
                    f"body has {phase} but no axis is in reduction",
                    "move its statements to step, or name the reduction axes",
                    ("body", phase),
                    on_key=True,
                )
            )
            return []
        found = [self.assignment(statement) for statement in self.statements[phase]]
        return [assignment for assignment in found if assignment is not None]

    def assignment(self, statement: Statement) -> Assignment | None:
        self.statement = statement
        target = statement.target
        try:
            value = self.value(statement.value)
            if statement.operator:
                self.read_for_update(statement, value)
            return self.store(statement, value)
        except _Unknown:
            if target not in self.spec.outputs and target not in self.spec.scratch:
                self.locals[target] = None
            self.mark_written(target)
            return None

    def mark_written(self, target: str) -> None:
        self.written.add(target)
        self.written_in_phase.add(target)

    def read_for_update(self, statement: Statement, value: Value) -> None:
        """``acc += x`` reads acc: check it as if it were written out."""
        name = Name(statement.target, statement.target_span)
        operation = OPERATIONS[statement.operator]
        self.apply(operation, (self.name(name), value), (), statement.target_span)

    def store(self, statement: Statement, value: Value) -> Assignment:
        target, span = statement.target, statement.target_span
        operand = self.spec.outputs.get(target) or self.spec.scratch.get(target)
        if operand is None:
            return self.store_local(statement, value)
        extra = [axis for axis in value.type.axes if axis not in operand.axes]
        if extra:
            raise self.fail(
                "KG212",
                f"{target}[{', '.join(operand.axes)}] cannot hold a value along {listing(extra)}",
                span,
                f"reduce it first, as in sum(..., {extra[0]}), or give {target} the axis",
            )
        if (_kind(operand.dtype) == "bool") != (value.type.dtype == "bool"):
            raise self.fail(
                "KG206",
                f"{target} is {operand.dtype}, but the value is {value.type.dtype}",
                span,
                "compare, as in x > 0, or choose numbers with where(condition, 1, 0)",
            )
        storage = "output" if target in self.spec.outputs else "scratch"
        if storage == "output":
            self.check_output_phase(target, span)
        self.mark_written(target)
        return Assignment(
            target, storage, statement.operator, value,  # type: ignore[arg-type]
            Type(operand.axes, operand.dtype), statement.pointer, span,
        )  # fmt: skip

    def store_local(self, statement: Statement, value: Value) -> Assignment:
        target, span = statement.target, statement.target_span
        if target in self.spec.inputs:
            raise self.fail("KG208", f"{target} is an input: it cannot be assigned", span)
        if target in self.spec.axes:
            raise self.fail("KG208", f"{target} is an axis: it cannot be assigned", span)
        reason = problem(target)
        if target in CONSTANTS or target in DTYPES:
            reason = "is a constant of the language"
        if reason:
            raise self.fail("KG208", f"local {target} {reason}", span, alternative(target))
        type_ = value.type
        if statement.operator:
            previous = self.locals.get(target)
            assert previous is not None
            axes = _union(previous.axes, type_.axes)
            type_ = Type(
                axes, OPERATIONS[statement.operator].typing((previous.dtype, type_.dtype))[1]
            )
        self.locals[target] = type_
        return Assignment(
            target, "local", statement.operator, value, type_, statement.pointer, span
        )

    def check_output_phase(self, target: str, span: Span) -> None:
        """An output block is written once: at the last step, or at every step if each has its own."""
        reduction = self.spec.reduction
        missing = [axis for axis in reduction if axis not in self.spec.outputs[target].axes]
        if self.phase == "init":
            raise self.fail(
                "KG213",
                f"{target} is an output, written in init",
                span,
                "write it in finish or step",
            )
        if self.phase == "step" and missing:
            raise self.fail(
                "KG213",
                f"{target} does not carry reduction axis {missing[0]}, but is written at every step",
                span,
                f"collect in scratch and write {target} in finish",
            )
        if self.phase == "finish" and not missing:
            raise self.fail(
                "KG213",
                f"{target} carries every reduction axis, but is written at the last step only",
                span,
                f"write {target} in step",
            )
        if self.phase == "finish" and len(missing) < len(reduction):
            raise self.fail(
                "KG213",
                f"{target} carries some reduction axes only: most of its blocks are never written",
                span,
                f"give it all of {listing(reduction)}, or none",
            )

    def check_coverage(self) -> None:
        for name in self.spec.outputs:
            if name not in self.written:
                self.findings.append(
                    Diagnostic(
                        "KG210",
                        f"output {name} is never written",
                        f"assign {name} in {'finish' if self.spec.reduction else 'step'}, or remove it",
                        ("outputs", name),
                        on_key=True,
                    )
                )
        for section, operands in (("inputs", self.spec.inputs), ("scratch", self.spec.scratch)):
            for name in operands:
                if name not in self.read:
                    verb = "used" if section == "inputs" or name not in self.written else "read"
                    self.findings.append(
                        Diagnostic(
                            "KG211",
                            f"{'input' if section == 'inputs' else 'scratch buffer'} "
                            f"{name} is never {verb}",
                            "use it in the body, or remove it",
                            (section, name),
                            on_key=True,
                        )
                    )

    # Expressions

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
                raise self.fail(
                    "KG206", "whole number beyond int32", number.span, "write it as a float, 1e10"
                )
            return Constant(number.value, Type((), WEAK_INT), number.span)
        if number.value > 3.4028234e38:
            raise self.fail("KG206", "number beyond float32", number.span, "write inf")
        return Constant(number.value, Type((), WEAK_FLOAT), number.span)

    def name(self, name: Name) -> Value:
        text, span = name.name, name.span
        spec = self.spec
        if text in self.locals:
            type_ = self.locals[text]
            if type_ is None:
                raise _Unknown
            return Read(text, "local", type_, span)
        if text in spec.inputs:
            self.read.add(text)
            return self.input(text, spec.inputs[text], span)
        if text in spec.scratch:
            return self.scratch(text, spec.scratch[text], span)
        if text in CONSTANTS:
            return Constant(CONSTANTS[text], Type((), WEAK_FLOAT), span)
        raise self.unknown_name(text, span)

    def input(self, name: str, operand: Operand, span: Span) -> Value:
        type_ = Type(operand.axes, operand.dtype)
        if operand.memory_space != "SMEM":
            return Read(name, "input", type_, span)
        if operand.axes:
            raise self.fail(
                "KG205",
                f"{name} is in SMEM: the body reads its scalars, not its tile",
                span,
                f"write {name}[{', '.join(operand.axes)}], or place {name} in VMEM",
            )
        return Element(name, (), type_, span)

    def scratch(self, name: str, operand: Operand, span: Span) -> Value:
        self.read.add(name)
        if name not in self.written:
            later = any(name == statement.target for statement in self.statements["step"])
            raise self.fail(
                "KG209",
                f"scratch buffer {name} is read before it is written",
                span,
                f"set {name} in init: memory on the chip starts with garbage"
                if self.phase == "step" and later
                else f"write {name} first",
            )
        if self.phase == "step" and name not in self.written_in_phase:
            self.carried.add(name)
        return Read(name, "scratch", Type(operand.axes, operand.dtype), span)

    def unknown_name(self, text: str, span: Span) -> _Unknown:
        spec = self.spec
        if text in spec.outputs:
            return self.fail(
                "KG208",
                f"{text} is an output: it is written, not read",
                span,
                "keep the value in a local and assign both from it",
            )
        if text in spec.axes:
            return self.fail(
                "KG202",
                f"{text} is an axis, not a value",
                span,
                f"write index({text}) for its positions or size({text}) for its extent",
            )
        if text in self.other_locals:
            return self.fail(
                "KG202",
                f"local {text} belongs to an earlier phase",
                span,
                f"keep {text} in a scratch buffer: locals do not outlive their phase",
            )
        if text in CALLABLE:
            return self.fail(
                "KG202", f"{text} is an operation: call it", span, f"write {text}(...)"
            )
        known = (*self.locals, *spec.inputs, *spec.scratch, *CONSTANTS)
        return self.fail("KG202", f"unknown name {text}", span, nearest(text, known))

    def element(self, subscript: Subscript) -> Value:
        name = subscript.name
        operand = self.spec.inputs.get(name)
        if operand is None or operand.memory_space != "SMEM":
            if operand is None and name not in self.locals and name not in self.spec.scratch:
                raise self.unknown_name(name, subscript.name_span)
            raise self.fail(
                "KG205",
                f"{name} is a tile: it has no subscripts",
                subscript.span,
                "reduce it over an axis, or place the operand in SMEM",
            )
        self.read.add(name)
        axes = tuple(self.axis(index) for index in subscript.indices)
        if axes != operand.axes:
            raise self.fail(
                "KG205",
                f"{name} has axes [{', '.join(operand.axes)}], not [{', '.join(axes)}]",
                subscript.span,
                f"write {name}[{', '.join(operand.axes)}]",
            )
        return Element(name, axes, Type(axes, operand.dtype), subscript.span)

    def axis(self, expression: Expression) -> str:
        if not isinstance(expression, Name):
            raise self.fail(
                "KG204", "an axis name should stand here", expression.span,
                nearest("", self.spec.axes),
            )  # fmt: skip
        if expression.name not in self.spec.axes:
            raise self.fail(
                "KG204", f"unknown axis {expression.name}", expression.span,
                nearest(expression.name, self.spec.axes),
            )  # fmt: skip
        return expression.name

    def call(self, call: Call) -> Value:
        if call.function in SYNTAX_FUNCTIONS:
            return self.syntax_call(call)
        operation = OPERATIONS.get(call.function)
        if operation is None:
            raise self.fail(
                "KG203", f"unknown operation {call.function}", call.name_span,
                nearest(call.function, CALLABLE),
            )  # fmt: skip
        if operation.infix and call.name_span[1] - call.name_span[0] > 3:
            raise self.fail(
                "KG203", f"unknown operation {call.function}", call.name_span,
                f"write the operator {operation.infix}",
            )  # fmt: skip
        self.check_arity(call, operation)
        args = tuple(self.value(argument) for argument in call.args[: operation.arity])
        axes = tuple(self.axis(argument) for argument in call.args[operation.arity :])
        return self.apply(operation, args, axes, call.span)

    def check_arity(self, call: Call, operation: Operation) -> None:
        given = len(call.args)
        wanted = operation.arity + abs(operation.axes)
        if given == wanted or (operation.axes < 0 and given > wanted):
            return
        raise self.fail(
            "KG205",
            f"{call.function} takes {usage(operation)}; {given} given",
            call.span,
            f"write {signature(operation)}",
        )

    def syntax_call(self, call: Call) -> Value:
        wanted = 2 if call.function == "cast" else 1
        if len(call.args) != wanted:
            text = "cast(value, dtype)" if wanted == 2 else f"{call.function}(axis)"
            raise self.fail(
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
        return Positions(axis, Type((axis,), "int32"), call.span)

    def cast(self, call: Call) -> Value:
        value, dtype = self.value(call.args[0]), call.args[1]
        name = dtype.name if isinstance(dtype, Name) else ""
        if name not in DTYPES:
            instead = f"use {REFUSED[name]}" if name in REFUSED else nearest(name, DTYPES)
            raise self.fail(
                "KG206", f"{name or 'this'} is no dtype of the language", dtype.span, instead
            )
        if name == "bool" or value.type.dtype == "bool":
            if name == value.type.dtype:
                return value
            instead = "compare, as in x != 0" if name == "bool" else "write where(condition, 1, 0)"
            raise self.fail("KG206", "booleans are not cast", call.span, instead)
        return Cast(value, Type(value.type.axes, name), call.span)

    def apply(
        self, operation: Operation, args: tuple[Value, ...], axes: tuple[str, ...], span: Span
    ) -> Value:
        self.check_axes(operation, args, axes, span)
        try:
            wanted, dtype = operation.typing(tuple(arg.type.dtype for arg in args))
        except TypeError as error:
            raise self.fail("KG206", f"{spelling(operation)}: {error}", span) from None
        if dtype in WEAK and operation.python is None:
            dtype = "float32" if dtype == WEAK_FLOAT else "int32"
        args = tuple(converted(arg, to) for arg, to in zip(args, wanted, strict=True))
        return Apply(operation, args, axes, Type(result_axes(operation, args, axes), dtype), span)

    def check_axes(
        self, operation: Operation, args: tuple[Value, ...], axes: tuple[str, ...], span: Span
    ) -> None:
        if len(set(axes)) < len(axes):
            raise self.fail("KG205", "an axis is named twice", span)
        if operation.name == "power" and not _whole_constant(args[1]):
            raise self.fail(
                "KG205", "the power is not a whole constant", span,
                "write a whole number from 0 to 8, or exp(p * log(x))",
            )  # fmt: skip
        carriers = args if operation.kind == "contraction" else args[:1]
        if operation.name == "linear_scan":
            carriers = args[:2]
        for axis in axes:
            for carrier in carriers:
                if axis not in carrier.type.axes:
                    held = ", ".join(carrier.type.axes)
                    raise self.fail(
                        "KG207",
                        f"{spelling(operation)} runs along {axis}, but its operand has axes [{held}]",
                        carrier.span,
                        nearest("", carrier.type.axes) if held else "",
                    )
            self.check_extent(operation, axis, span)
        if operation.name == "linear_scan" and axes[0] in args[2].type.axes:
            raise self.fail(
                "KG207", f"the state before a scan along {axes[0]} does not carry {axes[0]}",
                args[2].span, f"write last(..., {axes[0]})",
            )  # fmt: skip
        if operation.name == "roll" and not is_static(args[1]):
            raise self.fail(
                "KG205", "roll moves by a constant", args[1].span, "write a number or size(...)"
            )

    def check_extent(self, operation: Operation, axis: str, span: Span) -> None:
        """Whatever combines positions has to see all of them, in one tile or step by step."""
        tiled = self.spec.axes[axis].tile is not None
        if tiled and axis not in self.spec.reduction:
            raise self.fail(
                "KG214",
                f"{spelling(operation)} along {axis}, of which a step sees one tile only",
                span,
                f"add {axis} to reduction and collect in scratch, or give {axis} no tile",
            )
        if tiled and operation.kind == "shift":
            raise self.fail(
                "KG214", f"roll along {axis} needs the whole axis in one tile", span,
                f"give {axis} no tile",
            )  # fmt: skip


def _kind(name: str) -> str:
    """``float``, ``int`` or ``bool``; refused types count as floats until their own rule speaks."""
    return DTYPES[name].kind if name in DTYPES else "float"


def converted(value: Value, dtype: str) -> Value:
    """The value in the element type that an operation works in."""
    if value.type.dtype == dtype:
        return value
    return Cast(value, Type(value.type.axes, dtype), value.span)


def result_axes(
    operation: Operation, args: tuple[Value, ...], axes: tuple[str, ...]
) -> tuple[str, ...]:
    """The axes of an operation's result; batch axes of a contraction come first."""
    if operation.kind == "contraction":
        x, y = args[0].type.axes, args[1].type.axes
        batch = tuple(axis for axis in x if axis in y and axis not in axes)
        free = tuple(axis for axis in (*x, *y) if axis not in axes and axis not in batch)
        return (*batch, *free)
    union: tuple[str, ...] = ()
    for arg in args:
        union = _union(union, arg.type.axes)
    if operation.kind in ("reduction", "select"):
        return tuple(axis for axis in union if axis not in axes)
    return union


def _union(x: tuple[str, ...], y: tuple[str, ...]) -> tuple[str, ...]:
    return (*x, *(axis for axis in y if axis not in x))


def _whole_constant(value: Value) -> bool:
    return isinstance(value, Constant) and isinstance(value.value, int) and 0 <= value.value <= 8


def spelling(operation: Operation) -> str:
    """How a body writes the operation: its operator or its name."""
    return operation.infix or operation.name


def signature(operation: Operation) -> str:
    """How a call looks: ``dot(x, y, axis)``."""
    values = [("x", "y", "z")[i] for i in range(operation.arity)]
    axes = ["axis"] * min(abs(operation.axes), 1)
    return f"{operation.name}({', '.join([*values, *axes])})"


def usage(operation: Operation) -> str:
    """What an operation takes, in words."""
    values = f"{operation.arity} value{'s' if operation.arity > 1 else ''}"
    if not operation.axes:
        return values
    return f"{values} and {'one or more axes' if operation.axes < 0 else 'an axis'}"


def uses_axis(value: Value, axis: str) -> bool:
    """Whether anything in the value varies along the axis."""
    return any(axis in part.type.axes for part in walk(value))
