"""The blocks and locals of one phase as Python variables, and the statements that make them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelgen.language.fills import Fill
from kernelgen.language.program import Assignment, Cast, Read, Value, children
from kernelgen.planner import ir
from kernelgen.planner.context import Context, Lowered
from kernelgen.planner.ir import Bind, Expr, Layout, Literal, Local, Statement, Tail, locals_of
from kernelgen.planner.layout import named


@dataclass(slots=True)
class Variable:
    """A Python variable of the kernel: a block that was loaded, or a local of the body.

    Attributes:
        lowered: How it is read.
        fills: What it holds outside the extent of each ragged axis.
        loosely: Axes outside of whose loosest bounds it has been masked.
        scanned: Axes along which it repeats its last position outside the extent.
        masked_at: The last statement that masked it: what it has lowered already reads that mask.
    """

    lowered: Lowered
    fills: dict[str, Fill] = field(default_factory=dict)
    scanned: frozenset[str] = frozenset()
    loosely: set[str] = field(default_factory=set)
    masked_at: int = -1


class Blocks:
    """The variables of one phase, in the order in which its statements need them."""

    def __init__(
        self,
        context: Context,
        statements: tuple[Assignment, ...],
        scratch: dict[str, Lowered] | None,
    ) -> None:
        self.context = context
        self.statements = statements
        self.position = 0
        self.variables: dict[str, Variable] = {}
        self.constants = dict(scratch or {})
        self.loads: list[Bind] = []
        self.tails: dict[str | None, list[Bind]] = {}
        self.lines: list[Statement] = []
        self.new_names: set[str] = set()

    def phase(self) -> tuple[Statement, ...]:
        """The lowered phase: loads, masks of loaded blocks, then the statements."""
        tails = [tail for axis, masks in self.tails.items() if (tail := self.early(axis, masks))]
        return (*self.loads, *_without_repeats([*tails, *self.lines]))

    def early(self, axis: str | None, masks: list[Bind]) -> Tail | None:
        """The masks of loaded blocks, unless they can join a later tail of the same axis."""
        names = {mask.name for mask in masks}
        for i, line in enumerate(self.lines):
            if isinstance(line, Tail) and line.axis == axis:
                self.lines[i] = Tail(axis, tuple(masks)).joined(line.masks)
                return None
            if names & locals_of(line):
                break
        return Tail(axis, ()).joined(tuple(dict.fromkeys(masks)))

    def block(self, name: str) -> Lowered:
        """How to read a block of an operand or scratch buffer here."""
        if name in self.constants:
            return self.constants[name]
        self.prepare(name)
        if name in self.variables:
            return self.variables[name].lowered
        return Lowered(ir.Load(name), self.context.layouts[name], self.context.dtypes[name])

    def prepare(self, name: str) -> None:
        """Load a block into a variable when it is read more than once before it is stored."""
        if self.context.whole:  # nothing is bound there
            return
        if name not in self.variables and name not in self.constants and self.reads(name) > 1:
            self.load(name)

    def reads(self, name: str) -> int:
        return sum(1 for _ in self.contexts(name))

    def contexts(self, name: str) -> Iterator[str]:
        """For each read of a block from here to its next store, the type it is read in."""
        for statement in self.statements[self.position :]:
            yield from _contexts(statement.value, name)
            if statement.target == name:
                return

    def load(self, name: str) -> None:
        """Bind a block to a variable, in the one type that all its readers want if there is one."""
        dtypes = set(self.contexts(name))
        stored = self.context.dtypes[name]
        dtype = dtypes.pop() if len(dtypes) == 1 else stored
        expr: Expr = ir.Load(name)
        if dtype != stored:
            expr = ir.As(expr, dtype)
        layout = self.context.layouts[name]
        lowered = Lowered(Local(name), layout, dtype)
        fills: dict[str, Fill] = {
            axis: None for axis in named(layout) if self.context.is_masked(axis)
        }
        self.variables[name] = Variable(lowered, fills)
        is_input = not any(name == statement.target for statement in self.statements)
        (self.loads if is_input else self.lines).append(Bind(name, expr, layout, dtype))

    def stored(self, name: str) -> None:
        """Forget what was read of a buffer that has just been written."""
        self.variables.pop(name, None)
        self.constants.pop(name, None)

    def atomic(self, expr: Expr, layout: Layout, dtype: str) -> Expr:
        """A variable for an expression that prints more than once."""
        if isinstance(expr, Local | Literal):
            return expr
        name = self.fresh("x")
        self.lines.append(Bind(name, expr, layout, dtype))
        return Local(name)

    def fresh(self, stem: str) -> str:
        """A new variable name that shadows nothing."""
        taken = self.context.taken | self.new_names
        name, count = stem, 1
        while name in taken:
            count += 1
            name = f"{stem}{count}"
        self.new_names.add(name)
        return name


def _without_repeats(lines: list[Statement]) -> Iterator[Statement]:
    """Tails that do not define again what an earlier tail of the same traces has defined."""
    defined: dict[str | None, list[Bind]] = {}
    for line in lines:
        if isinstance(line, Tail):
            known = defined.setdefault(line.axis, [])
            line = Tail(line.axis, tuple(bind for bind in line.masks if bind not in known))
            known += [bind for bind in line.masks if not isinstance(bind.value, ir.Inside)]
        yield line


def _contexts(value: Value, name: str) -> Iterator[str]:
    """The types in which a value reads a block: as stored, or as a cast right around it wants."""
    if isinstance(value, Read):
        if value.name == name:
            yield value.type.dtype
        return
    if isinstance(value, Cast) and isinstance(value.value, Read):
        if value.value.name == name:
            yield value.type.dtype
        return
    for child in children(value):
        yield from _contexts(child, name)
