"""From a spec to its plan, or to every finding about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kernelgen.diagnostics import Diagnostic, KernelgenError
from kernelgen.language import check
from kernelgen.language.program import (
    Apply,
    Assignment,
    Constant,
    Phase,
    Program,
)
from kernelgen.language.program import walk as parts_of
from kernelgen.planner.bounds import blocks, both, extremes, starts_empty, walk
from kernelgen.planner.budget import (
    check_smem,
    check_vmem,
    memory_of,
    needed_bytes,
    sizes,
    smaller_tiles,
    smem_bytes,
    vmem_limit,
    vmem_map,
)
from kernelgen.planner.context import Context, Lowered
from kernelgen.planner.copies import (
    check_copies,
    copied,
    loop,
    looped_axis,
    plan_copies,
    plan_units,
)
from kernelgen.planner.cost import cost
from kernelgen.planner.ir import Bind, Expr, Literal, Load, Statement, Store, locals_of
from kernelgen.planner.legality import (
    check_accumulators,
    check_aliases,
    check_blocks,
    check_dots,
    check_dtypes,
    check_memory_spaces,
)
from kernelgen.planner.lower import Lowering
from kernelgen.planner.model import Axis, Operand, Part, Phases, Plan, Segments, Walk
from kernelgen.planner.names import taken, unused
from kernelgen.planner.parts import check_parts, plan_part
from kernelgen.planner.replicated import check_replicated
from kernelgen.planner.rewrite import with_safe_differences
from kernelgen.planner.schedule import (
    bounded,
    check_grid,
    check_outputs,
    plan_axes,
    plan_operands,
    skips_outputs,
)
from kernelgen.planner.segments import check_segments, is_segment, plan_segments
from kernelgen.planner.sums import check_sums, dotted
from kernelgen.spec import KernelSpec


def build(spec: KernelSpec, targets: tuple[str, ...] | None = None) -> Plan:
    """Plan a kernel.

    Args:
        spec: A validated spec.
        targets: TPU generations to plan for; those of the spec by default.

    Returns:
        The plan.

    Raises:
        KernelgenError: With every finding about body, schedule, legality and memory.
    """
    chosen = targets or tuple(spec.targets)
    findings = [*check_dtypes(spec), *check_memory_spaces(spec), *check_grid(spec)]
    findings += check_aliases(spec)
    program: Program | None = None
    try:
        program = check(spec)
        findings += check_outputs(spec, program)
        findings += check_copies(spec, program)
        findings += check_segments(spec, program)
        findings += check_accumulators(spec, program)
        findings += check_dots(program, chosen)
        findings += check_sums(spec, program)
        findings += check_parts(spec, program)
    except KernelgenError as error:
        findings += error.diagnostics
    if findings or program is None:
        raise KernelgenError(findings)
    return _schedule(spec, program, chosen)


def _schedule(spec: KernelSpec, program: Program, targets: tuple[str, ...]) -> Plan:
    looped, names = looped_axis(spec, program), copied(spec, program)
    grid = tuple(axis for axis in spec.grid if axis != looped)
    axes = plan_axes(spec, program, grid)
    inner = {name for name in grid if name in spec.reduction}
    inner -= {axis for seen in map(program.domain.seen.get, spec.outputs) for axis in seen or ()}
    walks = {n: walk(bounds, axes, n in inner) for n, bounds in program.domain.bounds.items()}
    segments = plan_segments(spec, program)
    segment, listed = None, {}
    if segments is not None:
        segment = is_segment(segments)
        listed = dict.fromkeys((segments.group, segments.axis), segment)
    named = blocks(walks, axes, grid, listed)
    operands = plan_operands(spec, program, axes, named, names)
    copies = plan_copies(spec, program, operands, axes, grid, names, looped)
    findings = check_blocks(spec, operands) + check_replicated(spec, operands)
    zeros = _zeros(spec, program)
    part = plan_part(spec, program, axes, walks, operands, names, zeros)
    phases, uncut, masked, unlowered = _lower(spec, program, axes, part, walks, operands, segments)
    buffers = vmem_map(spec, phases, axes, operands, copies)
    smem = smem_bytes(spec, operands)

    def needed(tried: dict[str, Axis]) -> int:
        return needed_bytes(vmem_map(spec, phases, tried, operands, copies))

    def smaller(room: int) -> str:
        return smaller_tiles(axes, sizes(spec), needed, room)

    findings += check_vmem(targets, buffers, smaller) + check_smem(targets, smem)
    findings += unlowered
    if findings:
        raise KernelgenError(findings)
    return Plan(
        spec=spec,
        program=program,
        axes=axes,
        extents={name: extremes(size, axes).low for name, size in program.domain.sizes.items()},
        walked=tuple(spec.grid),
        grid=grid,
        segments=segments,
        copies=copies,
        loop=loop(spec, axes, walks, grid, copies, looped, segment),
        part=part,
        operands=operands,
        units=plan_units(operands, axes, names),
        walks=walks,
        blocks=named,
        computed=segment or _computed(spec, walks),
        phases=phases,
        masked=masked,
        outside=zeros if walks and not program.domain.groups else (),
        uncut=uncut,
        empty=_empty(program, axes, operands),
        cost=cost(program, tuple(axes)),
        buffers=buffers,
        memory=memory_of(targets, needed(axes), smem),
        vmem_limit_bytes=vmem_limit(targets, needed(axes)),
    )


def _lower(
    spec: KernelSpec,
    program: Program,
    axes: dict[str, Axis],
    part: Part | None,
    walks: dict[str, Walk],
    operands: dict[str, Operand],
    segments: Segments | None,
) -> tuple[Phases, frozenset[str], frozenset[str], list[Diagnostic]]:
    outputs = [operand for operand in operands.values() if operand.kind == "output"]
    context = Context(
        axes=axes,
        layouts={name: operand.layout for name, operand in operands.items()},
        dtypes={name: operand.dtype for name, operand in operands.items()},
        ragged=frozenset(_ragged(program, axes)),
        bounds=program.domain.bounds,
        walks=walks,
        seen={operand.name: operand.seen for operand in outputs},
        segments=segments,
        dotted=frozenset(),
        unspecified=frozenset(n for n, o in spec.outputs.items() if o.outside == "unspecified"),
        initial=_constants(program),
        finishes=bool(program.finish),
        taken=taken(program, axes.values(), operands),
    )
    findings: list[Diagnostic] = []
    uncut: set[str] = set()
    masked: set[str] = set()
    lowered = {}
    for phase, statements in _statements(program, axes, context.taken).items():
        known = replace(context, phase=phase)
        if phase == "step":
            known = replace(known, axes=part.axes if part else axes, dotted=dotted(spec))
        lowering = Lowering(known, statements)
        lowered[phase] = lowering.run()
        findings += lowering.findings
        uncut |= lowering.uncut
        masked |= lowering.masks.masked
    return Phases(**lowered), frozenset(uncut), frozenset(masked), findings


def _statements(
    program: Program, axes: dict[str, Axis], taken: frozenset[str]
) -> dict[Phase, tuple[Assignment, ...]]:
    """The statements of each phase, safe where a step finds nothing in bounds for a position."""
    step = program.step
    if any(starts_empty(bounds, axes) for bounds in program.domain.bounds.values()):
        step = with_safe_differences(step, lambda name: unused(name, set(taken)))
    return {"init": program.init, "step": step, "finish": program.finish}


def _constants(program: Program) -> dict[str, float]:
    """Scratch buffers that init sets to a number."""
    found: dict[str, float] = {}
    for statement in program.init:
        found.pop(statement.target, None)
        if isinstance(statement.value, Constant) and not statement.operator:
            found[statement.target] = statement.value.value
    return found


def _computed(spec: KernelSpec, walks: dict[str, Walk]) -> Expr | None:
    """Steps for an output block out of bounds do nothing if nobody asks for zeros there."""
    if not skips_outputs(spec) or not bounded(spec):
        return None
    return both([walks[name].live for name in bounded(spec)])


def _zeros(spec: KernelSpec, program: Program) -> tuple[Store, ...]:
    """What is written out of bounds: 0 to the outputs that a step writes."""
    written = dict.fromkeys(s.target for s in program.step if s.storage == "output")
    return tuple(
        Store(name, Literal(0), form="scalar")
        for name in written
        if spec.outputs[name].outside == "zero"
    )


def _combined(program: Program) -> Iterator[str]:
    """Axes along which something combines positions."""
    for _, statements in program.phases():
        for statement in statements:
            for part in parts_of(statement.value):
                if isinstance(part, Apply):
                    yield from part.axes


def _ragged(program: Program, axes: dict[str, Axis]) -> Iterator[str]:
    for name in _combined(program):
        tile = axes[name].tile
        if tile is not None and tile > 1 and name not in program.domain.bounds:
            yield name


def _empty(
    program: Program, axes: dict[str, Axis], operands: dict[str, Operand]
) -> tuple[Statement, ...] | None:
    """What outputs are when there is nothing along some axis that not all of them have.

    The phases that still mean something are lowered on whole arrays: a grid axis without
    positions runs no step, so outputs are finish of init; a whole axis without positions leaves
    reductions with their identity.
    """
    outputs = [operand for operand in operands.values() if operand.kind == "output"]
    missing = tuple(name for name in axes if not all(name in operand.axes for operand in outputs))
    if not missing:
        return None
    special = {*program.domain.bounds}
    special |= {groups.group for groups in program.domain.groups.values()}
    if special & set(missing) or program.domain.indices:
        return tuple(_untouched(operand) for operand in outputs)
    whole = {name: replace(axis, tile=None, role="whole") for name, axis in axes.items()}
    context = Context(
        axes=whole,
        layouts={name: operand.view for name, operand in operands.items()},
        dtypes={name: operand.dtype for name, operand in operands.items()},
        ragged=frozenset(),
        bounds={},
        walks={},
        seen={},
        segments=None,
        dotted=frozenset(),
        unspecified=frozenset(),
        initial={},
        finishes=False,
        taken=taken(program, axes.values(), operands),
        empty=frozenset(missing),
        whole=True,
    )
    if not program.finish:
        return _needed(Lowering(context, program.step).run(), outputs, missing)
    scratch = [operand.name for operand in operands.values() if operand.kind == "scratch"]
    constants = _initial(context, program.init, scratch)
    statements = Lowering(context, program.finish, constants).run()
    stored = {statement.name for statement in statements if isinstance(statement, Store)}
    unwritten = [operand.name for operand in outputs if operand.name not in stored]
    zeros = [Store(name, Literal(0), form="scalar") for name in unwritten]
    return _needed((*statements, *zeros), outputs, missing)


def _untouched(operand: Operand) -> Store:
    """An output of which nothing is computed: 0, or the input that it is updated from."""
    if operand.alias is None:
        return Store(operand.name, Literal(0), form="scalar")
    return Store(operand.name, Load(operand.alias))


def _needed(
    statements: tuple[Statement, ...], outputs: list[Operand], missing: tuple[str, ...]
) -> tuple[Statement, ...]:
    """The statements that matter: outputs that have all the missing axes are empty anyway."""
    empty = {operand.name for operand in outputs if set(missing) <= set(operand.axes)}
    kept: list[Statement] = []
    wanted: set[str] = set()
    for statement in reversed(statements):
        if isinstance(statement, Store):
            if statement.name in empty:
                statement = Store(statement.name, Literal(0), form="scalar")
            wanted |= locals_of(statement)
            kept.insert(0, statement)
        elif isinstance(statement, Bind) and statement.name in wanted:
            wanted |= locals_of(statement)
            kept.insert(0, statement)
    return tuple(kept)


def _initial(
    context: Context, init: tuple[Assignment, ...], scratch: list[str]
) -> dict[str, Lowered]:
    """Scratch buffers as init leaves them, as expressions; 0 where it leaves them alone."""
    zeros = {name: Lowered(Literal(0), (), context.dtypes[name]) for name in scratch}
    lowering = Lowering(context, init, zeros)
    for assignment in init:
        value = lowering.lower(assignment.value)
        if assignment.storage == "local":
            lowering.define(assignment.target, assignment.value, value)
        else:
            lowering.blocks.constants[assignment.target] = value
    return lowering.blocks.constants
