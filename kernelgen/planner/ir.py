"""The lowered body: values with positional dimensions, ready to be printed.

A dimension is an axis name, or None for a unit dimension that keeps a value aligned with others.
Axes whose tile is 1 have been squeezed away and have no dimension at all.
"""

from __future__ import annotations

from typing import Literal as Literal_

from kernelgen.language.operations import Operation
from kernelgen.records import record

Form = Literal_["block", "part", "scalar"]

Layout = tuple[str | None, ...]
"""The dimensions of a value, outermost first."""

REPLICATED = "*"
"""A last dimension of 128 lanes that all hold the same: a column that meets rows lane by lane."""


def plain(layout: Layout) -> Layout:
    """A layout with a unit dimension in place of the replicated one."""
    return tuple(None if axis == REPLICATED else axis for axis in layout)


@record
class Literal:
    """A number that Python knows when the kernel is traced."""

    value: int | float | bool


@record
class Extent:
    """The size of an axis: a Python integer when the kernel is traced."""

    axis: str


@record
class Local:
    """A Python variable of the kernel."""

    name: str


@record
class Load:
    """The whole block of an operand or scratch buffer."""

    name: str


@record
class Scalar:
    """One element of an SMEM operand."""

    name: str
    indices: tuple[Expr, ...]


@record
class Step:
    """The grid position along an axis: ``pl.program_id``."""

    axis: str


@record
class Walked:
    """The block of an axis that inputs name in a step: in bounds, where the step is not."""

    axis: str


@record
class Quotient:
    """A whole number that is not negative, divided by a positive one and rounded down or up."""

    x: Expr
    y: Expr
    up: bool = False


@record
class Iota:
    """The position along one dimension of a block, for each of a local's elements."""

    name: str
    dim: int


@record
class Call:
    """An operation of the table, printed from its row.

    ``dims`` are dimension numbers for ``{axis}``.
    """

    operation: Operation
    args: tuple[Expr, ...]
    dims: tuple[int, ...] = ()
    static: bool = False


@record
class Dot:
    """A contraction on the matrix unit with a 32-bit result.

    ``highest`` asks for full float32 products, which the matrix unit builds from bfloat16 passes.
    """

    x: Expr
    y: Expr
    contract: tuple[int, int]
    batch: tuple[tuple[int, ...], tuple[int, ...]]
    rank: tuple[int, int]
    dtype: str
    highest: bool


@record
class WithOnes:
    """The right operand of a product behind 128 columns of ones, which give the sum of each row."""

    value: Expr


@record
class Ones:
    """128 columns of ones, as the right operand of a product that contracts an axis."""

    axis: str
    dtype: str


@record
class Lanes:
    """Some of the last dimension: the first 128, those behind them, or one of equal ones."""

    value: Expr
    part: Literal_["first", "rest", "one"]
    rank: int


@record
class Across:
    """A replicated column, as wide as an axis."""

    value: Expr
    axis: str


@record
class As:
    """Conversion to an element type."""

    value: Expr
    dtype: str


@record
class Positions:
    """Global positions along an axis, as a block that varies along one dimension only."""

    axis: str
    layout: Layout


@record
class Permute:
    """Dimensions in another order."""

    value: Expr
    order: tuple[int, ...]


@record
class Expand:
    """Unit dimensions inserted at ``dims`` of the result."""

    value: Expr
    dims: tuple[int, ...]


@record
class Squeeze:
    """Unit dimensions removed."""

    value: Expr
    dims: tuple[int, ...]


@record
class Fill:
    """A scalar as a block of one element: the scalar core lacks functions of the vector unit."""

    value: Expr


@record
class Extract:
    """The one element of a block without axes, as a scalar."""

    value: Expr
    rank: int


@record
class Inside:
    """``value`` where the condition holds, ``fill`` elsewhere.

    ``value`` is a local; ``dtype`` tells booleans, which have no select on the TPU, apart.
    ``along_lanes`` says that the condition varies along the last dimension.
    """

    value: Local
    condition: Expr
    fill: float
    dtype: str
    along_lanes: bool


Expr = (
    Literal | Extent | Local | Load | Scalar | Step | Walked | Quotient | Iota | Call | Dot | As
    | WithOnes | Ones | Lanes | Across | Positions | Permute | Expand | Squeeze | Fill | Extract
    | Inside
)  # fmt: skip


@record
class Bind:
    """``name = value``, a block with the given dimensions and element type."""

    name: str
    value: Expr
    layout: Layout
    dtype: str


@record
class Store:
    """``ref[...] operator= value``, cast to the buffer's element type when ``cast`` is set.

    ``form`` says what the value covers of the block: all of it, a part that is broadcast, or
    nothing, because it is a scalar.
    """

    name: str
    value: Expr
    operator: str = ""
    cast: bool = False
    form: Form = "block"


@record
class Tail:
    """Masks that only some traces have: those where the tile does not divide ``axis``.

    Without an axis they belong to the steps whose block reaches past the bounds of some axis.
    """

    axis: str | None
    masks: tuple[Bind, ...]

    def joined(self, later: tuple[Bind, ...]) -> Tail:
        """This tail and the masks of a later one, which need not define again what it defines."""
        new = [bind for bind in later if bind not in self.masks]
        return Tail(self.axis, (*self.masks, *new))


Statement = Bind | Store | Tail


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that an expression is made of."""
    match expr:
        case Call(args=args):
            return args
        case Dot(x=x, y=y) | Quotient(x=x, y=y):
            return (x, y)
        case Scalar(indices=indices):
            return indices
        case Inside(value=value, condition=condition):
            return (value, condition)
        case As() | WithOnes() | Lanes() | Across():
            return (expr.value,)
        case Permute() | Expand() | Squeeze() | Fill() | Extract():
            return (expr.value,)
        case _:
            return ()


def locals_of(statement: Statement) -> set[str]:
    """The Python variables that a statement reads."""
    if isinstance(statement, Tail):
        return {name for mask in statement.masks for name in locals_of(mask)}
    return locals_in(statement.value)


def steps_in(expr: Expr) -> set[str]:
    """The axes of which an expression reads the grid position."""
    own = {expr.axis} if isinstance(expr, Step | Positions) else set()
    return own.union(*(steps_in(part) for part in parts(expr)))


def is_traced(expr: Expr, defined: dict[str, Expr]) -> bool:
    """Whether the kernel computes an expression; if not, Python knows it when it is traced.

    ``defined`` holds what variables of the kernel stand for.
    """
    if isinstance(expr, Step | Walked | Positions | Scalar):
        return True
    if isinstance(expr, Local) and expr.name in defined:
        return is_traced(defined[expr.name], defined)
    return any(is_traced(part, defined) for part in parts(expr))


def locals_in(expr: Expr) -> set[str]:
    """The Python variables that an expression reads."""
    names: set[str] = set()
    pending: list[Expr] = [expr]
    while pending:
        expr = pending.pop()
        if isinstance(expr, Local | Iota):
            names.add(expr.name)
        pending.extend(parts(expr))
    return names
