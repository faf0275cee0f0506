"""An operand in ANY instead of VMEM: another way to the same result, bit for bit."""

from __future__ import annotations

import functools
import json

import catalogue
import jax
import numpy as np
import pytest

import kernelgen
from kernelgen.spec import KernelSpec
from kernelgen.verify import cases, inputs, modules
from kernelgen.verify.cases import Case


def moved() -> list[tuple[str, str, str]]:
    """Kernel, section and operand: all that a reduction kernel of the catalogue has in VMEM."""
    return [
        (name, section, operand)
        for name in catalogue.NAMES
        if catalogue.spec(name).reduction
        for section in ("inputs", "outputs")
        for operand, declared in getattr(catalogue.spec(name), section).items()
        if declared.memory_space == "VMEM"
    ]


def chosen() -> list[tuple[str, tuple[str, ...]]]:
    """For each kernel: its last input alone, which every step sees, and all operands at once."""
    found: dict[str, list[str]] = {}
    for name, _, operand in moved():
        found.setdefault(name, []).append(operand)
    inputs_of = {n: [o for o in ops if o in catalogue.spec(n).inputs] for n, ops in found.items()}
    return [
        (name, operands)
        for name, every in found.items()
        for operands in dict.fromkeys([tuple(inputs_of[name][-1:]), tuple(every)])
        if operands
    ]


def in_any(name: str, *operands: str) -> KernelSpec:
    data = json.loads(catalogue.spec(name).source.text)
    for section in ("inputs", "outputs"):
        for operand in operands:
            if operand in data[section]:
                data[section][operand]["memory_space"] = "ANY"
    return catalogue.from_dict(data)


@functools.cache
def case_for(name: str) -> Case:
    """An uneven case, of which the blocks are cut at the end whatever is in ANY."""
    spec = in_any(name, *(operand for kernel, _, operand in moved() if kernel == name))
    return next(case for case in cases.generated(spec) if "tail" in case.name)


QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Compiled in half the time; nor does it contract products and sums in one form only."""


def run(spec: KernelSpec, case: Case) -> list[np.ndarray]:
    arrays = inputs.draw(spec, case.sizes, "random", 1, case.tiles)
    text = kernelgen.render(kernelgen.plan(spec))
    function = modules.function(modules.load(text, spec.name), spec)
    blocks = {f"block_{axis}": tile for axis, tile in case.tiles.items()}
    quick = jax.jit(functools.partial(function, interpret=True, **blocks), compiler_options=QUICK)
    return [np.asarray(value) for value in jax.tree.leaves(quick(*arrays.values()))]


@functools.cache
def in_vmem(name: str) -> list[np.ndarray]:
    return run(catalogue.spec(name), case_for(name))


@pytest.mark.parametrize(("name", "operands"), chosen())
def test_a_reduction_computes_the_same_from_any(name: str, operands: tuple[str, ...]) -> None:
    spec = in_any(name, *operands)
    assert kernelgen.plan(spec).copies
    found, wanted = run(spec, case_for(name)), in_vmem(name)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def test_every_reduction_kernel_has_operands_to_move() -> None:
    reductions = {name for name in catalogue.NAMES if catalogue.spec(name).reduction}
    assert {name for name, _, _ in moved()} == reductions
