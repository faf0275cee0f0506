"""Names that the variables of a generated module must not take."""

from __future__ import annotations

from collections.abc import Iterable

from kernelgen.language.program import Program
from kernelgen.planner.model import Axis, Plan


def unused(name: str, taken: set[str]) -> str:
    """The name, or the name with underscores behind it until nothing else has it."""
    while name in taken:
        name += "_"
    return name


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
    return taken(plan.program, plan.axes.values(), plan.operands)
