"""Comparison of a kernel's outputs with what they have to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernelgen.verify.values import Array, Bounded, kind, numpy_dtype


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An output that no correct kernel gives.

    Attributes:
        output: Its name.
        message: What is wrong with it.
        index: Where the worst element is; empty where the whole array is wrong.
        actual: The element that the kernel gave.
        expected: What the body means there.
        lo: The smallest number that a correct kernel gives there.
        hi: The largest one.
        count: How many elements are outside their interval.
        excess: How many times the interval's half width the worst element is off; infinite where
            only one number is right.
    """

    output: str
    message: str
    index: tuple[int, ...] = ()
    actual: float = 0.0
    expected: float = 0.0
    lo: float = 0.0
    hi: float = 0.0
    count: int = 0
    excess: float = 0.0


def compare(ways: Mapping[str, tuple[Bounded, ...]], actual: Mapping[str, Array]) -> list[Mismatch]:
    """Find the outputs of a kernel that are wrong.

    Args:
        ways: For every output the values of :func:`kernelgen.verify.reference.expected`.
        actual: The array that the kernel gave for every output.

    Returns:
        One mismatch for every wrong output; empty for a correct kernel.
    """
    found = [_compare(name, choices, actual[name]) for name, choices in ways.items()]
    return [mismatch for mismatch in found if mismatch is not None]


def _compare(name: str, ways: tuple[Bounded, ...], actual: Array) -> Mismatch | None:
    wanted = numpy_dtype(ways[0].dtype)
    if actual.dtype != wanted:
        return Mismatch(name, f"{name} has dtype {actual.dtype} instead of {wanted}")
    if actual.shape != ways[0].center.shape:
        shape = ways[0].center.shape
        return Mismatch(name, f"{name} has shape {actual.shape} instead of {shape}")
    numbers = actual.astype(ways[0].center.dtype)
    wrong = np.logical_and.reduce([~_inside(value, numbers) for value in ways])
    if not np.any(wrong):
        return None
    return _worst(name, ways, numbers, wrong)


def _inside(value: Bounded, numbers: Array) -> Array:
    inside = (numbers >= value.lo) & (numbers <= value.hi)
    if kind(value.dtype) == "float":
        inside |= value.unknown | (np.isnan(numbers) & np.isnan(value.lo) & np.isnan(value.hi))
    return np.asarray(inside)


def _worst(name: str, ways: tuple[Bounded, ...], numbers: Array, wrong: Array) -> Mismatch:
    excesses = [_excess(value, numbers) for value in ways]
    excess = np.where(wrong, np.minimum.reduce(excesses), -1.0)
    at = tuple(int(i) for i in np.unravel_index(np.argmax(excess), excess.shape))
    way = ways[int(np.argmin([each[at] for each in excesses]))]
    count = int(np.sum(wrong))
    lo, hi = float(way.lo[at]), float(way.hi[at])
    actual, expected = float(numbers[at]), float(way.center[at])
    place = f"{name}[{', '.join(str(i) for i in at)}]"
    span = f"be {lo!r}" if lo == hi else f"lie between {lo!r} and {hi!r}"
    message = f"{place} is {actual!r} and has to {span}; {count} of {wrong.size} elements are off"
    return Mismatch(name, message, at, actual, expected, lo, hi, count, float(excess[at]))


def _excess(value: Bounded, numbers: Array) -> Array:
    """How far outside, in half widths; what is not finite is as far off as can be."""
    with np.errstate(all="ignore"):
        lo, hi = value.lo.astype(float), value.hi.astype(float)
        off = np.maximum(lo - numbers, numbers - hi)
        ratio = 1 + off / (0.5 * (hi - lo))
    return np.where(np.isfinite(ratio), ratio, np.inf)
