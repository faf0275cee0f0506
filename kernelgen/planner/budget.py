"""Bytes of VMEM and SMEM that a kernel needs, with the hardware's padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kernelgen.diagnostics import Diagnostic, listing
from kernelgen.language.dtypes import DTYPES
from kernelgen.planner.intermediates import peak_bytes
from kernelgen.planner.ir import REPLICATED, Layout
from kernelgen.planner.model import Axis, Buffer, Copy, Memory, Operand, Phases
from kernelgen.planner.targets import LANES, MIB, TARGETS
from kernelgen.spec import KernelSpec

ASSUMED_SIZE = 1024
"""Positions along a whole axis of which no case gives the size."""

RESERVED = 512 * 2**10
"""What the compiler takes for itself beside the buffers that a kernel names."""


def sizes(spec: KernelSpec) -> dict[str, int]:
    """The extent of every axis for which memory is planned: the largest of the cases."""
    largest = {}
    for name in spec.axes:
        known = [case[name] for case in spec.cases if name in case]
        largest[name] = max(known, default=ASSUMED_SIZE)
    return largest


def block_shape(
    layout: tuple[str | None, ...], axes: dict[str, Axis], extents: dict[str, int]
) -> tuple[int, ...]:
    """The dimensions of a block at the default tiles."""
    shape = []
    for axis in layout:
        if axis is None or axis == REPLICATED:
            shape.append(1 if axis is None else LANES)
            continue
        tile = axes[axis].tile
        shape.append(extents[axis] if tile is None else tile)
    return tuple(shape)


def padded_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of a block in VMEM: whole registers of 8 sublanes by 128 lanes of 32 bits.

    Narrow types pack several rows into a sublane; a block of fewer rows than a register holds
    takes only the power of two of rows that covers it.
    """
    bits = 32 if dtype == "bool" else DTYPES.get(dtype, DTYPES["float32"]).bits
    packing = 32 // bits
    rows, lanes = (1, 1, *shape)[-2:]
    native = 8 * packing
    if rows < native:
        padded_rows = max(packing, 1 << max(rows - 1, 0).bit_length())
    else:
        padded_rows = -(-rows // native) * native
    padded_lanes = -(-lanes // LANES) * LANES
    leading = 1
    for size in shape[:-2]:
        leading *= size
    return leading * padded_rows * padded_lanes * bits // 8


def vmem_map(
    spec: KernelSpec,
    phases: Phases,
    axes: dict[str, Axis],
    operands: dict[str, Operand],
    copied: tuple[Copy, ...],
) -> tuple[Buffer, ...]:
    """Every buffer in VMEM: pipelined blocks twice, copied ones as often as they have buffers,
    scratch once, and intermediates."""
    extents = sizes(spec)
    depths = {copy.name: copy.buffers + bool(copy.zeros) for copy in copied}
    buffers = []
    for operand in operands.values():
        if not (operand.memory_space == "VMEM" or operand.name in depths) or not operand.layout:
            continue
        shape = block_shape(operand.layout, axes, extents)
        copies = 1 if operand.kind == "scratch" else depths.get(operand.name, 2)
        size = padded_bytes(shape, operand.dtype)
        buffers.append(Buffer(operand.name, shape, operand.dtype, copies, copies * size))
    temporary = _intermediates(phases, axes, extents)
    if temporary:
        buffers.append(Buffer("intermediates", (), "float32", 1, temporary))
    return tuple(buffers)


def _intermediates(phases: Phases, axes: dict[str, Axis], extents: dict[str, int]) -> int:
    def size_of(layout: Layout, dtype: str) -> int:
        return padded_bytes(block_shape(layout, axes, extents), dtype)

    return max(
        peak_bytes(statements, size_of) for statements in (phases.init, phases.step, phases.finish)
    )


def smem_bytes(spec: KernelSpec, operands: dict[str, Operand]) -> int:
    """Bytes in SMEM: 32-bit words; arrays of rank 2 and more pad their rows to 128 words."""
    extents = sizes(spec)
    total = 0
    for operand in operands.values():
        if operand.memory_space != "SMEM":
            continue
        shape = [extents[axis] if axis is not None else 1 for axis in operand.view]
        if len(shape) > 1:
            shape[-1] = -(-shape[-1] // LANES) * LANES
        words = 1
        for size in shape:
            words *= size
        total += 4 * words
    return total


def needed_bytes(buffers: tuple[Buffer, ...]) -> int:
    """VMEM for all buffers and for the compiler."""
    return sum(buffer.bytes for buffer in buffers) + RESERVED


def memory_of(targets: tuple[str, ...], vmem: int, smem: int) -> tuple[Memory, ...]:
    """What each target needs and what it allows by default or on request."""
    return tuple(
        Memory(name, vmem, max(vmem, TARGETS[name].default_vmem_bytes), smem) for name in targets
    )


def check_vmem(
    targets: tuple[str, ...], buffers: tuple[Buffer, ...], smaller: Callable[[int], str]
) -> list[Diagnostic]:
    """A finding for targets whose physical VMEM is too small.

    ``smaller`` names tiles that fit a number of bytes.
    """
    needed = needed_bytes(buffers)
    short = [TARGETS[name] for name in targets if needed > TARGETS[name].vmem_bytes]
    if not short:
        return []
    have = listing([f"{target.name} ({target.vmem_bytes // MIB} MiB)" for target in short])
    return [
        Diagnostic(
            "KG501",
            f"the kernel needs {needed / MIB:.1f} MiB of VMEM, more than {have}: "
            f"{_largest(buffers)}",
            smaller(min(target.vmem_bytes for target in short)),
            ("axes",),
            on_key=True,
        )
    ]


def check_smem(targets: tuple[str, ...], smem: int) -> list[Diagnostic]:
    """A finding for targets whose SMEM is too small."""
    short = [name for name in targets if smem > TARGETS[name].smem_bytes]
    if not short:
        return []
    return [
        Diagnostic(
            "KG502",
            f"the operands in SMEM take {smem / MIB:.1f} MiB, {listing(short)} "
            f"{'has' if len(short) == 1 else 'have'} {TARGETS[short[0]].smem_bytes // MIB}",
            "put the longest axis last: rows are padded to 128 words",
            ("inputs",),
            on_key=True,
        )
    ]


def smaller_tiles(
    axes: dict[str, Axis],
    extents: dict[str, int],
    needed: Callable[[dict[str, Axis]], int],
    room: int,
) -> str:
    """Tiles with which a kernel fits: the largest are halved, as long as they stay legal."""
    tried = dict(axes)
    while needed(tried) > room:
        tiles = {name: a.tile for name, a in tried.items() if a.tile and a.tile >= 2 * LANES}
        if not tiles:
            whole = max(
                (a for a in axes.values() if not a.tile),
                key=lambda a: extents[a.name],
                default=None,
            )
            return f"give {whole.name} a tile" if whole else "hold fewer or narrower blocks"
        largest = max(tiles, key=lambda name: tiles[name])
        tried[largest] = replace(tried[largest], tile=tiles[largest] // 2 // LANES * LANES)
    changed = [f"{name} {a.tile}" for name, a in tried.items() if a.tile != axes[name].tile]
    return f"for example tiles {listing(changed)}"


def vmem_limit(targets: tuple[str, ...], needed: int) -> int | None:
    """The limit to ask for, in bytes, where some target's default does not suffice.

    A sixteenth is added for the compiler's spills, never beyond the smallest physical memory;
    the value is rounded up to whole MiB so that small changes of a tile leave it alone.
    """
    if all(needed <= TARGETS[name].default_vmem_bytes for name in targets):
        return None
    physical = min(TARGETS[name].vmem_bytes for name in targets)
    return min(-(-(needed + needed // 16) // MIB) * MIB, physical)


def _largest(buffers: tuple[Buffer, ...]) -> str:
    """The buffers that take the most, largest first."""
    ordered = sorted(buffers, key=lambda buffer: (-buffer.bytes, buffer.name))
    return ", ".join(f"{_described(buffer)} {buffer.bytes / MIB:.1f} MiB" for buffer in ordered[:4])


def _described(buffer: Buffer) -> str:
    shape = " x ".join(str(size) for size in buffer.shape)
    copies = f"{buffer.copies} x " if buffer.copies > 1 else ""
    return f"{buffer.name} ({copies}{shape} {buffer.dtype})" if shape else buffer.name
