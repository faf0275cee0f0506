"""What lowering knows about a kernel before it looks at the body."""

from __future__ import annotations

from kernelgen.planner.ir import Expr, Layout
from kernelgen.planner.model import Axis
from kernelgen.records import record


@record
class Context:
    """What lowering knows about a kernel.

    Attributes:
        axes: The schedule of every axis.
        layouts: The layout of every operand, output and scratch buffer.
        dtypes: Their element types.
        ragged: Axes whose last block may reach past the extent and that something combines.
        finishes: Whether anything is read after the last step along the reduction axes.
        taken: Names that new variables must not take.
        empty: Axes known to have no positions.
        whole: The body is lowered on whole arrays, in the wrapper.
    """

    axes: dict[str, Axis]
    layouts: dict[str, Layout]
    dtypes: dict[str, str]
    ragged: frozenset[str]
    finishes: bool
    taken: frozenset[str]
    empty: frozenset[str] = frozenset()
    whole: bool = False

    def strip(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The axes that have a dimension in the kernel."""
        return tuple(axis for axis in axes if not self.axes[axis].squeezed)


@record
class Lowered:
    """An expression, the dimensions it has, and its element type."""

    expr: Expr
    layout: Layout
    dtype: str
