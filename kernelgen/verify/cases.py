"""Sizes and tiles that bring out what goes wrong at the edges of tiles.

Interpreters take milliseconds for every step of a grid, so that the tiles of a spec are shrunk to
the smallest legal ones, and sizes follow from them: one tile, one position more or less, several
steps with a tail, less than a tile, one position, none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelgen.language import check
from kernelgen.spec import KernelSpec, Operand
from kernelgen.verify.region import extents

LANES, SUBLANES = 128, 8
"""The smallest legal block of the last two dimensions of an array."""

SINGLE = 16
"""Steps along a reduction axis of which a step sees one position."""

LONG = 1024
"""A reduction of this length, in several steps, shows an accumulator of bfloat16."""


@dataclass(frozen=True, slots=True)
class Case:
    """Sizes of all axes, and the tiles to run them with.

    Attributes:
        name: What the case is about.
        sizes: The extent of every axis.
        tiles: The tile of every axis that the generated function takes a tile for.
    """

    name: str
    sizes: dict[str, int]
    tiles: dict[str, int]


def tile_arguments(spec: KernelSpec) -> dict[str, int]:
    """The axes of which the generated function takes the tile, with the spec's own tiles."""
    return {name: axis.tile for name, axis in spec.axes.items() if axis.tile and axis.tile > 1}


def block_arguments(spec: KernelSpec, tiles: Mapping[str, int]) -> dict[str, int]:
    """The arguments of a generated function for some tiles; several sub-blocks in each."""
    arguments = {f"block_{axis}": tile for axis, tile in tiles.items()}
    for name, axis in spec.axes.items():
        if axis.subtile is not None and name in tiles:
            half = tiles[name] // 2
            arguments[f"subblock_{name}"] = min(axis.subtile, half if half % LANES == 0 else LANES)
    return arguments


def small_tiles(spec: KernelSpec) -> dict[str, int]:
    """The smallest tiles that every TPU generation takes, for the axes that have a tile."""
    return {axis: min(tile, _smallest(spec, axis)) for axis, tile in tile_arguments(spec).items()}


def _smallest(spec: KernelSpec, axis: str) -> int:
    if spec.axes[axis].subtile is not None:
        return 2 * LANES
    found = [
        (place, operand.memory_space)
        for operand in (*spec.inputs.values(), *spec.outputs.values())
        if operand.memory_space != "SMEM"
        for place in _places(operand.axes, axis)
    ]
    # Copies move whole tiles of memory: a block of two of them ends in part of it in some arrays.
    units = 2 if any(space == "ANY" for _, space in found) else 1
    places = {place for place, _ in found}
    if "last" in places:
        return units * LANES
    return units * SUBLANES if "second" in places else 2


def _places(axes: tuple[str, ...], axis: str) -> Iterator[str]:
    if axis not in axes:
        return
    from_end = len(axes) - 1 - axes.index(axis)
    if len(axes) > 1:
        yield {0: "last", 1: "second"}.get(from_end, "leading")
    else:
        yield "second"


def declared(spec: KernelSpec) -> list[Case]:
    """The cases of a spec, with the spec's own tiles."""
    return [
        Case(", ".join(f"{axis}={size}" for axis, size in sizes.items()), _all(spec, sizes), {})
        for sizes in spec.cases
    ]


def _all(spec: KernelSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes with those that follow from them."""
    if all(axis.size is None for axis in spec.axes.values()):
        return dict(sizes)
    return extents(sizes, check(spec).domain)


def _free(spec: KernelSpec) -> list[str]:
    """The axes whose sizes do not follow from others."""
    return [name for name, axis in spec.axes.items() if axis.size is None]


def generated(spec: KernelSpec) -> list[Case]:
    """Cases for the edges of tiles, with small tiles.

    Sizes differ from axis to axis where they can, because swapped axes of one size pass.
    """
    tiles = small_tiles(spec)

    def case(name: str, size: dict[str, int]) -> Case:
        return Case(name, _all(spec, {axis: size[axis] for axis in _free(spec)}), tiles)

    tile = {axis: tiles.get(axis, 1) for axis in spec.axes}
    picked = _picked(spec)
    whole = {
        axis: 3 + i if axis in picked else 2 * (33 + i)
        for i, axis in enumerate(spec.axes)
        if spec.axes[axis].tile is None
    }
    steps = _steps(spec)
    return [
        case("one tile", tile | whole),
        case("a tile less one", {a: max(1, t - 1) for a, t in tile.items()} | whole),
        case("a tile and one", {a: t + 1 for a, t in tile.items()} | whole),
        case("several steps", {a: steps[a] * t for a, t in tile.items()} | whole),
        case("several steps and a tail", _uneven(tile, steps) | whole),
        case("less than a tile", {a: 3 + i % 4 for i, a in enumerate(spec.axes)}),
        case("one position", dict.fromkeys(spec.axes, 1)),
    ]


def _steps(spec: KernelSpec) -> dict[str, int]:
    """How many tiles of every axis are several; where blocks are copied ahead, more than buffers.

    Only then does a copy follow another one in the same buffer.
    """
    steps = {axis: 4 if axis in (*spec.reduction, *_scalar_axes(spec)) else 2 for axis in spec.axes}
    for operand in (*spec.inputs.values(), *spec.outputs.values()):
        if spec.grid and operand.memory_space == "ANY" and spec.grid[-1] in operand.axes:
            buffers = getattr(operand, "buffers", None) or 2
            steps[spec.grid[-1]] = max(steps[spec.grid[-1]], buffers + 2)
    return steps


def _scalar_axes(spec: KernelSpec) -> set[str]:
    """Axes along which there are scalars: several of them, so that lengths differ."""
    scalars = [operand for operand in spec.inputs.values() if operand.memory_space == "SMEM"]
    return {axis for operand in scalars for axis in operand.axes}


def _picked(spec: KernelSpec) -> set[str]:
    """Axes of which scalars and single blocks are read only, such as pages and experts."""
    indices: list[tuple[Operand, Mapping[str, str]]] = []
    indices += [(operand, operand.index) for operand in spec.inputs.values()]
    indices += [(operand, operand.index) for operand in spec.outputs.values()]
    blocks = {
        axis
        for operand, index in indices
        if operand.memory_space != "SMEM"
        for axis in operand.axes
        if axis not in index
    }
    return {*spec.axes} - blocks - {*spec.grid}


def _uneven(tile: dict[str, int], steps: dict[str, int]) -> dict[str, int]:
    """Several tiles and at most half of one, of another length for every axis."""
    sizes = {}
    for number, (axis, length) in enumerate(tile.items(), 1):
        part = 1 + (length // 4 + number) % (length // 2) if length > 1 else 0
        sizes[axis] = (steps[axis] - 1) * length + part
    return sizes


def long_reduction(spec: KernelSpec) -> Case | None:
    """A case whose reductions are long and take several steps; None without reduction axes."""
    if not spec.reduction:
        return None
    tiles = small_tiles(spec)
    sizes = {axis: _short(spec, axis, tiles) for axis in _free(spec)}
    for axis in [axis for axis in spec.reduction if axis in sizes]:
        # Single positions, such as pages, are short: what they hold makes the reduction long.
        single = spec.axes[axis].tile == 1
        sizes[axis] = SINGLE if single else max(LONG, 4 * tiles.get(axis, 1))
        if axis in tiles:
            tiles[axis] = min(tiles[axis] * 2, LONG // 4)
    return Case("a long reduction", _all(spec, sizes), tiles)


def _short(spec: KernelSpec, axis: str, tiles: dict[str, int]) -> int:
    if spec.axes[axis].tile == 1:
        return 1
    if axis in _scalar_axes(spec):
        return 4
    return tiles.get(axis, 64)


def empty(spec: KernelSpec) -> list[Case]:
    """For every axis, a case in which it has no positions.

    Axes of which single blocks are read have some: there is no block of an array without any.
    """
    tiles, free, picked = small_tiles(spec), _free(spec), _picked(spec)
    return [
        Case(
            f"no {axis}",
            _all(spec, {a: 0 if a == axis else 3 + i for i, a in enumerate(free)}),
            tiles,
        )
        for axis in free
        if axis not in picked
    ]
