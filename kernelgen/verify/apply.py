"""The operations of the table over bounded values.

Rounding follows the rows' error rules; what adds many terms follows Higham, *Accuracy and
Stability of Numerical Algorithms* (2002), section 4.2: whatever the order, n terms are summed with
an error of at most gamma(n - 1) times the sum of their magnitudes, gamma(n) = n u / (1 - n u).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelgen.language.operations import OPERATIONS, Operation
from kernelgen.verify.region import Named
from kernelgen.verify.values import (
    ROUNDOFF,
    Array,
    Bounded,
    arranged,
    dimensions,
    exactly,
    kind,
    rounded,
    settled,
)

FLOAT32_MAX = float(np.finfo(np.float32).max)
EXACT_INTEGER = 2.0**24
"""Every whole number up to here is a float32, and so is every partial sum of such."""


def gamma(terms: int) -> float:
    """The relative error of ``terms`` roundings."""
    return terms * ROUNDOFF / (1 - terms * ROUNDOFF)


def union(values: Sequence[Bounded]) -> tuple[str, ...]:
    """The axes of a result: those of the operands, in order of appearance."""
    return tuple(dict.fromkeys(axis for value in values for axis in value.axes))


def elementwise(
    operation: Operation, args: Sequence[Bounded], dtype: str, *, empty: bool = False
) -> Bounded:
    """An operation position by position.

    Args:
        operation: A row of the table.
        args: Its operands, converted to the types it works in.
        dtype: The element type of the result.
        empty: Some axis has no positions, so that 0 / 0 is 0: the mean of nothing.
    """
    axes = union(args)
    traced = dtype.startswith("weak")
    args = [arranged(_in_trace(arg, traced), axes) for arg in args]

    def evaluate(*values: Array) -> Array:
        with np.errstate(all="ignore"):
            result = np.asarray(operation.numpy(np, *values))
        if empty and operation.name == "divide":
            result = np.where((values[0] == 0) & (values[1] == 0), 0.0, result)
        return result

    center = evaluate(*(arg.center for arg in args))
    with np.errstate(all="ignore"):
        ends = operation.error.ends(np, evaluate, *args)
    unknown: Any = ends.unknown
    if kind(dtype) == "float" and operation.name != "where":
        unknown = unknown | _unknown(args)
    shape = center.shape
    lo, hi = np.broadcast_to(ends.lo, shape), np.broadcast_to(ends.hi, shape)
    value = settled(axes, dtype, center, lo, hi, unknown)
    if traced or kind(dtype) != "float":
        return value
    return rounded(_evaluated(operation, value, args))


def _in_trace(value: Bounded, traced: bool) -> Bounded:
    """A number of the trace becomes a float32 constant when it meets an array."""
    if traced or value.dtype != "weak float":
        return value
    return rounded(value)


def _unknown(args: Sequence[Bounded]) -> Any:
    masks = [arg.unknown for arg in args if kind(arg.dtype) == "float" and arg.lo is not arg.hi]
    found: Any = False
    for mask in masks:
        found = found | mask
    return found


def _evaluated(operation: Operation, value: Bounded, args: Sequence[Bounded]) -> Bounded:
    units = operation.error.units
    if units is None:
        return value
    sizes = [np.maximum(np.abs(arg.lo), np.abs(arg.hi)) for arg in args]
    with np.errstate(all="ignore"):
        below = _pad(units(np.abs(value.lo), *sizes), value.lo)
        above = _pad(units(np.abs(value.hi), *sizes), value.hi)
    if operation.name in EXACT_BY_POWERS_OF_TWO:
        settled_by = _power_of_two(args[-1].lo) & args[-1].exact & value.exact
        below, above = np.where(settled_by, 0, below), np.where(settled_by, 0, above)
    return settled(value.axes, value.dtype, value.center, value.lo - below, value.hi + above)


EXACT_BY_POWERS_OF_TWO = ("divide", "reciprocal")


def _power_of_two(x: Array) -> Array:
    return np.asarray(np.abs(np.frexp(x)[0]) == 0.5)


def _pad(units: Any, end: Array) -> Array:
    """What rounding adds to an end; an infinite end and the 0 of exp(-inf) stay as they are."""
    pad = ROUNDOFF * np.broadcast_to(units, end.shape)
    return np.where(np.isinf(end) | ((end == 0) & np.isnan(pad)), 0.0, pad)


def reduction(operation: Operation, value: Bounded, axes: tuple[str, ...], dtype: str) -> Bounded:
    """An operation that removes axes; over no positions at all it gives its identity."""
    dims = tuple(value.axes.index(axis) for axis in axes)
    left = tuple(axis for axis in value.axes if axis not in axes)
    count = int(np.prod([value.center.shape[dim] for dim in dims]))
    if count == 0:
        return _identity(operation, value, dims, left, dtype)
    if operation.name == "sum":
        return _sum(value, dims, left, dtype, count)
    axis: Any = dims if operation.axes < 0 else dims[0]

    def evaluate(array: Array, axis: Any = axis) -> Array:
        return np.asarray(operation.numpy(np, array, axis))

    rule = operation.error.ends
    ends = rule(np, evaluate, value, axis) if operation.axes > 0 else rule(np, evaluate, value)
    unknown: Any = ends.unknown
    if kind(value.dtype) == "float" and kind(dtype) == "float":
        unknown = unknown | np.any(value.unknown, axis)
    return settled(left, dtype, evaluate(value.center), ends.lo, ends.hi, unknown)


def _identity(
    operation: Operation, value: Bounded, dims: tuple[int, ...], left: tuple[str, ...], dtype: str
) -> Bounded:
    position = kind(dtype) != kind(value.dtype)
    fill = 0 if position else operation.identity_for(0, value.dtype)
    shape = [extent for dim, extent in enumerate(value.center.shape) if dim not in dims]
    return exactly(left, dtype, np.full(shape, fill))


def _sum(
    value: Bounded, dims: tuple[int, ...], left: tuple[str, ...], dtype: str, count: int
) -> Bounded:
    with np.errstate(all="ignore"):
        center, lo, hi = (np.sum(part, dims) for part in (value.center, value.lo, value.hi))
        if kind(dtype) == "int":
            return settled(left, dtype, center, lo, hi)
        size = _magnitude(value)
        if _whole(value, np.sum(_finite(size), dims)):
            return rounded(settled(left, dtype, center, lo, hi))
        total = np.sum(np.where(np.isfinite(size), size, 0.0), dims)
    return _accumulated(left, dtype, (center, lo, hi), gamma(count - 1) * total, total)


def _magnitude(value: Bounded) -> Array:
    return np.maximum(np.abs(value.lo), np.abs(value.hi))


def _accumulated(
    axes: tuple[str, ...], dtype: str, parts: tuple[Array, Array, Array], pad: Array, total: Array
) -> Bounded:
    """Widen a sum by its rounding; ``total`` is the sum of the finite terms' magnitudes.

    A sum of which the terms may overflow on the way is known only if they have one sign.
    """
    center, lo, hi = parts
    certain = ~np.isfinite(lo) & (np.isnan(lo) == np.isnan(hi)) & ~(lo < hi)
    with np.errstate(all="ignore"):
        lo, hi = np.where(certain, lo, lo - pad), np.where(certain, hi, hi + pad)
        one_sign = np.abs(center) >= total * (1 - 2.0**-20)
        unknown = (total * (1 + 2.0**-20) > FLOAT32_MAX) & ~one_sign
    return rounded(settled(axes, dtype, center, lo, hi, unknown))


def _whole(value: Bounded, total: Array) -> bool:
    """Whether every partial sum is a float32, whatever the order: the terms are exact multiples
    of one power of two, and their magnitudes add up to at most 2**24 of it. Terms that are not
    finite make a sum that is not, for certain."""
    if not np.all(value.exact):
        return False
    return bool(np.all(total <= EXACT_INTEGER * _quantum(_finite(value.lo))))


def _quantum(x: Array) -> float:
    """The largest power of two of which every element is a multiple; infinite for zeros."""
    mantissa, exponent = np.frexp(x[x != 0])
    if mantissa.size == 0:
        return np.inf
    bits = (np.abs(mantissa) * 2.0**53).astype(np.int64)
    lowest = (bits & -bits).astype(np.float64)
    return float(np.min(np.ldexp(lowest, exponent - 53)))


def mean(value: Bounded, axes: tuple[str, ...], extent: int, *, empty: bool) -> Bounded:
    """The sum over the positions of a step, divided by the true extent of the axes."""
    total = reduction(OPERATIONS["sum"], value, axes, "float32")
    count = exactly((), "float32", float(extent))
    return elementwise(OPERATIONS["divide"], (total, count), "float32", empty=empty)


def dot(
    x: Bounded, y: Bounded, contracted: tuple[str, ...], axes: tuple[str, ...], dtype: str
) -> Bounded:
    """A contraction: float operands with float32 sums, integers exactly.

    The products of narrow operands are exact in float32; those of float32 are rounded once.
    """
    count = int(np.prod([x.center.shape[x.axes.index(axis)] for axis in contracted]))

    def product(a: Array, b: Array) -> Array:
        return _einsum(a, x.axes, b, y.axes, axes)

    with np.errstate(all="ignore"):
        center = product(x.center, y.center)
        if kind(dtype) == "int":
            return settled(axes, dtype, center, *_integer_ends(x, y, product, center))
        if bool(np.all(x.exact)) and bool(np.all(y.exact)):
            return _exact_dot(x, y, product, count, axes, dtype)
        total = product(_finite(_magnitude(x)), _finite(_magnitude(y)))
        middle_x, middle_y = _middle(x), _middle(y)
        spread = product(np.abs(middle_x), _radius(y))
        spread = spread + product(_radius(x), np.abs(middle_y) + _radius(y))
        middle = product(middle_x, middle_y)
        lo, hi = middle - spread, middle + spread
    return _accumulated(axes, dtype, (center, lo, hi), gamma(count) * total, total)


def spoiled(product: Bounded, args: Sequence[Bounded], inside: Named) -> Bounded:
    """A ``dot`` with bounds: unknown where an infinite element meets a position outside.

    One operand is 0 there; whether the other one keeps its element, which makes the product NaN,
    depends on what else the tile sees.
    """
    if kind(product.dtype) != "float":
        return product
    unknown: Any = False
    for arg in args:
        wild = ~np.isfinite(arg.center)
        if np.any(wild):
            every = tuple(dict.fromkeys((*inside.axes, *arg.axes)))
            left = tuple(axis for axis in product.axes if axis in every)
            outside = (~inside.data).astype(float)
            met = _einsum(outside, inside.axes, wild.astype(float), arg.axes, left)
            unknown = unknown | (dimensions(met, left, product.axes) > 0)
    parts = (product.center, product.lo, product.hi)
    return settled(product.axes, product.dtype, *parts, unknown)


def _einsum(
    a: Array, a_axes: tuple[str, ...], b: Array, b_axes: tuple[str, ...], axes: tuple[str, ...]
) -> Array:
    if a.dtype.kind == "i" and _sums_fit(a, b):
        return _einsum(a.astype(float), a_axes, b.astype(float), b_axes, axes).astype(np.int64)
    number = {name: i for i, name in enumerate(dict.fromkeys((*a_axes, *b_axes)))}
    shared = [number[name] for name in axes]
    return np.asarray(
        np.einsum(
            a, [number[name] for name in a_axes], b, [number[name] for name in b_axes], shared,
            optimize=a.dtype.kind == "f",
        )
    )  # fmt: skip


def _sums_fit(a: Array, b: Array) -> bool:
    """Whether sums of products are exact in float64, which multiplies much faster."""
    largest = int(np.max(np.abs(a), initial=0)) * int(np.max(np.abs(b), initial=0))
    return largest * max(a.shape, default=1) < 2**53


def _exact_dot(
    x: Bounded, y: Bounded, product: Any, count: int, axes: tuple[str, ...], dtype: str
) -> Bounded:
    # Operands that may be flushed to zero are exact enough: the flushed ends are the smaller.
    center = product(x.center, y.center)
    finite_x, finite_y = _finite(x.center), _finite(y.center)
    total = product(np.abs(finite_x), np.abs(finite_y))
    quantum = _quantum(finite_x) * _quantum(finite_y)
    parts = (center, center, center)
    if np.all(total <= EXACT_INTEGER * quantum):
        return rounded(settled(axes, dtype, *parts))
    return _accumulated(axes, dtype, parts, gamma(count) * total, total)


def _finite(x: Array) -> Array:
    return np.where(np.isfinite(x), x, 0.0)


def _middle(value: Bounded) -> Array:
    return _finite(np.where(value.exact, value.center, 0.5 * (value.lo + value.hi)))


def _radius(value: Bounded) -> Array:
    radius = np.where(value.exact & np.isfinite(value.lo), 0.0, 0.5 * (value.hi - value.lo))
    return np.where(np.isnan(radius), np.inf, radius)


def _integer_ends(x: Bounded, y: Bounded, product: Any, center: Array) -> tuple[Array, Array]:
    if bool(np.all(x.exact)) and bool(np.all(y.exact)):
        return center, center
    spread_x = np.maximum(x.hi - x.center, x.center - x.lo)
    spread_y = np.maximum(y.hi - y.center, y.center - y.lo)
    spread = product(np.abs(x.center), spread_y) + product(spread_x, np.abs(y.center) + spread_y)
    return center - spread, center + spread


def cumsum(operation: Operation, value: Bounded, axis: str, dtype: str) -> Bounded:
    """A running sum, which a kernel may compute as a product with a triangle of ones."""
    dim = value.axes.index(axis)
    count = value.center.shape[dim]
    with np.errstate(all="ignore"):
        center, lo, hi = (np.cumsum(part, dim) for part in (value.center, value.lo, value.hi))
        if kind(dtype) == "int":
            return settled(value.axes, dtype, center, lo, hi)
        size = _magnitude(value)
        # A triangle multiplies what lies beyond by 0: one infinite term spoils the whole axis.
        unknown = np.any(~np.isfinite(value.center), dim, keepdims=True)
        if _whole(value, np.sum(_finite(size), dim)):
            return rounded(settled(value.axes, dtype, center, lo, hi, unknown))
        total = np.cumsum(_finite(size), dim)
        pad = gamma(count) * total
    value = _accumulated(value.axes, dtype, (center, lo, hi), pad, total)
    return settled(value.axes, dtype, value.center, value.lo, value.hi, unknown)


def linear_scan(
    operation: Operation, args: Sequence[Bounded], axis: str, axes: tuple[str, ...], dtype: str
) -> Bounded:
    """h = a * h + x along an axis.

    Whatever the order (one by one, or doubling spans), every term takes part in at most two
    roundings a position.
    """
    dim = axes.index(axis)
    a, x, h = (arranged(arg, axes) for arg in args)
    shape = np.broadcast_shapes(a.center.shape, x.center.shape)
    with np.errstate(all="ignore"):
        center = operation.numpy(np, a.center, x.center, h.center, dim)
        lo, hi = _scan_ends(shape, dim, a, x, h)
        sizes = [_magnitude(value) for value in (a, x, h)]
        total = operation.numpy(np, *sizes, dim)
        longest = np.prod(np.maximum(sizes[0], 1.0), dim, keepdims=True)
        quantum = min(_quantum(x.lo), _quantum(h.lo)) * min(1.0, _quantum(a.lo)) ** shape[dim]
        exact = bool(np.all(a.exact)) and bool(np.all(x.exact)) and bool(np.all(h.exact))
        if not (exact and bool(np.all(total * longest <= EXACT_INTEGER * quantum))):
            pad = gamma(2 * shape[dim]) * total
            lo, hi = lo - pad, hi + pad
        unknown = (longest > FLOAT32_MAX) | (total > FLOAT32_MAX)
    return rounded(settled(axes, dtype, center, lo, hi, unknown))


def _scan_ends(
    shape: tuple[int, ...], dim: int, a: Bounded, x: Bounded, h: Bounded
) -> tuple[Array, Array]:
    lo, hi = np.empty(shape), np.empty(shape)
    state_lo, state_hi = np.take(h.lo, 0, dim), np.take(h.hi, 0, dim)
    for t in range(shape[dim]):
        at = (slice(None),) * dim + (t,)
        a_lo, a_hi = (np.broadcast_to(part, shape)[at] for part in (a.lo, a.hi))
        x_lo, x_hi = (np.broadcast_to(part, shape)[at] for part in (x.lo, x.hi))
        products = [a_lo * state_lo, a_lo * state_hi, a_hi * state_lo, a_hi * state_hi]
        state_lo = np.minimum.reduce(products) + x_lo
        state_hi = np.maximum.reduce(products) + x_hi
        lo[at], hi[at] = state_lo, state_hi
    return lo, hi


def moved(operation: Operation, args: Sequence[Bounded], axis: str) -> Bounded:
    """An operation that only picks positions along an axis: ``roll`` and ``last``."""
    value, rest = args[0], args[1:]
    dim = value.axes.index(axis)
    extra = [arg.center for arg in rest]
    parts = (operation.numpy(np, part, *extra, dim) for part in (value.center, value.lo, value.hi))
    axes = value.axes
    if operation.kind == "select":
        axes = tuple(name for name in axes if name != axis)
    return Bounded(axes, value.dtype, *parts)
