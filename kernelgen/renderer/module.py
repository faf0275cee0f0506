"""Everything a template prints, as text: the bridge from a plan to its module."""

from __future__ import annotations

import textwrap

from kernelgen.planner.budget import sizes
from kernelgen.planner.model import Axis, Operand, Plan
from kernelgen.planner.targets import MIB
from kernelgen.records import record
from kernelgen.renderer import wrapper
from kernelgen.renderer.printer import Printer, shape_text
from kernelgen.renderer.wrapper import WIDTH


@record
class Kernel:
    """The kernel function."""

    name: str
    arguments: str
    steps: tuple[str, ...]
    first: str
    last: str
    init: tuple[str, ...]
    step: tuple[str, ...]
    finish: tuple[str, ...]
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
    prefetched: int
    grid: str
    in_specs: tuple[str, ...]
    out_specs: tuple[str, ...]
    out_shapes: tuple[str, ...]
    scratch_shapes: tuple[str, ...]
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
    for axis in reversed(plan.grid):
        if axis in operand.axes:
            break
        resident.insert(0, axis)
    if not resident:
        return operand.memory_space
    return f"{operand.memory_space}, resident over {', '.join(resident)}"


def _walk(plan: Plan) -> str:
    """The grid walk and the memory it takes, in two sentences."""
    grid = f"Grid ({', '.join(plan.grid)})"
    order = f", {', '.join(plan.reduction)} walked in order" if plan.reduction else ""
    extents = sizes(plan.spec)
    whole = [f"{a.name} = {extents[a.name]}" for a in plan.axes.values() if a.tile is None]
    at = f" and {', '.join(whole)}" if whole else ""
    vmem = f"VMEM at the default tiles{at}: {plan.memory[0].vmem_bytes / MIB:.1f} MiB."
    return textwrap.fill(f"{grid}{order}. {vmem}", WIDTH)


def kernel(plan: Plan) -> Kernel:
    """The kernel function of a plan."""
    printer = Printer(plan)
    reduction = [plan.axes[name] for name in plan.reduction]
    phases = plan.phases
    guarded = bool(phases.init or phases.finish)
    init = printer.statements(phases.init)
    step = printer.statements(phases.step)
    finish = printer.statements(phases.finish)
    if guarded:
        for axis in reduction:
            printer.step(axis.name)
    refs = [operand.ref for operand in (*wrapper.in_order(plan), *plan.of_kind("output"))]
    refs += [operand.ref for operand in plan.of_kind("scratch")]
    statics = _ordered(plan, printer.statics)
    name = f"_{plan.spec.name}_kernel"
    bound = ", ".join([name, *(f"{static}={static}" for static in statics)])
    return Kernel(
        name=name,
        arguments=", ".join([*refs, *(["*", *statics] if statics else [])]),
        steps=tuple(
            f"{plan.axes[axis].step} = pl.program_id({plan.axes[axis].grid})"
            for axis in plan.grid
            if axis in printer.steps
        ),
        first=_guard(reduction, "{step} == 0"),
        last=_guard(reduction, "{step} == pl.num_programs({grid}) - 1"),
        init=tuple(init),
        step=tuple(step),
        finish=tuple(finish),
        helpers=tuple(helper.lstrip("_") for helper in printer.helpers),
        bound=f"functools.partial({bound})" if statics else name,
    )


def _guard(reduction: list[Axis], condition: str) -> str:
    conditions = [condition.format(step=axis.step, grid=axis.grid) for axis in reduction]
    if len(conditions) > 1:
        conditions = [f"({text})" for text in conditions]
    return " & ".join(conditions)


def _ordered(plan: Plan, statics: dict[str, None]) -> list[str]:
    """Sizes, then tiles, each in the order of the axes."""
    axes = plan.axes.values()
    return [axis.name for axis in axes if axis.name in statics] + [
        axis.block for axis in axes if axis.block in statics and axis.block != axis.name
    ]


def call(plan: Plan) -> Call:
    """The public function of a plan."""
    inputs, outputs = wrapper.in_order(plan), plan.of_kind("output")
    blocked = [operand for operand in inputs if operand.memory_space != "SMEM"]
    checks = wrapper.size_lines(plan) + wrapper.dtype_lines(plan) + wrapper.empty_lines(plan)
    views = [operand for operand in outputs if operand.is_view]
    several = len(outputs) > 1 and bool(views)
    return Call(
        name=plan.spec.name,
        signature=wrapper.signature(plan),
        static_names=wrapper.static_names(plan),
        summary=wrapper.summary(plan),
        checks=tuple(checks),
        blocks=tuple(wrapper.block_lines(plan)),
        prefetched=len(wrapper.prefetched(plan)),
        grid=wrapper.grid_text(plan),
        in_specs=tuple(wrapper.block_spec(plan, operand) for operand in blocked),
        out_specs=tuple(wrapper.block_spec(plan, operand) for operand in outputs),
        out_shapes=tuple(wrapper.out_shape(operand) for operand in outputs),
        scratch_shapes=tuple(
            wrapper.scratch_shape(plan, operand) for operand in plan.of_kind("scratch")
        ),
        compiler_params=tuple(_compiler_params(plan)),
        flops=wrapper.flops_text(plan.cost.flops),
        bytes_accessed=wrapper.bytes_text(plan),
        transcendentals=wrapper.flops_text(plan.cost.transcendentals),
        arguments=", ".join(wrapper.argument(operand) for operand in inputs),
        assigned=", ".join(operand.name for operand in outputs) if several else "",
        returned=", ".join(wrapper.declared(operand) for operand in outputs) if several else "",
        reshaped=wrapper.reshaping(views[0]) if views and not several else "",
    )


def _compiler_params(plan: Plan) -> list[str]:
    roles = shape_text([f'"{plan.axes[name].role}"' for name in plan.grid])
    params = [f"dimension_semantics={roles}"]
    if plan.vmem_limit_bytes is not None:
        params.append(f"vmem_limit_bytes={plan.vmem_limit_bytes // MIB} * 2**20")
    return params
