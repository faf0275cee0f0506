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
    """``name[i, j]``: one scalar of an SMEM input, at whole numbers made of positions."""

    name: str
    indices: tuple[Value, ...]
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
class Bounds:
    """The positions of an axis that are computed: from ``start`` up to, but without, ``stop``.

    Both lie in the array whatever the scalars in them are: ``start`` is at least 0 (None: it is
    0), ``stop`` at most the size (None: it is the size). Where ``stop`` does not exceed ``start``,
    nothing is in bounds.
    """

    axis: str
    start: Value | None
    stop: Value | None

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes along which the bounds vary."""
        ends = [end.type.axes for end in (self.start, self.stop) if end is not None]
        return tuple(dict.fromkeys(axis for axes in ends for axis in axes))


@record
class Groups:
    """An axis cut into groups of consecutive positions: ``offsets[group]`` starts each of them.

    Attributes:
        axis: The axis that is cut.
        group: The axis that counts the groups.
        offsets: The SMEM input with the first position of every group, and the end of the last.
    """

    axis: str
    group: str
    offsets: str


@record
class Domain:
    """Which positions are computed, and which blocks of the operands a step sees.

    Attributes:
        bounds: For axes that have some.
        sizes: For axes of which the extent follows from others.
        indices: For inputs and outputs that have some: by axis, the position that is seen.
        seen: The axes that inputs and outputs have in the body, where an index stands for the
            axes it uses.
        ranges: For integer inputs that declare them: the least and the greatest value.
        groups: For outputs in which the groups of an axis lie side by side.
    """

    bounds: dict[str, Bounds]
    sizes: dict[str, Value]
    indices: dict[str, dict[str, Value]]
    seen: dict[str, tuple[str, ...]]
    ranges: dict[str, tuple[Value, Value]]
    groups: dict[str, Groups]

    def held(self, name: str) -> tuple[str, ...]:
        """The axes that a value of an output may have: also the groups that lie side by side."""
        groups = self.groups.get(name)
        return self.seen[name] if groups is None else (groups.group, *self.seen[name])

    def axes_of_bounds(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The axes along which the bounds of some axes vary."""
        found = (self.bounds[axis].axes for axis in axes if axis in self.bounds)
        return tuple(dict.fromkeys(axis for each in found for axis in each))


@record
class Program:
    """The three phases of a body.

    Attributes:
        domain: The positions that are computed.
        init: Runs at the first step along the reduction axes.
        step: Runs at every step.
        finish: Runs at the last step along the reduction axes.
        carried: Scratch buffers whose contents pass from one step to a later one.
    """

    domain: Domain
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
        case Element(indices=indices):
            return indices
        case _:
            return ()


def walk(value: Value) -> Iterator[Value]:
    """A value and everything in it, parents first."""
    yield value
    for child in children(value):
        yield from walk(child)
