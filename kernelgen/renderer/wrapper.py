"""The public function of a generated module, in parts: signature, checks, blocks, call."""

from __future__ import annotations

from kernelgen.diagnostics import listing
from kernelgen.language.dtypes import DTYPES
from kernelgen.planner.ir import REPLICATED, Layout
from kernelgen.planner.model import Axis, Copy, Operand, Plan
from kernelgen.planner.names import names_of, unused
from kernelgen.planner.targets import LANES
from kernelgen.renderer.indices import blocked, dimensions, prefetched, prefetched_names
from kernelgen.renderer.printer import WIDTH, Printer, jnp_dtype, shape_text


def signature(plan: Plan) -> str:
    """Positional arrays, keyword-only tiles, ``interpret``."""
    tiles = [f"{axis.block}={axis.tile}" for axis in tiled(plan)]
    tiles += [f"{plan.part.block}={plan.part.tile}"] if plan.part is not None else []
    arrays = [operand.name for operand in plan.of_kind("input")]
    return ", ".join([*arrays, "*", *tiles, "interpret=False"])


def static_names(plan: Plan) -> str:
    """The arguments that jit does not trace."""
    parts = [plan.part.block] if plan.part is not None else []
    names = [*(axis.block for axis in tiled(plan)), *parts, "interpret"]
    return shape_text([f'"{name}"' for name in names])


def tiled(plan: Plan) -> list[Axis]:
    """The axes whose tile a caller may choose, in the order of the grid."""
    return [plan.axes[name] for name in plan.walked if not plan.axes[name].squeezed]


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
    known: dict[str, str] = dict.fromkeys(plan.extents, "")
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
            checks.extend(_shape_check(operand))
        known.update(dict.fromkeys(new, operand.name))
    printer = Printer(plan)
    follow = [f"{axis} = {printer.text(extent)}" for axis, extent in plan.extents.items()]
    return [*_rank_checks(ranked), *_together(unpack), *follow, *checks]


def _together(unpack: list[str]) -> list[str]:
    """Two unpackings in one line, as in ``(m, k), n = a.shape, b.shape[1]``."""
    if len(unpack) != 2:
        return unpack
    pairs = [line.split(" = ") for line in unpack]
    names = ", ".join(f"({name})" if "," in name else name for name, _ in pairs)
    return [f"{names} = {', '.join(shape for _, shape in pairs)}"]


def _unpacked(operand: Operand, new: list[str]) -> list[str]:
    if len(new) == len(operand.axes):
        return [f"{', '.join(new)}{',' if len(new) == 1 else ''} = {operand.name}.shape"]
    if len(new) > 1:
        names = [axis if axis in new else "_" for axis in operand.axes]
        return [f"{', '.join(names)} = {operand.name}.shape"]
    return [f"{new[0]} = {operand.name}.shape[{operand.axes.index(new[0])}]"]


def _rank_checks(operands: list[Operand]) -> list[str]:
    """One check of all operands where its message fits on a line, else one for each."""
    wrong = " or ".join(f"{x.name}.ndim != {len(x.axes)}" for x in operands)
    wanted = listing([described(operand) for operand in operands])
    got = listing([f"{{{operand.name}.shape}}" for operand in operands])
    together = [f"if {wrong}:", _raised("ValueError", f"expected {wanted}, got {got}")]
    if len(operands) > 1 and not _fits(*together):
        return [line for operand in operands for line in _rank_checks([operand])]
    return together if operands else []


def _shape_check(operand: Operand) -> list[str]:
    shape = _shape(operand.axes)
    message = f"{described(operand)} is {{{operand.name}.shape}}, expected {{{shape}}}"
    return [f"if {operand.name}.shape != {shape}:", _raised("ValueError", message)]


def _raised(error: str, message: str) -> str:
    return f'    raise {error}(f"{message}")'


def _fits(*lines: str) -> bool:
    return all(len(line) + 4 <= WIDTH for line in lines)


def dtype_lines(plan: Plan) -> list[str]:
    """Checks of element types: one condition where it fits on a line, else a loop."""
    inputs = plan.of_kind("input")
    wrong = " or ".join(f"{x.name}.dtype != jnp.{jnp_dtype(x.dtype)}" for x in inputs)
    wanted = listing([operand.dtype for operand in inputs])
    if len({operand.dtype for operand in inputs}) == 1:
        wanted = inputs[0].dtype
    names = listing([operand.name for operand in inputs])
    got = listing([f"{{{operand.name}.dtype}}" for operand in inputs])
    together = [f"if {wrong}:", _raised("TypeError", f"{names} must be {wanted}, got {got}")]
    return together if len(inputs) == 1 or _fits(*together) else _dtype_loop(plan)


def _dtype_loop(plan: Plan) -> list[str]:
    inputs = plan.of_kind("input")
    name, array, dtype = (unused(n, set(names_of(plan))) for n in ("name", "array", "dtype"))
    if len({operand.dtype for operand in inputs}) == 1:
        pairs = ", ".join(f'("{operand.name}", {operand.name})' for operand in inputs)
        wanted = inputs[0].dtype
        return [
            f"for {name}, {array} in ({pairs}):",
            f"    if {array}.dtype != jnp.{jnp_dtype(wanted)}:",
            f'        raise TypeError(f"{{{name}}} must be {wanted}, got {{{array}.dtype}}")',
        ]
    triples = ", ".join(f'("{x.name}", {x.name}, jnp.{jnp_dtype(x.dtype)})' for x in inputs)
    message = f"{{{name}}} must be {{jnp.dtype({dtype})}}, got {{{array}.dtype}}"
    return [
        f"for {name}, {array}, {dtype} in ({triples}):",
        f"    if {array}.dtype != {dtype}:",
        f'        raise TypeError(f"{message}")',
    ]


# Empty axes


def empty_lines(plan: Plan) -> list[str]:
    """What to return when some axis has no positions."""
    outputs = plan.of_kind("output")
    condition = f"if 0 in ({', '.join(plan.axes)}):"
    if len(plan.axes) == 1:
        condition = f"if {next(iter(plan.axes))} == 0:"
    if plan.empty is None:
        return [condition, f"    return {', '.join(_zeros(operand) for operand in outputs)}"]
    lines = Printer(plan, whole=True).statements(plan.empty)
    if len(lines) == len(outputs) == 1:
        return [condition, f"    return {lines[0].split(' = ', 1)[1]}"]
    returned = ", ".join(operand.name for operand in outputs)
    return [condition, *(f"    {line}" for line in lines), f"    return {returned}"]


def _zeros(operand: Operand) -> str:
    return f"jnp.zeros({_shape(operand.axes)}, jnp.{jnp_dtype(operand.dtype)})"


def _shape(axes: tuple[str, ...]) -> str:
    return shape_text(list(axes)) if axes else "()"


# The call


def block_lines(plan: Plan) -> list[str]:
    """Tiles cut to the axes they are larger than, and arrays that are copied in whole tiles."""
    lines = _part_lines(plan)
    padded = {axis for units in plan.units.values() for axis in units}
    # What is copied has 8 rows at least, and what has sub-blocks has 128.
    uncut = plan.uncut - padded - ({plan.part.axis} if plan.part is not None else set())
    cut = [axis for axis in tiled(plan) if axis.name not in uncut]
    names = ", ".join(axis.block for axis in cut)
    together = f"{names} = {', '.join(_cut(plan, axis) for axis in cut)}"
    if len(together) + 4 <= WIDTH:
        lines += [together] if cut else []
    else:
        lines += [f"{axis.block} = {_cut(plan, axis)}" for axis in cut]
    for axis in tiled(plan):
        if axis.name in uncut:
            lines += [
                f"if {axis.name} > 1:  # a product by a single narrow row does not lower",
                f"    {axis.block} = {_cut(plan, axis)}",
            ]
    return [*lines, *_padded_arguments(plan)]


def _cut(plan: Plan, axis: Axis) -> str:
    """A block as large as its array is legal, but copies move whole tiles of memory."""
    if plan.part is not None and plan.part.axis == axis.name:
        return f"min({axis.block}, {_whole(axis.name, plan.part.block)})"
    units = [units[axis.name] for units in plan.units.values() if axis.name in units]
    return f"min({axis.block}, {_whole(axis.name, max(units, default=1))})"


def _part_lines(plan: Plan) -> list[str]:
    """Sub-blocks cut to the axis that they are larger than; they have to divide the blocks."""
    part = plan.part
    if part is None:
        return []
    block = plan.axes[part.axis].block
    message = f"{block} = {{{block}}} is no multiple of {part.block} = {{{part.block}}}"
    return [
        f"if {block} % {part.block}:",
        _raised("ValueError", message),
        f"{part.block} = min({part.block}, {_whole(part.axis, LANES)})",
    ]


def _whole(size: str, unit: int | str) -> str:
    return size if unit == 1 else f"pl.cdiv({size}, {unit}) * {unit}"


def _padded_arguments(plan: Plan) -> list[str]:
    lines = []
    for operand in plan.of_kind("input"):
        units = plan.units.get(operand.name)
        if units:
            widths = [f"(0, -{a} % {units[a]})" if a in units else "(0, 0)" for a in operand.view]
            array = _viewed(operand)
            lines.append(f"{operand.name} = jnp.pad({array}, {shape_text(widths)})")
    return ["# Copies move whole (8, 128) tiles.", *lines] if lines else []


def segment_lines(plan: Plan) -> list[str]:
    """The lists of groups and blocks that the grid walks together."""
    segments = plan.segments
    if segments is None:
        return []
    axis, group, offsets = plan.axes[segments.axis], segments.group, segments.offsets
    size, block = axis.name, axis.block if not axis.squeezed else "1"
    taken = set(names_of(plan))
    cuts = unused("cuts", taken)
    found = f'jnp.searchsorted({offsets}, {cuts}, side="right") - 1'
    return [
        f"# A segment of {size} ends where a block or a group does; those without positions come",
        "# last, as copies of the last one that has some.",
        f"{cuts} = jnp.append(jnp.arange(0, {size}, {block}), jnp.clip({offsets}, 0, {size}))",
        f"{cuts} = jnp.sort({cuts})",
        f"{cuts} = jnp.sort(jnp.where(jnp.diff({cuts}, append={size}) > 0, {cuts}, {size}))",
        f"{segments.count} = jnp.sum({cuts} < {size}, keepdims=True, dtype=jnp.int32)",
        f"{cuts} = jnp.minimum({cuts}, {cuts}[{segments.count} - 1])",
        f"{segments.groups} = jnp.clip({found}, 0, {group} - 1)",
        f"{segments.blocks} = {cuts} // {block}" if block != "1" else f"{segments.blocks} = {cuts}",
    ]


def grid_text(plan: Plan) -> str:
    """How many blocks each grid axis has."""
    counts = []
    for name in dimensions(plan):
        axis = plan.axes[name]
        if plan.segments is not None and name == plan.segments.group:
            cut = plan.axes[plan.segments.axis]
            (edges,) = plan.operands[plan.segments.offsets].axes
            blocks = cut.name if cut.squeezed else f"pl.cdiv({cut.name}, {cut.block})"
            counts.append(f"{blocks} + {edges}")
            continue
        count = name if axis.squeezed else f"pl.cdiv({name}, {axis.block})"
        walk = plan.walks.get(name)
        if walk is not None and walk.span is not None:
            count = f"min({count}, {Printer(plan).text(walk.span)})"
        counts.append(count)
    return shape_text(counts)


def prefetched_arguments(plan: Plan) -> list[str]:
    """The scalars and lists that are delivered to SMEM, as arguments of the call."""
    lists = plan.segments.lists if plan.segments is not None else ()
    return [*(argument(plan, operand) for operand in prefetched(plan)), *lists]


def aliases(plan: Plan) -> str:
    """Which inputs' buffers outputs take, by their positions."""
    inputs = [*prefetched_names(plan), *(operand.name for operand in blocked(plan))]
    pairs = [
        f"{inputs.index(operand.alias)}: {i}"
        for i, operand in enumerate(plan.of_kind("output"))
        if operand.alias is not None
    ]
    return f"{{{', '.join(pairs)}}}" if pairs else ""


def scratch_shape(plan: Plan, operand: Operand) -> str:
    """``pltpu.VMEM(shape, dtype)``"""
    layout: Layout = operand.layout or (None, None)
    units = {None: "1", REPLICATED: str(LANES)}
    shape = shape_text([units.get(n) or plan.axes[str(n)].block for n in layout])
    return f"pltpu.{operand.memory_space}({shape}, jnp.{jnp_dtype(operand.dtype)})"


def buffer_shape(plan: Plan, copy: Copy, several: bool) -> str:
    """``pltpu.VMEM(shape, dtype)`` of the blocks, or of one, of an operand that a kernel copies."""
    operand = plan.operands[copy.name]
    dims = [plan.axes[name].block if name is not None else "1" for name in operand.layout]
    shape = shape_text([str(copy.buffers), *dims] if several else dims)
    return f"pltpu.VMEM({shape}, jnp.{jnp_dtype(operand.dtype)})"


def semaphore_shape(copy: Copy, several: bool) -> str:
    """One DMA semaphore for each buffer, or one for all copies."""
    return "pltpu.SemaphoreType.DMA" + (f"(({copy.buffers},))" if several else "")


def out_shape(plan: Plan, operand: Operand) -> str:
    """The array that ``pallas_call`` makes."""
    units = plan.units.get(operand.name, {})
    shape = [_whole(name, units.get(name, 1)) if name else "1" for name in operand.view]
    return f"jax.ShapeDtypeStruct({shape_text(shape)}, jnp.{jnp_dtype(operand.dtype)})"


def argument(plan: Plan, operand: Operand) -> str:
    """The array that ``pallas_call`` takes: the argument, or a view with unit dimensions."""
    return operand.name if plan.units.get(operand.name) else _viewed(operand)


def _viewed(operand: Operand) -> str:
    if not operand.is_view:
        return operand.name
    return f"{operand.name}.reshape({', '.join(name or '1' for name in operand.view)})"


def reshaping(plan: Plan, operand: Operand) -> str:
    """What brings an output from the array of ``pallas_call`` to its declared shape."""
    units = plan.units.get(operand.name, {})
    sliced = f"[{', '.join(f':{a}' if a in units else ':' for a in operand.view)}]" if units else ""
    if not operand.is_view:
        return sliced
    return f"{sliced}.reshape({', '.join(operand.axes) or '()'})"


def declared(plan: Plan, operand: Operand) -> str:
    """An output in its declared shape."""
    return f"{operand.name}{reshaping(plan, operand)}"


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
    bits: dict[str, int] = {}
    for operand in (*plan.of_kind("input"), *plan.of_kind("output")):
        elements = " * ".join(operand.axes) or "1"
        bits[elements] = bits.get(elements, 0) + DTYPES[operand.dtype].bits
    groups: dict[int, list[str]] = {}
    for elements, count in bits.items():
        groups.setdefault(count, []).append(elements)
    return " + ".join(_bytes_of(count, products) for count, products in groups.items())


def _bytes_of(bits: int, products: list[str]) -> str:
    total = " + ".join(products)
    if len(products) > 1 and bits != 8:
        total = f"({total})"
    if bits % 8:
        return f"{bits} * {total} // 8"
    return total if bits == 8 else f"{bits // 8} * {total}"
