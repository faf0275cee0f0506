"""What each TPU generation has room for and can multiply.

Measured with libtpu's ahead-of-time compiler; see ``pltpu.get_tpu_info_for_chip`` for the sizes.
"""

from __future__ import annotations

from kernelgen.records import record

MIB = 2**20

LANES, SUBLANES = 128, 8
"""Columns and rows of a vector register of 32-bit words, and of a tile of an array in HBM."""


@record
class Target:
    """One TPU generation.

    Attributes:
        name: As in ``targets`` and ``--target``.
        vmem_bytes: Physical vector memory of one core.
        default_vmem_bytes: What a kernel gets unless it asks for more (``vmem_limit_bytes``).
        smem_bytes: Scalar memory of one core.
        dot_dtypes: Narrow operand types that its matrix unit takes besides bfloat16.
    """

    name: str
    vmem_bytes: int
    default_vmem_bytes: int
    smem_bytes: int
    dot_dtypes: frozenset[str]


_NARROW = frozenset({"int8", "int4", "float8_e4m3fn", "float8_e5m2"})

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("v4", 16 * MIB, 16 * MIB, MIB, frozenset()),
        Target("v5e", 128 * MIB, 16 * MIB, MIB, _NARROW),
        Target("v5p", 64 * MIB, 16 * MIB, MIB, _NARROW),
        Target("v6e", 128 * MIB, 32 * MIB, MIB, _NARROW),
        Target("tpu7x", 64 * MIB, 32 * MIB, MIB, _NARROW),
    )
}
