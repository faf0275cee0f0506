"""What a person may write: keys, types, names and defaults, and nothing about hardware."""

from kernelgen.spec.models import (
    SUPPORTED_DTYPES,
    TARGETS,
    Input,
    KernelSpec,
    MemorySpace,
    Operand,
    Output,
)

__all__ = ["SUPPORTED_DTYPES", "TARGETS", "Input", "KernelSpec", "MemorySpace", "Operand", "Output"]
