"""Everything a template prints, as text: the bridge from a plan to its module."""

from __future__ import annotations

import textwrap
from dataclasses import replace

from kernelgen.planner.bounds import both
from kernelgen.planner.budget import sizes
from kernelgen.planner.ir import Bind, Expr, locals_in, locals_of, steps_in
from kernelgen.planner.model import Operand, Plan, Segments
from kernelgen.planner.names import names_of, unused
from kernelgen.planner.targets import MIB
from kernelgen.records import record
from kernelgen.renderer import wrapper
from kernelgen.renderer.copying import Copying, LoopText
from kernelgen.renderer.printer import WIDTH, Printer, shape_text


@record
class Names:
    """The names of what guards the step of a kernel."""

    live: str
    whole: str
    masked: str
    step: str


@record
class Kernel:
    """The kernel function."""

    name: str
    arguments: str
    preamble: tuple[str, ...]
    first: str
    last: str
    is_masked: bool
    runs: tuple[tuple[str, bool], ...]
    loads: tuple[str, ...]
    loop: LoopText | None
    names: Names
    init: tuple[str, ...]
    step: tuple[str, ...]
    finish: tuple[str, ...]
    outside: tuple[str, ...]
    helpers: tuple[str, ...]
    bound: str


@record
class Call:
    """The public function around the kernel."""

    name: str
    signature: str
    static_names: str
    summary: str
    checks: tuple[str, ...]
    blocks: tuple[str, ...]
    indices: tuple[str, ...]
    prefetched: int
    grid: str
    in_specs: tuple[str, ...]
    out_specs: tuple[str, ...]
    out_shapes: tuple[str, ...]
    scratch_shapes: tuple[str, ...]
    aliases: str
    compiler_params: tuple[str, ...]
    flops: str
    bytes_accessed: str
    transcendentals: str
    arguments: str
    assigned: str
    returned: str
    reshaped: str


@record
class Module:
    """A module: what its templates may name."""

    doc: str
    kernel: Kernel
    call: Call


def module(plan: Plan) -> Module:
    """Describe a plan in the words of the templates."""
    return Module(docstring(plan), kernel(plan), call(plan))


def docstring(plan: Plan) -> str:
    """The formula, each operand, the grid walk and the memory."""
    quotes = '"""'
    text = textwrap.fill(
        quotes + plan.spec.doc, WIDTH, break_long_words=False, break_on_hyphens=False
    ).removeprefix(quotes)
    table = "\n".join(_operand_lines(plan))
    return _escaped(f"{text}\n\n{table}\n\n{_walk(plan)}")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _operand_lines(plan: Plan) -> list[str]:
    rows = []
    for operand in plan.operands.values():
        kind = {"input": "in", "output": "out"}.get(operand.kind, operand.kind)
        rows.append((kind, wrapper.described(operand), operand.dtype, _residency(plan, operand)))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return [
        "    " + "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]


def _residency(plan: Plan, operand: Operand) -> str:
    """The memory space, and the innermost grid axes along which the block stays."""
    if operand.kind == "scratch" or operand.memory_space == "SMEM":
        return operand.memory_space
    resident: list[str] = []
    for axis in reversed(plan.walked):
        if axis in operand.seen:
            break
        resident.insert(0, axis)
    if not resident:
        return operand.memory_space
    return f"{operand.memory_space}, resident over {', '.join(resident)}"


def _walk(plan: Plan) -> str:
    """The grid walk and the memory it takes, in two sentences."""
    segments = plan.segments
    names = [
        f"blocks of {segments.axis} by {name}" if segments and name == segments.group else name
        for name in wrapper.dimensions(plan)
    ]
    grid = f"Grid ({', '.join(names)})"
    if plan.loop is not None:
        grid += f", then a loop over {plan.loop.axis} that copies its blocks"
    order = f", {', '.join(plan.reduction)} walked in order" if plan.reduction else ""
    order += "".join(f"; {_bounded(plan, name)}" for name in plan.walks)
    extents = sizes(plan.spec)
    whole = [f"{a.name} = {extents[a.name]}" for a in plan.axes.values() if a.tile is None]
    at = f" and {', '.join(whole)}" if whole else ""
    vmem = f"VMEM at the default tiles{at}: {plan.memory[0].vmem_bytes / MIB:.1f} MiB."
    return textwrap.fill(f"{grid}{order}. {vmem}", WIDTH)


def _bounded(plan: Plan, name: str) -> str:
    """The bounds of an axis as the spec writes them."""
    axis = plan.spec.axes[name]
    start, stop = axis.start or "0", axis.stop or name
    return f"{name} from {start} up to {stop}"


def kernel(plan: Plan) -> Kernel:
    """The kernel function of a plan."""
    printer = Printer(plan)
    phases = plan.phases
    taken = set(names_of(plan))
    names = Names(*(unused(name, taken) for name in ("live", "whole", "masked", "step")))
    copying = Copying(plan, printer)
    conditions = _conditions(plan)
    live = printer.text(both(conditions)) if conditions else ""
    whole = printer.text(both(_wholes(plan))) if plan.masked else ""
    guards = [f"{names.live} = {live}"] if conditions else []
    guards += [f"{names.whole} = {whole}"] if plan.masked else []
    init, step, finish, outside = (
        tuple(printer.statements(statements))
        for statements in (phases.init, phases.step, phases.finish, plan.outside)
    )
    step = (*step, *copying.stores(phases.step))
    finish = (*finish, *copying.stores(phases.finish))
    loads = tuple(copying.loads())
    blocks = copying.ends()
    loop = copying.text(live)
    ends = _used_ends(plan)
    inner = tuple(end for end in ends if plan.loop and plan.loop.axis in steps_in(end.value))
    shifted = [plan.axes[a] for a in plan.walks if wrapper.grid_step(plan, a) != plan.axes[a].step]
    moved = {axis.name for axis in shifted}
    late = tuple(end for end in ends if end not in inner and moved & steps_in(end.value))
    early = tuple(end for end in ends if end not in (*inner, *late))
    ends_before = [
        *printer.statements(early),
        *(wrapper.shift_line(printer, axis) for axis in shifted),
        *printer.statements(late),
    ]
    first = last = ""
    if phases.init or finish:
        known = names.live if plan.loop is None else ""
        first = _guard(plan, printer, "first", known)
        last = _guard(plan, printer, "last", known)
    steps = _program_ids(plan, printer, _read_names(plan))
    if loop is not None:
        in_loop = (*printer.statements(inner), *guards)
        loop = replace(loop, before=(*loop.before, *in_loop))
        guards = []
    refs = [f"{name}_ref" for name in wrapper.prefetched_names(plan)]
    refs += [_parameter(operand) for operand in (*wrapper.blocked(plan), *plan.of_kind("output"))]
    refs += [operand.ref for operand in plan.of_kind("scratch")]
    refs += [copy.buffer for copy in plan.copies] + [copy.semaphore for copy in plan.copies]
    statics = _ordered(plan, printer.statics)
    name = f"_{plan.spec.name}_kernel"
    bound = ", ".join([name, *(f"{static}={static}" for static in statics)])
    return Kernel(
        name=name,
        arguments=", ".join([*refs, *(["*", *statics] if statics else [])]),
        preamble=(*steps, *ends_before, *blocks, *guards),
        first=first,
        last=last,
        is_masked=bool(plan.masked),
        runs=_runs(plan, names, bool(conditions)),
        loads=loads,
        loop=loop,
        names=names,
        init=init,
        step=step,
        finish=finish,
        outside=outside if conditions else (),
        helpers=tuple(helper.lstrip("_") for helper in printer.helpers),
        bound=f"functools.partial({bound})" if statics else name,
    )


def _conditions(plan: Plan) -> list[Expr]:
    """What has to hold for a step to do work, apart from what its loop ensures."""
    if plan.segments is not None and plan.computed is not None:
        return [plan.computed]
    if plan.loop is None or plan.loop.fills:
        return [walk.live for walk in plan.walks.values()]
    ensured = (*plan.grid, plan.loop.axis)
    return [walk.live for name, walk in plan.walks.items() if name not in ensured]


def _wholes(plan: Plan) -> list[Expr]:
    """What has to hold for a step to need no masks."""
    return [plan.walks[name].whole for name in plan.walks if name in plan.masked]


def _runs(plan: Plan, names: Names, is_guarded: bool) -> tuple[tuple[str, bool], ...]:
    """On which conditions the step runs, and whether with masks."""
    live = [names.live] if is_guarded else []
    if plan.masked:
        unmasked, masked = [*live, names.whole], [*live, f"~{names.whole}"]
        return ((" & ".join(unmasked), False), (" & ".join(masked), True))
    return ((names.live, False),) if is_guarded else ()


def _parameter(operand: Operand) -> str:
    """The kernel's argument for an operand; an input that is only updated is not used."""
    is_unread = operand.kind == "input" and operand.memory_space == "ANY" and not operand.layout
    return f"_{operand.ref}" if is_unread else operand.ref


def _program_ids(plan: Plan, printer: Printer, read: set[str]) -> list[str]:
    """The grid positions as variables, in one line where that is short."""
    segments = plan.segments
    merged = (segments.axis, segments.group) if segments is not None else ()
    axes = [plan.axes[a] for a in plan.grid if a in printer.steps and a not in merged]
    numbered = [(axis.grid or 0, wrapper.grid_step(plan, axis.name)) for axis in axes]
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
        used |= locals_in(walk.whole) if walk.axis in plan.masked else set()
    if plan.loop is not None:
        used |= locals_in(plan.loop.first) | locals_in(plan.loop.end)
    return tuple(end for walk in plan.walks.values() for end in walk.ends if end.name in used)


def _guard(plan: Plan, printer: Printer, when: str, live: str) -> str:
    """The condition of the first or the last step along the reduction axes."""
    conditions = []
    for name in plan.reduction:
        if plan.axes[name].grid is None:
            continue
        axis = plan.axes[name]
        end = "0" if when == "first" else f"pl.num_programs({axis.grid}) - 1"
        printer.step(name)
        conditions.append(f"{wrapper.grid_step(plan, name)} == {end}")
    if len(conditions) + (plan.computed is not None) > 1:
        conditions = [f"({text})" for text in conditions]
    if plan.computed is not None:
        known = live and plan.computed == both(_conditions(plan))
        conditions.append(live if known else f"({printer.text(plan.computed)})")
    return " & ".join(conditions)


def _ordered(plan: Plan, statics: dict[str, None]) -> list[str]:
    """Sizes, then tiles, each in the order of the axes."""
    axes = plan.axes.values()
    return [axis.name for axis in axes if axis.name in statics] + [
        axis.block for axis in axes if axis.block in statics and axis.block != axis.name
    ]


def call(plan: Plan) -> Call:
    """The public function of a plan."""
    blocked, outputs = wrapper.blocked(plan), plan.of_kind("output")
    checks = wrapper.size_lines(plan) + wrapper.dtype_lines(plan) + wrapper.empty_lines(plan)
    views = [operand for operand in outputs if wrapper.reshaping(plan, operand)]
    several = len(outputs) > 1 and bool(views)
    return Call(
        name=plan.spec.name,
        signature=wrapper.signature(plan),
        static_names=wrapper.static_names(plan),
        summary=wrapper.summary(plan),
        checks=tuple(checks),
        blocks=(*wrapper.block_lines(plan), *wrapper.segment_lines(plan)),
        indices=tuple(wrapper.index_functions(plan)),
        prefetched=len(wrapper.prefetched_names(plan)),
        grid=wrapper.grid_text(plan),
        in_specs=tuple(wrapper.block_spec(plan, operand) for operand in blocked),
        out_specs=tuple(wrapper.block_spec(plan, operand) for operand in outputs),
        out_shapes=tuple(wrapper.out_shape(plan, operand) for operand in outputs),
        scratch_shapes=(
            *(wrapper.scratch_shape(plan, operand) for operand in plan.of_kind("scratch")),
            *(wrapper.buffer_shape(plan, copy) for copy in plan.copies),
            *(wrapper.semaphore_shape(copy) for copy in plan.copies),
        ),
        aliases=wrapper.aliases(plan),
        compiler_params=tuple(_compiler_params(plan)),
        flops=wrapper.flops_text(plan.cost.flops),
        bytes_accessed=wrapper.bytes_text(plan),
        transcendentals=wrapper.flops_text(plan.cost.transcendentals),
        arguments=", ".join(
            [*wrapper.prefetched_arguments(plan), *(wrapper.argument(plan, o) for o in blocked)]
        ),
        assigned=", ".join(operand.name for operand in outputs) if several else "",
        returned=", ".join(wrapper.declared(plan, operand) for operand in outputs)
        if several
        else "",
        reshaped=wrapper.reshaping(plan, views[0]) if views and not several else "",
    )


def _compiler_params(plan: Plan) -> list[str]:
    roles = shape_text([f'"{plan.axes[name].role}"' for name in wrapper.dimensions(plan)])
    params = [f"dimension_semantics={roles}"]
    if plan.vmem_limit_bytes is not None:
        params.append(f"vmem_limit_bytes={plan.vmem_limit_bytes // MIB} * 2**20")
    return params
