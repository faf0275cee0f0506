"""Masks: what values hold outside an extent, and how reductions are kept safe from it.

Whatever combines positions along an axis first gets the identity of its operation at positions
outside the extent, unless the value is known to hold it there.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelgen.language.dtypes import DTYPES
from kernelgen.language.fills import Fill
from kernelgen.language.program import Apply, Cast, Constant, Read, Value, walk
from kernelgen.language.types import WEAK
from kernelgen.planner import ir
from kernelgen.planner.blocks import Blocks
from kernelgen.planner.ir import Bind, Local, Tail


class Masks:
    """Masks the variables of one phase.

    ``name`` gives a value a variable of its own, and returns how to read it.
    """

    def __init__(self, blocks: Blocks, name: Callable[[Value, str], Read]) -> None:
        self.blocks = blocks
        self.context = blocks.context
        self.name = name

    def is_ragged(self, axis: str) -> bool:
        return axis in self.context.ragged

    def ragged_axes(self, value: Value) -> list[str]:
        return [axis for axis in value.type.axes if self.is_ragged(axis)]

    def fill(self, value: Value, axis: str, assumed: tuple[str, Fill] | None = None) -> Fill:
        """What a value holds outside the extent of an axis."""
        if isinstance(value, Constant):
            return value.value
        if axis not in value.type.axes:
            return "any"
        match value:
            case Read(name=name):
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

    def protected(self, value: Value, axes: tuple[str, ...], identity: float) -> Value:
        """The value, or a masked form of it, that holds the identity outside the axes' extents."""
        for axis in axes:
            if not self.is_ragged(axis) or self.fill(value, axis) == identity:
                continue
            leaf = self.leaf(value, axis, identity)
            if leaf is not None:
                self.mask(*leaf, axis)
            else:
                value = self.name(value, "term")
                self.mask(value, identity, axis)
        return value

    def leaf(self, value: Value, axis: str, identity: float) -> tuple[Read, float] | None:
        """One block or local to mask, and with what, so that the value holds the identity."""
        leaves = {
            part.name: part
            for part in walk(value)
            if isinstance(part, Read) and axis in part.type.axes
        }
        ragged = [read for read in leaves.values() if self.fill(read, axis) is None]
        for read in ragged:
            for number in (identity, False, 0.0, float("-inf"), float("inf")):
                fits = _holds(read.type.dtype, number)
                if fits and self.fill(value, axis, (read.name, number)) == identity:
                    return read, number
        return None

    def mask(self, read: Read, fill: float, axis: str) -> None:
        """Replace what a variable holds outside the extent of an axis."""
        name = read.name
        if name not in self.blocks.variables:
            self.blocks.load(name)
        variable = self.blocks.variables[name]
        lowered = variable.lowered
        masked = ir.Inside(Local(name), lowered.layout.index(axis), axis, fill, lowered.dtype)
        bind = Bind(name, masked, lowered.layout, lowered.dtype)
        first = axis not in variable.fills or variable.fills[axis] is None
        if first and any(load.name == name for load in self.blocks.loads):
            self.blocks.tails.setdefault(axis, []).append(bind)
        elif (
            self.blocks.lines
            and isinstance(tail := self.blocks.lines[-1], Tail)
            and tail.axis == axis
        ):
            self.blocks.lines[-1] = Tail(axis, (*tail.masks, bind))
        else:
            self.blocks.lines.append(Tail(axis, (bind,)))
        variable.fills[axis] = fill

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
