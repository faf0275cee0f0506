"""The public function of a generated module, in parts: signature, checks, blocks, call."""

from __future__ import annotations

from kernelgen.diagnostics import listing
from kernelgen.language.dtypes import DTYPES
from kernelgen.plan.ir import Layout
from kernelgen.plan.model import Axis, Operand, Plan
from kernelgen.render.printer import Printer, jnp_dtype, shape_text

FEW = 3
"""Up to so many operands are checked in one condition; more in a loop."""


def signature(plan: Plan) -> str:
    """Positional arrays, keyword-only tiles, ``interpret``."""
    tiles = [f"{axis.block}={axis.tile}" for axis in tiled(plan)]
    arrays = [operand.name for operand in plan.of_kind("input")]
    return ", ".join([*arrays, "*", *tiles, "interpret=False"])


def static_names(plan: Plan) -> str:
    """The arguments that jit does not trace."""
    names = [axis.block for axis in tiled(plan)] + ["interpret"]
    return shape_text([f'"{name}"' for name in names])


def tiled(plan: Plan) -> list[Axis]:
    """The axes whose tile a caller may choose, in the order of the grid."""
    return [plan.axes[name] for name in plan.grid if not plan.axes[name].squeezed]


def summary(plan: Plan) -> str:
    """One line on what the function takes and gives."""
    inputs = ", ".join(described(operand) for operand in plan.of_kind("input"))
    outputs = ", ".join(described(operand) for operand in plan.of_kind("output"))
    return f"{inputs} -> {outputs}"


def described(operand: Operand) -> str:
    """``a[m, k]``"""
    return f"{operand.name}[{', '.join(operand.axes)}]"


# Shapes and types


def size_lines(plan: Plan) -> list[str]:
    """Rank checks, the sizes of all axes, and checks that operands agree on them."""
    known: dict[str, str] = {}
    unpack: list[str] = []
    checks: list[str] = []
    ranked: list[Operand] = []
    for operand in plan.of_kind("input"):
        shared = [axis for axis in operand.axes if axis in known]
        new = [axis for axis in operand.axes if axis not in known]
        if new:
            ranked.append(operand)
            unpack.extend(_unpacked(operand, new))
        if shared or not operand.axes:
            checks.extend(_shape_check(plan, operand, {a: known[a] for a in shared}))
        known.update(dict.fromkeys(new, operand.name))
    return [*_rank_check(plan, ranked), *unpack, *checks]


def _unpacked(operand: Operand, new: list[str]) -> list[str]:
    if len(new) == len(operand.axes):
        return [f"{shape_text(new).strip('()')} = {operand.name}.shape"]
    return [f"{axis} = {operand.name}.shape[{operand.axes.index(axis)}]" for axis in new]


def _rank_check(plan: Plan, operands: list[Operand]) -> list[str]:
    if not operands:
        return []
    wrong = " or ".join(f"{x.name}.ndim != {len(x.axes)}" for x in operands)
    wanted = listing([described(operand) for operand in operands])
    got = listing([f"{{{operand.name}.shape}}" for operand in operands])
    return [
        f"if {wrong}:",
        f'    raise ValueError(f"{plan.spec.name}: needs {wanted}, got {got}")',
    ]


def _shape_check(plan: Plan, operand: Operand, shared: dict[str, str]) -> list[str]:
    shape = shape_text(list(operand.axes)) if operand.axes else "()"
    origins: dict[str, list[str]] = {}
    for axis, origin in shared.items():
        origins.setdefault(origin, []).append(f"{axis} = {{{axis}}}")
    reasons = listing([f"{', '.join(axes)} in {origin}" for origin, axes in origins.items()])
    but = f", but {reasons}" if reasons else ", but is a scalar"
    return [
        f"if {operand.name}.shape != {shape}:",
        "    raise ValueError("
        f'f"{plan.spec.name}: {described(operand)} has shape {{{operand.name}.shape}}{but}")',
    ]


def dtype_lines(plan: Plan) -> list[str]:
    """Checks of element types."""
    inputs = plan.of_kind("input")
    name = plan.spec.name
    if not inputs:
        return []
    dtypes = {operand.dtype for operand in inputs}
    if len(inputs) > FEW:
        pairs = ", ".join(f'("{x.name}", {x.name}, jnp.{jnp_dtype(x.dtype)})' for x in inputs)
        return [
            f"for name, array, dtype in ({pairs}):",
            "    if array.dtype != dtype:",
            f'        raise TypeError(f"{name}: {{name}} must be {{jnp.dtype(dtype)}}, '
            'got {array.dtype}")',
        ]
    wrong = " or ".join(f"{x.name}.dtype != jnp.{jnp_dtype(x.dtype)}" for x in inputs)
    names = listing([operand.name for operand in inputs])
    wanted = f"{names} must be {inputs[0].dtype}"
    if len(dtypes) > 1:
        wanted = "needs " + listing([f"{x.dtype} {x.name}" for x in inputs])
    got = listing([f"{{{operand.name}.dtype}}" for operand in inputs])
    return [f"if {wrong}:", f'    raise TypeError(f"{name}: {wanted}, got {got}")']


# Empty axes


def empty_lines(plan: Plan) -> list[str]:
    """What to return when some axis has no positions."""
    outputs = plan.of_kind("output")
    everywhere = [
        name for name in plan.axes if all(name in operand.axes for operand in outputs)
    ]
    zeros = _returned([_zeros(operand) for operand in outputs])
    if plan.empty is None:
        return _when_empty(everywhere, [zeros])
    printer = Printer(plan, whole=True)
    lines = printer.statements(plan.empty.statements)
    values = {line.split(" = ")[0]: line.split(" = ", 1)[1] for line in lines}
    if all(values.get(operand.name) == _zeros(operand) for operand in outputs):
        return _when_empty([name for name in plan.axes], [zeros])
    body = _collected(plan, lines)
    return [*_when_empty(everywhere, [zeros]), *_when_empty(list(plan.empty.axes), body)]


def _collected(plan: Plan, lines: list[str]) -> list[str]:
    """The statements that make outputs, the last of them returned at once if it is the only one."""
    outputs = [operand.name for operand in plan.of_kind("output")]
    if len(lines) == 1 and len(outputs) == 1:
        return [f"return {lines[0].split(' = ', 1)[1]}"]
    return [*lines, _returned(outputs)]


def _when_empty(axes: list[str], body: list[str]) -> list[str]:
    if not axes:
        return []
    condition = f"{axes[0]} == 0" if len(axes) == 1 else f"0 in ({', '.join(axes)})"
    return [f"if {condition}:", *(f"    {line}" for line in body)]


def _zeros(operand: Operand) -> str:
    return f"jnp.zeros({_shape(operand.axes)}, jnp.{jnp_dtype(operand.dtype)})"


def _shape(axes: tuple[str, ...]) -> str:
    return shape_text(list(axes)) if axes else "()"


def _returned(values: list[str]) -> str:
    return f"return {', '.join(values)}"


# The call


def block_lines(plan: Plan) -> list[str]:
    """Tiles cut to the axes they are larger than: a block as large as its array is legal."""
    axes = tiled(plan)
    if not axes:
        return []
    names = ", ".join(axis.block for axis in axes)
    return [f"{names} = {', '.join(f'min({axis.block}, {axis.name})' for axis in axes)}"]


def grid_text(plan: Plan) -> str:
    """How many blocks each grid axis has."""
    counts = []
    for name in plan.grid:
        axis = plan.axes[name]
        counts.append(name if axis.squeezed else f"pl.cdiv({name}, {axis.block})")
    return shape_text(counts)


def block_spec(plan: Plan, operand: Operand) -> str:
    """``pl.BlockSpec(block shape, index map)``"""
    if operand.memory_space == "SMEM":
        return "pl.BlockSpec(memory_space=pltpu.SMEM)"
    shape, index = [], []
    for name in operand.view:
        axis = plan.axes[name] if name is not None else None
        squeezed = axis is not None and axis.squeezed
        shape.append("None" if squeezed else axis.block if axis is not None else "1")
        index.append("0" if axis is None or axis.grid is None else axis.step)
    arguments = [plan.axes[name].step for name in plan.grid]
    if prefetched(plan):
        arguments.append("*_")
    indices = shape_text(index)
    return f"pl.BlockSpec({shape_text(shape)}, lambda {', '.join(arguments)}: {indices})"


def prefetched(plan: Plan) -> list[Operand]:
    """The inputs that are delivered to SMEM before the kernel starts."""
    return [operand for operand in plan.of_kind("input") if operand.memory_space == "SMEM"]


def in_order(plan: Plan) -> list[Operand]:
    """Inputs as the kernel takes them: prefetched scalars first."""
    first = prefetched(plan)
    return [*first, *(operand for operand in plan.of_kind("input") if operand not in first)]


def scratch_shape(plan: Plan, operand: Operand) -> str:
    """``pltpu.VMEM(shape, dtype)``"""
    layout: Layout = operand.layout or (None, None)
    shape = shape_text([plan.axes[name].block if name is not None else "1" for name in layout])
    return f"pltpu.{operand.memory_space}({shape}, jnp.{jnp_dtype(operand.dtype)})"


def out_shape(operand: Operand) -> str:
    """The array that ``pallas_call`` makes."""
    shape = shape_text([name or "1" for name in operand.view])
    return f"jax.ShapeDtypeStruct({shape}, jnp.{jnp_dtype(operand.dtype)})"


def argument(operand: Operand) -> str:
    """The array that ``pallas_call`` takes: the argument, or a view with unit dimensions."""
    if not operand.is_view:
        return operand.name
    return f"{operand.name}.reshape({', '.join(name or '1' for name in operand.view)})"


def reshaping(operand: Operand) -> str:
    """What brings an output from its view to its declared shape."""
    return f".reshape({', '.join(operand.axes) or '()'})"


def declared(operand: Operand) -> str:
    """An output in its declared shape."""
    return f"{operand.name}{reshaping(operand) if operand.is_view else ''}"


# Cost


def flops_text(terms: tuple[tuple[int, tuple[str, ...]], ...]) -> str:
    """A sum of products of sizes."""
    texts = []
    for count, axes in terms:
        factors = ([str(count)] if count > 1 or not axes else []) + list(axes)
        texts.append(" * ".join(factors))
    return " + ".join(texts) or "0"


def bytes_text(plan: Plan) -> str:
    """Bytes of all arrays, each counted once, grouped by element width."""
    groups: dict[int, list[str]] = {}
    for operand in (*plan.of_kind("input"), *plan.of_kind("output")):
        bits = DTYPES[operand.dtype].bits
        groups.setdefault(bits, []).append(" * ".join(operand.axes) or "1")
    texts = []
    for bits, products in sorted(groups.items(), reverse=True):
        total = " + ".join(products)
        grouped = f"({total})" if len(products) > 1 else total
        if bits < 8:
            texts.append(f"{grouped} // {8 // bits}")
        else:
            texts.append(grouped if bits == 8 and len(groups) == 1 else f"{bits // 8} * {grouped}")
    return " + ".join(texts)
