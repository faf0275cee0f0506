"""What a call does: steps that run, and blocks that move between the memories.

The grid is walked in numbers, with the sizes and the scalars of one call: consecutive steps that
name the same block move it once, and steps out of bounds do no work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kernelgen.language.dtypes import DTYPES
from kernelgen.planner import ir
from kernelgen.planner.bounds import both, first_block
from kernelgen.planner.ir import Expr
from kernelgen.planner.model import Axis, Operand, Plan
from kernelgen.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@record
class Traffic:
    """What one call does.

    Attributes:
        steps: Steps of the grid, or of the loop inside the kernel.
        live: Steps that run the body.
        masked: Live steps whose block a bound cuts.
        blocks: How many blocks of each operand move.
        bytes: How many bytes of each operand move.
    """

    steps: int
    live: int
    masked: int
    blocks: dict[str, int]
    bytes: dict[str, int]


def traffic(
    plan: Plan,
    sizes: Mapping[str, int],
    scalars: Mapping[str, Any] | None = None,
    tiles: Mapping[str, int] | None = None,
) -> Traffic:
    """Count the work of one call; needs NumPy.

    Args:
        plan: The plan of the kernel.
        sizes: The extent of every axis, without those that follow from others.
        scalars: The arrays of SMEM inputs that bounds and indices read.
        tiles: Tiles that differ from the plan's.

    Returns:
        The counts.
    """
    return _Walk(plan, sizes, scalars or {}, tiles or {}).traffic()


def segment_lists(offsets: Array, size: int, block: int, groups: int) -> tuple[Array, Array, Array]:
    """The lists of segments that a function's wrapper computes; last come copies of the last one.

    Args:
        offsets: Where the groups start and the last one ends.
        size: The extent of the axis that is cut into groups.
        block: Positions in one of its blocks.
        groups: How many groups there are.

    Returns:
        The group and the block of each segment, and how many there are, as an array of one number.
    """
    import numpy as np

    cuts = np.sort(np.append(np.arange(0, size, block), np.clip(offsets, 0, size)))
    cuts = np.sort(np.where(np.diff(cuts, append=size) > 0, cuts, size))
    count = int(np.sum(cuts < size))
    cuts = np.minimum(cuts, cuts[count - 1])
    found = np.searchsorted(offsets, cuts, side="right") - 1
    return np.clip(found, 0, groups - 1), cuts // block, np.array([count])


class _Walk:
    """The steps of a call in order, each value an array with one element a step."""

    def __init__(
        self,
        plan: Plan,
        sizes: Mapping[str, int],
        scalars: Mapping[str, Any],
        tiles: Mapping[str, int],
    ) -> None:
        import numpy as np

        self.np = np
        self.plan = plan
        self.scalars = {name: np.asarray(array) for name, array in scalars.items()}
        self.sizes = dict(sizes)
        self.steps: dict[str, Array] = {}
        self.names: dict[str, Array] = {}
        for axis, extent in plan.extents.items():
            self.sizes.setdefault(axis, int(self.value(extent)))
        self.blocks = {name: self.block(axis, tiles) for name, axis in plan.axes.items()}
        self.walk_grid()
        self.walk_loop()

    def block(self, axis: Axis, tiles: Mapping[str, int]) -> int:
        tile = tiles.get(axis.name, axis.tile)
        return self.sizes[axis.name] if tile is None else min(tile, self.sizes[axis.name])

    def count(self, name: str) -> int:
        """How many steps the grid has along an axis."""
        blocks = -(-self.sizes[name] // self.blocks[name])
        walk = self.plan.walks.get(name)
        if walk is not None and walk.span is not None:
            return min(blocks, int(self.value(walk.span)))
        return blocks

    def walk_grid(self) -> None:
        plan, np = self.plan, self.np
        segments = plan.segments
        names = [a for a in plan.grid if segments is None or a != segments.axis]
        lists = self.lists()
        counts = [
            len(lists[0]) if segments and name == segments.group else self.count(name)
            for name in names
        ]
        for name, steps in zip(names, np.indices(counts), strict=True):
            self.steps[name] = steps.ravel()
        self.length = int(np.prod(counts))
        if segments is not None:
            at = self.steps[segments.group]
            self.names[segments.step] = at
            self.steps[segments.group], self.steps[segments.axis] = (each[at] for each in lists)
        for name, walk in plan.walks.items():
            if walk.span is not None:
                self.ends()
                self.steps[name] = self.steps[name] + self.value(first_block(plan.axes[name]))
        self.ends()

    def lists(self) -> tuple[Array, Array]:
        """The groups and the blocks of segments, as the wrapper computes them."""
        segments, np = self.plan.segments, self.np
        if segments is None:
            return np.zeros(0, int), np.zeros(0, int)
        size, block = self.sizes[segments.axis], self.blocks[segments.axis]
        lists = segment_lists(
            self.scalars[segments.offsets], size, block, self.sizes[segments.group]
        )
        groups, blocks, self.scalars[segments.count] = lists
        return groups, blocks

    def walk_loop(self) -> None:
        """Repeat every step of the grid for each step of the loop inside the kernel."""
        loop, np = self.plan.loop, self.np
        self.outer = np.arange(self.length)
        if loop is None:
            return
        first, end = (self.value(x) + np.zeros(self.length, int) for x in (loop.first, loop.end))
        trips = np.maximum(end - first, 0)
        self.outer = np.repeat(self.outer, trips)
        inner = np.arange(len(self.outer)) - np.repeat(np.cumsum(trips) - trips, trips)
        self.grid_steps = dict(self.steps)
        self.steps = {name: steps[self.outer] for name, steps in self.steps.items()}
        self.steps[loop.axis] = inner + first[self.outer]
        self.ends()

    def ends(self) -> None:
        """The ends of bounds, as far as the positions that they depend on are known."""
        for walk in self.plan.walks.values():
            for end in walk.ends:
                if ir.steps_in(end.value) <= set(self.steps):
                    self.names[end.name] = self.value(end.value)

    def value(self, expr: Expr) -> Any:
        """An integer expression at every step."""
        np = self.np
        match expr:
            case ir.Literal(value=value):
                return value
            case ir.Extent(axis=axis):
                return self.sizes[axis]
            case ir.Step(axis=axis):
                return self.steps[axis]
            case ir.Walked(axis=axis):
                return self.value(self.plan.blocks[axis])
            case ir.Local(name=name):
                blocks = {axis.block: axis.name for axis in self.plan.axes.values()}
                return self.blocks[blocks[name]] if name in blocks else self.names[name]
            case ir.Scalar(name=name, indices=indices):
                return self.scalars[name][tuple(self.value(index) for index in indices) or 0]
            case ir.Quotient(x=x, y=y, up=up):
                return -(-self.value(x) // self.value(y)) if up else self.value(x) // self.value(y)
            case ir.Call(operation=operation, args=args):
                return operation.numpy(np, *(self.value(arg) for arg in args))
        raise AssertionError(expr)

    def holds(self, conditions: list[Expr]) -> Array:
        """Whether all conditions hold, for every step."""
        steps = len(self.outer)
        met: Array = self.np.ones(steps, bool)
        return met & self.value(both(conditions)) if conditions else met

    def traffic(self) -> Traffic:
        plan = self.plan
        conditions = [plan.computed] if plan.segments is not None and plan.computed else []
        if plan.segments is None:
            conditions = [walk.live for walk in plan.walks.values()]
        live = self.holds(conditions)
        whole = self.holds([w.whole for name, w in plan.walks.items() if name in plan.masked])
        blocks, bytes_ = {}, {}
        for operand in plan.operands.values():
            if operand.kind == "scratch" or not operand.layout:
                continue
            blocks[operand.name], bytes_[operand.name] = self.moved(operand, live)
        steps = len(self.outer)
        return Traffic(steps, int(live.sum()), int((live & ~whole).sum()), blocks, bytes_)

    def all_blocks(self, operand: Operand, bits: int) -> tuple[int, int]:
        """An output of which every block is written once, with results or with zeros."""
        sizes = [self.sizes[axis] for axis in operand.axes]
        blocks = [-(-self.sizes[axis] // self.blocks[axis]) for axis in operand.axes]
        return int(self.np.prod(blocks)), int(self.np.prod(sizes)) * bits // 8

    def moved(self, operand: Operand, live: Array) -> tuple[int, int]:
        """How many blocks and bytes of an operand move."""
        np = self.np
        bits = DTYPES[operand.dtype].bits
        copy = next((copy for copy in self.plan.copies if copy.name == operand.name), None)
        if copy is not None and copy.zeros:
            return self.all_blocks(operand, bits)
        looped = copy is not None and copy.looped
        steps = self.steps
        if self.plan.loop is not None and not looped:
            self.steps = self.grid_steps
            self.ends()
        length = len(self.outer) if looped or self.plan.loop is None else self.length
        places = [self.value(block) + np.zeros(length, int) for block in operand.index]
        self.steps = steps
        self.ends()
        at = np.stack(places, 1)
        if looped:
            moves = live if operand.kind == "input" else np.ones(length, bool)
        else:
            moves = np.append(True, np.any(at[1:] != at[:-1], 1))[:length]
        elements = np.ones(length, np.int64)
        for place, axis in zip(places, operand.view, strict=True):
            if axis is not None and axis in operand.layout:
                size, block = self.sizes[axis], self.blocks[axis]
                elements = elements * np.minimum(block, size - place * block)
        return int(moves.sum()), int((elements * moves).sum()) * bits // 8
