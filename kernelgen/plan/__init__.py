"""How a kernel runs: grid, blocks, masks and memory, decided and frozen."""

from kernelgen.plan.build import build
from kernelgen.plan.model import Plan

__all__ = ["Plan", "build"]
