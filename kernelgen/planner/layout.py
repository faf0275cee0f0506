"""Positional layouts for named axes.

Vectors on a TPU are two-dimensional, sublanes by lanes. A value with one axis is therefore a row
``(None, n)`` or a column ``(m, None)``; which of the two follows from the values it meets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelgen.language.program import (
    Apply,
    Assignment,
    Cast,
    Constant,
    Element,
    Positions,
    Program,
    Read,
    Size,
    Type,
    Value,
    children,
    walk,
)
from kernelgen.planner.ir import REPLICATED, Expand, Expr, Layout, Permute, Squeeze


def row(axes: Sequence[str]) -> Layout:
    """The axes in order, with unit dimensions in front up to rank 2."""
    return (*(None,) * (2 - len(axes)), *axes)


def named(layout: Layout) -> tuple[str, ...]:
    """The axes of a layout, without its unit dimensions."""
    return tuple(axis for axis in layout if axis is not None and axis != REPLICATED)


def merge(layouts: Iterable[Layout]) -> Layout:
    """The layout in which values meet elementwise.

    Dimensions are aligned from the right, as NumPy does. Where that puts two axes on one
    dimension, the layout with the most axes rules and the others are moved to fit it.
    """
    candidates = [layout for layout in layouts if layout]
    if not candidates:
        return ()
    frame = max(candidates, key=lambda layout: (len(named(layout)), len(layout)))
    for layout in candidates:
        frame = _with_axes(frame, layout)
    return frame


def _with_axes(frame: Layout, layout: Layout) -> Layout:
    """The frame, with room for the axes of another layout where it has unit dimensions."""
    result = [*(None,) * (len(layout) - len(frame)), *frame]
    offset = len(result) - len(layout)
    for i, axis in enumerate(layout):
        if axis is None or axis in result:
            continue
        if result[offset + i] is None:
            result[offset + i] = axis
        elif None in result:
            result[len(result) - 1 - result[::-1].index(None)] = axis
        else:
            result.insert(0, axis)
    return tuple(result)


def restricted(frame: Layout, axes: Sequence[str]) -> Layout:
    """The layout of a value with only some of a frame's axes, aligned to it from the right."""
    kept = [axis if axis in axes else None for axis in frame]
    while len(kept) > 2 and kept[0] is None:
        kept.pop(0)
    return tuple(kept)


def without(layout: Layout, axes: Sequence[str]) -> Layout:
    """A layout after its axes have been reduced with ``keepdims``."""
    return tuple(None if axis in axes else axis for axis in layout)


def move(value: Expr, source: Layout, frame: Layout) -> tuple[Expr, Layout]:
    """A value brought from its layout into a frame that has all of its axes.

    Unit dimensions in front are left to broadcasting. Returns the value and its new layout.
    """
    target = tuple(axis if axis in source else None for axis in frame)
    if not source or _trimmed(source) == _trimmed(target):
        return value, source
    wanted = named(target)
    if named(source) != wanted or len(source) == len(target) == 2:
        order = _order(source, target)
        value = Permute(value, order)
        source = tuple(source[i] for i in order)
    if _trimmed(source) == _trimmed(target):
        return value, source
    units = tuple(i for i, axis in enumerate(source) if axis is None)
    if units:
        value = Squeeze(value, units)
    missing = tuple(i for i, axis in enumerate(target) if axis is None)
    return (Expand(value, missing) if missing else value), target


def _trimmed(layout: Layout) -> Layout:
    for i, axis in enumerate(layout):
        if axis is not None:
            return layout[i:]
    return ()


def _order(source: Layout, target: Layout) -> tuple[int, ...]:
    """The permutation of source that puts its axes in target's order, units where they fit."""
    if len(source) == len(target):
        units = [i for i, axis in enumerate(source) if axis is None]
        return tuple(units.pop(0) if axis is None else source.index(axis) for axis in target)
    units = [i for i, axis in enumerate(source) if axis is None]
    return (*units, *(source.index(axis) for axis in named(target)))


def contraction(x: Layout, y: Layout, axis: str) -> Layout:
    """The layout of a dot's result: batch dimensions, then x's, then y's free dimensions."""
    batch = [a for a in named(x) if a in y and a != axis]
    free = [a for a in (*x, *y) if a != axis and a not in batch]
    return (*batch, *free)


Locals = dict[str, tuple[Layout | None, Value]]
"""The locals of a phase: their layouts, as far as they are known, and their values."""


class Layouts:
    """Chooses a layout for every operand, scratch buffer and output of a program.

    What has as many axes as any operand, and at least two, keeps its declared order. What has
    fewer takes the place that the first value of known layout it meets leaves for it, so that it
    broadcasts without moving data; if it meets none it keeps its order, a vector along lanes.
    """

    def __init__(self, operands: dict[str, tuple[str, ...]], squeezed: frozenset[str]) -> None:
        self.squeezed = squeezed
        self.known: dict[str, Layout] = {}
        self.open: dict[str, tuple[str, ...]] = {}
        stripped = {name: self.strip(axes) for name, axes in operands.items()}
        widest = max((len(axes) for axes in stripped.values()), default=0)
        for name, axes in stripped.items():
            if 0 < len(axes) < max(widest, 2):
                self.open[name] = axes
            else:
                self.known[name] = row(axes)

    def strip(self, axes: Sequence[str]) -> tuple[str, ...]:
        """The axes that have a dimension in the kernel."""
        return tuple(axis for axis in axes if axis not in self.squeezed)

    def solve(self, program: Program) -> dict[str, Layout]:
        """Layouts of all operands, from how the program uses them."""
        while True:
            before = len(self.open)
            for _, statements in program.phases():
                local: Locals = {}
                for statement in statements:
                    self.visit(statement, local)
            if not self.open:
                return self.known
            if len(self.open) == before:
                name = next(iter(self.open))
                self.settle(name, row(self.open[name]))

    def placed(self, name: str, frame: Layout) -> Layout:
        """The operand's axes where the frame has them, unless they stand in another order there."""
        layout = restricted(frame, self.open[name])
        return layout if named(layout) == self.open[name] else row(self.open[name])

    def settle(self, name: str, layout: Layout) -> None:
        self.known[name] = layout
        del self.open[name]

    def visit(self, statement: Assignment, local: Locals) -> None:
        value, target = statement.value, statement.target
        layout = self.infer(value, local)
        if statement.storage == "local":
            local[target] = (layout, value)
        elif target in self.known and layout is None:
            self.push(value, self.known[target], local)
        elif target in self.open and layout and set(self.open[target]) <= set(layout):
            self.settle(target, self.placed(target, layout))

    def infer(self, value: Value, local: Locals) -> Layout | None:
        """The layout of a value; None while it depends on an open operand, or is free."""
        match value:
            case Read(name=name, storage="local"):
                return local[name][0]
            case Read(name=name):
                return self.known.get(name)
            case Cast(value=inner):
                return self.infer(inner, local)
            case Apply():
                return self.infer_apply(value, local)
            case Positions(type=Type(axes=axes)):
                return None if self.strip(axes) else ()
            case _:
                return ()

    def infer_apply(self, value: Apply, local: Locals) -> Layout | None:
        kind = value.operation.kind
        if kind == "contraction":
            return self.infer_contraction(value, local)
        if kind in ("reduction", "select", "shift"):
            inner = self.settled(value.args[0], local)
            return inner if inner is None or kind == "shift" else without(inner, value.axes)
        known = [layout for arg in value.args if (layout := self.infer(arg, local)) is not None]
        frame = merge(known)
        if frame:
            for arg in value.args:
                if self.infer(arg, local) is None:
                    frame = self.push(arg, frame, local)
        layouts = [self.infer(arg, local) for arg in value.args]
        free = [arg for arg, layout in zip(value.args, layouts, strict=True) if layout is None]
        if free and (not frame or not all(is_flexible(arg) for arg in free)):
            return None
        return frame

    def settled(self, value: Value, local: Locals) -> Layout | None:
        """The layout of a value that nothing else can place."""
        layout = self.infer(value, local)
        if layout is None and is_flexible(value):
            return row(self.strip(value.type.axes))
        return layout

    def infer_contraction(self, value: Apply, local: Locals) -> Layout | None:
        for arg in value.args:
            if self.infer(arg, local) is None:
                self.push(arg, row(self.strip(arg.type.axes)), local)
        x, y = (self.infer(arg, local) for arg in value.args)
        if x is None or y is None:
            return None
        axes = self.strip(value.axes)
        return dot_layout(x, y, axes[0]) if axes else merge([x, y])

    def push(self, value: Value, frame: Layout, local: Locals) -> Layout:
        """Give the open operands in a value the dimensions that a frame has, or leaves, for them.

        Returns the frame with room for all axes of the value.
        """
        wide = _with_axes(frame, row(self.strip(value.type.axes)))
        match value:
            case Read(name=name, storage="local"):
                self.push(local[name][1], wide, local)
            case Read(name=name) if name in self.open:
                self.settle(name, self.placed(name, wide))
            case Cast(value=inner):
                self.push(inner, wide, local)
            case Apply(operation=operation, args=args) if operation.kind == "elementwise":
                for arg in args:
                    self.push(arg, wide, local)
        return wide


def is_flexible(value: Value) -> bool:
    """Whether a value is made of positions and numbers only, and so may lie either way."""
    leaves = [part for part in walk(value) if not children(part)]
    return any(isinstance(leaf, Positions) for leaf in leaves) and all(
        isinstance(leaf, Positions | Constant | Size | Element) for leaf in leaves
    )


def dot_layout(x: Layout, y: Layout, axis: str) -> Layout:
    """The layout that :func:`orient` and the matrix unit give a contraction's result."""
    if is_vector_product(x, y, axis):
        return without(merge([x, y]), (axis,))
    x, y = orient(x, y, axis)[:2]
    return contraction(x, y, axis)


def is_vector_product(x: Layout, y: Layout, axis: str) -> bool:
    """Whether an operand of a contraction has batch axes only: no work for a matrix unit."""
    batch = [a for a in named(x) if a in y and a != axis]
    free = [[a for a in named(layout) if a != axis and a not in batch] for layout in (x, y)]
    return not all(free) if batch else not any(free)


def orient(x: Layout, y: Layout, axis: str) -> tuple[Layout, Layout, bool]:
    """Put a row vector on the left and a column vector on the right of a matrix product.

    The other ways round do not lower for every element type. Returns the layouts in their new
    order and whether they were swapped.
    """
    is_row = len(named(y)) == 1 and y[-1] == axis and len(named(x)) > 1
    is_column = len(named(x)) == 1 and x[-1] != axis and len(named(y)) > 1
    if is_row or is_column:
        return y, x, True
    return x, y, False
