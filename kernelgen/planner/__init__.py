"""How a kernel runs: grid, blocks, masks and memory, decided and frozen."""

from kernelgen.planner.build import build
from kernelgen.planner.model import Plan

__all__ = ["Plan", "build"]
