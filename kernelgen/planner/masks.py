"""Masks: what values hold outside extents and bounds, and how reductions are kept safe from it.

Whatever combines positions along an axis first gets the identity of its operation at positions
outside the axis's extent or bounds, unless the value is known to hold it there.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelgen.language.dtypes import DTYPES
from kernelgen.language.fills import Fill
from kernelgen.language.program import Apply, Cast, Constant, Positions, Read, Type, Value, walk
from kernelgen.language.types import WEAK
from kernelgen.planner import ir
from kernelgen.planner.blocks import Blocks, Variable
from kernelgen.planner.bounds import both, first_position, operation
from kernelgen.planner.context import Lowered
from kernelgen.planner.ir import Bind, Expr, Layout, Local, Tail
from kernelgen.planner.rewrite import inside


class Masks:
    """Masks the variables of one phase.

    ``name`` gives a value a variable of its own, and returns how to read it; ``lower`` lowers a
    value in the frame of a layout. ``masked`` collects the axes of which the bounds mask some
    steps of the phase.
    """

    def __init__(
        self,
        blocks: Blocks,
        name: Callable[[Value, str], Read],
        lower: Callable[[Value, Layout], Lowered],
    ) -> None:
        self.blocks = blocks
        self.context = blocks.context
        self.name = name
        self.lower = lower
        self.masked: set[str] = set()
        self.insides: dict[tuple[str, Layout], str] = {}

    def masked_axes(self, value: Value) -> list[str]:
        """The axes of a value along which it may hold positions that do not count."""
        return [axis for axis in value.type.axes if self.context.is_masked(axis)]

    def is_exact(self, value: Value, axis: str) -> bool:
        """Whether a value has a place for each position along which the axis's bounds vary."""
        return set(self.context.varies(axis)) <= set(value.type.axes)

    def fill(self, value: Value, axis: str, assumed: tuple[str, Fill] | None = None) -> Fill:
        """What a value holds outside the extent or the bounds of an axis."""
        if isinstance(value, Constant):
            return value.value
        if axis not in value.type.axes:
            return "any"
        match value:
            case Read(name=name):
                if not self.is_exact(value, axis):
                    return None
                if assumed is not None and assumed[0] == name:
                    return assumed[1]
                variable = self.blocks.variables.get(name)
                return variable.fills.get(axis) if variable else None
            case Cast(value=inner, type=type_):
                fill = self.fill(inner, axis, assumed)
                return fill if _survives(type_.dtype, fill) else None
            case Apply(operation=operation, args=args) if operation.kind == "elementwise":
                return operation.fills(tuple(self.fill(arg, axis, assumed) for arg in args))
            case _:
                return None

    def protected(
        self, value: Value, axes: tuple[str, ...], identity: float, stem: str = "term"
    ) -> Value:
        """The value, or a masked form of it, that holds the identity where positions do not count.

        Where the bounds of an axis vary along one that the value lacks, it holds the identity at
        the positions that are in bounds for none of a block's.
        """
        for axis in axes:
            if not self.context.is_masked(axis) or self.fill(value, axis) == identity:
                continue
            leaf = self.leaf(value, axis, identity)
            if leaf is not None:
                self.mask(*leaf, axis)
            else:
                if isinstance(value, Read) and self.has_to_stay(value, axis):
                    value = Cast(value, value.type)
                value = self.name(value, stem)
                self.mask(value, identity, axis)
        return value

    def has_to_stay(self, value: Read, axis: str) -> bool:
        """Whether something reads what a variable holds: its own last position, or a part of this
        statement for which it has been masked already."""
        variable = self.blocks.variables.get(value.name)
        is_read = variable is not None and variable.masked_at == self.blocks.position
        return is_read or self.holds_last(value, axis)

    def leaf(self, value: Value, axis: str, identity: float) -> tuple[Read, float] | None:
        """One block or local to mask, and with what, so that the value holds the identity."""
        leaves = {
            part.name: part
            for part in walk(value)
            if isinstance(part, Read) and axis in part.type.axes and self.is_exact(part, axis)
        }
        ragged = [
            read
            for read in leaves.values()
            if self.fill(read, axis) is None and not self.holds_last(read, axis)
        ]
        for read in ragged:
            for number in (identity, False, 0.0, float("-inf"), float("inf")):
                fits = _holds(read.type.dtype, number)
                if fits and self.fill(value, axis, (read.name, number)) == identity:
                    return read, number
        return None

    def mask(self, read: Read, fill: float, axis: str) -> None:
        """Replace what a variable holds at positions of an axis that do not count."""
        name = read.name
        if name not in self.blocks.variables:
            self.blocks.load(name)
        variable = self.blocks.variables[name]
        exact = self.is_exact(read, axis)
        if not exact and axis in variable.loosely:
            return
        lowered = variable.lowered
        varies = (axis, *self.context.varies(axis))
        made, condition = self.condition(name, lowered.layout, axis, exact)
        along_lanes = lowered.layout[-1] in (varies if exact else (axis,))
        masked = ir.Inside(Local(name), condition, fill, lowered.dtype, along_lanes)
        bind = Bind(name, masked, lowered.layout, lowered.dtype)
        self.place(name, axis, (*made, bind))
        variable.masked_at = self.blocks.position
        if exact:
            variable.fills[axis] = fill
        else:
            variable.loosely.add(axis)

    def rows(self, axis: str, layout: Layout) -> tuple[tuple[Bind, ...], Value]:
        """Whether each position of an axis is in bounds, for a block with the given layout, and
        the variables that say so."""
        bounds = self.context.bounds[axis]
        if bounds.start is None or bounds.stop is None or self.context.axes[axis].squeezed:
            return (), inside(axis, bounds)
        positions = Positions(axis, Type((axis,), "int32"))
        name = self.blocks.fresh(f"{axis}_at")
        lowered = self.lower(positions, layout)
        self.blocks.variables[name] = Variable(Lowered(Local(name), lowered.layout, "int32"))
        bind = Bind(name, lowered.expr, lowered.layout, "int32")
        return (bind,), inside(axis, bounds, Read(name, "local", positions.type))

    def replace(self, read: Read, value: Value, axis: str, made: tuple[Bind, ...]) -> None:
        """Give a variable another value in the steps whose block reaches past the bounds."""
        lowered = self.lower(value, self.blocks.variables[read.name].lowered.layout)
        bind = Bind(read.name, lowered.expr, lowered.layout, lowered.dtype)
        self.place(read.name, axis, (*made, bind))

    def place(self, name: str, axis: str, binds: tuple[Bind, ...]) -> None:
        """Put masks of a variable where they belong: with others that the same traces need."""
        bounded = axis in self.context.walks
        if bounded and self.context.phase != "step":
            self.blocks.lines.extend(binds)
            return
        key = None if bounded else axis
        self.masked |= {axis} if bounded else set()
        fills = self.blocks.variables[name].fills
        first = axis not in fills or fills[axis] is None
        lines = self.blocks.lines
        if first and any(load.name == name for load in self.blocks.loads):
            self.blocks.tails.setdefault(key, []).extend(binds)
        elif lines and isinstance(tail := lines[-1], Tail) and tail.axis == key:
            lines[-1] = tail.joined(binds)
        else:
            lines.append(Tail(key, binds))

    def condition(
        self, name: str, layout: Layout, axis: str, exact: bool
    ) -> tuple[tuple[Bind, ...], Expr]:
        """Where a variable holds positions that count, and the variables that say so."""
        if axis in self.context.walks and exact and self.context.varies(axis):
            return self.inside(layout, axis)
        plan = self.context.axes[axis]
        iota = ir.Iota(name, layout.index(axis))
        bounds = self.context.bounds.get(axis)
        first = first_position(plan)
        made, conditions = [], []
        if bounds is not None and bounds.start is not None:
            start: Expr = Local(plan.start)
            if plan.tile is not None:
                made.append(Bind(plan.skipped, operation("subtract", start, first), (), "int32"))
                start = Local(plan.skipped)
            conditions.append(operation("greater_equal", iota, start))
        if bounds is None or bounds.stop is not None or plan.tile is not None:
            stop: Expr = ir.Extent(axis)
            if bounds is not None and bounds.stop is not None:
                stop = Local(plan.stop)
            if plan.tile is not None:
                made.append(Bind(plan.left, operation("subtract", stop, first), (), "int32"))
                stop = Local(plan.left)
            conditions.append(operation("less", iota, stop))
        return tuple(made), both(conditions)

    def inside(self, layout: Layout, axis: str) -> tuple[tuple[Bind, ...], Expr]:
        """Bounds that vary along another axis of the block, for each of its positions."""
        key = (axis, layout)
        if key not in self.insides:
            self.insides[key] = self.blocks.fresh(f"{axis}_inside")
        name = self.insides[key]
        lowered = self.lower(inside(axis, self.context.bounds.get(axis)), layout)
        return (Bind(name, lowered.expr, lowered.layout, "bool"),), Local(name)

    def holds_last(self, value: Value, axis: str) -> bool:
        """Whether a value repeats its last position outside the extent, as a masked scan does."""
        match value:
            case Cast(value=inner):
                return self.holds_last(inner, axis)
            case Read(name=name, storage="local"):
                return axis in self.blocks.variables[name].scanned
            case Apply(operation=operation, axes=axes):
                if operation.kind == "scan":
                    return axes == (axis,)
                varying = [arg for arg in value.args if axis in arg.type.axes]
                return (
                    operation.kind == "elementwise"
                    and bool(varying)
                    and all(self.holds_last(arg, axis) for arg in varying)
                )
            case _:
                return False


def _survives(dtype: str, fill: Fill) -> bool:
    """Whether a fill is still the same number in another element type."""
    if fill is None or fill == "any" or dtype in WEAK:
        return fill is not None
    return _holds(dtype, fill) or (dtype == "int32" and isinstance(fill, bool | int))


def _holds(dtype: str, number: float) -> bool:
    """Whether an element type can hold a fill."""
    kind = DTYPES[dtype].kind
    if kind == "bool" or isinstance(number, bool):
        return kind == "bool" and isinstance(number, bool)
    if kind == "float":
        return number == 0 or DTYPES[dtype].bits > 8
    return number == 0 or (DTYPES[dtype].bits == 32 and abs(number) < float("inf"))
