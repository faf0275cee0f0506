"""From the text of a body to a typed program, or to every finding about it."""

from __future__ import annotations

from kernelgen.diagnostics import Diagnostic, KernelgenError, Pointer, listing
from kernelgen.language import syntax
from kernelgen.language.domain import domain
from kernelgen.language.dtypes import DTYPES, supported
from kernelgen.language.expressions import CONSTANTS, Expressions, union
from kernelgen.language.indexing import Indexing
from kernelgen.language.operations import OPERATIONS
from kernelgen.language.partial import check_partial
from kernelgen.language.program import PHASES, Assignment, Constant, Phase, Program, Type, Value
from kernelgen.language.scope import MeaninglessError, Scope
from kernelgen.language.syntax import Name, Span, Statement
from kernelgen.names import alternative, problem
from kernelgen.spec import KernelSpec


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
    if checker.misplaced:  # without its positions a body has other axes: what follows is noise
        raise KernelgenError(checker.misplaced)
    program = checker.program()
    findings = checker.scope.findings or check_partial(spec, program)
    if findings:
        raise KernelgenError(findings)
    return program


class _Checker:
    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.indexing = Indexing(spec)
        self.scope = Scope(spec, domain(spec, self.indexing), {})
        self.misplaced = [*self.indexing.findings]
        self.indexing.findings = self.scope.findings
        self.scope.read |= self.indexing.read
        self.scope.statements.update({phase: self.parse(phase) for phase in PHASES})
        self.expressions = Expressions(self.scope, self.indexing)

    def parse(self, phase: Phase) -> list[Statement]:
        statements = []
        for i, text in enumerate(getattr(self.spec.body, phase)):
            try:
                statements.append(syntax.parse_statement(text, self.spec.body.pointer(phase, i)))
            except KernelgenError as error:
                self.scope.findings.extend(error.diagnostics)
                self.scope.written.add(text.split("=")[0].strip(" +-*"))
        return statements

    def program(self) -> Program:
        phases: dict[Phase, tuple[Assignment, ...]] = {}
        for phase in PHASES:
            self.scope.enter(phase)
            self.check_phase(phase)
            found = [self.assignment(statement) for statement in self.scope.statements[phase]]
            phases[phase] = tuple(assignment for assignment in found if assignment is not None)
        self.check_written()
        self.check_used()
        return Program(self.scope.domain, **phases, carried=frozenset(self.scope.carried))

    def check_phase(self, phase: Phase) -> None:
        if phase != "step" and getattr(self.spec.body, phase) and not self.spec.reduction:
            self.report(
                "KG213",
                f"body has {phase} but no axis is in reduction",
                "move its statements to step, or name the reduction axes",
                ("body", phase),
            )

    def report(self, code: str, message: str, instead: str, pointer: Pointer) -> None:
        """Report a finding about a key of the spec."""
        self.scope.findings.append(Diagnostic(code, message, instead, pointer, on_key=True))

    def assignment(self, statement: Statement) -> Assignment | None:
        self.scope.statement = statement
        target = statement.target
        try:
            value = self.expressions.value(statement.value)
            if statement.operator:
                self.read_for_update(statement, value)
            return self.store(statement, value)
        except MeaninglessError:
            self.scope.read.update(syntax.names_in(statement.value))
            if target not in self.spec.outputs and target not in self.spec.scratch:
                self.scope.locals[target] = None
            self.scope.mark_written(target)
            return None

    def read_for_update(self, statement: Statement, value: Value) -> None:
        """``acc += x`` reads acc: check it as if it were written out."""
        name = Name(statement.target, statement.target_span)
        operation = OPERATIONS[statement.operator]
        own = self.expressions.name(name)
        self.expressions.apply(operation, (own, value), (), statement.target_span)

    def store(self, statement: Statement, value: Value) -> Assignment:
        target, span = statement.target, statement.target_span
        operand = self.spec.outputs.get(target) or self.spec.scratch.get(target)
        if operand is None:
            return self.store_local(statement, value)
        axes = self.scope.axes_of(target)
        held = self.scope.domain.held(target) if target in self.spec.outputs else axes
        extra = [axis for axis in value.type.axes if axis not in held]
        if extra:
            raise self.scope.fail(
                "KG212",
                f"{target}[{', '.join(axes)}] cannot hold a value along {listing(extra)}",
                span,
                f"reduce it first, as in sum(..., {extra[0]}), or give {target} the axis",
            )
        if (operand.dtype == "bool") != (value.type.dtype == "bool"):
            raise self.scope.fail(
                "KG206",
                f"{target} is {operand.dtype}, but the value is {value.type.dtype}",
                span,
                "compare, as in x > 0, or choose numbers with where(condition, 1, 0)",
            )
        self.check_fits(statement, operand.dtype, value)
        storage = "output" if target in self.spec.outputs else "scratch"
        if storage == "output":
            self.check_output_phase(target, span)
        self.scope.mark_written(target)
        return Assignment(
            target, storage, statement.operator, value,  # type: ignore[arg-type]
            Type(axes, supported(operand.dtype)), statement.pointer, span,
        )  # fmt: skip

    def check_fits(self, statement: Statement, dtype: str, value: Value) -> None:
        """A number assigned to an integer buffer has to be one of its integers."""
        if not isinstance(value, Constant) or dtype not in DTYPES or DTYPES[dtype].kind != "int":
            return
        bound = 2 ** (DTYPES[dtype].bits - 1)
        if value.value != value.value // 1 or not -bound <= value.value < bound:
            raise self.scope.fail(
                "KG206",
                f"{statement.target} is {dtype}, which does not hold {value.value}",
                value.span,
                f"write a whole number from {-bound} to {bound - 1}",
            )

    def store_local(self, statement: Statement, value: Value) -> Assignment:
        target, span = statement.target, statement.target_span
        if target in self.spec.inputs:
            raise self.scope.fail("KG208", f"{target} is an input: it cannot be assigned", span)
        if target in self.spec.axes:
            raise self.scope.fail("KG208", f"{target} is an axis: it cannot be assigned", span)
        reason = problem(target)
        if target in CONSTANTS or target in DTYPES:
            reason = "is a constant of the language"
        if reason:
            raise self.scope.fail("KG208", f"local {target} {reason}", span, alternative(target))
        type_ = value.type
        if statement.operator:
            previous = self.scope.locals.get(target)
            assert previous is not None
            axes = union(previous.axes, type_.axes)
            type_ = Type(
                axes, OPERATIONS[statement.operator].typing((previous.dtype, type_.dtype))[1]
            )
        self.scope.locals[target] = type_
        return Assignment(
            target, "local", statement.operator, value, type_, statement.pointer, span
        )

    def check_output_phase(self, target: str, span: Span) -> None:
        """An output block is written once: at the last step, or by its own step."""
        reduction = self.spec.reduction
        missing = [axis for axis in reduction if axis not in self.scope.axes_of(target)]
        if self.scope.phase == "init":
            raise self.scope.fail(
                "KG213",
                f"{target} is an output, written in init",
                span,
                "write it in finish or step",
            )
        if self.scope.phase == "step" and missing:
            raise self.scope.fail(
                "KG213",
                f"{target} lacks reduction axis {missing[0]}, but is written at every step",
                span,
                f"collect in scratch and write {target} in finish",
            )
        if self.scope.phase == "finish" and not missing:
            raise self.scope.fail(
                "KG213",
                f"{target} has every reduction axis, but is written at the last step only",
                span,
                f"write {target} in step",
            )
        if self.scope.phase == "finish" and len(missing) < len(reduction):
            raise self.scope.fail(
                "KG213",
                f"{target} carries some reduction axes only: most of its blocks are never written",
                span,
                f"give it all of {listing(reduction)}, or none",
            )

    def check_written(self) -> None:
        phase = "finish" if self.spec.reduction else "step"
        for name in self.spec.outputs:
            if name not in self.scope.written:
                self.report(
                    "KG210",
                    f"output {name} is never written",
                    f"assign {name} in {phase}, or remove it",
                    ("outputs", name),
                )

    def check_used(self) -> None:
        updated = {output.alias for output in self.spec.outputs.values()}
        if not updated - {None} <= set(self.spec.inputs):
            return  # a misspelt alias makes the input look unused
        unused = [("inputs", f"input {n}", n) for n in self.spec.inputs if n not in updated]
        unused += [("scratch", f"scratch buffer {name}", name) for name in self.spec.scratch]
        for section, described, name in unused:
            if name not in self.scope.read:
                verb = "read" if name in self.scope.written else "used"
                self.report(
                    "KG211",
                    f"{described} is never {verb}",
                    "use it in the body, or remove it",
                    (section, name),
                )
