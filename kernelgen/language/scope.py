"""What is known about names while a body is checked, statement by statement."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelgen.diagnostics import Diagnostic
from kernelgen.language.program import Domain, Phase, Type
from kernelgen.language.syntax import Span, Statement
from kernelgen.spec import KernelSpec


class MeaninglessError(Exception):
    """A part of a statement has no meaning; the finding has been made already."""


@dataclass(slots=True)
class Scope:
    """Names, what has been read and written, and the findings so far.

    Attributes:
        spec: What is checked.
        domain: The positions that are computed.
        statements: Every statement of each phase, parsed.
        locals: The locals of this phase; None for one whose value had no meaning.
        earlier: Locals of earlier phases.
        written: Outputs, scratch buffers and locals assigned so far.
        written_here: Those assigned in this phase.
        read: Inputs and scratch buffers read so far.
        carried: Scratch buffers that a step reads as an earlier step left them.
    """

    spec: KernelSpec
    domain: Domain
    statements: dict[Phase, list[Statement]]
    findings: list[Diagnostic] = field(default_factory=list)
    locals: dict[str, Type | None] = field(default_factory=dict)
    earlier: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    written_here: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    carried: set[str] = field(default_factory=set)
    phase: Phase = "init"
    statement: Statement | None = None

    def enter(self, phase: Phase) -> None:
        """Start a phase: locals do not outlive theirs."""
        self.phase = phase
        self.earlier |= set(self.locals)
        self.locals = {}
        self.written_here = set()

    def axes_of(self, name: str) -> tuple[str, ...]:
        """The axes that an operand or scratch buffer has in the body."""
        return self.domain.seen[name] if name in self.domain.seen else self.spec.scratch[name].axes

    def mark_written(self, target: str) -> None:
        """Note that a name has been assigned."""
        self.written.add(target)
        self.written_here.add(target)

    def fail(self, code: str, message: str, span: Span, instead: str = "") -> MeaninglessError:
        """Report a finding about the current statement; raise what this returns."""
        assert self.statement is not None
        self.findings.append(Diagnostic(code, message, instead, self.statement.pointer, span))
        return MeaninglessError()
