"""How far a correct kernel may be from an operation's exact result.

An :class:`ErrorRule` says how an operation treats operands that are only known to lie in an
interval, and how well one evaluation in float32 is rounded. Both are stated for the generated
form of the operation (its ``jnp`` text) on a CPU and on a TPU, so that one rule fits both.

Like the operation table, this module is given NumPy instead of importing it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple, Protocol

from kernelgen.records import record


class Interval(Protocol):
    """An operand: every value from ``lo`` to ``hi``, element by element."""

    @property
    def lo(self) -> Any:
        """The smallest possible value."""

    @property
    def hi(self) -> Any:
        """The largest possible value."""


class Ends(NamedTuple):
    """The smallest and the largest possible result, and where neither can be told."""

    lo: Any
    hi: Any
    unknown: Any = False


@record
class ErrorRule:
    """One row's rule.

    Attributes:
        ends: The result's interval from the operands' intervals, before rounding:
            ``ends(np, evaluate, *operands)``.
        units: How far one evaluation in float32 may be off, in unit roundoffs (2**-24), from the
            magnitudes of the result and the operands: ``units(result, *operands)``. None where
            the result is the exact one, rounded to nearest.
    """

    ends: Callable[..., Ends]
    units: Callable[..., Any] | None = None


def corners(np: Any, evaluate: Callable[..., Any], *operands: Interval) -> Ends:
    """The ends of an operation that is monotone in each operand while the others are fixed."""
    if not any(_varies(np, operand) for operand in operands):
        value = evaluate(*(operand.lo for operand in operands))
        return Ends(value, value)
    values = [evaluate(*choice) for choice in product(*((o.lo, o.hi) for o in operands))]
    lo = hi = values[0]
    for value in values[1:]:
        lo, hi = np.minimum(lo, value), np.maximum(hi, value)
    return Ends(lo, hi)


def ordered(np: Any, evaluate: Callable[..., Any], *operands: Interval) -> Ends:
    """The ends of an operation that picks by size: anything, where NaN has no size.

    XLA on a CPU may drop NaN from a maximum (``xla_cpu_enable_fast_min_max``).
    """
    lo, hi, _ = corners(np, evaluate, *operands)
    return Ends(lo, hi, np.isnan(lo) | np.isnan(hi))


def _varies(np: Any, operand: Interval) -> bool:
    if operand.lo is operand.hi:
        return False
    return not np.array_equal(operand.lo, operand.hi, equal_nan=operand.lo.dtype.kind == "f")


def even(np: Any, evaluate: Callable[..., Any], x: Interval, *rest: Interval) -> Ends:
    """The ends of a function of the magnitude of its first operand that grows with it."""
    lo, hi, _ = corners(np, evaluate, x, *rest)
    around_zero = (x.lo < 0) & (x.hi > 0)
    return Ends(np.where(around_zero, np.minimum(lo, evaluate(0 * x.lo, *_lows(rest))), lo), hi)


def whole_power(np: Any, evaluate: Callable[..., Any], x: Interval, n: Interval) -> Ends:
    """The ends of ``x**n`` with a constant n: even powers turn around at 0."""
    if int(np.max(n.lo)) % 2 == 0:
        return even(np, evaluate, x, n)
    return corners(np, evaluate, x, n)


def _lows(operands: tuple[Interval, ...]) -> tuple[Any, ...]:
    return tuple(operand.lo for operand in operands)


def steepest(slope: float) -> Callable[..., Ends]:
    """The ends of a smooth function from a bound on its slope."""

    def ends(np: Any, evaluate: Callable[..., Any], x: Interval) -> Ends:
        middle = 0.5 * (x.lo + x.hi)
        exact = x.lo == x.hi
        value = evaluate(np.where(exact, x.lo, middle))
        spread = np.where(exact, 0.0, 0.5 * slope * (x.hi - np.where(exact, 0.0, x.lo)))
        return Ends(value - spread, value + spread)

    return ends


def quotient(np: Any, evaluate: Callable[..., Any], *operands: Interval) -> Ends:
    """The ends of an operation with a pole where its last operand is 0.

    Anything may come out there, because zeros have signs that nobody keeps track of: x / 0 is
    infinite either way. Only 0 / 0 is certain: NaN, or what ``evaluate`` makes of it.
    """
    divisor = operands[-1]
    lo, hi, _ = corners(np, evaluate, *operands)
    pole = (divisor.lo <= 0) & (divisor.hi >= 0)
    certain = (divisor.lo == divisor.hi) & ~np.isinf(lo) & ~np.isinf(hi)
    return Ends(lo, hi, pole & ~certain)


def whole_quotient(np: Any, evaluate: Callable[..., Any], x: Interval, y: Interval) -> Ends:
    """The ends of ``//``: anything, where the divisor may be 0."""
    lo, hi, _ = corners(np, evaluate, x, y)
    return Ends(lo, hi, (y.lo <= 0) & (y.hi >= 0))


def remainder(np: Any, evaluate: Callable[..., Any], x: Interval, y: Interval) -> Ends:
    """The ends of ``%``: from 0 to the divisor, where the quotient's whole part may change."""
    lo, hi, _ = corners(np, evaluate, x, y)
    least, most, _ = corners(np, lambda x, y: x // y, x, y)
    jumps = least != most
    lo = np.where(jumps, np.minimum(0, y.lo), lo)
    hi = np.where(jumps, np.maximum(0, y.hi), hi)
    return Ends(lo, hi, (y.lo <= 0) & (y.hi >= 0))


def equality(np: Any, evaluate: Callable[..., Any], x: Interval, y: Interval) -> Ends:
    """The ends of ``==``: certain where both are exact, or cannot meet."""
    same = (x.lo == x.hi) & (y.lo == y.hi) & (x.lo == y.lo)
    return Ends(same, (x.lo <= y.hi) & (y.lo <= x.hi))


def inequality(np: Any, evaluate: Callable[..., Any], x: Interval, y: Interval) -> Ends:
    """The ends of ``!=``."""
    same, meet, _ = equality(np, evaluate, x, y)
    return Ends(~meet, ~same)


def choice(np: Any, evaluate: Callable[..., Any], c: Interval, x: Interval, y: Interval) -> Ends:
    """The ends of ``where``: both branches, where the condition may go either way."""
    either = c.lo != c.hi
    lo = np.where(either, np.minimum(x.lo, y.lo), np.where(c.lo, x.lo, y.lo))
    hi = np.where(either, np.maximum(x.hi, y.hi), np.where(c.lo, x.hi, y.hi))
    return Ends(lo, hi)


def first_largest(np: Any, evaluate: Callable[..., Any], x: Interval, axis: int) -> Ends:
    """The ends of ``argmax``: from the first to the last position that may hold the largest."""
    leaders = x.hi >= np.max(x.lo, axis, keepdims=True)
    return _positions(np, evaluate, x, leaders, axis)


def first_smallest(np: Any, evaluate: Callable[..., Any], x: Interval, axis: int) -> Ends:
    """The ends of ``argmin``."""
    leaders = x.lo <= np.min(x.hi, axis, keepdims=True)
    return _positions(np, evaluate, x, leaders, axis)


def _positions(np: Any, evaluate: Callable[..., Any], x: Interval, leaders: Any, axis: int) -> Ends:
    # NaN has no size: it may win or lose.
    leaders = leaders | np.any(np.isnan(x.lo), axis, keepdims=True)
    extent = leaders.shape[axis]
    certain = np.all(~leaders | (x.lo == x.hi), axis)
    single = evaluate(x.lo, axis)
    first = np.argmax(leaders, axis)
    last = extent - 1 - np.argmax(np.flip(leaders, axis), axis)
    return Ends(np.where(certain, single, first), np.where(certain, single, last))


def relative(units: float) -> Callable[..., Any]:
    """Off by at most ``units`` roundoffs of the result."""
    return lambda result, *operands: units * result


ROUNDED = ErrorRule(corners)
"""One correctly rounded float32 operation, monotone in each operand: also whatever is exact."""

ORDERED = ErrorRule(ordered)

QUOTIENT = ErrorRule(quotient, relative(3))
"""Division, by a constant as a product with its reciprocal or, on a TPU, in Newton steps."""

WHOLE_QUOTIENT = ErrorRule(whole_quotient, lambda result, x, y: 3 * result * (result > 2.0**22))
REMAINDER = ErrorRule(remainder)
POWER = ErrorRule(whole_power, lambda result, x, n: n * result)
MAGNITUDE = ErrorRule(even)
EQUALITY = ErrorRule(equality)
INEQUALITY = ErrorRule(inequality)
CHOICE = ErrorRule(choice)
FIRST_LARGEST = ErrorRule(first_largest)
FIRST_SMALLEST = ErrorRule(first_smallest)

# The largest errors of XLA's float32 functions on a CPU, over 300,000 arguments each (jax 0.10.2
# and 0.12.0), in roundoffs of the result: exp 1.4, log 2.0, log1p 3.5, sqrt 1.0, rsqrt 1.3,
# tanh 4.9, sigmoid 2.4, erf 5.2, silu 3.1, softplus 3.3; in roundoffs of the operand: gelu 3.6,
# gelu_tanh 2.9. The rules allow about twice that. What is built on exp also allows a roundoff of
# its operand, because the TPU computes 2**(x * log2(e)) from a rounded product.
FLUSHED = 2.0**-126 / 2.0**-24
"""The smallest normal number in roundoffs: an intermediate result below it may become 0."""

SQRT = ErrorRule(corners, relative(3))
RSQRT = ErrorRule(quotient, relative(4))
EXP = ErrorRule(corners, lambda result, x: (4 + x) * result)
LOG = ErrorRule(corners, lambda result, x: 4 * result + 1)
LOG1P = ErrorRule(corners, relative(8))
TANH = ErrorRule(corners, relative(10))
SIGMOID = ErrorRule(corners, lambda result, x: (6 + x) * result)
ERF = ErrorRule(corners, relative(10))
SILU = ErrorRule(steepest(1.1), lambda result, x: (7 + x) * result + x * FLUSHED)
SOFTPLUS = ErrorRule(corners, lambda result, x: (8 + x) * result)

# Both forms of gelu multiply x by a sum that cancels for negative x.
GELU = ErrorRule(steepest(1.13), lambda result, x: 8 * x)
GELU_TANH = ErrorRule(steepest(1.13), lambda result, x: 8 * x)
