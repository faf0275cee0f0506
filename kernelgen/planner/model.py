"""The plan: everything about a kernel that its module prints, decided and frozen."""

from __future__ import annotations

from typing import Literal

from kernelgen.language.program import Program
from kernelgen.planner.ir import Layout, Statement
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
    """

    name: str
    tile: int | None
    role: Role
    grid: int | None
    step: str
    left: str

    @property
    def squeezed(self) -> bool:
        """One position a step: the axis has no dimension inside the kernel."""
        return self.tile == 1

    @property
    def block(self) -> str:
        """The Python name of how many positions a block has along the axis."""
        return self.name if self.tile is None else f"block_{self.name}"


@record
class Operand:
    """An input, output or scratch buffer as the kernel sees it.

    Attributes:
        name: In the body; its reference is ``<name>_ref``.
        kind: Which list of the spec it stands in.
        axes: As declared.
        dtype: Element type in memory.
        memory_space: VMEM or SMEM.
        layout: Dimensions of its block inside the kernel.
        view: Dimensions of the array that ``pallas_call`` gets: the squeezed axes, then the layout.
        fetched_every: Grid axes along which a new block is fetched or written.
    """

    name: str
    kind: Literal["input", "output", "scratch"]
    axes: tuple[str, ...]
    dtype: str
    memory_space: Literal["VMEM", "SMEM", "ANY"]
    layout: Layout
    view: Layout
    fetched_every: tuple[str, ...]

    @property
    def ref(self) -> str:
        """The Python name of its reference."""
        return f"{self.name}_ref"

    @property
    def is_view(self) -> bool:
        """Whether the wrapper reshapes the array, by unit dimensions, to make its view."""
        return self.view != self.axes


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
        grid: The grid's axes, outermost first.
        operands: Inputs, outputs and scratch buffers, in the order of the spec.
        phases: The lowered body.
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
    grid: tuple[str, ...]
    operands: dict[str, Operand]
    phases: Phases
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
        """The grid axes that are walked in order."""
        return tuple(axis for axis in self.grid if self.axes[axis].role == "arbitrary")
