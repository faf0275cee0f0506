"""Everything a template prints, as text: the bridge from a plan to its module."""

from __future__ import annotations

import textwrap

from kernelgen.planner.budget import sizes
from kernelgen.planner.model import Operand, Plan
from kernelgen.planner.targets import MIB
from kernelgen.records import record
from kernelgen.renderer import indices, wrapper
from kernelgen.renderer.kernel import Kernel, kernel
from kernelgen.renderer.printer import WIDTH, shape_text


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
        for name in indices.dimensions(plan)
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
    parts = f", sub-blocks of {axis.subtile} where that cuts a block" if axis.subtile else ""
    return f"{name} from {start} up to {stop}{parts}"


def call(plan: Plan) -> Call:
    """The public function of a plan."""
    blocked, outputs = indices.blocked(plan), plan.of_kind("output")
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
        indices=tuple(indices.index_functions(plan)),
        prefetched=len(indices.prefetched_names(plan)),
        grid=wrapper.grid_text(plan),
        in_specs=tuple(indices.block_spec(plan, operand) for operand in blocked),
        out_specs=tuple(indices.block_spec(plan, operand) for operand in outputs),
        out_shapes=tuple(wrapper.out_shape(plan, operand) for operand in outputs),
        scratch_shapes=(
            *(wrapper.scratch_shape(plan, operand) for operand in plan.of_kind("scratch")),
            *(wrapper.buffer_shape(plan, copy, copy.looped) for copy in plan.copies),
            *(wrapper.buffer_shape(plan, copy, False) for copy in plan.copies if copy.zeros),
            *(wrapper.semaphore_shape(copy, copy.looped) for copy in plan.copies),
            *(wrapper.semaphore_shape(copy, False) for copy in plan.copies if copy.zeros),
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
    roles = shape_text([f'"{plan.axes[name].role}"' for name in indices.dimensions(plan)])
    params = [f"dimension_semantics={roles}"]
    if plan.vmem_limit_bytes is not None:
        params.append(f"vmem_limit_bytes={plan.vmem_limit_bytes // MIB} * 2**20")
    return params
