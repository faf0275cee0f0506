"""What a body means: its grammar, its types, and the table of its operations."""

from kernelgen.language.check import check
from kernelgen.language.program import Program

__all__ = ["Program", "check"]
