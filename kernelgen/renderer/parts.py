"""The parts of blocks that a step sees, as Python source."""

from __future__ import annotations

from kernelgen.planner.bounds import both, first_position
from kernelgen.planner.model import Part, Plan
from kernelgen.planner.names import names_of, unused
from kernelgen.records import record
from kernelgen.renderer.printer import INDENT, Printer


@record
class Names:
    """The names of what guards the step of a kernel."""

    live: str
    whole: str
    masked: str
    step: str


class Parts:
    """Prints the parts of a plan; ``printer`` remembers the names that they use."""

    def __init__(self, plan: Plan, part: Part, printer: Printer) -> None:
        self.plan = plan
        self.part = part
        self.printer = printer
        taken = set(names_of(plan))
        self.at, self.run, self.cut = (unused(n, taken) for n in ("at", "sub_step", "_parts"))

    def head(self, step: tuple[str, ...]) -> tuple[str, ...]:
        """The first position of a part of a block, and the part of each operand of the step."""
        part, at = self.part, self.at
        length = part.axes[part.axis].length
        tiles = [
            (self.printer.tiles.get(name, f"{name}_ref"), dim, tile)
            for name, (dim, tile) in part.tiles.items()
            if any(f"{tile}[" in line for line in step)
        ]
        views = [f"{ref}.at[{', '.join([*[':'] * dim, at])}]" for ref, dim, _ in tiles]
        own = (
            f"{at} = pl.ds({part.step} * {length}, {length})",
            f"{', '.join(tile for _, _, tile in tiles)} = {', '.join(views)}",
        )
        return (self.origin(length), *(own if tiles else ()))

    def origin(self, length: str) -> str:
        """The first position of a part of a block, where parts have some length."""
        part = self.part
        block = self.printer.text(first_position(self.plan.axes[part.axis]))
        return f"{part.axes[part.axis].origin} = {block} + {part.step} * {length}"

    def runs(self, names: Names, whole: str, cut: str) -> tuple[str, ...]:
        """A block that no bound cuts, and the sub-blocks in bounds of one that is cut.

        ``whole`` and ``cut`` are the conditions of the two.
        """
        part, printer = self.part, self.printer
        block, sub = printer.length(part.axis), printer.static(part.block)
        unmasked, masked = (
            (f", {names.masked}={flag}" if self.plan.masked else "") for flag in (False, True)
        )
        body = [f"{names.step}({part.step}, {sub})"]
        if self.plan.masked:
            wholes = [part.wholes[name] for name in self.plan.walks if name in self.plan.masked]
            body = [
                self.origin(sub),
                f"{names.whole} = {printer.text(both(wholes))}",
                f"pl.when({names.whole})(lambda: {names.step}({part.step}, {sub}{unmasked}))",
                f"pl.when(~{names.whole})(lambda: {names.step}({part.step}, {sub}{masked}))",
            ]
        first, end = printer.text(part.first), printer.text(part.end)
        return (
            f"def {self.run}({part.step}, _):",
            *(f"{INDENT}{line}" for line in body),
            "",
            f"pl.when({whole})(lambda: {names.step}(0, {block}{unmasked}))",
            "",
            f"@pl.when({cut})",
            f"def {self.cut}():",
            *(f"{INDENT}{line}" for line in self.cleared()),
            f"{INDENT}lax.fori_loop({first}, {end}, {self.run}, None)",
        )

    def cleared(self) -> list[str]:
        """Zeros in the outputs of a block of which not every sub-block is computed."""
        segments, lines = self.plan.segments, self.printer.statements(self.part.zeros)
        if segments is None or not lines:
            return lines
        return [
            f"@pl.when({segments.first})",
            "def _clear():",
            *(f"{INDENT}{line}" for line in lines),
            "",
        ]
