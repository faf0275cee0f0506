"""Sums that the matrix unit computes: products with ones, joined to a product of the same operand.

A matrix unit that is wider than a product needs has columns to spare: ones there give the sum of
each row for nothing, in all lanes. Products of bfloat16 with 1 are exact, and both units add in
float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from kernelgen.diagnostics import Diagnostic
from kernelgen.language.program import Apply, Assignment, Cast, Program, Read, Value, walk
from kernelgen.planner import ir
from kernelgen.planner.blocks import Blocks, Variable
from kernelgen.planner.context import Lowered
from kernelgen.planner.ir import REPLICATED, Bind, Local
from kernelgen.planner.layout import without
from kernelgen.planner.masks import Masks
from kernelgen.spec import KernelSpec


def dotted(spec: KernelSpec) -> frozenset[str]:
    """The axes along which a dot computes sums."""
    return frozenset(name for name, axis in spec.axes.items() if axis.sums == "dot")


def check_sums(spec: KernelSpec, program: Program) -> list[Diagnostic]:
    """Findings about sums that a dot cannot compute, and about axes without sums."""
    findings = []
    for name in dotted(spec):
        sums = list(_sums(program.step, name))
        if not sums:
            findings.append(
                Diagnostic(
                    "KG415",
                    f"no step sums along {name}",
                    "remove sums",
                    ("axes", name, "sums"),
                    on_key=True,
                )
            )
        findings += [
            Diagnostic(
                "KG415",
                f"a dot sums bfloat16, not {sum_.args[0].type.dtype}",
                f"write sum(cast(..., bfloat16), {name})",
                statement.pointer,
                sum_.span,
            )
            for statement, sum_ in sums
            if _summed(sum_).type.dtype != "bfloat16"
        ]
    return findings


def _sums(statements: tuple[Assignment, ...], axis: str) -> Iterator[tuple[Assignment, Apply]]:
    for statement in statements:
        for part in walk(statement.value):
            if isinstance(part, Apply) and part.operation.name == "sum" and part.axes == (axis,):
                yield statement, part


def _summed(value: Apply) -> Value:
    """What is summed, as it was before the sum asked for a wider type."""
    (arg,) = value.args
    return arg.value if isinstance(arg, Cast) and arg.type.dtype == "float32" else arg


class Sums:
    """The sums by dot of one phase.

    ``single`` lowers a value, and ``matrix_product`` a contraction along axes of a block.
    """

    def __init__(
        self,
        blocks: Blocks,
        masks: Masks,
        single: Callable[[Value], Lowered],
        matrix_product: Callable[[Apply, tuple[str, ...]], Lowered],
    ) -> None:
        self.blocks = blocks
        self.masks = masks
        self.single = single
        self.matrix_product = matrix_product
        self.joint: list[tuple[Apply, Lowered]] = []

    def sum(self, value: Apply, axis: str) -> Lowered:
        """The sum of each row, in all lanes; of a value without rows, by the vector unit."""
        summed = _summed(value)
        for dot in self.dots(axis):
            part = self.part(dot, "first") if dot.args[0] == summed else None
            if part is not None:
                return part
        x = self.single(self.masks.protected(summed, (axis,), 0))
        if len(x.layout) != 2 or x.layout[0] in (None, axis):
            dims = (x.layout.index(axis),)
            total = ir.Call(value.operation, (ir.As(x.expr, "float32"),), dims)
            return Lowered(total, without(x.layout, (axis,)), "float32")
        ones = ir.Ones(axis, x.dtype)
        by_ones = ir.Dot(x.expr, ones, (1, 0), ((), ()), (2, 2), "float32", False)
        return Lowered(by_ones, (x.layout[0], REPLICATED), "float32")

    def product(self, dot: Apply) -> Lowered | None:
        """A product whose left operand is summed too; None where it is not."""
        sums = _sums(self.blocks.statements, dot.axes[0])
        is_summed = any(_summed(value) == dot.args[0] for _, value in sums)
        return self.part(dot, "rest") if is_summed else None

    def dots(self, axis: str) -> Iterator[Apply]:
        """The products of the phase that contract an axis."""
        for statement in self.blocks.statements:
            for part in walk(statement.value):
                if not isinstance(part, Apply) or part.operation.kind != "contraction":
                    continue
                if part.axes == (axis,):
                    yield part

    def part(self, dot: Apply, part: Literal["first", "rest"]) -> Lowered | None:
        """The sums, or the product itself, of a product that computes both."""
        made = (both for other, both in self.joint if other == dot)
        both = next(made, None) or self.join(dot)
        if both is None:
            return None
        layout = both.layout if part == "rest" else (*both.layout[:-1], REPLICATED)
        return Lowered(ir.Lanes(both.expr, part, len(layout)), layout, both.dtype)

    def join(self, dot: Apply) -> Lowered | None:
        """The variable of a product that computes sums too; None where its operands are not known
        yet, or do not lie as rows times columns."""
        if not all(self.is_known(arg) for arg in dot.args):
            return None
        product = self.matrix_product(dot, dot.axes)
        expr, rows = product.expr, product.layout[0]
        if not isinstance(expr, ir.Dot) or expr.rank != (2, 2) or expr.contract != (1, 0):
            return None
        if rows not in dot.args[0].type.axes or expr.dtype != "float32":
            return None
        name = self.blocks.fresh("product")
        both = replace(expr, y=ir.WithOnes(expr.y))
        self.blocks.lines.append(Bind(name, both, product.layout, expr.dtype))
        joint = Lowered(Local(name), product.layout, expr.dtype)
        self.blocks.variables[name] = Variable(joint)
        self.joint.append((dot, joint))
        return joint

    def is_known(self, value: Value) -> bool:
        """Whether what a value reads is the same throughout the phase, and can be read here."""
        reads = [part for part in walk(value) if isinstance(part, Read)]
        targets = [statement.target for statement in self.blocks.statements]
        return all(
            read.name in self.blocks.variables and targets.count(read.name) == 1
            if read.storage == "local"
            else read.name not in targets
            for read in reads
        )
