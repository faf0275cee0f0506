"""What lowering knows about a kernel before it looks at the body."""

from __future__ import annotations

from kernelgen.language.program import Bounds, Phase
from kernelgen.planner.ir import Expr, Layout
from kernelgen.planner.model import Axis, Segments, Walk
from kernelgen.records import record


@record
class Context:
    """What lowering knows about a kernel.

    Attributes:
        axes: The schedule of every axis.
        layouts: The layout of every operand, output and scratch buffer.
        dtypes: Their element types.
        ragged: Axes whose last block may reach past the extent and that something combines.
        bounds: For axes that have some.
        walks: For axes with bounds, what they mean for the steps.
        seen: The axes that every output has in the body.
        segments: The dimension of the grid that walks groups and blocks together.
        dotted: Axes along which a dot computes the sums of a step.
        unspecified: Outputs of which positions out of bounds may hold anything.
        initial: The number that init leaves in scratch buffers, where it is one.
        finishes: Whether anything is read after the last step along the reduction axes.
        taken: Names that new variables must not take.
        phase: The phase that is lowered.
        empty: Axes known to have no positions.
        whole: The body is lowered on whole arrays, in the wrapper.
    """

    axes: dict[str, Axis]
    layouts: dict[str, Layout]
    dtypes: dict[str, str]
    ragged: frozenset[str]
    bounds: dict[str, Bounds]
    walks: dict[str, Walk]
    seen: dict[str, tuple[str, ...]]
    segments: Segments | None
    dotted: frozenset[str]
    unspecified: frozenset[str]
    initial: dict[str, float]
    finishes: bool
    taken: frozenset[str]
    phase: Phase = "step"
    empty: frozenset[str] = frozenset()
    whole: bool = False

    def varies(self, axis: str) -> tuple[str, ...]:
        """The axes along which the bounds of an axis vary inside a block."""
        return self.walks[axis].varies if axis in self.walks else ()

    def is_masked(self, axis: str) -> bool:
        """Whether a block may hold positions of an axis that do not count."""
        if axis in self.walks:
            return not self.axes[axis].squeezed or bool(self.varies(axis))
        return axis in self.ragged

    def strip(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The axes that have a dimension in the kernel."""
        return tuple(axis for axis in axes if not self.axes[axis].squeezed)


@record
class Lowered:
    """An expression, the dimensions it has, and its element type."""

    expr: Expr
    layout: Layout
    dtype: str
