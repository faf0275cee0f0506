"""The kernel function of a module, in parts."""

from __future__ import annotations

from dataclasses import replace

from kernelgen.planner.bounds import both
from kernelgen.planner.ir import (
    Bind,
    Expr,
    Statement,
    is_traced,
    locals_in,
    locals_of,
    steps_in,
)
from kernelgen.planner.model import Operand, Plan, Segments
from kernelgen.planner.names import names_of, unused
from kernelgen.records import record
from kernelgen.renderer.copying import Copying, LoopText
from kernelgen.renderer.indices import (
    blocked,
    grid_step,
    is_shifted,
    prefetched_names,
    shift_line,
)
from kernelgen.renderer.parts import Names, Parts
from kernelgen.renderer.printer import WIDTH, Printer


@record
class Kernel:
    """The kernel function."""

    name: str
    arguments: str
    preamble: tuple[str, ...]
    first: str
    last: str
    guard: str
    parameters: str
    runs: tuple[str, ...]
    loads: tuple[str, ...]
    loop: LoopText | None
    names: Names
    init: tuple[str, ...]
    step: tuple[str, ...]
    finish: tuple[str, ...]
    outside: tuple[str, ...]
    idle: str
    helpers: tuple[str, ...]
    writes: bool
    bound: str


def kernel(plan: Plan) -> Kernel:
    """The kernel function of a plan."""
    return _Kernel(plan).text()


class _Kernel:
    """Prints the parts of a kernel, of which all have to be known before the names they use are."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.printer = Printer(plan)
        self.copying = Copying(plan, self.printer)
        self.parts = Parts(plan, plan.part, self.printer) if plan.part is not None else None
        taken = set(names_of(plan))
        self.names = Names(*(unused(name, taken) for name in ("live", "whole", "masked", "step")))
        self.conditions = _conditions(plan)

    def text(self) -> Kernel:
        plan, copying, phases = self.plan, self.copying, self.plan.phases
        live = self.printer.text(both(self.conditions)) if self.conditions else ""
        with self.printer.in_part():
            step = self.statements(phases.step)
        head = self.parts.head(step) if self.parts is not None else ()
        step = (*head, *step, *copying.stores(phases.step))
        runs = self.runs()
        finish = (*self.statements(phases.finish), *copying.stores(phases.finish))
        init, outside = self.statements(phases.init), self.statements(plan.outside)
        loads, blocks, loop = tuple(copying.loads()), copying.ends(), copying.text()
        before, inside = self.ends()
        guards = self.guards(live)
        first, last = (self.phase_guard(when) if init or finish else "" for when in _ENDS)
        if loop is not None:
            loop = replace(loop, before=(*loop.before, *inside, *guards))
            guards = []
        steps = _program_ids(plan, self.printer, _read_names(plan))
        statics = _ordered(plan, self.printer.statics)
        name = f"_{plan.spec.name}_kernel"
        bound = ", ".join([name, *(f"{static}={static}" for static in statics)])
        return Kernel(
            name=name,
            arguments=", ".join([*_references(plan), *(["*", *statics] if statics else [])]),
            preamble=(*steps, *before, *blocks, *guards),
            first=first,
            last=last,
            guard=self.names.live if self.conditions else "",
            parameters=", ".join(self.parameters()),
            runs=runs,
            loads=loads,
            loop=loop,
            names=self.names,
            init=init,
            step=step,
            finish=finish,
            outside=outside if self.conditions else (),
            idle=self.negated(self.names.live, self.conditions).strip("()"),
            helpers=tuple(helper.lstrip("_") for helper in self.printer.helpers),
            writes=any(copy.writes for copy in plan.copies),
            bound=f"functools.partial({bound})" if statics else name,
        )

    def statements(self, statements: tuple[Statement, ...]) -> tuple[str, ...]:
        return tuple(self.printer.statements(statements))

    def guards(self, live: str) -> list[str]:
        """The conditions on which a step does work, and needs no masks."""
        lines = [f"{self.names.live} = {live}"] if live else []
        wholes = _wholes(self.plan)
        if wholes:
            lines.append(f"{self.names.whole} = {self.printer.text(both(wholes))}")
        return lines

    def parameters(self) -> list[str]:
        """What a step that runs in several ways is told: its part of a block, whether it masks."""
        part = self.plan.part
        of_part = [part.step, part.axes[part.axis].length] if part is not None else []
        return [*of_part, *([self.names.masked] if self.plan.masked else [])]

    def negated(self, name: str, conditions: list[Expr]) -> str:
        """That a condition does not hold; Python's ``~`` makes a number of its own booleans."""
        defined = {end.name: end.value for walk in self.plan.walks.values() for end in walk.ends}
        traced = any(is_traced(condition, defined) for condition in conditions)
        return f"~{name}" if traced else f"(not {name})"

    def runs(self) -> tuple[str, ...]:
        """The ways in which a step runs, each under its condition."""
        plan, names = self.plan, self.names
        live = [names.live] if self.conditions else []
        wholes = _wholes(plan)
        not_whole = self.negated(names.whole, wholes) if wholes else ""
        whole, cut = " & ".join([*live, names.whole]), " & ".join([*live, not_whole])
        if self.parts is not None:
            return self.parts.runs(names, whole, cut)
        if not plan.masked:
            return ()
        return (
            f"pl.when({whole})(lambda: {names.step}({names.masked}=False))",
            f"pl.when({cut})(lambda: {names.step}({names.masked}=True))",
        )

    def ends(self) -> tuple[list[str], tuple[str, ...]]:
        """The ends of bounds, before the loop of the kernel and inside of it.

        Some depend on the block of an axis that the grid walks from its first block on, which
        follows from the ends of that axis.
        """
        plan, printer = self.plan, self.printer
        ends = _used_ends(plan)
        inner = tuple(end for end in ends if plan.loop and plan.loop.axis in steps_in(end.value))
        shifted = [plan.axes[a] for a in plan.walks if is_shifted(plan, a)]
        moved = {axis.name for axis in shifted}
        late = tuple(end for end in ends if end not in inner and moved & steps_in(end.value))
        early = tuple(end for end in ends if end not in (*inner, *late))
        before = [
            *self.statements(early),
            *(shift_line(printer, axis) for axis in shifted),
            *self.statements(late),
        ]
        return before, self.statements(inner)

    def phase_guard(self, when: str) -> str:
        """The condition of the first or the last step along the reduction axes."""
        plan = self.plan
        conditions = []
        for name in plan.reduction:
            axis = plan.axes[name]
            if axis.grid is None:
                continue
            self.printer.step(name)
            end = "0" if when == "first" else f"pl.num_programs({axis.grid}) - 1"
            conditions.append(f"{grid_step(plan, name)} == {end}")
        if len(conditions) + (plan.computed is not None) > 1:
            conditions = [f"({text})" for text in conditions]
        if plan.computed is not None:
            known = plan.loop is None and plan.computed == both(self.conditions)
            text = self.printer.text(plan.computed)
            conditions.append(self.names.live if known else f"({text})")
        return " & ".join(conditions)


_ENDS = ("first", "last")


def _references(plan: Plan) -> list[str]:
    """The references that ``pallas_call`` hands to the kernel, in its order."""
    return [
        *(f"{name}_ref" for name in prefetched_names(plan)),
        *(_parameter(operand) for operand in (*blocked(plan), *plan.of_kind("output"))),
        *(operand.ref for operand in plan.of_kind("scratch")),
        *(copy.buffer for copy in plan.copies),
        *(copy.zeros for copy in plan.copies if copy.zeros),
        *(copy.semaphore for copy in plan.copies),
        *(copy.zeros_semaphore for copy in plan.copies if copy.zeros),
    ]


def _conditions(plan: Plan) -> list[Expr]:
    """What has to hold for a step to do work, apart from what its loop ensures."""
    if plan.segments is not None and plan.computed is not None:
        return [plan.computed] if plan.loop is None else []
    if plan.loop is None:
        return [walk.live for walk in plan.walks.values()]
    ensured = (*plan.grid, plan.loop.axis)
    return [walk.live for name, walk in plan.walks.items() if name not in ensured]


def _wholes(plan: Plan) -> list[Expr]:
    """What has to hold for a step to need no masks."""
    cut = {*plan.masked, *([plan.part.axis] if plan.part is not None else [])}
    return [walk.whole for name, walk in plan.walks.items() if name in cut]


def _parameter(operand: Operand) -> str:
    """The kernel's argument for an operand; an input that is only updated is not used."""
    is_unread = operand.kind == "input" and operand.memory_space == "ANY" and not operand.layout
    return f"_{operand.ref}" if is_unread else operand.ref


def _program_ids(plan: Plan, printer: Printer, read: set[str]) -> list[str]:
    """The grid positions as variables, in one line where that is short."""
    segments = plan.segments
    merged = (segments.axis, segments.group) if segments is not None else ()
    axes = [plan.axes[a] for a in plan.grid if a in printer.steps and a not in merged]
    numbered = [(axis.grid or 0, grid_step(plan, axis.name)) for axis in axes]
    if segments is not None:
        numbered.append((segments.grid, segments.step))
    pairs = [(name, f"pl.program_id({grid})") for grid, name in sorted(numbered)]
    together = f"{', '.join(name for name, _ in pairs)} = {', '.join(text for _, text in pairs)}"
    lines = [f"{name} = {text}" for name, text in pairs]
    if len(pairs) > 1 and len(together) + 4 <= WIDTH:
        lines = [together]
    return lines + (_segment_lines(plan, segments, printer, read) if segments else [])


def _segment_lines(plan: Plan, segments: Segments, printer: Printer, read: set[str]) -> list[str]:
    """The group and the block of a step, and whether it is the first to visit the block."""
    group, block = plan.axes[segments.group].step, plan.axes[segments.axis].step
    at = f"_ref[{segments.step}]"
    lines = [f"{group}, {block} = {segments.groups}{at}, {segments.blocks}{at}"]
    if segments.first in read:
        before = f"{segments.blocks}_ref[jnp.maximum({segments.step} - 1, 0)]"
        lines.append(f"{segments.first} = ({segments.step} == 0) | ({block} != {before})")
    return lines


def _read_names(plan: Plan) -> set[str]:
    """The variables that the kernel's statements read."""
    phases = plan.phases
    lines = (*phases.init, *phases.step, *phases.finish)
    return {name for line in lines for name in locals_of(line)}


def _used_ends(plan: Plan) -> tuple[Bind, ...]:
    """The ends of bounds that the kernel reads."""
    used = _read_names(plan)
    for walk in plan.walks.values():
        used |= locals_in(walk.live) if plan.segments is None else set()
        used |= locals_in(walk.whole) if walk.whole in _wholes(plan) else set()
    if plan.loop is not None:
        used |= locals_in(plan.loop.first) | locals_in(plan.loop.end)
    if plan.part is not None:
        ends = (plan.part.first, plan.part.end, *plan.part.wholes.values())
        used |= {name for end in ends for name in locals_in(end)}
    return tuple(end for walk in plan.walks.values() for end in walk.ends if end.name in used)


def _ordered(plan: Plan, statics: dict[str, None]) -> list[str]:
    """Sizes, then tiles, each in the order of the axes."""
    axes = plan.axes.values()
    names = [axis.name for axis in axes] + [axis.block for axis in axes if axis.tile is not None]
    if plan.part is not None:
        names.append(plan.part.block)
    return [name for name in names if name in statics]
