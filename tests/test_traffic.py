"""The plan's own count of steps and blocks is what its module does."""

from __future__ import annotations

from typing import Any

import catalogue
import numpy as np
import pytest
from counting import count
from test_counts import LENGTHS, arrays

import kernelgen
from kernelgen.planner.traffic import Traffic, traffic

OFFSETS = np.array([0, 5, 5, 19, 40], np.int32)
"""Four groups: one that ends inside a tile of 8, an empty one, and two that share a tile."""

CASES: dict[str, tuple[dict[str, int], dict[str, int], dict[str, Any]]] = {
    "matmul": ({"m": 20, "n": 256, "k": 300}, {"m": 8, "n": 128, "k": 128}, {}),
    "ragged_mean": ({"b": 6, "s": 40, "d": 256}, {"s": 8, "d": 128}, {"lengths": LENGTHS}),
    "ragged_max": ({"b": 6, "s": 37, "d": 200}, {"s": 8, "d": 128}, {"lengths": LENGTHS}),
    "ragged_matmul": (
        {"b": 6, "m": 40, "n": 256, "k": 256},
        {"m": 8, "n": 128, "k": 128},
        {"lengths": LENGTHS},
    ),
    "ragged_attention": (
        {"b": 6, "h": 2, "q": 40, "s": 40, "d": 16},
        {"q": 8, "s": 8},
        {"lengths": LENGTHS},
    ),
    "causal_attention": ({"b": 1, "h": 2, "q": 40, "s": 40, "d": 16}, {"q": 8, "s": 8}, {}),
    "sliding_window_attention": (
        {"b": 1, "h": 1, "q": 4096, "s": 4096, "d": 16},
        {"q": 256, "s": 128},
        {},
    ),
    "grouped_matmul": (
        {"e": 4, "m": 40, "n": 256, "k": 256},
        {"m": 8, "n": 128, "k": 128},
        {"offsets": OFFSETS},
    ),
    "grouped_matmul_transposed": (
        {"edge": 5, "m": 40, "n": 256, "k": 24},
        {"m": 8, "n": 128, "k": 8},
        {"offsets": OFFSETS},
    ),
}


def planned(name: str) -> Traffic:
    sizes, tiles, scalars = CASES[name]
    return traffic(kernelgen.plan(catalogue.whole_blocks(name)), sizes, scalars, tiles)


@pytest.mark.parametrize("name", CASES)
def test_the_plan_counts_what_its_module_does(name: str) -> None:
    sizes, tiles, scalars = CASES[name]
    spec = catalogue.whole_blocks(name)
    text = kernelgen.render(kernelgen.plan(spec))
    every = dict(sizes)
    if name == "grouped_matmul":
        every["edge"] = sizes["e"] + 1
    made = count(spec, text, arrays(spec, every, **scalars), tiles)
    found = planned(name)
    # Without bounds no condition guards the step, and none is counted.
    is_bounded = any(axis.start or axis.stop for axis in spec.axes.values())
    assert (found.steps, found.live) == (made.steps, made.worked if is_bounded else made.steps)
    blocks = [found.blocks[n] for n, o in spec.inputs.items() if o.memory_space == "VMEM"]
    assert blocks == made.fetched[: len(blocks)]


def test_a_loop_of_the_kernel_has_no_idle_steps() -> None:
    sizes, tiles, scalars = CASES["ragged_mean"]
    plan = kernelgen.plan(catalogue.spec("ragged_mean_any"))
    found = traffic(plan, sizes, scalars, tiles)
    assert found.steps == found.live == found.blocks["x"] == planned("ragged_mean").live


def test_a_copied_output_is_written_once_with_results_or_with_zeros() -> None:
    plan = kernelgen.plan(catalogue.spec("ragged_matmul_any"))
    sizes, tiles = {"b": 6, "m": 40, "n": 256, "k": 128}, {"m": 8, "n": 128}
    found = traffic(plan, sizes, {"lengths": LENGTHS}, tiles)
    needed = sum(-(-int(length) // 8) for length in LENGTHS)
    assert found.steps == found.live == found.blocks["x"] == 2 * needed
    assert found.blocks["o"] == 2 * 6 * 5
    assert found.bytes["o"] == 6 * 40 * 256 * 2


def test_bytes_end_where_the_array_does() -> None:
    found = planned("matmul")
    # Three blocks of rows, two of columns, three of k: a is read for each of the columns.
    assert found.bytes["a"] == 2 * 20 * 300 * 2
    assert found.bytes["b"] == 3 * 300 * 256 * 2
    assert found.bytes["o"] == 20 * 256 * 2


def test_a_length_of_half_moves_half_of_the_bytes() -> None:
    plan = kernelgen.plan(catalogue.spec("ragged_mean"))
    sizes = {"b": 2, "s": 64, "d": 128}
    full, half = (
        traffic(plan, sizes, {"lengths": np.array([n, n])}, {"s": 8, "d": 128}) for n in (64, 32)
    )
    assert (full.steps, full.live, half.live) == (16, 16, 8)
    assert half.bytes["x"] * 2 == full.bytes["x"] == 2 * 64 * 128 * 4
    assert full.masked == half.masked == 0


def test_a_causal_kernel_masks_the_diagonal_alone() -> None:
    plan = kernelgen.plan(catalogue.spec("causal_attention"))
    found = traffic(
        plan, {"b": 1, "h": 1, "q": 4096, "s": 4096, "d": 128}, {}, {"q": 512, "s": 512}
    )
    assert (found.steps, found.live, found.masked) == (64, 36, 8)


@pytest.mark.parametrize("length", [4096, 8192, 16384])
def test_the_work_of_a_window_grows_with_the_length_of_the_sequence_once(length: int) -> None:
    plan = kernelgen.plan(catalogue.spec("sliding_window_attention"))
    tiles = {"q": 512, "s": 512}
    found = traffic(plan, {"b": 1, "h": 1, "q": length, "s": length, "d": 128}, {}, tiles)
    assert found.steps == 4 * (length // 512)
    assert found.live == 3 * (length // 512) - 3
