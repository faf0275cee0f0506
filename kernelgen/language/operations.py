"""The operation table: one row an operation, and nothing about an operation anywhere else.

A row holds how many arguments an operation takes, how its element types follow from theirs, how
it prints in jnp, how NumPy evaluates it in float64, and, for whatever combines positions along an
axis, the identity that stands in for positions outside the extent.

Every row lowers on the TPU generations v4 to tpu7x. Where a primitive does not exist there, the
row prints a rewriting (the exact gelu through ``erf`` because ``erfc`` is missing).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from kernelgen.language import errors
from kernelgen.language.dtypes import DTYPES, INT32_MAX, INT32_MIN
from kernelgen.language.fills import (
    Fills,
    choice,
    exponential,
    infinite,
    keeps_zero,
    known,
    logarithm,
    unknown,
)
from kernelgen.language.types import (
    Typing,
    arithmetic,
    comparison,
    conditional,
    counting,
    logical,
    ordering,
    position,
    product,
    real,
    widening,
)
from kernelgen.records import record

Kind = Literal["elementwise", "reduction", "contraction", "scan", "shift", "select"]
"""How an operation treats axes.

elementwise: position by position, operands broadcast by axis name.
reduction: removes the named axes of its one operand.
contraction: ``dot``; removes the named axes of two operands, other shared axes are batch axes.
scan: a running combination along the named axis, which stays.
shift: moves positions along the named axis, which stays.
select: one position along the named axis, which goes.
"""


@record
class Operation:
    """One row of the table.

    Attributes:
        name: How bodies call it; operators have the names of their NumPy functions.
        kind: How it treats axes.
        arity: How many values it takes.
        axes: How many axes it names after the values; -1 for one or more.
        typing: Its element types.
        jnp: How it prints; ``{0}`` is the first value, ``{axis}`` a dimension number.
        numpy: Its float64 evaluation: ``numpy(np, *values)``, with ``axis=`` where it has one.
        doc: One line for the language reference.
        identity: For each value, what stands in for positions outside the extent, by kind of
            element type; None for operations that never mix positions.
        python: How it prints when every operand is known at trace time; None if it cannot.
        precedence: Of the printed form, in Python's grammar; 100 binds like a name.
        transcendental: Uses the transcendental unit: counted in the cost estimate.
        infix: The operator in a body, empty for functions.
        fills: What the result holds outside an extent, from what the operands hold there.
        axis_at: Where its axis stands among the arguments, if not behind them all.
        error: How far a correct kernel may be from the exact result.
    """

    name: str
    kind: Kind
    arity: int
    axes: int
    typing: Typing
    jnp: str
    numpy: Callable[..., Any]
    doc: str
    identity: tuple[dict[str, float], ...] | None = None
    python: str | None = None
    precedence: int = 100
    transcendental: bool = False
    infix: str = ""
    fills: Fills = unknown
    error: errors.ErrorRule = errors.ROUNDED
    axis_at: int | None = None

    def identity_for(self, argument: int, dtype: str) -> float:
        """The value that leaves the operation's result unchanged, in the 32-bit type of dtype."""
        assert self.identity is not None, self.name
        return self.identity[argument][DTYPES[dtype].kind]


ZERO = {"float": 0.0, "int": 0, "bool": False}
ONE = {"float": 1.0, "int": 1, "bool": True}
LOWEST = {"float": -math.inf, "int": INT32_MIN}
HIGHEST = {"float": math.inf, "int": INT32_MAX}

ATOM = 100
POWER, UNARY, TERM, SUM, BITAND, BITOR, COMPARE = 90, 80, 70, 60, 50, 40, 30


def _operator(
    name: str,
    symbol: str,
    precedence: int,
    typing: Typing,
    numpy: Callable[..., Any],
    doc: str,
    fills: Fills = unknown,
    error: errors.ErrorRule = errors.ROUNDED,
) -> Operation:
    text = f"{{0}} {symbol} {{1}}" if symbol != "**" else "{0}**{1}"
    return Operation(
        name,
        "elementwise",
        2,
        0,
        typing,
        text,
        numpy,
        doc,
        None,
        text,
        precedence,
        False,
        symbol,
        fills,
        error,
    )


def _function(
    name: str,
    typing: Typing,
    jnp: str,
    numpy: Callable[..., Any],
    doc: str,
    *,
    arity: int = 1,
    python: str | None = None,
    precedence: int = ATOM,
    transcendental: bool = False,
    fills: Fills = unknown,
    error: errors.ErrorRule = errors.ROUNDED,
) -> Operation:
    return Operation(
        name,
        "elementwise",
        arity,
        0,
        typing,
        jnp,
        numpy,
        doc,
        None,
        python,
        precedence,
        transcendental,
        "",
        fills,
        error,
    )


def _reduction(
    name: str,
    typing: Typing,
    numpy: Callable[..., Any],
    identity: dict[str, float],
    doc: str,
    error: errors.ErrorRule = errors.ROUNDED,
) -> Operation:
    jnp = f"jnp.{name}({{0}}, axis={{axis}}, keepdims=True)"
    return Operation(
        name, "reduction", 1, -1, typing, jnp, numpy, doc, (identity,), error=error
    )  # fmt: skip


def _erf(np: Any, x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[float])(x)


def _sigmoid(np: Any, x: Any) -> Any:
    return np.where(x >= 0, 1.0, np.exp(-np.abs(x))) / (1.0 + np.exp(-np.abs(x)))


def _gelu_tanh(np: Any, x: Any) -> Any:
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def _linear_scan(np: Any, a: Any, x: Any, h: Any, axis: int) -> Any:
    result = np.empty(np.broadcast_shapes(a.shape, x.shape), dtype=float)
    a, x = np.broadcast_to(a, result.shape), np.broadcast_to(x, result.shape)
    state = np.take(np.broadcast_to(h, np.take(result, [0], axis).shape), 0, axis)
    for t in range(result.shape[axis]):
        state = np.take(a, t, axis) * state + np.take(x, t, axis)
        result[(slice(None),) * axis + (t,)] = state
    return result


_OPERATORS = (
    _operator(
        "add",
        "+",
        SUM,
        arithmetic,
        lambda np, x, y: x + y,
        "Sum of two values.",
        infinite(lambda x, y: x + y, (1, 1)),
    ),
    _operator(
        "subtract",
        "-",
        SUM,
        arithmetic,
        lambda np, x, y: x - y,
        "Difference of two values.",
        infinite(lambda x, y: x - y, (1, -1)),
    ),
    _operator(
        "multiply",
        "*",
        TERM,
        arithmetic,
        lambda np, x, y: x * y,
        "Product of two values.",
        known(lambda x, y: x * y),
    ),
    _operator(
        "divide",
        "/",
        TERM,
        real,
        lambda np, x, y: x / y,
        "Quotient, always a float.",
        error=errors.QUOTIENT,
    ),
    _operator(
        "floor_divide",
        "//",
        TERM,
        arithmetic,
        lambda np, x, y: x // y,
        "Quotient rounded down.",
        error=errors.WHOLE_QUOTIENT,
    ),
    _operator(
        "mod",
        "%",
        TERM,
        arithmetic,
        lambda np, x, y: x % y,
        "Remainder of //.",
        error=errors.REMAINDER,
    ),
    _operator(
        "power",
        "**",
        POWER,
        arithmetic,
        lambda np, x, y: x**y,
        "A whole constant power.",
        error=errors.POWER,
    ),
    _operator(
        "less",
        "<",
        COMPARE,
        comparison,
        lambda np, x, y: x < y,
        "Whether x < y.",
        known(lambda x, y: x < y),
    ),
    _operator(
        "less_equal",
        "<=",
        COMPARE,
        comparison,
        lambda np, x, y: x <= y,
        "Whether x <= y.",
        known(lambda x, y: x <= y),
    ),
    _operator(
        "greater",
        ">",
        COMPARE,
        comparison,
        lambda np, x, y: x > y,
        "Whether x > y.",
        known(lambda x, y: x > y),
    ),
    _operator(
        "greater_equal",
        ">=",
        COMPARE,
        comparison,
        lambda np, x, y: x >= y,
        "Whether x >= y.",
        known(lambda x, y: x >= y),
    ),
    _operator(
        "equal",
        "==",
        COMPARE,
        comparison,
        lambda np, x, y: x == y,
        "Whether x == y.",
        known(lambda x, y: x == y),
        error=errors.EQUALITY,
    ),
    _operator(
        "not_equal",
        "!=",
        COMPARE,
        comparison,
        lambda np, x, y: x != y,
        "Whether x != y.",
        known(lambda x, y: x != y),
        error=errors.INEQUALITY,
    ),
    Operation(
        "logical_and",
        "elementwise",
        2,
        0,
        logical,
        "{0} & {1}",
        lambda np, x, y: np.logical_and(x, y),
        "Both.",
        precedence=BITAND,
        infix="and",
    ),
    Operation(
        "logical_or",
        "elementwise",
        2,
        0,
        logical,
        "{0} | {1}",
        lambda np, x, y: np.logical_or(x, y),
        "Either.",
        precedence=BITOR,
        infix="or",
    ),
    Operation(
        "logical_not",
        "elementwise",
        1,
        0,
        logical,
        "jnp.logical_not({0})",
        lambda np, x: np.logical_not(x),
        "The opposite.",
        infix="not",
    ),
    Operation(
        "negative",
        "elementwise",
        1,
        0,
        arithmetic,
        "-{0}",
        lambda np, x: -x,
        "The value with its sign changed.",
        python="-{0}",
        precedence=UNARY,
        infix="-",
        fills=known(lambda x: -x),
    ),
)

_FUNCTIONS = (
    _function(
        "where",
        conditional,
        "jnp.where({0}, {1}, {2})",
        lambda np, c, x, y: np.where(c, x, y),
        "x where the condition holds, else y.",
        arity=3,
        fills=choice,
        error=errors.CHOICE,
    ),
    _function(
        "minimum",
        arithmetic,
        "jnp.minimum({0}, {1})",
        lambda np, x, y: np.minimum(x, y),
        "The smaller of two values.",
        arity=2,
        python="min({0}, {1})",
        fills=known(min),
        error=errors.ORDERED,
    ),
    _function(
        "maximum",
        arithmetic,
        "jnp.maximum({0}, {1})",
        lambda np, x, y: np.maximum(x, y),
        "The larger of two values.",
        arity=2,
        python="max({0}, {1})",
        fills=known(max),
        error=errors.ORDERED,
    ),
    _function(
        "clip",
        arithmetic,
        "jnp.clip({0}, {1}, {2})",
        lambda np, x, lo, hi: np.clip(x, lo, hi),
        "x, no smaller than the second and no larger than the third value.",
        arity=3,
        error=errors.ORDERED,
    ),
    _function(
        "abs",
        arithmetic,
        "jnp.abs({0})",
        lambda np, x: np.abs(x),
        "Magnitude.",
        python="abs({0})",
        fills=keeps_zero,
        error=errors.MAGNITUDE,
    ),
    _function(
        "sign",
        arithmetic,
        "jnp.sign({0})",
        lambda np, x: np.sign(x),
        "-1, 0 or 1.",
        fills=keeps_zero,
    ),
    _function(
        "square",
        arithmetic,
        "jnp.square({0})",
        lambda np, x: x * x,
        "x * x.",
        fills=keeps_zero,
        error=errors.MAGNITUDE,
    ),
    _function(
        "floor",
        real,
        "jnp.floor({0})",
        lambda np, x: np.floor(x),
        "Rounded down.",
        fills=keeps_zero,
    ),
    _function(
        "round",
        real,
        "jnp.round({0})",
        lambda np, x: np.round(x),
        "Rounded to the nearest whole number, halves to even.",
        fills=keeps_zero,
    ),
    _function(
        "reciprocal",
        real,
        "1.0 / {0}",
        lambda np, x: 1.0 / x,
        "1 / x.",
        python="1 / {0}",
        precedence=TERM,
        error=errors.QUOTIENT,
    ),
    _function(
        "sqrt",
        real,
        "jnp.sqrt({0})",
        lambda np, x: np.sqrt(x),
        "Square root.",
        python="{0}**0.5",
        transcendental=True,
        fills=keeps_zero,
        error=errors.SQRT,
    ),
    _function(
        "rsqrt",
        real,
        "lax.rsqrt({0})",
        lambda np, x: 1.0 / np.sqrt(x),
        "1 / sqrt(x).",
        python="{0}**-0.5",
        transcendental=True,
        error=errors.RSQRT,
    ),
    _function(
        "exp",
        real,
        "jnp.exp({0})",
        lambda np, x: np.exp(x),
        "e to the power x.",
        transcendental=True,
        fills=exponential,
        error=errors.EXP,
    ),
    _function(
        "log",
        real,
        "jnp.log({0})",
        lambda np, x: np.log(x),
        "Natural logarithm.",
        fills=logarithm,
        transcendental=True,
        error=errors.LOG,
    ),
    _function(
        "log1p",
        real,
        "jnp.log1p({0})",
        lambda np, x: np.log1p(x),
        "log(1 + x), exact near 0.",
        transcendental=True,
        fills=keeps_zero,
        error=errors.LOG1P,
    ),
    _function(
        "tanh",
        real,
        "jnp.tanh({0})",
        lambda np, x: np.tanh(x),
        "Hyperbolic tangent.",
        transcendental=True,
        fills=keeps_zero,
        error=errors.TANH,
    ),
    _function(
        "sigmoid",
        real,
        "jax.nn.sigmoid({0})",
        _sigmoid,
        "1 / (1 + exp(-x)).",
        transcendental=True,
        error=errors.SIGMOID,
    ),
    _function(
        "erf",
        real,
        "lax.erf({0})",
        _erf,
        "Error function.",
        transcendental=True,
        fills=keeps_zero,
        error=errors.ERF,
    ),
    _function(
        "gelu",
        real,
        "0.5 * {0} * (1.0 + lax.erf({0} * 0.5**0.5))",
        lambda np, x: 0.5 * x * (1.0 + _erf(np, x * math.sqrt(0.5))),
        "x times the normal distribution function, exactly (through erf).",
        precedence=TERM,
        transcendental=True,
        fills=keeps_zero,
        error=errors.GELU,
    ),
    _function(
        "gelu_tanh",
        real,
        "jax.nn.gelu({0}, approximate=True)",
        _gelu_tanh,
        "The tanh form of gelu.",
        transcendental=True,
        fills=keeps_zero,
        error=errors.GELU_TANH,
    ),
    _function(
        "silu",
        real,
        "jax.nn.silu({0})",
        lambda np, x: x * _sigmoid(np, x),
        "x * sigmoid(x).",
        transcendental=True,
        fills=keeps_zero,
        error=errors.SILU,
    ),
    _function(
        "relu",
        arithmetic,
        "jnp.maximum({0}, 0)",
        lambda np, x: np.maximum(x, 0),
        "x where positive, else 0.",
        fills=keeps_zero,
        error=errors.ORDERED,
    ),
    _function(
        "softplus",
        real,
        "jax.nn.softplus({0})",
        lambda np, x: np.logaddexp(x, 0.0),
        "log(1 + exp(x)).",
        transcendental=True,
        error=errors.SOFTPLUS,
    ),
)

_REDUCTIONS = (
    _reduction(
        "sum",
        counting,
        lambda np, x, axis: np.sum(x, axis),
        ZERO,
        "Sum; of booleans, how many hold.",
    ),
    _reduction(
        "mean",
        real,
        lambda np, x, axis: np.mean(x, axis),
        ZERO,
        "Sum over the true extent, divided by it.",
    ),
    _reduction(
        "max",
        ordering,
        lambda np, x, axis: np.max(x, axis),
        LOWEST,
        "Largest value.",
        errors.ORDERED,
    ),
    _reduction(
        "min",
        ordering,
        lambda np, x, axis: np.min(x, axis),
        HIGHEST,
        "Smallest value.",
        errors.ORDERED,
    ),
    _reduction("any", logical, lambda np, x, axis: np.any(x, axis), ZERO, "Whether any holds."),
    _reduction("all", logical, lambda np, x, axis: np.all(x, axis), ONE, "Whether all hold."),
    Operation(
        "argmax",
        "reduction",
        1,
        1,
        position,
        "jnp.argmax({0}, axis={axis}, keepdims=True)",
        lambda np, x, axis: np.argmax(x, axis),
        "Global position of the first largest value.",
        (LOWEST,),
        error=errors.FIRST_LARGEST,
    ),
    Operation(
        "argmin",
        "reduction",
        1,
        1,
        position,
        "jnp.argmin({0}, axis={axis}, keepdims=True)",
        lambda np, x, axis: np.argmin(x, axis),
        "Global position of the first smallest value.",
        (HIGHEST,),
        error=errors.FIRST_SMALLEST,
    ),
)

_ALONG_AN_AXIS = (
    Operation(
        "dot",
        "contraction",
        2,
        -1,
        product,
        "",
        lambda np, x, y: x * y,
        "Sum of products over the named axes; other shared axes are batch axes.",
        (ZERO, ZERO),
    ),
    Operation(
        "cumsum",
        "scan",
        1,
        1,
        ordering,
        "_cumsum({0}, {axis})",
        lambda np, x, axis: np.cumsum(x, axis),
        "Running sum along an axis.",
        (ZERO,),
    ),
    Operation(
        "linear_scan",
        "scan",
        3,
        1,
        real,
        "_linear_scan({0}, {1}, {axis}, {2})",
        _linear_scan,
        "h = a * h + x along an axis, from the state before it.",
        (ONE, ZERO, ZERO),
        axis_at=2,
    ),
    Operation(
        "roll",
        "shift",
        2,
        1,
        widening,
        "_roll({0}, {1}, {axis})",
        lambda np, x, shift, axis: np.roll(x, int(shift), axis),
        "Positions moved along a whole axis by a constant, around its end.",
    ),
    Operation(
        "last",
        "select",
        1,
        1,
        widening,
        "{0}[{last}]",
        lambda np, x, axis: np.take(x, -1, axis),
        "The value at the last position.",
    ),
)

OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (*_OPERATORS, *_FUNCTIONS, *_REDUCTIONS, *_ALONG_AN_AXIS)
}

FUNCTIONS: tuple[str, ...] = tuple(
    sorted([name for name, operation in OPERATIONS.items() if not operation.infix])
)
"""What a body may call by name; ``cast``, ``index`` and ``size`` are syntax and come on top."""
