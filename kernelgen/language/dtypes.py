"""The element types of the language: how wide they are and how they mix.

Source of the widths and of what each generation can multiply: measured ahead-of-time compiles
with libtpu (v4 to tpu7x).
"""

from __future__ import annotations

from kernelgen.records import record


@record
class DType:
    """One element type.

    Attributes:
        name: The name in specs, which is jax's name.
        kind: ``float``, ``int`` or ``bool``.
        bits: Width of one element in memory.
        roundoff: Unit roundoff in round to nearest; 0 for integers and booleans.
    """

    name: str
    kind: str
    bits: int
    roundoff: float = 0.0

    @property
    def narrow(self) -> bool:
        """Stored in fewer than 32 bits, so that arithmetic widens it first."""
        return self.bits < 32 and self.kind != "bool"


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        DType("float32", "float", 32, 2.0**-24),
        DType("bfloat16", "float", 16, 2.0**-8),
        DType("float8_e4m3fn", "float", 8, 2.0**-4),
        DType("float8_e5m2", "float", 8, 2.0**-3),
        DType("int32", "int", 32),
        DType("int8", "int", 8),
        DType("int4", "int", 4),
        DType("bool", "bool", 8),
    )
}

REFUSED: dict[str, str] = {
    "float16": "bfloat16",
    "float64": "float32",
    "int64": "int32",
    "int16": "int32",
    "uint8": "int32",
    "uint16": "int32",
    "uint32": "int32",
    "uint64": "int32",
    "complex64": "float32",
}
"""Element types that the TPU compiler refuses in kernels, with the nearest that it takes."""


def supported(name: str) -> str:
    """The type itself, or for a refused one its nearest, so that the body can still be checked."""
    return REFUSED.get(name, name)


INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1


def widened(name: str) -> str:
    """The type in which arithmetic on ``name`` happens: at least 32 bits wide."""
    dtype = DTYPES[name]
    if dtype.kind == "float":
        return "float32"
    return "int32" if dtype.kind == "int" else "bool"


def promoted(names: list[str]) -> str:
    """The common 32-bit type of operands: float32 when any is a float, else int32 (or bool)."""
    kinds = {DTYPES[name].kind for name in names}
    if "float" in kinds:
        return "float32"
    return "int32" if "int" in kinds else "bool"
