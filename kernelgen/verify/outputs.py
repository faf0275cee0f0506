"""Outputs as arrays, from their values along the axes that they have in the body.

Positions outside the bounds are not computed: they are 0, what an aliased input holds, or nothing
to rely on. Where an index chooses the blocks, the rest of the array is not written.
"""

from __future__ import annotations

import numpy as np

from kernelgen.language.program import Groups
from kernelgen.verify.region import Named, Region, both
from kernelgen.verify.values import Array, Bounded, anything, arranged, chosen, parts_of, read


def finished(region: Region, name: str, value: Bounded) -> Bounded:
    """An output when the kernel is done.

    Args:
        region: All positions.
        name: The output's name.
        value: What its body makes of every position, in bounds or not.

    Returns:
        The output, with its dimensions in the order of its array.
    """
    output, seen = region.spec.outputs[name], region.domain.seen[name]
    value = _side_by_side(region, name, _without_idle_rows(region, value))
    told = [axis for axis in seen if {*region.domain.axes_of_bounds((axis,))} <= {*seen}]
    inside = region.inside(told)
    groups = region.domain.groups.get(name)
    if groups is not None:
        told = [axis for axis in seen if axis != groups.axis]
        inside = _any_group(region, groups, region.inside(told))
    if output.index:
        return _scattered(region, name, value, inside)
    if inside is None:
        return arranged(value, output.axes)
    rest: Bounded | float = 0
    if output.alias is not None:
        rest = _aliased(region, name)
    elif output.outside == "unspecified":
        rest = anything(seen, output.dtype, value.center.shape)
    return arranged(chosen(inside.axes, inside.data, value, rest), output.axes)


def _any_group(region: Region, groups: Groups, others: Named | None) -> Named:
    """The positions that are in some group, and in the bounds of the other axes."""
    inside = region.inside((groups.axis,))
    assert inside is not None
    anywhere = inside.any_along((groups.group,))
    return anywhere if others is None else both(anywhere, others)


def _side_by_side(region: Region, name: str, value: Bounded) -> Bounded:
    """The values of groups, each at the positions of its group."""
    groups = region.domain.groups.get(name)
    if groups is None or 0 in value.center.shape:
        return value if groups is None else _first(value, groups.group)
    inside = region.inside((groups.axis,))
    assert inside is not None
    order = (groups.group, groups.axis)
    # A position in several groups belongs to the last, which is written over the others.
    count = region.sizes[groups.group]
    last = count - 1 - np.argmax(inside.along(order)[::-1], 0)
    axes = tuple(axis for axis in value.axes if axis != groups.group)
    place = Named((groups.axis,), last).along(axes)[np.newaxis]
    parts = (
        np.take_along_axis(part, np.broadcast_to(place, (1, *part.shape[1:])), 0)[0]
        for part in parts_of(arranged(value, (groups.group, *axes)))
    )
    return Bounded(axes, value.dtype, *parts)


def _first(value: Bounded, axis: str) -> Bounded:
    """The shape of a value without an axis, for an array without positions or groups."""
    left = tuple(a for a in value.axes if a != axis)
    shape = [n for a, n in zip(value.axes, value.center.shape, strict=True) if a != axis]
    return Bounded(left, value.dtype, *(np.zeros(shape, part.dtype) for part in parts_of(value)))


def _without_idle_rows(region: Region, value: Bounded) -> Bounded:
    """The value with 0 where an axis that it does not have has nothing in bounds."""
    for axis, bounds in region.domain.bounds.items():
        if region.sizes[axis] == 0 and axis not in value.axes:
            value = chosen((), np.asarray(False), value, 0)
        if axis in value.axes or not {*bounds.axes} <= {*value.axes}:
            continue
        inside = region.inside((axis,))
        assert inside is not None
        rows = inside.any_along((axis,))
        value = chosen(rows.axes, rows.data, value, 0)
    return value


def _aliased(region: Region, name: str) -> Bounded:
    """What the array of an output holds before the kernel runs."""
    output = region.spec.outputs[name]
    if output.alias is None:
        return anything(output.axes, output.dtype, [region.sizes[axis] for axis in output.axes])
    return read(output.axes, output.dtype, np.asarray(region.inputs[output.alias]))


def _scattered(region: Region, name: str, value: Bounded, inside: Named | None) -> Bounded:
    """The array with the positions that are in bounds at the places that the index tells."""
    array, seen = _aliased(region, name), region.domain.seen[name]
    shape = array.center.shape
    if 0 in shape:
        return array
    order = tuple(sorted(seen, key=lambda axis: _walked(region, axis)))
    written = np.ones(value.center.shape, np.bool_)
    if inside is not None:
        written &= inside.along(seen)
    picked = np.flatnonzero(Named(seen, written).along(order))
    places = [Named(seen, place).along(order).ravel()[picked] for place in region.where(name)]
    target, source = _last_writes(np.ravel_multi_index(places, shape), picked)
    parts = []
    for old, new in zip(parts_of(array), parts_of(arranged(value, order)), strict=True):
        part = old.flatten()
        part[target] = new.ravel()[source]
        parts.append(part.reshape(shape))
    return Bounded(array.axes, array.dtype, *parts)


def _last_writes(targets: Array, sources: Array) -> tuple[Array, Array]:
    """Of writes to one place, the latest."""
    found, latest = np.unique(targets[::-1], return_index=True)
    return found, sources[::-1][latest]


def _walked(region: Region, axis: str) -> int:
    """Where an axis stands in the grid; behind it, if it does not."""
    grid = region.spec.grid
    return grid.index(axis) if axis in grid else len(grid)
