"""What operations make of the numbers that masks put outside an extent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

Fill = float | Literal["any"] | None
"""What a value holds outside an axis's extent: a known number, any number that is no NaN or
infinity (``"any"``: the value does not vary along the axis), or nothing to rely on (None)."""

Fills = Callable[[tuple[Fill, ...]], Fill]
"""From what the operands hold outside the extent to what the result holds there."""


def unknown(fills: tuple[Fill, ...]) -> Fill:
    """Nothing to rely on."""
    return None


def keeps_zero(fills: tuple[Fill, ...]) -> Fill:
    """A function that is 0 at 0."""
    return 0.0 if fills[0] == 0 else None


def exponential(fills: tuple[Fill, ...]) -> Fill:
    """``exp``: 0 at -inf, 1 at 0."""
    return {-math.inf: 0.0, 0.0: 1.0}.get(fills[0]) if isinstance(fills[0], float | int) else None


def logarithm(fills: tuple[Fill, ...]) -> Fill:
    """``log``: -inf at 0, 0 at 1."""
    return {0.0: -math.inf, 1.0: 0.0}.get(fills[0]) if isinstance(fills[0], float | int) else None


def choice(fills: tuple[Fill, ...]) -> Fill:
    """``where``: the value chosen by a known condition."""
    condition, x, y = fills
    return (x if condition else y) if isinstance(condition, float | int) else None


def _numbers(fills: tuple[Fill, ...]) -> list[float]:
    return [fill for fill in fills if isinstance(fill, float | int)]


def known(function: Callable[..., float]) -> Fills:
    """The function of known numbers, where it is a number itself."""

    def fill(fills: tuple[Fill, ...]) -> Fill:
        numbers = _numbers(fills)
        if len(numbers) < len(fills):
            return None
        result = function(*numbers)
        return None if math.isnan(result) else result

    return fill


def infinite(function: Callable[..., float], signs: tuple[int, int]) -> Fills:
    """A sum: an infinite term decides it whatever finite number the other is."""
    both = known(function)

    def fill(fills: tuple[Fill, ...]) -> Fill:
        for i, sign in enumerate(signs):
            if fills[1 - i] == "any" and fills[i] in (math.inf, -math.inf):
                (number,) = _numbers((fills[i],))
                return sign * number
        return both(fills)

    return fill
