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
    """``value`` at positions inside the extent of an axis, ``fill`` at the others.

    ``value`` is a local; ``dtype`` tells booleans, which have no select on the TPU, apart.
    """

    value: Local
    dim: int
    axis: str
    fill: float
    dtype: str


Expr = (
    Literal | Extent | Local | Load | Scalar | Step | Call | Dot | As | Positions | Permute
    | Expand | Squeeze | Fill | Extract | Inside
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
    """Statements that only run in a trace where the tile does not divide the axis."""

    axis: str
    masks: tuple[Bind, ...]


Statement = Bind | Store | Tail


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that an expression is made of."""
    match expr:
        case Call(args=args):
            return args
        case Dot(x=x, y=y):
            return (x, y)
        case Scalar(indices=indices):
            return indices
        case As() | Permute() | Expand() | Squeeze() | Fill() | Extract() | Inside():
            return (expr.value,)
        case _:
            return ()


def locals_of(statement: Statement) -> set[str]:
    """The Python variables that a statement reads."""
    if isinstance(statement, Tail):
        return {name for mask in statement.masks for name in locals_of(mask)}
    names: set[str] = set()
    pending: list[Expr] = [statement.value]
    while pending:
        expr = pending.pop()
        if isinstance(expr, Local):
            names.add(expr.name)
        pending.extend(parts(expr))
    return names
