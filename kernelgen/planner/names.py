"""Names that the variables of a generated module must not take."""

from __future__ import annotations

from collections.abc import Iterable

from kernelgen.language.program import Program
from kernelgen.planner.model import Axis, Plan
from kernelgen.spec import KernelSpec


def unused(name: str, taken: set[str]) -> str:
    """The name, or the name with underscores behind it until nothing else has it."""
    while name in taken:
        name += "_"
    return name


def declared_names(spec: KernelSpec, program: Program) -> set[str]:
    """The names that a spec gives: nothing that the planner adds may take them."""
    names = {spec.name, *spec.axes, *spec.inputs, *spec.outputs, *spec.scratch}
    return names | {statement.target for _, phase in program.phases() for statement in phase}


def taken(program: Program, axes: Iterable[Axis], operands: Iterable[str]) -> frozenset[str]:
    """Every name that a kernel or its wrapper uses already."""
    names = set(operands)
    for axis in axes:
        names |= {axis.name, axis.step, axis.block}
        names |= {axis.left, axis.skipped, axis.start, axis.stop, axis.walked}
    for _, statements in program.phases():
        names |= {statement.target for statement in statements}
    return frozenset(names)


def names_of(plan: Plan) -> frozenset[str]:
    """Every name that a planned kernel uses already."""
    names = {n for copy in plan.copies for n in (copy.buffer, copy.semaphore, copy.tile)}
    names |= {n for copy in plan.copies for n in (copy.zeros, copy.zeros_semaphore)}
    if plan.part is not None:
        axis = plan.part.axes[plan.part.axis]
        names |= {plan.part.block, plan.part.step, axis.origin, axis.length}
        names |= {tile for _, tile in plan.part.tiles.values()}
    if plan.segments is not None:
        names |= {plan.segments.step, plan.segments.first, *plan.segments.lists}
    return taken(plan.program, plan.axes.values(), plan.operands) | names
