"""Ragged kernels do the work that the lengths need, and no more; streams stay full."""

from __future__ import annotations

from typing import Any

import catalogue
import numpy as np
import pytest
from counting import Counts, count
from faults import replaced

import kernelgen
from kernelgen.spec import KernelSpec

LENGTHS = np.array([0, 1, 8, 9, 37, 40], np.int32)
"""None, one, a tile, a tile and one, all but some, all of 40 positions in tiles of 8."""

TILES = {"s": 8, "d": 128}
NEEDED = [0, 1, 1, 2, 5, 5]


def arrays(spec: KernelSpec, sizes: dict[str, int], **given: Any) -> dict[str, Any]:
    made = {
        name: np.zeros([sizes[axis] for axis in operand.axes], np.float32)
        for name, operand in spec.inputs.items()
    }
    for name, operand in spec.inputs.items():
        if operand.dtype == "bfloat16":
            import jax.numpy as jnp

            made[name] = made[name].astype(jnp.bfloat16)
    return made | given


def counted(
    name: str, sizes: dict[str, int], tiles: dict[str, int], text: str = "", **given: Any
) -> Counts:
    spec = catalogue.whole_blocks(name)
    text = text or kernelgen.render(kernelgen.plan(spec))
    return count(spec, text, arrays(spec, sizes, **given), tiles)


RAGGED = {"b": 6, "s": 40, "d": 256}


def test_a_ragged_mean_works_and_fetches_as_its_lengths_need() -> None:
    found = counted("ragged_mean", RAGGED, TILES, lengths=LENGTHS)
    assert found.steps == 6 * 2 * 5
    assert found.worked == 2 * sum(NEEDED)
    # An empty row still names a block: the first one of each d.
    assert found.fetched[0] == 2 * (sum(NEEDED) + 1)


def test_a_ragged_mean_from_any_copies_as_its_lengths_need() -> None:
    found = counted("ragged_mean_any", RAGGED, TILES, lengths=LENGTHS)
    assert found.steps == 6 * 2
    assert found.worked == 2 * sum(NEEDED)
    assert found.started == 2 * sum(NEEDED)
    assert found.pending == 0


def test_a_copied_matmul_reads_what_its_lengths_need_and_writes_every_block_once() -> None:
    sizes = {"b": 6, "m": 40, "n": 256, "k": 128}
    found = counted("ragged_matmul_any", sizes, {"m": 8, "n": 128}, lengths=LENGTHS)
    assert found.worked == 2 * sum(NEEDED)
    # Blocks of x, and every block of the result, with results or with zeros.
    assert found.started == 2 * (sum(NEEDED) + 6 * 5)
    assert found.pending == 0


def test_ragged_attention_works_on_the_tiles_that_its_lengths_need() -> None:
    sizes = {"b": 6, "h": 1, "q": 40, "s": 40, "d": 16}
    found = counted("ragged_attention", sizes, {"q": 8, "s": 8}, lengths=LENGTHS)
    assert found.steps == 6 * 25
    assert found.worked == sum(n * n for n in NEEDED)
    # Blocks of keys are walked anew for each block of queries, unless there is one only.
    most = sum(max(1, n * n) for n in NEEDED)
    assert sum(NEEDED) <= found.fetched[1] <= most + len(NEEDED) * 5


def test_a_block_that_a_length_cuts_is_computed_in_the_sub_blocks_that_it_needs() -> None:
    spec, lengths = (
        catalogue.spec("ragged_attention"),
        np.array([0, 1, 128, 257, 511, 512], np.int32),
    )
    sizes = {"b": 6, "h": 1, "q": 1, "s": 512, "d": 16}
    given = arrays(spec, sizes, lengths=lengths)
    found = count(spec, catalogue.module_text("ragged_attention"), given, {"q": 1, "s": 512})
    assert found.parts == [(0, 1), (0, 1), (0, 2), (0, 2)]  # halves of 256 positions
    assert found.worked == 5  # the last one at once


def test_a_block_that_groups_share_is_computed_in_the_sub_blocks_of_each() -> None:
    spec, offsets = catalogue.spec("grouped_matmul"), np.array([0, 256, 300, 300, 1024], np.int32)
    sizes = {"e": 4, "edge": 5, "m": 1024, "n": 128, "k": 128}
    given = arrays(spec, sizes, offsets=offsets)
    text = catalogue.module_text("grouped_matmul")
    found = count(spec, text, given, {"m": 512, "n": 128, "k": 128})
    # Group 0 has the first two sub-blocks of 128, group 1 part of the third, group 3 what follows.
    assert found.parts == [(0, 2), (2, 3), (2, 4)]


def causal(size: int, tile: int) -> Counts:
    sizes = {"b": 1, "h": 1, "q": size, "s": size, "d": 16}
    return counted("causal_attention", sizes, {"q": tile, "s": tile})


def test_causal_attention_at_4096_works_in_at_most_57_percent_of_the_steps() -> None:
    found = causal(4096, 512)
    assert found.steps == 64
    assert found.worked == 8 * 9 // 2
    assert found.worked <= 0.57 * found.steps
    # A step out of bounds names the block that is there already.
    assert found.fetched[1] <= found.worked


@pytest.mark.parametrize("size", [4096, 8192])
def test_sliding_attention_works_in_the_blocks_of_its_window(size: int) -> None:
    sizes = {"b": 1, "h": 1, "q": size, "s": size, "d": 16}
    found = counted("sliding_window_attention", sizes, {"q": 512, "s": 512})
    # 1024 positions up to the last of 512 rows lie in three blocks; the first rows have fewer.
    assert found.worked == 3 * (size // 512) - 3
    assert found.fetched[1] <= found.worked


@pytest.mark.parametrize("name", ["scale_add_any", "matmul_any"])
def test_a_stream_has_all_buffers_but_one_in_flight_while_it_computes(name: str) -> None:
    if name == "scale_add_any":
        found, depth, steps = counted(name, {"m": 80, "n": 16}, {"m": 8}), 3, 10
        reads = found.in_flight
        # Both inputs are two blocks ahead, but at the end; later, results are on their way as well.
        assert reads[0] == 2 * (depth - 1)
        assert min(reads[: -2 * depth]) >= 2 * (depth - 1)
    else:
        sizes = {"m": 8, "n": 128, "k": 1280}
        found, depth, steps = counted(name, sizes, {"m": 8, "n": 128, "k": 128}), 2, 10
        assert max(found.in_flight) == 2 * (depth - 1)
    assert found.pending == 0
    assert found.started == steps * (3 if name == "scale_add_any" else 2)


def test_a_step_too_many_is_counted() -> None:
    text = catalogue.module_text("ragged_mean")
    careless = replaced(text, "live = s_i * block_s < s_stop", "live = s_i * block_s <= s_stop")
    found = counted("ragged_mean", RAGGED, TILES, careless, lengths=LENGTHS)
    assert found.worked > 2 * sum(NEEDED)


def test_an_index_map_that_is_not_clamped_is_counted() -> None:
    text = catalogue.module_text("ragged_mean")
    at = text.index("        s_block = ")
    careless = text[:at] + "        s_block = s_i\n" + text[text.index("\n", at) + 1 :]
    found = counted("ragged_mean", RAGGED, TILES, careless, lengths=LENGTHS)
    assert found.fetched[0] == 6 * 2 * 5
