"""Seeded inputs by kind: each kind is after a kind of mistake.

random: the usual. integers: whole numbers from -4 to 4, of which sums are exact, so that results
are compared bit for bit. ones: accumulators that saturate. large, tiny, mixed: overflow,
underflow, cancellation. negative: a maximum that starts from 0. extremes: the ends of the integer
types. lowest, highest, edges: integers that name positions, see :mod:`kernelgen.verify.scalars`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args
from zlib import crc32

import ml_dtypes
import numpy as np

from kernelgen.language import check
from kernelgen.language.dtypes import DTYPES
from kernelgen.spec import KernelSpec
from kernelgen.verify.padding import poison
from kernelgen.verify.scalars import scalars
from kernelgen.verify.values import Array, kind, numpy_dtype

InputKind = Literal[
    "random",
    "integers",
    "ones",
    "large",
    "tiny",
    "mixed",
    "negative",
    "extremes",
    "lowest",
    "highest",
    "edges",
]
KINDS: tuple[InputKind, ...] = get_args(InputKind)

Shape = tuple[int, ...]
Generator = np.random.Generator

WIDE = 2.0**30
"""Squares of such numbers, summed, stay within float32."""


def draw(
    spec: KernelSpec,
    sizes: Mapping[str, int],
    kind_of_input: InputKind,
    seed: int,
    tiles: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Draw an array for every input of a kernel; its padding spoils whatever it reaches.

    Args:
        spec: The kernel.
        sizes: The extent of every axis.
        kind_of_input: What the numbers are like.
        seed: The same seed gives the same arrays.
        tiles: Tiles that differ from the spec's.

    Returns:
        Arrays of the inputs' dtypes; NumPy's own, or those of ml_dtypes.
    """
    arrays = without_padding(spec, sizes, kind_of_input, seed, tiles)
    if not is_irregular(spec):
        return arrays
    number = np.inf if kind_of_input == "large" else np.nan
    return poison(spec, check(spec), sizes, arrays, number)


def without_padding(
    spec: KernelSpec,
    sizes: Mapping[str, int],
    kind_of_input: InputKind,
    seed: int,
    tiles: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Draw as :func:`draw`, with the same numbers in padding as elsewhere."""
    drawn = scalars(spec, check(spec).domain, sizes, tiles or {}) if is_irregular(spec) else {}
    arrays = {}
    for name, operand in spec.inputs.items():
        # A generator of its own, so that another input does not change the numbers of this one.
        generator = np.random.default_rng([seed, crc32(name.encode())])
        shape = tuple(sizes[axis] for axis in operand.axes)
        if name in drawn:
            numbers = drawn[name].draw(kind_of_input, shape, generator)
            arrays[name] = numbers.astype(numpy_dtype(operand.dtype))
        else:
            arrays[name] = array(operand.dtype, shape, kind_of_input, generator)
    return arrays


def is_irregular(spec: KernelSpec) -> bool:
    """Whether some axis has bounds, some operand an index or some input a range."""
    return (
        any(axis.start is not None or axis.stop is not None for axis in spec.axes.values())
        or any(operand.index or operand.range is not None for operand in spec.inputs.values())
        or any(operand.index for operand in spec.outputs.values())
    )


def array(dtype: str, shape: Shape, kind_of_input: InputKind, generator: Generator) -> Array:
    """Draw one array of a dtype."""
    draws = {"float": _FLOATS, "int": _INTEGERS, "bool": _BOOLEANS}[kind(dtype)]
    numbers = draws.get(kind_of_input, draws["random"])(generator, shape, dtype)
    if kind(dtype) == "float":
        finfo: Any = ml_dtypes.finfo
        largest = float(finfo(numpy_dtype(dtype)).max)
        numbers = np.clip(numbers, -largest, largest)
    return np.asarray(numbers).astype(numpy_dtype(dtype))


Draw = Callable[[Generator, Shape, str], Any]


def _whole(generator: Generator, shape: Shape, dtype: str) -> Any:
    return generator.integers(-4, 5, shape)


def _ones(generator: Generator, shape: Shape, dtype: str) -> Any:
    return np.ones(shape)


def _normal(generator: Generator, shape: Shape, dtype: str) -> Any:
    return generator.standard_normal(shape)


def _scale(dtype: str) -> float:
    return 16.0 if DTYPES[dtype].bits == 8 else WIDE


_FLOATS: dict[str, Draw] = {
    "random": _normal,
    "integers": _whole,
    "ones": _ones,
    "large": lambda g, shape, dtype: _normal(g, shape, dtype) * _scale(dtype),
    "tiny": lambda g, shape, dtype: _normal(g, shape, dtype) / _scale(dtype),
    "mixed": lambda g, shape, dtype: _normal(g, shape, dtype) * 2.0 ** g.integers(-12, 13, shape),
    "negative": lambda g, shape, dtype: -1 - np.abs(_normal(g, shape, dtype)),
}


def _limits(dtype: str) -> tuple[int, int]:
    half = 1 << (DTYPES[dtype].bits - 1)
    return -half, half - 1


def _any_integer(generator: Generator, shape: Shape, dtype: str) -> Any:
    least, most = _limits(dtype)
    return generator.integers(max(least, -1000), min(most, 1000) + 1, shape)


def _negative_integer(generator: Generator, shape: Shape, dtype: str) -> Any:
    return generator.integers(max(_limits(dtype)[0], -1000), 0, shape)


def _extreme_integer(generator: Generator, shape: Shape, dtype: str) -> Any:
    least, most = _limits(dtype)
    return generator.choice([least, least + 1, -1, 0, 1, most - 1, most], shape)


_INTEGERS: dict[str, Draw] = {
    "random": _any_integer,
    "integers": _whole,
    "ones": _ones,
    "negative": _negative_integer,
    "extremes": _extreme_integer,
}

_BOOLEANS: dict[str, Draw] = {
    "random": lambda g, shape, dtype: g.integers(0, 2, shape),
    "ones": _ones,
    "negative": lambda g, shape, dtype: np.zeros(shape),
}


def kinds_for(spec: KernelSpec) -> list[InputKind]:
    """The kinds that differ for the dtypes of a kernel's inputs."""
    kinds_of_type = {kind(operand.dtype) for operand in spec.inputs.values()}
    tables = {"float": _FLOATS, "int": _INTEGERS, "bool": _BOOLEANS}
    kinds = [k for k in KINDS if any(k in tables[each] for each in kinds_of_type)]
    if is_irregular(spec) and scalars(spec, check(spec).domain, dict.fromkeys(spec.axes, 1), {}):
        kinds += ["lowest", "highest", "edges"]
    return kinds
