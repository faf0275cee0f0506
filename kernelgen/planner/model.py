"""The plan: everything about a kernel that its module prints, decided and frozen."""

from __future__ import annotations

from typing import Literal

from kernelgen.language.program import Program
from kernelgen.planner.ir import Bind, Expr, Layout, Statement, Store
from kernelgen.records import record
from kernelgen.spec import KernelSpec

Role = Literal["parallel", "arbitrary", "whole"]
"""How an axis is walked: in any order, in order, or in one block."""


@record
class Axis:
    """An axis and its place in the schedule.

    Attributes:
        name: The axis; also the Python name of its size.
        tile: Positions in one block; None for a whole axis.
        role: How the grid walks it.
        grid: Its dimension of the grid; None for a whole axis.
        step: The Python name of its grid position.
        left: The Python name of how many positions are left from the current block on.
        skipped: The Python name of how many of the block's first positions are out of bounds.
        start: The Python name of the first position in bounds.
        stop: The Python name of one past the last position in bounds.
        walked: The Python name of the step along an axis of which the grid walks a part.
        origin: Where a step sees part of a block: the Python name of its first position.
        length: And that of how many positions it has.
    """

    name: str
    tile: int | None
    role: Role
    grid: int | None
    step: str
    left: str
    skipped: str
    start: str
    stop: str
    walked: str
    origin: str = ""
    length: str = ""

    @property
    def squeezed(self) -> bool:
        """One position a step: the axis has no dimension inside the kernel."""
        return self.tile == 1

    @property
    def block(self) -> str:
        """The Python name of how many positions a block has along the axis."""
        if self.length:
            return self.length
        return self.name if self.tile is None else f"block_{self.name}"


@record
class Walk:
    """What the bounds of an axis mean for the steps of the grid.

    Attributes:
        axis: The axis.
        ends: The loosest start and stop in a step's block, as variables.
        varies: Axes along which the bounds vary inside a block.
        live: Whether a step has any position in bounds.
        whole: Whether every position of a step's block is in bounds.
        span: How many blocks the grid walks from the first one in bounds on; None where it walks
            all of them.
    """

    axis: str
    ends: tuple[Bind, ...]
    varies: tuple[str, ...]
    live: Expr
    whole: Expr
    span: Expr | None


@record
class Part:
    """The sub-blocks of a block that a bound cuts.

    The body of a step sees part of a block: all of it where no bound cuts it, else one sub-block
    after the other.

    Attributes:
        axis: The axis.
        tile: Positions in a sub-block by default.
        block: The Python name of how many positions a sub-block has.
        step: The Python name of the number of a part in its block.
        axes: Every axis as the body of a step sees it.
        first: The first sub-block in bounds.
        end: One past the last sub-block in bounds.
        wholes: For every axis with bounds, whether all positions of a sub-block are in bounds.
        tiles: The operands that have the axis: the dimension that it is, and the Python name of
            the part of their block that the body sees.
        zeros: Zeros in the outputs of a block of which not every sub-block is computed.
    """

    axis: str
    tile: int
    block: str
    step: str
    axes: dict[str, Axis]
    first: Expr
    end: Expr
    wholes: dict[str, Expr]
    tiles: dict[str, tuple[int, str]]
    zeros: tuple[Store, ...]


@record
class Operand:
    """An input, output or scratch buffer as the kernel sees it.

    Attributes:
        name: In the body; its reference is ``<name>_ref``.
        kind: Which list of the spec it stands in.
        axes: As declared.
        seen: Its axes in the body, where an index stands for the axes it uses.
        dtype: Element type in memory.
        memory_space: VMEM or SMEM.
        layout: Dimensions of its block inside the kernel.
        view: Dimensions of the array that ``pallas_call`` gets: the squeezed axes, then the layout.
        index: For each dimension of the view, the block that a step names.
        fetched_every: Grid axes along which a new block is fetched or written.
        alias: The input whose buffer an output is.
    """

    name: str
    kind: Literal["input", "output", "scratch"]
    axes: tuple[str, ...]
    seen: tuple[str, ...]
    dtype: str
    memory_space: Literal["VMEM", "SMEM", "ANY"]
    layout: Layout
    view: Layout
    index: tuple[Expr, ...]
    fetched_every: tuple[str, ...]
    alias: str | None = None

    @property
    def ref(self) -> str:
        """The Python name of its reference."""
        return f"{self.name}_ref"

    @property
    def is_view(self) -> bool:
        """Whether the wrapper reshapes the array, by unit dimensions, to make its view."""
        return self.view != self.axes


@record
class Segments:
    """A dimension of the grid that walks the groups of an axis and its blocks together.

    Each of its steps is one block of ``axis`` for one group: a segment between neighbouring cuts,
    which are the starts of blocks and of groups.

    Attributes:
        axis: The axis that is cut into groups.
        group: The axis that counts the groups.
        offsets: The SMEM input that holds the cuts of the groups.
        grid: Its dimension of the grid.
        step: The Python name of its grid position.
        groups: The Python name of the list of groups, one for each step.
        blocks: The Python name of the list of blocks.
        count: The Python name of how many segments there are.
        first: The Python name of whether a step is the first one of its block.
    """

    axis: str
    group: str
    offsets: str
    grid: int
    step: str
    groups: str
    blocks: str
    count: str
    first: str

    @property
    def lists(self) -> tuple[str, str, str]:
        """What the wrapper computes and the grid's steps look up."""
        return self.groups, self.blocks, self.count


@record
class Copy:
    """An operand that the kernel copies between memories itself.

    Attributes:
        name: The operand.
        buffer: The Python name of its blocks in VMEM.
        semaphore: The Python name of what signals that a copy is done.
        tile: The Python name of the block that a step of the loop sees.
        writes: Whether blocks are copied to the array.
        looped: Whether its block moves with the axis that the kernel loops over.
        buffers: How many blocks there are in VMEM.
        places: For each dimension of the array: a position, the axis of a tile, or None for all.
        once: Reduction axes along which its block stays: it is copied at their first step.
        zeros: The Python name of a block of zeros for what is out of bounds; empty where no block
            is, or may hold anything.
        zeros_semaphore: The Python name of what signals that zeros have been copied.
    """

    name: str
    buffer: str
    semaphore: str
    tile: str
    writes: bool
    looped: bool
    buffers: int
    places: tuple[Expr | str | None, ...]
    once: tuple[str, ...]
    zeros: str = ""
    zeros_semaphore: str = ""


@record
class Loop:
    """The innermost axis of the grid as a loop inside the kernel.

    Attributes:
        axis: The axis.
        first: Its first block.
        end: One past its last block.
    """

    axis: str
    first: Expr
    end: Expr


@record
class Phases:
    """The lowered body."""

    init: tuple[Statement, ...]
    step: tuple[Statement, ...]
    finish: tuple[Statement, ...]


@record
class Cost:
    """Work of one call, as sums of ``(factor, axes)``: the factor times the axes' sizes."""

    flops: tuple[tuple[int, tuple[str, ...]], ...]
    transcendentals: tuple[tuple[int, tuple[str, ...]], ...]


@record
class Memory:
    """Bytes that the kernel needs on one generation at the default tiles."""

    target: str
    vmem_bytes: int
    vmem_limit_bytes: int
    smem_bytes: int


@record
class Buffer:
    """One line of the VMEM map: a block, a scratch buffer or the kernel's intermediates."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    copies: int
    bytes: int


@record
class Plan:
    """A kernel, scheduled.

    Attributes:
        spec: What it was planned from.
        program: The typed body.
        axes: Every axis, in the order of the spec.
        extents: For axes of which the size follows from others: that size.
        walked: The axes that are walked block by block, outermost first.
        grid: Those of them that have a dimension of the grid.
        segments: The dimension of the grid that walks two axes together, if there is one.
        copies: Operands that the kernel copies itself.
        loop: The loop inside the kernel, if there is one.
        part: The sub-blocks of a block that a bound cuts, if there are any.
        operands: Inputs, outputs and scratch buffers, in the order of the spec.
        units: For arrays that the kernel copies: by tiled axis, the multiple that its size must be.
        walks: For axes with bounds, what they mean for the steps.
        blocks: For grid axes of which inputs do not name the block that is walked: which they name.
        computed: Whether init and finish run in a step; None where they always do.
        phases: The lowered body.
        masked: Axes of which the bounds mask some steps, but not all.
        outside: What a step out of bounds does.
        uncut: Axes whose tile stays as it is where the axis has one position only.
        empty: Stores that make the outputs of a call that has an axis without positions; None
            where every output is empty then.
        cost: Work of one call.
        buffers: The VMEM map at the default tiles.
        memory: What each target needs.
        vmem_limit_bytes: What to ask the compiler for; None where every default suffices.
    """

    spec: KernelSpec
    program: Program
    axes: dict[str, Axis]
    extents: dict[str, Expr]
    walked: tuple[str, ...]
    grid: tuple[str, ...]
    segments: Segments | None
    copies: tuple[Copy, ...]
    loop: Loop | None
    part: Part | None
    operands: dict[str, Operand]
    units: dict[str, dict[str, int]]
    walks: dict[str, Walk]
    blocks: dict[str, Expr]
    computed: Expr | None
    phases: Phases
    masked: frozenset[str]
    outside: tuple[Statement, ...]
    uncut: frozenset[str]
    empty: tuple[Statement, ...] | None
    cost: Cost
    buffers: tuple[Buffer, ...]
    memory: tuple[Memory, ...]
    vmem_limit_bytes: int | None

    def of_kind(self, kind: str) -> tuple[Operand, ...]:
        """The inputs, outputs or scratch buffers, in order."""
        return tuple(operand for operand in self.operands.values() if operand.kind == kind)

    @property
    def reduction(self) -> tuple[str, ...]:
        """The grid axes along which state is carried from step to step."""
        return tuple(axis for axis in self.grid if axis in self.spec.reduction)
