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
    blocks = cases.block_arguments(spec, case.tiles)
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


def test_a_local_may_have_the_name_of_what_copies_an_operand() -> None:
    data = json.loads(catalogue.spec("row_sum").source.text)
    data["inputs"]["x"]["memory_space"] = "ANY"
    data["body"]["step"] = [
        "x_buffer = x * 1",
        "x_sem = x_buffer",
        "x_tile = x_sem",
        "slot = x_tile",
        "fetch = slot",
        "acc += sum(fetch, n)",
    ]
    spec = catalogue.from_dict(data)
    case = case_for("row_sum")
    (found,), (wanted,) = run(spec, case), in_vmem("row_sum")
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("space", ["VMEM", "ANY"])
def test_a_window_over_single_positions_is_right(space: str) -> None:
    spec = catalogue.from_dict(
        {
            "kernelgen": 1,
            "name": "window_sum",
            "doc": "o[t, d] = sum over u of x[s, u, d] for the three s up to t",
            "axes": {
                "t": {"tile": 1},
                "s": {"tile": 1, "start": "t - 2", "stop": "t + 1"},
                "u": {},
                "d": {},
            },
            "grid": ["t", "s"],
            "reduction": ["s"],
            "inputs": {
                "x": {"axes": ["s", "u", "d"], "dtype": "float32", "memory_space": space},
                "y": {"axes": ["t", "d"], "dtype": "float32"},
            },
            "outputs": {"o": {"axes": ["t", "d"], "dtype": "float32"}},
            "scratch": {"acc": {"axes": ["t", "d"], "dtype": "float32"}},
            "body": {"init": "acc = 0", "step": "acc += sum(x, s, u)", "finish": "o = acc + 0 * y"},
            "cases": [{"t": 7, "s": 7, "u": 8, "d": 128}],
        }
    )
    x = np.arange(7 * 8 * 128, dtype=np.float32).reshape(7, 8, 128)
    text = kernelgen.render(kernelgen.plan(spec))
    function = modules.function(modules.load(text, spec.name), spec)
    found = np.asarray(function(x, np.zeros((7, 128), np.float32), interpret=True))
    wanted = [x[max(t - 2, 0) : t + 1].sum((0, 1)) for t in range(7)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
