"""Draws of integers that name positions: lengths, offsets, page tables, and inputs with a range.

What goes wrong at bounds goes wrong at their ends and at the edges of tiles, and a kernel has to
stand values that no caller should pass: negative lengths, and lengths beyond the array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kernelgen.language.dtypes import DTYPES
from kernelgen.language.indexing import combined
from kernelgen.language.program import (
    Apply,
    Constant,
    Domain,
    Element,
    Type,
    Value,
    children,
    is_static,
    walk,
)
from kernelgen.language.types import WEAK_INT
from kernelgen.spec import KernelSpec
from kernelgen.verify.region import Sizes, extent
from kernelgen.verify.values import Array

NEGATIVE, BEYOND = -3, 5
"""A length that no caller should pass, and by how many positions another one is too long."""

ONE = Constant(1, Type((), WEAK_INT))


@dataclass(frozen=True, slots=True)
class Scalars:
    """What an input's integers are drawn from.

    Attributes:
        least: The least value that a caller may pass.
        most: The greatest one.
        edges: Values at which something changes, those included that no caller should pass.
        rising: The dimension along which the values rise from 0 to ``most``, as offsets of groups
            do; None for others.
    """

    least: int
    most: int
    edges: tuple[int, ...]
    rising: int | None = None

    def draw(self, kind: str, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """An array of a kind: ``lowest``, ``highest``, ``edges``; of others, at random."""
        if self.rising is not None:
            return self._offsets(kind, shape, self.rising, generator)
        return self._any(kind, shape, generator)

    def _any(self, kind: str, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        if kind == "lowest":
            return np.full(shape, min(self.edges))
        if kind == "highest":
            return np.full(shape, max(self.edges))
        if kind == "edges":
            count = int(np.prod(shape))
            values = generator.permutation(np.asarray(self.edges))
            return generator.permutation(np.resize(values, count)).reshape(shape)
        return generator.integers(self.least, self.most + 1, shape)

    def _offsets(
        self, kind: str, shape: tuple[int, ...], dim: int, generator: np.random.Generator
    ) -> Array:
        """Rising from 0 to the most, with empty groups between."""
        array = np.sort(self._any(kind, shape, generator), dim)
        lines = np.moveaxis(array, dim, -1)
        if lines.shape[-1] > 3:
            at = int(generator.integers(1, lines.shape[-1] - 2))
            lines[..., at + 1] = lines[..., at]
        lines[..., -1:] = self.most
        lines[..., :1] = 0
        return array


def scalars(
    spec: KernelSpec, domain: Domain, sizes: Sizes, tiles: Mapping[str, int]
) -> dict[str, Scalars]:
    """How to draw the inputs whose integers name positions, and those that declare a range.

    Args:
        spec: The kernel.
        domain: Its bounds, indices and ranges.
        sizes: The extent of every axis.
        tiles: Tiles that differ from the spec's.
    """
    rising = dict(_rising(domain))
    found: dict[str, Scalars] = {}
    for name, axis, is_bound in _named(spec, domain):
        size = sizes[axis]
        tile = tiles.get(axis) or spec.axes[axis].tile or size
        if name in rising:
            found[name] = Scalars(0, size, _edges(0, size, tile), rising[name])
        elif name not in domain.ranges and name not in found:
            most = size if is_bound else max(size - 1, 0)
            edges = (*_edges(0, most, tile), NEGATIVE, size + BEYOND)
            found[name] = Scalars(0, most, edges)
    for name, limits in domain.ranges.items():
        if name not in found:
            bits = DTYPES[spec.inputs[name].dtype].bits
            least = extent(limits[0], sizes)
            most = min(max(least, extent(limits[1], sizes)), 2 ** (bits - 1) - 1)
            tile = next((_tile(spec, tiles, a) for n, a, _ in _named(spec, domain) if n == name), 0)
            found[name] = Scalars(least, most, _edges(least, most, tile))
    return found


def _tile(spec: KernelSpec, tiles: Mapping[str, int], axis: str) -> int:
    return tiles.get(axis) or spec.axes[axis].tile or 0


def _edges(least: int, most: int, tile: int) -> tuple[int, ...]:
    near = [least, least + 1, tile - 1, tile, tile + 1, most]
    return tuple(dict.fromkeys(value for value in near if least <= value <= most))


def _named(spec: KernelSpec, domain: Domain) -> Iterator[tuple[str, str, bool]]:
    """Inputs whose integers name positions, the axis of these, and whether they are its bounds."""
    for axis, bounds in domain.bounds.items():
        for end in (bounds.start, bounds.stop):
            if end is not None:
                yield from ((n, a, a == axis) for n, a in _positions(spec, end, axis))
    for index in domain.indices.values():
        for axis, value in index.items():
            yield from ((n, a, False) for n, a in _positions(spec, value, axis))


def _positions(spec: KernelSpec, value: Value, axis: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Element):
        yield value.name, axis
        for index, own in zip(value.indices, spec.inputs[value.name].axes, strict=True):
            yield from _positions(spec, index, own)
    else:
        for child in children(value):
            yield from _positions(spec, child, axis)


def _rising(domain: Domain) -> Iterator[tuple[str, int]]:
    """Inputs that hold the start of a group and, one further along a dimension, its stop."""
    for bounds in domain.bounds.values():
        if bounds.start is None or bounds.stop is None:
            continue
        starts = [part for part in walk(bounds.start) if isinstance(part, Element)]
        stops = [part for part in walk(bounds.stop) if isinstance(part, Element)]
        for start in starts:
            for stop in stops:
                dim = _next_along(start, stop)
                if dim is not None:
                    yield start.name, dim


def _next_along(start: Element, stop: Element) -> int | None:
    """The dimension along which an element is the next one after another."""
    if start.name != stop.name:
        return None
    pairs = [(_bare(x), _bare(y)) for x, y in zip(start.indices, stop.indices, strict=True)]
    differing = [dim for dim, (x, y) in enumerate(pairs) if x != y]
    if len(differing) != 1:
        return None
    x, y = pairs[differing[0]]
    is_next = y in (combined("add", (x, ONE)), combined("add", (ONE, x)))
    return differing[0] if is_next else None


def _bare(value: Value) -> Value:
    """An index without the limits that keep it on its axis."""
    while isinstance(value, Apply) and value.operation.name in ("minimum", "maximum"):
        varying = [arg for arg in value.args if not is_static(arg)]
        if len(varying) != 1:
            break
        value = varying[0]
    return value
