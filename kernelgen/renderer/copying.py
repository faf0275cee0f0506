"""The copies that a kernel makes itself, as Python source."""

from __future__ import annotations

from kernelgen.planner.ir import Expr, Extent, Local, Quotient, Statement, Store
from kernelgen.planner.model import Copy, Plan
from kernelgen.planner.names import names_of, unused
from kernelgen.records import record
from kernelgen.renderer.printer import INDENT, WIDTH, Printer

BOTH = 'for action in ("start", "wait"):'


@record
class LoopText:
    """The loop inside a kernel.

    Attributes:
        functions: What starts and awaits the copies of a step.
        prologue: Starts the first copies.
        name: Of the function that is the loop's body.
        step: Its argument, the number of the block.
        before: What comes before the step: its blocks have arrived.
        after: What comes behind it: the next copies.
        first: The first block.
        end: One past the last block.
        epilogue: Waits for the last copies back.
    """

    functions: tuple[str, ...]
    prologue: tuple[str, ...]
    name: str
    step: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    first: str
    end: str
    epilogue: tuple[str, ...]


class Copying:
    """Prints the copies of a plan; ``printer`` remembers the names that they use."""

    def __init__(self, plan: Plan, printer: Printer) -> None:
        self.plan = plan
        self.printer = printer
        taken = set(names_of(plan))
        self.fetch, self.flush, self.fill, self.loop, self.slot = (
            unused(name, taken) for name in ("fetch", "flush", "fill", "loop", "slot")
        )
        self.reads = [copy for copy in plan.copies if copy.looped and not copy.writes]
        self.writes = [copy for copy in plan.copies if copy.looped and copy.writes]
        self.zeros = [copy for copy in plan.copies if copy.zeros]

    def ends(self) -> list[str]:
        """The first block and one past the last of the loop, as variables."""
        loop = self.plan.loop
        if loop is None:
            return []
        lines = [f"{self.end} = {self.printer.text(loop.end)}"]
        if self.first != "0":
            lines.insert(0, f"{self.first} = {self.printer.text(loop.first)}")
        return lines

    @property
    def first(self) -> str:
        loop = self.plan.loop
        assert loop is not None
        text = self.printer.text(loop.first)
        return text if text == "0" else unused(f"{loop.axis}_first", set(names_of(self.plan)))

    @property
    def end(self) -> str:
        assert self.plan.loop is not None
        return unused(f"{self.plan.loop.axis}_end", set(names_of(self.plan)))

    def text(self) -> LoopText | None:
        """The loop, with what starts and awaits its copies."""
        loop = self.plan.loop
        if loop is None:
            return None
        step = self.printer.step(loop.axis)
        depth = next(copy.buffers for copy in self.plan.copies if copy.looped)
        tiles = [copy for copy in self.plan.copies if copy.looped]
        before, after, prologue, epilogue = [], [], [], []
        if self.reads:
            prologue = self.prologue(depth)
            before = [f'{self.fetch}({step}, "wait")']
            later = f"{step} + {depth}"
            after = [f'pl.when({later} < {self.end})(lambda: {self.fetch}({later}, "start"))']
        if self.writes:
            earlier = f"{step} - {depth}"
            reached = f"{step} >= {depth}" if self.first == "0" else f"{earlier} >= {self.first}"
            before.append(f'pl.when({reached})(lambda: {self.flush}({earlier}, "wait"))')
            after.insert(0, f'{self.flush}({step}, "start")')
            epilogue = self.epilogue(depth)
        slot = self.slot
        if len(tiles) > 1:
            before.append(f"{slot} = lax.rem({step}, {depth})")
        else:
            slot = f"lax.rem({step}, {depth})"
        views = ", ".join(f"{copy.buffer}.at[{slot}]" for copy in tiles)
        before.append(f"{', '.join(copy.tile for copy in tiles)} = {views}")
        return LoopText(
            functions=(*self.functions(step), *self.filling(step)),
            prologue=(*prologue, *self.fills("start")),
            name=self.loop,
            step=step,
            before=tuple(before),
            after=tuple(after),
            first=self.first,
            end=self.end,
            epilogue=(*epilogue, *self.fills("wait")),
        )

    def prologue(self, depth: int) -> list[str]:
        """Starts the first copies; where bounds end the loop, as many as there are."""
        blocks = self.blocks()
        if blocks is None:
            return [
                f"for ahead in range(min({depth}, {self.end})):",
                f'{INDENT}{self.fetch}(ahead, "start")',
            ]
        ahead = "ahead" if self.first == "0" else f"{self.first} + ahead"
        return [
            f"for ahead in range(min({depth}, {blocks})):",
            f'{INDENT}pl.when({ahead} < {self.end})(lambda: {self.fetch}({ahead}, "start"))',
        ]

    def epilogue(self, depth: int) -> list[str]:
        """Waits for the last copies back."""
        back, blocks = f"{self.end} - back", self.blocks()
        if blocks is None:
            return [
                f"for back in range(min({depth}, {self.end}), 0, -1):",
                f'{INDENT}{self.flush}({back}, "wait")',
            ]
        return [
            f"for back in range(min({depth}, {blocks}), 0, -1):",
            f'{INDENT}pl.when({back} >= {self.first})(lambda: {self.flush}({back}, "wait"))',
        ]

    def blocks(self) -> str | None:
        """How many blocks the whole axis has, where the loop may have fewer."""
        loop = self.plan.loop
        assert loop is not None
        end = loop.end.x if isinstance(loop.end, Quotient) else loop.end
        return None if isinstance(end, Extent) else self.count()

    def count(self) -> str:
        """How many blocks the whole axis has."""
        loop = self.plan.loop
        assert loop is not None
        axis = self.plan.axes[loop.axis]
        size = self.printer.static(axis.name)
        return size if axis.squeezed else f"pl.cdiv({size}, {self.printer.static(axis.block)})"

    def functions(self, step: str) -> list[str]:
        """Functions that start the copies of a step, or wait for them."""
        lines: list[str] = []
        for name, copies, what in (
            (self.fetch, self.reads, "the copies of a step's blocks"),
            (self.flush, self.writes, "the copies of a step's results"),
        ):
            if not copies:
                continue
            body = [f"{self.slot} = lax.rem({step}, {copies[0].buffers})"]
            body += [line for copy in copies for line in self.copy(copy)]
            lines += [
                f"def {name}({step}, action):",
                f'{INDENT}"""Start {what}, or wait for them."""',
                *(f"{INDENT}{line}" for line in body),
                "",
            ]
        return lines

    def filling(self, step: str) -> list[str]:
        """A function that starts the copies of zeros to a block out of bounds, or awaits them."""
        if not self.zeros:
            return []
        body = [line for copy in self.zeros for line in self.copy(copy, zeros=True)]
        if self.first != "0":
            outside = f"@pl.when(({step} < {self.first}) | ({step} >= {self.end}))"
            body = [outside, "def _():", *(f"{INDENT}{line}" for line in body)]
        return [
            f"def {self.fill}({step}, action):",
            f'{INDENT}"""Start the copies of zeros to a block out of bounds, or wait for them."""',
            *(f"{INDENT}{line}" for line in body),
            "",
        ]

    def fills(self, action: str) -> list[str]:
        """Loops over the blocks out of bounds, whose copies go on while others are computed."""
        if not self.zeros:
            return []
        assert self.plan.loop is not None
        step, blocks = self.printer.step(self.plan.loop.axis), self.count()
        first = self.end if self.first == "0" else "0"
        call = f'lambda {step}, _: {self.fill}({step}, "{action}")'
        made = [f"{c.zeros}[...] = jnp.zeros_like({c.zeros})" for c in self.zeros]
        return [
            *(made if action == "start" else []),
            f"lax.fori_loop({first}, {blocks}, {call}, None)",
        ]

    def loads(self) -> list[str]:
        """The copies of blocks that stay while the loop, or a reduction, runs."""
        lines: list[str] = []
        for copy in self.plan.copies:
            if copy.looped or copy.writes:
                continue
            both = self.both(copy)
            if copy.once:
                steps = [f"{self.printer.step(axis)} == 0" for axis in copy.once]
                conditions = [f"({text})" for text in steps] if len(steps) > 1 else steps
                both = [
                    f"@pl.when({' & '.join(conditions)})",
                    "def _load():",
                    *(f"{INDENT}{line}" for line in both),
                    "",
                ]
            lines += both
        return lines

    def stores(self, statements: tuple[Statement, ...]) -> list[str]:
        """The copies of results that statements have completed."""
        written = {line.name for line in statements if isinstance(line, Store)}
        return [
            line
            for copy in self.plan.copies
            if copy.writes and not copy.looped and copy.name in written
            for line in self.both(copy)
        ]

    def both(self, copy: Copy) -> list[str]:
        return [BOTH, *(f"{INDENT}{line}" for line in self.copy(copy))]

    def copy(self, copy: Copy, zeros: bool = False) -> list[str]:
        """Lines that start a copy or wait for it."""
        self.printer.helpers["_copy"] = None
        operand = self.plan.operands[copy.name]
        buffer, semaphore = copy.buffer, copy.semaphore
        if zeros:
            buffer, semaphore = copy.zeros, copy.zeros_semaphore
        elif copy.looped:
            buffer, semaphore = f"{buffer}.at[{self.slot}]", f"{semaphore}.at[{self.slot}]"
        places = [self.place(place, i, operand.ref) for i, place in enumerate(copy.places)]
        block = f"({', '.join(places)}{',' if len(places) == 1 else ''})"
        write = ", write=True" if copy.writes else ""
        call = f"_copy({operand.ref}, {buffer}, {semaphore}, {block}, action{write})"
        if len(call) + 8 <= WIDTH:
            return [call]
        name = unused(f"{copy.name}_block", set(names_of(self.plan)))
        call = f"_copy({operand.ref}, {buffer}, {semaphore}, {name}, action{write})"
        return [f"{name} = {block}", call]

    def place(self, place: Expr | str | None, dim: int, ref: str) -> str:
        """A position, a block number with its size, or all of a dimension."""
        if place is None:
            return f"(0, {ref}.shape[{dim}])"
        if not isinstance(place, str):
            return self.printer.text(place)
        axis = self.plan.axes[place]
        return f"({self.printer.step(place)}, {self.printer.text(Local(axis.block))})"
