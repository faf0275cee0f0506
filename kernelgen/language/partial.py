"""Results that hold for one tile only, and must not leave their step as if they were complete.

A reduction along an axis that the grid walks sees one tile a step. Its result is partial until it
is combined with what earlier steps left in scratch. The meaning of a body is that of one run over
whole arrays, so a partial result that reaches an output or the last step is a mistake.
"""

from __future__ import annotations

from kernelgen.diagnostics import Diagnostic
from kernelgen.language.program import (
    Apply,
    Assignment,
    Cast,
    Element,
    Positions,
    Program,
    Read,
    Value,
    walk,
)
from kernelgen.language.syntax import Span
from kernelgen.spec import KernelSpec

TILEWISE = ("reduction", "contraction", "scan", "select")
"""Kinds of operations that combine the positions that a step sees."""


def check_partial(spec: KernelSpec, program: Program) -> list[Diagnostic]:
    """Findings about partial results that are taken for complete ones."""
    return [
        *_kept_tiles(spec, program),
        *_late_reads(spec, program),
        *_Steps(spec, program).findings(),
    ]


def _kept_tiles(spec: KernelSpec, program: Program) -> list[Diagnostic]:
    """Scratch along a reduction axis holds one tile, and outlives its step."""
    later = {part.name for part in _parts(program.finish) if isinstance(part, Read)}
    found = []
    for name, scratch in spec.scratch.items():
        walked = [axis for axis in scratch.axes if axis in spec.reduction]
        if walked and (name in later or name in program.carried):
            found.append(
                Diagnostic(
                    "KG215",
                    f"{name} holds one tile of {walked[0]}, but is read at later steps",
                    f"reduce over {walked[0]} before it is stored",
                    ("scratch", name, "axes"),
                )
            )
    return found


def _parts(statements: tuple[Assignment, ...]) -> list[Value]:
    return [part for statement in statements for part in walk(statement.value)]


def _late_reads(spec: KernelSpec, program: Program) -> list[Diagnostic]:
    """Init and finish see the first and the last tile of what the grid walks."""
    found = []
    for phase, statements in (("init", program.init), ("finish", program.finish)):
        for statement in statements:
            for part in walk(statement.value):
                walked = [axis for axis in part.type.axes if axis in spec.reduction]
                named = isinstance(part, Positions | Element) or (
                    isinstance(part, Read) and part.storage == "input"
                )
                if walked and named:
                    tile = "first" if phase == "init" else "last"
                    found.append(
                        Diagnostic(
                            "KG215",
                            f"{phase} sees the {tile} tile of {walked[0]} only",
                            "read it in step, and collect in scratch",
                            statement.pointer,
                            part.span,
                        )
                    )
    return found


class _Steps:
    """Follows partial results through the statements of step."""

    def __init__(self, spec: KernelSpec, program: Program) -> None:
        self.spec = spec
        self.program = program
        self.partial: dict[str, Span | None] = {}
        self.running = set(program.carried)
        self.later = {part.name for part in _parts(program.finish) if isinstance(part, Read)}

    def findings(self) -> list[Diagnostic]:
        found = []
        for statement in self.program.step:
            span = None if statement.operator else self.span(statement.value)
            if span is not None and self.leaves(statement):
                found.append(
                    Diagnostic(
                        "KG215",
                        f"{statement.target} gets a result of one tile only",
                        "combine it with scratch that carries the earlier tiles, as in "
                        "acc += sum(x, k) or top = maximum(top, max(x, k))",
                        statement.pointer,
                        span,
                    )
                )
            self.partial[statement.target] = span
            if statement.operator or self.is_running(statement.value):
                self.running.add(statement.target)
            elif statement.storage == "local":
                self.running.discard(statement.target)
        return found

    def leaves(self, statement: Assignment) -> bool:
        """Whether the target is seen outside of this step as it is stored here."""
        if statement.storage == "output":
            return True
        outlives = statement.target in self.later or statement.target in self.program.carried
        return statement.storage == "scratch" and outlives and not self.is_last(statement.value)

    def is_last(self, value: Value) -> bool:
        """The last position of the last tile is the last position."""
        return isinstance(value, Apply) and value.operation.kind == "select"

    def is_running(self, value: Value) -> bool:
        """Whether a value takes in what earlier steps left in scratch."""
        return any(isinstance(part, Read) and part.name in self.running for part in walk(value))

    def span(self, value: Value) -> Span | None:
        """Where a value has a partial result in it that nothing has completed."""
        match value:
            case Read(name=name, storage="local" | "scratch"):
                return self.partial.get(name)
            case Cast(value=inner):
                return self.span(inner)
            case Apply(operation=operation):
                walked = any(axis in self.spec.reduction for axis in value.axes)
                if walked and operation.kind in TILEWISE:
                    carries = operation.kind in ("scan", "select")
                    return None if carries and self.is_running(value) else value.span
                if any(self.is_running(arg) for arg in value.args):
                    return None
                spans = [self.span(arg) for arg in value.args]
                return next((span for span in spans if span is not None), None)
            case _:
                return None
