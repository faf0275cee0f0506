"""The typed program: what a body means, with axes and an element type on every value.

Values are immutable trees that compare by meaning, not by where they were written, so that
later stages may look for equal subexpressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Literal

from kernelgen.diagnostics import Pointer
from kernelgen.language.operations import Operation
from kernelgen.language.syntax import Span
from kernelgen.language.types import WEAK
from kernelgen.records import record

Phase = Literal["init", "step", "finish"]
PHASES: tuple[Phase, ...] = ("init", "step", "finish")

Storage = Literal["input", "scratch", "local"]


@record
class Type:
    """The named axes a value varies along, in order of appearance, and its element type."""

    axes: tuple[str, ...]
    dtype: str


@record
class Constant:
    """A number; infinities are floats."""

    value: int | float
    type: Type
    span: Span = field(default=(0, 0), compare=False)


@record
class Size:
    """``size(axis)``: the full extent of an axis, known when the kernel is traced."""

    axis: str
    type: Type
    span: Span = field(default=(0, 0), compare=False)


@record
class Positions:
    """``index(axis)``: the global positions along an axis, int32."""

    axis: str
    type: Type
    span: Span = field(default=(0, 0), compare=False)


@record
class Read:
    """The current tile of an input or scratch buffer, or a local."""

    name: str
    storage: Storage
    type: Type
    span: Span = field(default=(0, 0), compare=False)


@record
class Element:
    """``name[i, j]``: one scalar of an SMEM input, at the positions of the subscripted axes."""

    name: str
    axes: tuple[str, ...]
    type: Type
    span: Span = field(default=(0, 0), compare=False)


@record
class Cast:
    """``cast(x, dtype)``, or a widening that the typing of an operation asks for."""

    value: Value
    type: Type
    span: Span = field(default=(0, 0), compare=False)


@record
class Apply:
    """An operation of the table applied to values, along ``axes`` where it names some."""

    operation: Operation
    args: tuple[Value, ...]
    axes: tuple[str, ...]
    type: Type
    span: Span = field(default=(0, 0), compare=False)


Value = Constant | Size | Positions | Read | Element | Cast | Apply


@record
class Assignment:
    """One statement: ``target operator= value``.

    Attributes:
        target: The output, scratch buffer or local that is written.
        storage: What the target is.
        operator: Name of the operation of an augmented assignment, or empty.
        value: The right-hand side as written.
        type: Axes and dtype of what is stored.
        pointer: The statement's place in the spec.
        target_span: Where in the statement the target stands.
    """

    target: str
    storage: Literal["output", "scratch", "local"]
    operator: str
    value: Value
    type: Type
    pointer: Pointer = field(compare=False)
    target_span: Span = field(compare=False)


@record
class Program:
    """The three phases of a body.

    Attributes:
        init: Runs at the first step along the reduction axes.
        step: Runs at every step.
        finish: Runs at the last step along the reduction axes.
        carried: Scratch buffers whose contents pass from one step to a later one.
    """

    init: tuple[Assignment, ...]
    step: tuple[Assignment, ...]
    finish: tuple[Assignment, ...]
    carried: frozenset[str]

    def phases(self) -> Iterator[tuple[Phase, tuple[Assignment, ...]]]:
        """The phases that hold statements, in order."""
        for phase in PHASES:
            statements: tuple[Assignment, ...] = getattr(self, phase)
            if statements:
                yield phase, statements


def is_static(value: Value) -> bool:
    """Whether a value is a number when the kernel is traced."""
    return value.type.dtype in WEAK


def children(value: Value) -> tuple[Value, ...]:
    """The values that a value is made of."""
    match value:
        case Apply(args=args):
            return args
        case Cast(value=inner):
            return (inner,)
        case _:
            return ()


def walk(value: Value) -> Iterator[Value]:
    """A value and everything in it, parents first."""
    yield value
    for child in children(value):
        yield from walk(child)
