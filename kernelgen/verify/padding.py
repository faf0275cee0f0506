"""Padding: positions of inputs that no step has in bounds, so that what they hold cannot matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from kernelgen.language.dtypes import DTYPES
from kernelgen.language.program import Domain, Element, Program, Value, walk
from kernelgen.spec import KernelSpec
from kernelgen.verify.region import Named, Region, Sizes, both
from kernelgen.verify.values import Array, kind, numpy_dtype


def poison(
    spec: KernelSpec,
    program: Program,
    sizes: Sizes,
    arrays: Mapping[str, Array],
    number: float = np.nan,
) -> dict[str, Array]:
    """Inputs with padding that spoils whatever it reaches.

    Args:
        spec: The kernel.
        program: Its typed body.
        sizes: The extent of every axis.
        arrays: An array for every input.
        number: What float inputs hold there, where their type has it; integers hold the least.

    Returns:
        The arrays; those without padding as they are.
    """

    def fill(name: str) -> Any:
        dtype = spec.inputs[name].dtype
        if kind(dtype) == "int":
            return -(2 ** (DTYPES[dtype].bits - 1))
        finfo: Any = ml_dtypes.finfo
        largest = finfo(numpy_dtype(dtype)).max
        return number if type(largest)(number) > largest else np.nan

    return _filled(spec, program, sizes, arrays, fill)


def cleared(
    spec: KernelSpec, program: Program, sizes: Sizes, arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """Inputs with 0 for padding: for programs that multiply by 0 instead of leaving it out."""
    return _filled(spec, program, sizes, arrays, lambda name: 0)


def _filled(
    spec: KernelSpec, program: Program, sizes: Sizes, arrays: Mapping[str, Array], fill: Any
) -> dict[str, Array]:
    filled = dict(arrays)
    if not (program.domain.bounds or program.domain.indices):
        return filled
    region = Region(spec, program.domain, sizes, arrays, {})
    for name, visited in _visited(spec, program, region):
        array = np.array(arrays[name])
        array[~visited] = fill(name)
        filled[name] = array
    return filled


def _visited(spec: KernelSpec, program: Program, region: Region) -> Iterator[tuple[str, Array]]:
    """Inputs that may have padding, and which of their positions some step has in bounds."""
    aliased = {output.alias for output in spec.outputs.values()}
    tables = _tables(spec, program)
    for name, operand in spec.inputs.items():
        if name in aliased or kind(operand.dtype) == "bool":
            continue
        visited = np.zeros(region.inputs[name].shape, np.bool_)
        if operand.memory_space != "SMEM":
            _mark(visited, region, program.domain.seen[name], region.where(name))
        elif name in tables:
            for element in tables[name]:
                places = region.element_places(element)
                _mark(visited, region, element.type.axes, places)
        else:
            continue
        if not np.all(visited):
            yield name, visited


def _mark(visited: Array, region: Region, axes: tuple[str, ...], places: tuple[Array, ...]) -> None:
    """Mark the places that are in bounds for some position of the axes that ``axes`` lack."""
    if not places:
        visited[...] = True
        return
    found = Named((), np.asarray(True))
    for axis in axes:
        inside = region.inside((axis,))
        if inside is not None:
            lacked = [a for a in inside.axes if a not in axes]
            found = both(found, inside.any_along(lacked))
    inside_all = np.broadcast_to(found.along(axes), places[0].shape)
    visited[tuple(place[inside_all] for place in places)] = True


def _tables(spec: KernelSpec, program: Program) -> dict[str, list[Element]]:
    """Integer inputs that only choose blocks, so that nothing else sees what they hold."""
    domain = program.domain
    found: dict[str, list[Element]] = {}
    for element in _elements(
        value for index in domain.indices.values() for value in index.values()
    ):
        found.setdefault(element.name, []).append(element)
    others = {element.name for element in _elements(_other_values(domain, program))}
    return {
        name: elements
        for name, elements in found.items()
        if name not in others and name not in domain.ranges
    }


def _elements(values: Iterator[Value]) -> Iterator[Element]:
    for value in values:
        yield from (part for part in walk(value) if isinstance(part, Element))


def _other_values(domain: Domain, program: Program) -> Iterator[Value]:
    for bounds in domain.bounds.values():
        yield from (end for end in (bounds.start, bounds.stop) if end is not None)
    for _, statements in program.phases():
        yield from (statement.value for statement in statements)
