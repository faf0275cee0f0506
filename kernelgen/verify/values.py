"""Values of the derived reference: exact numbers, and the interval a correct kernel stays in.

A :class:`Bounded` holds, for every element, the number that the body means (``center``, computed
in float64 or exact integers) and the smallest and largest number that a correct kernel may hold
there (``lo``, ``hi``). A kernel computes in float32, may skip roundings (fused multiply-add,
excess precision), may flush subnormals to zero and may add in any order; all of this only ever
widens the interval, so that a kernel outside it is wrong. Where nothing can be told, the interval
is everything, and NaN is accepted too.

What a 32-bit machine does for certain is part of the meaning: integers wrap around, and a float
beyond the range of float32 is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from kernelgen.language.dtypes import DTYPES, INT32_MAX, INT32_MIN

Array = NDArray[Any]

ROUNDOFF = DTYPES["float32"].roundoff
SMALLEST_NORMAL = 2.0**-126
"""Of float32 and bfloat16; anything smaller may be flushed to zero."""

_NUMPY: dict[str, Any] = {"float": np.float64, "int": np.int64, "bool": np.bool_}


@dataclass(frozen=True, slots=True)
class Bounded:
    """A value with named axes; ``center``, ``lo`` and ``hi`` have one dimension for each."""

    axes: tuple[str, ...]
    dtype: str
    center: Array
    lo: Array
    hi: Array

    @property
    def exact(self) -> Array:
        """Where a correct kernel holds one number only."""
        return np.asarray((self.lo == self.hi) | (np.isnan(self.lo) & np.isnan(self.hi)))

    @property
    def unknown(self) -> Array:
        """Where a correct kernel may hold anything."""
        lowest, highest = everything(self.dtype)
        return np.asarray((self.lo == lowest) & (self.hi == highest))


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy type of a dtype of the language."""
    extended: Any = getattr(ml_dtypes, name, None)
    return np.dtype(extended or name)


def kind(dtype: str) -> str:
    """``float``, ``int`` or ``bool``; the numbers of a trace count by what they become."""
    if dtype.startswith("weak"):
        return dtype.removeprefix("weak ")
    return DTYPES[dtype].kind


def everything(dtype: str) -> tuple[float, float]:
    """The interval of every number that a 32-bit value can hold."""
    if kind(dtype) == "float":
        return -np.inf, np.inf
    return (INT32_MIN, INT32_MAX) if kind(dtype) == "int" else (False, True)


def exactly(axes: tuple[str, ...], dtype: str, data: Any) -> Bounded:
    """A value that every correct kernel holds as it is."""
    array: Array = np.asarray(data, _NUMPY[kind(dtype)])
    return Bounded(axes, dtype, array, array, array)


def read(axes: tuple[str, ...], dtype: str, array: Array) -> Bounded:
    """An operand as a kernel reads it: subnormal floats may count as zero."""
    value = exactly(axes, dtype, array.astype(_NUMPY[kind(dtype)]))
    if kind(dtype) != "float":
        return value
    return Bounded(axes, dtype, value.center, *_or_flushed(value.lo, value.hi))


def _or_flushed(lo: Array, hi: Array) -> tuple[Array, Array]:
    if np.any((np.abs(lo) < SMALLEST_NORMAL) & (lo > 0)):
        lo = np.where((np.abs(lo) < SMALLEST_NORMAL) & (lo > 0), 0.0, lo)
    if np.any((np.abs(hi) < SMALLEST_NORMAL) & (hi < 0)):
        hi = np.where((np.abs(hi) < SMALLEST_NORMAL) & (hi < 0), 0.0, hi)
    return lo, hi


def nearest(array: Array, dtype: str) -> Array:
    """Float64 numbers rounded to the nearest of a float type, as float64.

    A detour over float32 may round twice; so may a kernel, which holds float32 before it stores.
    """
    with np.errstate(all="ignore"):
        return array.astype(np.float32).astype(numpy_dtype(dtype)).astype(np.float64)


def rounded(value: Bounded, dtype: str = "float32") -> Bounded:
    """The value after one rounding to nearest, which a compiler may also have left out.

    The ends themselves were rounded to float64, which hides on which side of a tie they lie.
    """
    lo = np.fmin(value.lo, nearest(np.nextafter(value.lo, -np.inf), dtype))
    hi = np.fmax(value.hi, nearest(np.nextafter(value.hi, np.inf), dtype))
    lo, hi = _or_flushed(lo, hi)
    center = value.center
    if np.any(np.abs(center) > 3.4e38):
        wide = nearest(center, "float32")
        center = np.where(np.isinf(wide), wide, center)
        overflow = value.exact & np.isinf(wide)
        lo, hi = np.where(overflow, wide, lo), np.where(overflow, wide, hi)
    return settled(value.axes, value.dtype, center, lo, hi)


def stored(value: Bounded, dtype: str) -> tuple[Array, Array]:
    """The smallest and largest number in an output array of a float type.

    Rounding is monotone: what lies in an interval rounds to between its rounded ends.
    """
    lo, hi = nearest(value.lo, dtype), nearest(value.hi, dtype)
    saturated = (np.isnan(lo) & ~np.isnan(value.lo)) | (np.isnan(hi) & ~np.isnan(value.hi))
    lo, hi = np.where(saturated, -np.inf, lo), np.where(saturated, np.inf, hi)
    return _or_flushed(lo, hi)


def settled(
    axes: tuple[str, ...], dtype: str, center: Array, lo: Array, hi: Array, unknown: Any = False
) -> Bounded:
    """A value whose ends are numbers: everything, where they are not or nothing is known.

    Integers that left the 32 bits wrap around where they are exact.
    """
    if kind(dtype) == "float":
        meaningless = np.isnan(lo) & np.isnan(hi) & np.isnan(center)
        unknown = unknown | ((np.isnan(lo) | np.isnan(hi) | np.isnan(center)) & ~meaningless)
    elif kind(dtype) == "int":
        outside = (lo < INT32_MIN) | (hi > INT32_MAX)
        if np.any(outside):
            unknown = unknown | (outside & (lo != hi))
            center, lo, hi = wrapped(center), wrapped(lo), wrapped(hi)
    if np.any(unknown):
        lowest, highest = everything(dtype)
        lo, hi = np.where(unknown, lowest, lo), np.where(unknown, highest, hi)
    return Bounded(axes, dtype, center, lo, hi)


def wrapped(array: Array, bits: int = 32) -> Array:
    """Integers reduced to ``bits`` in two's complement."""
    half = 1 << (bits - 1)
    return ((array + half) & ((1 << bits) - 1)) - half


def convert(value: Bounded, dtype: str, rounds: bool | None = None) -> Bounded:
    """A cast: to floats it rounds to nearest, to integers it truncates.

    Args:
        value: What is cast.
        dtype: The element type it is cast to.
        rounds: Whether a cast to a narrow float really rounds. A compiler may leave that out
            (XLA does, where it calls excess precision allowed); None where it is not known.
    """
    source = kind(value.dtype)
    if value.dtype == dtype:
        return value
    if dtype.startswith("weak") or source == "bool" == kind(dtype):
        return _with_type(value, dtype)
    if kind(dtype) == "float":
        return _narrowed(_with_type(value, dtype), dtype, rounds)
    if source == "float":
        return _truncated(value, dtype)
    return _fitted(_with_type(value, dtype), dtype)


def _with_type(value: Bounded, dtype: str) -> Bounded:
    to = _NUMPY[kind(dtype)]
    if value.center.dtype == to:
        return Bounded(value.axes, dtype, value.center, value.lo, value.hi)
    return Bounded(
        value.axes, dtype, *(part.astype(to) for part in (value.center, value.lo, value.hi))
    )


def _narrowed(value: Bounded, dtype: str, rounds: bool | None) -> Bounded:
    value = rounded(value)
    if dtype == "float32" or rounds is False:
        return value
    lo, hi = stored(value, dtype)
    center = nearest(value.center, dtype) if rounds else value.center
    if rounds is None:
        lo, hi = np.fmin(lo, value.lo), np.fmax(hi, value.hi)
    return settled(value.axes, dtype, center, lo, hi, np.isinf(lo) & np.isinf(hi) & (lo < hi))


def _truncated(value: Bounded, dtype: str) -> Bounded:
    bits = DTYPES[dtype].bits
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    lo, hi, center = (np.trunc(part) for part in (value.lo, value.hi, value.center))
    with np.errstate(invalid="ignore"):
        unknown = ~((lo >= least) & (hi <= most))
    parts = [np.where(unknown | ~np.isfinite(p), 0, p).astype(np.int64) for p in (center, lo, hi)]
    return _span(value.axes, dtype, parts, unknown)


def _fitted(value: Bounded, dtype: str) -> Bounded:
    bits = DTYPES[dtype].bits
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    outside = (value.lo < least) | (value.hi > most)
    parts = [value.center, value.lo, value.hi]
    if np.any(outside):
        parts = [wrapped(part, bits) for part in parts]
    return _span(value.axes, dtype, parts, outside & (value.lo != value.hi))


def _span(axes: tuple[str, ...], dtype: str, parts: list[Array], unknown: Array) -> Bounded:
    center, lo, hi = parts
    half = 2 ** (DTYPES[dtype].bits - 1)
    lo, hi = np.where(unknown, -half, lo), np.where(unknown, half - 1, hi)
    return Bounded(axes, dtype, center, lo, hi)


def parts_of(value: Bounded) -> tuple[Array, Array, Array]:
    """What the value is, and the smallest and the largest number that it may be."""
    return value.center, value.lo, value.hi


def arranged(value: Bounded, axes: tuple[str, ...]) -> Bounded:
    """The value with its dimensions in the order of ``axes``, 1 for those it does not have."""
    if value.axes == axes:
        return value
    parts = (dimensions(part, value.axes, axes) for part in parts_of(value))
    return Bounded(axes, value.dtype, *parts)


def dimensions(array: Array, held: tuple[str, ...], axes: tuple[str, ...]) -> Array:
    """An array of axes ``held`` in the order of ``axes``, with 1 for those it does not have."""
    order = [held.index(axis) for axis in axes if axis in held]
    assert len(order) == len(held), (held, axes)
    lengths = dict(zip(held, array.shape, strict=True))
    return array.transpose(order).reshape([lengths.get(axis, 1) for axis in axes])


def chosen(axes: tuple[str, ...], condition: Array, value: Bounded, other: Any) -> Bounded:
    """The value where a condition along ``axes`` holds, and elsewhere ``other``.

    Args:
        axes: The axes of the condition.
        condition: Booleans.
        value: The value; it is broadcast along axes that only the condition has.
        other: A number that every correct kernel holds there, or another value of the same axes.
    """
    every = tuple(dict.fromkeys((*value.axes, *axes)))
    holds = dimensions(condition, axes, every)
    value = arranged(value, every)
    others = parts_of(arranged(other, every)) if isinstance(other, Bounded) else (other,) * 3
    pairs = zip(parts_of(value), others, strict=True)
    return Bounded(every, value.dtype, *(np.where(holds, part, rest) for part, rest in pairs))


def anything(axes: tuple[str, ...], dtype: str, shape: Sequence[int]) -> Bounded:
    """A value of which nothing is known."""
    lowest, highest = everything(dtype)
    data = np.full(shape, highest, _NUMPY[kind(dtype)])
    center = np.full_like(data, np.nan) if kind(dtype) == "float" else data
    return Bounded(axes, dtype, center, np.full_like(data, lowest), data)
