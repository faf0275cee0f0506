"""The domain of a kernel: which positions of each axis are computed, and which blocks are seen."""

from __future__ import annotations

from kernelgen.diagnostics import Diagnostic, Pointer
from kernelgen.language.indexing import ZERO, Indexing, combined, nonnegative
from kernelgen.language.program import (
    Apply,
    Bounds,
    Constant,
    Domain,
    Element,
    Groups,
    Positions,
    Size,
    Type,
    Value,
    walk,
)
from kernelgen.language.scope import MeaninglessError
from kernelgen.language.types import WEAK_INT
from kernelgen.spec import KernelSpec


def domain(spec: KernelSpec, indexing: Indexing) -> Domain:
    """Type the bounds, sizes and indices of a spec.

    Args:
        spec: The kernel.
        indexing: What collects the findings.

    Returns:
        The domain; what had no meaning is left out of it.
    """
    reader = _Reader(spec, indexing)
    indexing.sizes |= {name: size for name in spec.axes if (size := reader.size(name)) is not None}
    bounds = {name: reader.bounds(name) for name in spec.axes}
    indices = {
        (section, name): reader.indices(section, name)
        for section, operands in (("inputs", spec.inputs), ("outputs", spec.outputs))
        for name, operand in operands.items()
        if operand.index
    }
    known = {name: found for name, found in bounds.items() if found is not None}
    seen = {name: reader.seen(name, indices) for name in (*spec.inputs, *spec.outputs)}
    groups = {name: _groups(spec, seen[name], known) for name in spec.outputs}
    return Domain(
        bounds=known,
        sizes=indexing.sizes,
        indices={name: index for (_, name), index in indices.items()},
        seen=seen,
        ranges={name: limits for name in spec.inputs if (limits := reader.range(name))},
        groups={name: found for name, found in groups.items() if found is not None},
    )


class _Reader:
    def __init__(self, spec: KernelSpec, indexing: Indexing) -> None:
        self.spec = spec
        self.indexing = indexing

    def parse(self, text: str, *pointer: str | int) -> Value | None:
        try:
            return self.indexing.parse(text, pointer)
        except MeaninglessError:
            return None

    def report(self, code: str, message: str, instead: str, *pointer: str | int) -> None:
        self.indexing.findings.append(Diagnostic(code, message, instead, pointer))

    # Bounds

    def bounds(self, name: str) -> Bounds | None:
        axis = self.spec.axes[name]
        start = self.bound(name, "start", axis.start)
        stop = self.bound(name, "stop", axis.stop)
        if start is None and stop is None:
            return None
        if start is not None and not nonnegative(start):
            start = combined("maximum", (start, ZERO))
        size = Size(name, Type((), WEAK_INT))
        if stop is not None and not _has_minimum(stop, size):
            stop = combined("minimum", (stop, size))
        return Bounds(name, start, stop)

    def bound(self, name: str, side: str, text: str | None) -> Value | None:
        if text is None:
            return None
        value = self.parse(text, "axes", name, side)
        if value is None:
            return None
        if isinstance(value, Size) and side == "stop" and value.axis == name:
            return None
        for axis in value.type.axes:
            if not self.is_outer(axis, name):
                self.report(
                    "KG217",
                    f"the {side} of {name} uses {axis}, which is not walked outside of {name}",
                    self.outer_hint(name),
                    "axes",
                    name,
                    side,
                )
                return None
        return value

    def is_outer(self, axis: str, name: str) -> bool:
        grid = self.spec.grid
        if axis == name:
            return False
        if axis not in grid:
            return self.spec.axes[axis].start is None and self.spec.axes[axis].stop is None
        return name not in grid or grid.index(axis) < grid.index(name)

    def outer_hint(self, name: str) -> str:
        outer = [axis for axis in self.spec.axes if self.is_outer(axis, name)]
        return (
            f"use {', '.join(outer)}, or put the axis in front of {name} in grid" if outer else ""
        )

    # Sizes

    def size(self, name: str) -> Value | None:
        text = self.spec.axes[name].size
        if text is None:
            return None
        value = self.parse(text, "axes", name, "size")
        if value is None:
            return None
        used = {part.axis for part in walk(value) if isinstance(part, Size)}
        follows = [axis for axis in sorted(used) if self.spec.axes[axis].size is not None]
        if follows and name not in used:
            self.report(
                "KG216",
                f"the size of {name} uses {follows[0]}, of which the size follows from others, too",
                "use axes that an input has",
                "axes",
                name,
                "size",
            )
            return None
        if value.type.dtype != WEAK_INT or name in used:
            self.report(
                "KG216",
                f"the size of {name} is not made of the sizes of other axes",
                "use whole numbers and size(...)",
                "axes",
                name,
                "size",
            )
            return None
        return value

    def range(self, name: str) -> tuple[Value, Value] | None:
        limits = self.spec.inputs[name].range
        if limits is None:
            return None
        found: list[Value] = []
        for i, limit in enumerate(limits):
            pointer: Pointer = ("inputs", name, "range", i)
            if isinstance(limit, int):
                found.append(Constant(limit, Type((), WEAK_INT)))
                continue
            value = self.parse(limit, *pointer)
            if value is not None and value.type.dtype != WEAK_INT:
                self.report("KG216", f"a limit of {name} is not made of sizes", "", *pointer)
            if value is not None:
                found.append(value)
        low, high = (found[0], found[-1]) if found else (None, None)
        if self.spec.inputs[name].dtype not in ("int32", "int8", "int4"):
            message = f"{name} is {self.spec.inputs[name].dtype}: a range is of whole numbers"
            self.report("KG216", message, "remove range", "inputs", name, "range")
        elif isinstance(low, Constant) and isinstance(high, Constant) and high.value < low.value:
            message = f"the range of {name} ends before it starts"
            self.report("KG216", message, "write [least, greatest]", "inputs", name, "range")
        return (found[0], found[1]) if len(found) == 2 else None

    # Indices

    def indices(self, section: str, name: str) -> dict[str, Value]:
        operand = self.spec.inputs.get(name) or self.spec.outputs[name]
        found = {}
        for axis, text in operand.index.items():
            value = self.parse(text, section, name, "index", axis)
            if value is not None and self.is_single(value, section, name, axis):
                found[axis] = self.indexing.clamped(value, axis)
        return found

    def is_single(self, value: Value, section: str, name: str, axis: str) -> bool:
        """An index names one block a step: it varies along grid axes of tile 1 only."""
        for used in value.type.axes:
            if self.spec.axes[used].tile != 1:
                self.report(
                    "KG406",
                    f"the index of {name} names one {axis} a step, but a step sees several {used}",
                    f"give {used} tile 1",
                    section,
                    name,
                    "index",
                    axis,
                )
                return False
        return True

    def seen(self, name: str, indices: dict[tuple[str, str], dict[str, Value]]) -> tuple[str, ...]:
        """The axes that an operand has in the body: an index stands for the axes it uses."""
        operand = self.spec.inputs.get(name) or self.spec.outputs[name]
        index = indices.get(("inputs", name)) or indices.get(("outputs", name)) or {}
        axes: list[str] = []
        for axis in operand.axes:
            axes += index[axis].type.axes if axis in index else (axis,)
        return tuple(dict.fromkeys(axes))


def _groups(spec: KernelSpec, seen: tuple[str, ...], bounds: dict[str, Bounds]) -> Groups | None:
    """The groups that lie side by side along an axis, where these are its axes."""
    for axis in seen:
        match bounds.get(axis):
            case Bounds(start=Apply(args=(Element() as first, _)), stop=Apply(args=(last, _))) if (
                first == _offset(first, 0) and last == _offset(first, 1)
            ):
                group = first.type.axes[0]
                if group in spec.grid and group not in (*spec.reduction, *seen):
                    return Groups(axis, group, first.name)
    return None


def _offset(element: Element, number: int) -> Element | None:
    """``offsets[e + number]``, if the element is a scalar of a vector at one axis's position."""
    if len(element.indices) != 1 or len(element.type.axes) != 1:
        return None
    position: Value = Positions(element.type.axes[0], Type(element.type.axes, "int32"))
    if number:
        position = combined("add", (position, Constant(number, Type((), WEAK_INT))))
    return Element(element.name, (position,), element.type)


def _has_minimum(value: Value, size: Size) -> bool:
    """Whether an expression is never more than a size."""
    if isinstance(value, Apply) and value.operation.name == "minimum":
        return any(_has_minimum(arg, size) for arg in value.args)
    return value == size
