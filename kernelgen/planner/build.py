"""From a spec to its plan, or to every finding about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kernelgen.diagnostics import Diagnostic, KernelgenError
from kernelgen.language import check
from kernelgen.language.program import Apply, Assignment, Program, walk
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
from kernelgen.planner.cost import cost
from kernelgen.planner.ir import Bind, Literal, Statement, Store, locals_of
from kernelgen.planner.legality import (
    check_accumulators,
    check_blocks,
    check_dots,
    check_dtypes,
    check_memory_spaces,
)
from kernelgen.planner.lower import Lowering
from kernelgen.planner.model import Axis, Operand, Phases, Plan
from kernelgen.planner.names import taken
from kernelgen.planner.schedule import check_grid, plan_axes, plan_operands
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
    program: Program | None = None
    try:
        program = check(spec)
        findings += check_accumulators(spec, program)
        findings += check_dots(program, chosen)
    except KernelgenError as error:
        findings += error.diagnostics
    if findings or program is None:
        raise KernelgenError(findings)
    return _schedule(spec, program, chosen)


def _schedule(spec: KernelSpec, program: Program, targets: tuple[str, ...]) -> Plan:
    axes = plan_axes(spec, program)
    operands = plan_operands(spec, program, axes)
    findings = check_blocks(spec, operands)
    phases, uncut, unlowered = _lower(program, axes, operands)
    buffers = vmem_map(spec, phases, axes, operands)
    smem = smem_bytes(spec, operands)

    def needed(tried: dict[str, Axis]) -> int:
        return needed_bytes(vmem_map(spec, phases, tried, operands))

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
        grid=tuple(spec.grid),
        operands=operands,
        phases=phases,
        uncut=uncut,
        empty=_empty(program, axes, operands),
        cost=cost(program, tuple(axes)),
        buffers=buffers,
        memory=memory_of(targets, needed(axes), smem),
        vmem_limit_bytes=vmem_limit(targets, needed(axes)),
    )


def _lower(
    program: Program, axes: dict[str, Axis], operands: dict[str, Operand]
) -> tuple[Phases, frozenset[str], list[Diagnostic]]:
    context = Context(
        axes=axes,
        layouts={name: operand.layout for name, operand in operands.items()},
        dtypes={name: operand.dtype for name, operand in operands.items()},
        ragged=frozenset(_ragged(program, axes)),
        finishes=bool(program.finish),
        taken=taken(program, axes.values(), operands),
    )
    findings: list[Diagnostic] = []
    uncut: set[str] = set()
    lowered = {}
    for phase in ("init", "step", "finish"):
        lowering = Lowering(context, getattr(program, phase))
        lowered[phase] = lowering.run()
        findings += lowering.findings
        uncut |= lowering.uncut
    return Phases(**lowered), frozenset(uncut), findings


def _combined(program: Program) -> Iterator[str]:
    """Axes along which something combines positions."""
    for _, statements in program.phases():
        for statement in statements:
            for part in walk(statement.value):
                if isinstance(part, Apply):
                    yield from part.axes


def _ragged(program: Program, axes: dict[str, Axis]) -> Iterator[str]:
    for name in _combined(program):
        tile = axes[name].tile
        if tile is not None and tile > 1:
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
    whole = {name: replace(axis, tile=None, role="whole") for name, axis in axes.items()}
    context = Context(
        axes=whole,
        layouts={name: operand.view for name, operand in operands.items()},
        dtypes={name: operand.dtype for name, operand in operands.items()},
        ragged=frozenset(),
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
