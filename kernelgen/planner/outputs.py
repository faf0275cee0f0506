"""What outputs hold where nothing is in bounds: 0.

A position out of the bounds of one of the output's axes is 0, and so is one for which an axis
that the output lacks has nothing in bounds.
"""

from __future__ import annotations

from kernelgen.language.expressions import converted
from kernelgen.language.fills import Fill
from kernelgen.language.program import Apply, Bounds, Cast, Constant, Read, Type, Value
from kernelgen.planner.bounds import is_never_empty
from kernelgen.planner.context import Context
from kernelgen.planner.masks import Masks
from kernelgen.planner.rewrite import ZERO, chosen, either, nonempty


class Outputs:
    """Keeps the stores of one phase to what is in bounds."""

    def __init__(self, context: Context, masks: Masks) -> None:
        self.context = context
        self.masks = masks
        self.initial: dict[str, Fill] = dict(context.initial)

    def define(self, name: str, value: Value) -> None:
        """Note what a local is where no step has run."""
        self.initial[name] = self.at_init(value)

    def in_bounds(self, name: str, value: Value) -> Value:
        """The value that is stored: 0 where nothing is in bounds."""
        for axis, bounds in self.context.bounds.items():
            if axis in self.context.seen[name]:
                value = self.carried(name, axis, value)
            elif self.may_be_empty(name, bounds, value):
                value = chosen(nonempty(bounds), value)
        return value

    def carried(self, name: str, axis: str, value: Value) -> Value:
        """0 at the positions of an axis of the output that are out of bounds."""
        if self.context.segments is not None and axis == self.context.segments.axis:
            return self.shared(name, axis, value)
        if name in self.context.unspecified:
            return value
        in_step = self.context.phase == "step"
        if in_step and not self.context.is_masked(axis):
            return value  # the step does not run out of bounds
        if in_step and axis in value.type.axes and self.masks.is_exact(value, axis):
            nothing = False if value.type.dtype == "bool" else 0
            return self.masks.protected(value, (axis,), nothing, stem=name)
        made, rows = self.masks.rows(axis, self.context.layouts[name])
        self.masks.blocks.lines.extend(made)
        return chosen(rows, value)

    def shared(self, name: str, axis: str, value: Value) -> Value:
        """The rows of a group; in a block that groups share, what the others have stored stays."""
        assert self.context.segments is not None
        seen = self.context.seen[name]
        held = Read(name, "input", Type(seen, self.context.dtypes[name]))
        first = Read(self.context.segments.first, "local", Type((), "bool"))
        dtype = value.type.dtype
        before = either(first, ZERO, converted(held, dtype))
        made, rows = self.masks.rows(axis, self.context.layouts[name])
        if self.context.phase != "step":
            self.masks.blocks.lines.extend(made)
            return either(rows, value, before)
        own = self.masks.name(Cast(value, value.type), f"new_{name}")
        self.masks.replace(own, either(rows, own, before), axis, made)
        return own

    def may_be_empty(self, name: str, bounds: Bounds, value: Value) -> bool:
        """Whether the phase runs for positions with nothing in bounds, and gives another value."""
        if not set(bounds.axes) <= set(self.context.seen[name]) or is_never_empty(bounds):
            return False
        if self.context.phase == "step":
            return bool(self.context.varies(bounds.axis))
        return self.at_init(value) != 0

    def at_init(self, value: Value) -> Fill:
        """The number that a value is if no step has run, where it is one."""
        match value:
            case Constant(value=number):
                return number
            case Read(name=name):
                return self.initial.get(name)
            case Cast(value=inner):
                return self.at_init(inner)
            case Apply(operation=operation, args=args) if operation.kind == "elementwise":
                numbers = tuple(self.at_init(arg) for arg in args)
                if operation.name == "divide" and numbers[0] == 0 and _is_positive(args[1]):
                    return 0
                return operation.fills(numbers)
            case _:
                return None


def _is_positive(value: Value) -> bool:
    match value:
        case Constant(value=number):
            return number > 0
        case Cast(value=inner):
            return _is_positive(inner)
        case Apply(operation=operation, args=args) if operation.name == "maximum":
            return any(_is_positive(arg) for arg in args)
        case _:
            return False
