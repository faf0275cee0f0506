"""What depends on positions: bounds, indices and subscripts, over a part of every axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelgen.language.program import (
    Apply,
    Constant,
    Domain,
    Element,
    Positions,
    Size,
    Value,
)
from kernelgen.spec import KernelSpec
from kernelgen.verify.values import Array, dimensions, wrapped

Sizes = Mapping[str, int]
Window = dict[str, slice]
"""The positions of the axes of which a step sees a part; other axes are seen whole."""


@dataclass(frozen=True, slots=True)
class Named:
    """An array with a named axis for each dimension."""

    axes: tuple[str, ...]
    data: Array

    def along(self, axes: tuple[str, ...]) -> Array:
        """The data with its dimensions in the order of ``axes``, 1 for those it does not have."""
        return dimensions(self.data, self.axes, axes)

    def any_along(self, axes: Sequence[str]) -> Named:
        """Whether it holds anywhere along some axes, which go."""
        dims = tuple(self.axes.index(axis) for axis in axes if axis in self.axes)
        left = tuple(axis for axis in self.axes if axis not in axes)
        return Named(left, np.any(self.data, dims))


def both(x: Named, y: Named) -> Named:
    """Where two conditions hold."""
    axes = tuple(dict.fromkeys((*x.axes, *y.axes)))
    return Named(axes, x.along(axes) & y.along(axes))


def extents(sizes: Sizes, domain: Domain) -> dict[str, int]:
    """The sizes with those that follow from them, as far as they are known.

    Args:
        sizes: The extents of axes; of those that follow, too, if they are to be kept.
        domain: The sizes that follow.
    """
    known = dict(sizes)
    for _ in domain.sizes:
        for axis, value in domain.sizes.items():
            if axis not in known and all(used in known for used in _used_sizes(value)):
                known[axis] = extent(value, known)
    return known


def extent(value: Value, sizes: Sizes) -> int:
    """A whole number made of sizes."""
    match value:
        case Constant(value=number):
            return int(number)
        case Size(axis=axis):
            return sizes[axis]
        case Apply(operation=operation, args=args):
            return int(operation.numpy(np, *(np.int64(extent(arg, sizes)) for arg in args)))
    raise AssertionError(value)


def _used_sizes(value: Value) -> list[str]:
    if isinstance(value, Size):
        return [value.axis]
    return [axis for arg in getattr(value, "args", ()) for axis in _used_sizes(arg)]


@dataclass(frozen=True, slots=True)
class Region:
    """A part of every axis, and what positions in it mean.

    Attributes:
        spec: The kernel.
        domain: Its typed bounds and indices.
        sizes: The extent of every axis.
        inputs: An array for every input.
        window: The positions, of axes that are not seen whole.
    """

    spec: KernelSpec
    domain: Domain
    sizes: Sizes
    inputs: Mapping[str, Array]
    window: Window

    def positions(self, axis: str) -> Array:
        """The positions along an axis."""
        where = self.window.get(axis, slice(0, self.sizes[axis]))
        return np.arange(where.start, where.stop)

    def value(self, value: Value) -> Named:
        """An integer expression over positions; it wraps around at 32 bits."""
        match value:
            case Constant() | Size():
                return Named((), np.asarray(extent(value, self.sizes)))
            case Positions(axis=axis):
                return Named((axis,), self.positions(axis))
            case Element():
                return self.element(value)
            case Apply(operation=operation):
                axes = value.type.axes
                args = [self.value(arg).along(axes) for arg in value.args]
                with np.errstate(all="ignore"):
                    return Named(axes, wrapped(np.asarray(operation.numpy(np, *args))))
        raise AssertionError(value)

    def element(self, value: Element) -> Named:
        """Scalars of an input, at subscripts that are clamped to it."""
        array = np.asarray(self.inputs[value.name])
        places = self.places(array.shape, self._subscripts(value), value.type.axes)
        data = _gathered(array, places)
        return Named(value.type.axes, data.astype(np.int64) if data.dtype.kind == "i" else data)

    def _subscripts(self, value: Element) -> list[Named]:
        return [self.value(index) for index in value.indices]

    def where(self, name: str) -> tuple[Array, ...]:
        """For each dimension of an input or output, the position seen; along the axes it has in
        the body."""
        operand = self.spec.inputs.get(name) or self.spec.outputs[name]
        shape = tuple(self.sizes[axis] for axis in operand.axes)
        indices = self.domain.indices.get(name, {})
        subscripts = [
            self.value(indices[axis]) if axis in indices else Named((axis,), self.positions(axis))
            for axis in operand.axes
        ]
        return self.places(shape, subscripts, self.domain.seen[name])

    def element_places(self, value: Element) -> tuple[Array, ...]:
        """For each dimension of an input, the position that a subscripted name reads."""
        shape = np.asarray(self.inputs[value.name]).shape
        return self.places(shape, self._subscripts(value), value.type.axes)

    def places(
        self, shape: tuple[int, ...], subscripts: Sequence[Named], axes: tuple[str, ...]
    ) -> tuple[Array, ...]:
        """Subscripts, clamped to an array, as arrays along ``axes``."""
        made = [
            np.clip(subscript.along(axes), 0, max(extent - 1, 0))
            for extent, subscript in zip(shape, subscripts, strict=True)
        ]
        return tuple(np.broadcast_arrays(*made))

    def seen(self, name: str) -> Array:
        """An input, along the axes it has in the body."""
        array = np.asarray(self.inputs[name])
        if name in self.domain.indices:
            return _gathered(array, self.where(name))
        axes = self.spec.inputs[name].axes
        return np.asarray(array[tuple(self.window.get(axis, slice(None)) for axis in axes)])

    def inside(self, axes: Sequence[str]) -> Named | None:
        """Which positions of some axes are in bounds; None if none of the axes has bounds."""
        found: Named | None = None
        for axis in axes:
            if axis in self.domain.bounds:
                one = self._inside(axis)
                found = one if found is None else both(found, one)
        return found

    def _inside(self, axis: str) -> Named:
        bounds = self.domain.bounds[axis]
        axes = (*bounds.axes, axis)
        at = Named((axis,), self.positions(axis)).along(axes)
        inside = np.ones([len(self.positions(a)) for a in axes], np.bool_)
        if bounds.start is not None:
            inside &= at >= self.value(bounds.start).along(axes)
        if bounds.stop is not None:
            inside &= at < self.value(bounds.stop).along(axes)
        return Named(axes, inside)


def _gathered(array: Array, places: tuple[Array, ...]) -> Array:
    """Elements of an array; of one without elements, zeros."""
    if array.size == 0:
        return np.zeros(places[0].shape, array.dtype)
    return np.asarray(array[places])
