"""What ragged, masked and streaming kernels cost, in the model time of a TPU.

``python benchmarks/ragged.py [--target v6e] [name ...]`` needs libtpu, but no TPU. A time is the
larger of two: the compiler's estimate of the cycles, over the clock, and the bytes that the kernel
moves, over the bandwidth of HBM (see ``estimates.py``). Both belong to one version of libtpu, so
that only ratios within one run mean anything. Every kernel is generated from its spec in the
catalogue, at the best of the tiles listed here. Exits with 1 when a figure is missed.

The batch is 8 sequences of up to 4096, with 41 % of the positions in use. What it is compared with
treats every sequence as if it had 4096. The groups of the grouped product share 8192 rows.
"""

from __future__ import annotations

import argparse
import copy
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import builds
import peers
from estimates import BANDWIDTH, CLOCK, Argument, Estimator, Program
from figures import report

LENGTHS = (4096, 2900, 2300, 1500, 1100, 800, 500, 240)
FULL = (4096,) * 8
HEADS = 8
BUFFERS = 2
"""Blocks that a kernel of the catalogue fetches before its loop."""

Spec = dict[str, Any]
Tiles = dict[str, int]


class Cost(NamedTuple):
    """Cycles of the core, and bytes between it and HBM."""

    cycles: float
    bytes: float = 0

    def plus(self, other: Cost, times: float = 1) -> Cost:
        """The sum with some number of others."""
        return Cost(self.cycles + times * other.cycles, self.bytes + times * other.bytes)


class Timed(NamedTuple):
    """A time in seconds, and how it came about."""

    seconds: float
    how: str

    def __str__(self) -> str:
        return f"{self.seconds * 1e6:.0f} us ({self.how})"


@dataclass(frozen=True)
class Bench:
    """Costs on one target."""

    estimator: Estimator

    def program(self, text: str, name: str, arrays: Sequence[Argument], **options: int) -> Cost:
        """The cycles of a program; infinite where it does not compile."""
        answer = self.estimator.estimate(Program(text, name, tuple(arrays), options))
        return Cost(answer.cycles or math.inf)

    def call(self, text: str, name: str, arrays: Sequence[Argument], **options: int) -> Cost:
        """The cycles of a program's call of Pallas alone, which has the program's name."""
        answer = self.estimator.estimate(Program(text, name, tuple(arrays), options))
        counted = (n for op, n in answer.operations.items() if op.partition(".")[0] == name)
        return Cost(sum(counted) or math.inf)

    def kernel(self, data: Spec, sizes: Mapping[str, int], lengths: Sequence[int] = ()) -> Cost:
        """The cycles and the bytes of a generated kernel whose operands the grid moves."""
        text = builds.text(data, self.estimator.target)
        arrays = builds.arguments(data, sizes)
        cost = self.program(builds.frozen(text, lengths), data["name"], arrays)
        return cost._replace(bytes=sum(builds.moved(text, data["name"], arrays, lengths).values()))

    def slope(self, cost: Callable[[int], Cost], count: int) -> Cost:
        """The cost at a count, from those at 1 and 2: every one more costs the same."""
        one, two = cost(1), cost(2)
        return one.plus(two.plus(one, -1), count - 1)

    def time(self, cost: Cost, how: str = "") -> Timed:
        """The model time of a cost."""
        target = self.estimator.target
        core, memory = cost.cycles / CLOCK[target], cost.bytes / BANDWIDTH[target]
        limit = f"core {core * 1e6:.0f} us, HBM {memory * 1e6:.0f} us"
        return Timed(max(core, memory), f"{how}: {limit}" if how else limit)


def best(candidates: Iterable[Timed]) -> Timed:
    return min(candidates, key=lambda timed: timed.seconds)


def faster(name: str, base: Timed, timed: Timed, required: float) -> bool:
    factor = base.seconds / timed.seconds
    kept = report(name, f"{factor:.2f} x", f">= {required:g} x", factor >= required)
    print(f"      {timed}\n      against {base}")
    return kept


def at_most(name: str, timed: Timed, base: Timed, required: float) -> bool:
    ratio = timed.seconds / base.seconds
    kept = report(name, f"{ratio:.3f} of it", f"<= {required:g} of it", ratio <= required)
    print(f"      {timed}\n      against {base}")
    return kept


def named(tiles: Mapping[str, int]) -> str:
    return "tiles " + ", ".join(f"{axis} {tile}" for axis, tile in tiles.items())


# Mean over the sequence.

MEAN_TILES: tuple[Tiles, ...] = (
    {"d": 2048, "s": 256},
    {"d": 8192, "s": 128},
    {"d": 4096, "s": 128},
)
MEAN_SIZES = {"b": 8, "s": 4096, "d": 8192}


def mean(bench: Bench) -> list[bool]:
    arrays = builds.arguments(builds.specification("ragged_mean"), MEAN_SIZES)
    # XLA reads x once.
    base = bench.program(peers.XLA, "mean", arrays)._replace(
        bytes=4 * math.prod(MEAN_SIZES.values())
    )
    xla = bench.time(base, "XLA")
    padded = best(_mean(bench, tiles, ()) for tiles in MEAN_TILES)
    results = []
    for name, cost in (("ragged_mean", _mean), ("ragged_mean_any", _mean_any)):
        ragged = best(cost(bench, tiles, LENGTHS) for tiles in MEAN_TILES)
        full = best(cost(bench, tiles, FULL) for tiles in MEAN_TILES)
        results.append(faster(f"{name} against XLA", xla, ragged, 2.35))
        results.append(at_most(f"{name}, all full, against padded", full, padded, 1.05))
    return results


def _mean(bench: Bench, tiles: Tiles, lengths: Sequence[int]) -> Timed:
    data = builds.tiled(builds.specification("ragged_mean"), tiles)
    if not lengths:
        data = builds.unbounded(data)
    blocks = MEAN_SIZES["d"] // tiles["d"]

    def some(count: int) -> Cost:
        return bench.kernel(data, {**MEAN_SIZES, "d": count * tiles["d"]}, lengths)

    cost = bench.slope(some, blocks) if blocks > 1 else some(1)
    return bench.time(cost, named(tiles))


def _mean_any(bench: Bench, tiles: Tiles, lengths: Sequence[int]) -> Timed:
    data = builds.tiled(builds.specification("ragged_mean_any"), tiles)
    row = 4 * tiles["d"]
    loops = []
    for length in lengths:
        trips = -(-length // tiles["s"])
        core = _loop(bench, data, {"s": 4096, "d": tiles["d"]}, length)
        fetch = tiles["s"] * row
        loops += [(core, trips, trips * fetch, fetch, row)] * (MEAN_SIZES["d"] // tiles["d"])
    return _loops(bench, tiles, loops)


def _loops(
    bench: Bench, tiles: Tiles, loops: Iterable[tuple[float, int, float, float, float]]
) -> Timed:
    """Loops that copy blocks themselves, one for each step of the grid.

    For each its cycles, its iterations, its bytes, and those of its first and its last copy.
    Where the core is the limit, these two take their time besides. Where HBM is, the last
    iteration does: its block may arrive last, unless it was fetched before the loop.
    """
    clock, bandwidth = CLOCK[bench.estimator.target], BANDWIDTH[bench.estimator.target]
    seconds, steps = 0.0, 0
    for core, trips, moved, first, last in loops:
        by_core = core / clock + (first + last) / bandwidth
        alone = core / trips / clock if trips > BUFFERS else 0
        by_memory = moved / bandwidth + alone
        seconds += max(by_core, by_memory)
        steps += trips
    return Timed(seconds, f"{named(tiles)}: {steps} iterations in loops of the kernel")


def _loop(bench: Bench, data: Spec, sizes: Mapping[str, int], length: int) -> float:
    """The cycles of a loop for one length, without its copies."""
    text = builds.static(builds.text(data, bench.estimator.target), length)
    arrays = [builds.arguments(data, {**sizes, "b": count}) for count in (1, 2)]
    frozen = builds.frozen(text, [length])
    one, two = (bench.program(frozen, data["name"], each).cycles for each in arrays)
    return two - one


# Rows times weights.

# With blocks of all columns x is fetched once.
MATMUL_TILES: tuple[Tiles, ...] = ({"m": 256, "n": 5120}, {"m": 256, "n": 2560})
MATMUL_PADDED_TILES: tuple[Tiles, ...] = (*MATMUL_TILES, {"m": 512, "n": 2560})
MATMUL_SIZES = {"b": 8, "m": 4096, "k": 2048, "n": 5120}


def matmul(bench: Bench) -> list[bool]:
    """Against XLA; the padded kernel walks the whole of every sequence in the grid."""
    data = builds.specification("ragged_matmul_any")
    arrays = builds.arguments(data, MATMUL_SIZES)
    # x, the weights and the result once each.
    moved = 2 * (8 * 4096 * (2048 + 5120) + 2048 * 5120)
    base = bench.time(bench.program(peers.XLA, "matmul", arrays)._replace(bytes=moved), "XLA")
    padded = best(_matmul_padded(bench, tiles) for tiles in MATMUL_PADDED_TILES)
    results = []
    for outside, required in (("zero", 1.85), ("unspecified", 2.1)):
        data["outputs"]["o"]["outside"] = outside
        ragged, full = (
            best(_matmul(bench, data, tiles, lengths) for tiles in MATMUL_TILES)
            for lengths in (LENGTHS, FULL)
        )
        name = f"ragged_matmul_any, outside {outside}"
        results.append(faster(f"{name}, against XLA", base, ragged, required))
        results.append(at_most(f"{name}, all full, against padded", full, padded, 1.05))
    return results


def _matmul(bench: Bench, data: Spec, tiles: Tiles, lengths: Sequence[int]) -> Timed:
    edited = builds.tiled(copy.deepcopy(data), tiles)
    x, o = 2 * tiles["m"] * MATMUL_SIZES["k"], 2 * tiles["m"] * tiles["n"]
    blocks = MATMUL_SIZES["m"] // tiles["m"]
    writes_all = edited["outputs"]["o"]["outside"] == "zero"
    # Each block more costs the same, and so does the mask of a block that a length cuts.
    two, cut, six = (
        _loop(bench, edited, {**MATMUL_SIZES, "n": tiles["n"]}, length)
        for length in (2 * tiles["m"], 2 * tiles["m"] - 12, 6 * tiles["m"])
    )
    loops = []
    for length in lengths:
        trips = -(-length // tiles["m"])
        core = two + (trips - 2) * (six - two) / 4
        core += cut - two if length % tiles["m"] else 0
        moved = trips * x + (blocks if writes_all else trips) * o
        loops += [(core, trips, moved, x, o)] * (MATMUL_SIZES["n"] // tiles["n"])
    timed = _loops(bench, tiles, loops)
    # n is the outermost axis of the grid: the first block of the weights is waited for, others
    # are fetched while steps compute.
    weights = 2 * MATMUL_SIZES["k"] * tiles["n"] / BANDWIDTH[bench.estimator.target]
    return Timed(timed.seconds + weights, timed.how)


def _matmul_padded(bench: Bench, tiles: Tiles) -> Timed:
    data = builds.unbounded(builds.specification("ragged_matmul_any"))
    for operand in (data["inputs"]["x"], data["outputs"]["o"]):
        operand.pop("memory_space")
    data = builds.tiled(data, tiles)

    columns = MATMUL_SIZES["n"] // tiles["n"]

    def some(count: int) -> Cost:
        return bench.kernel(data, {**MATMUL_SIZES, "b": count, "n": tiles["n"]})

    return bench.time(bench.slope(some, 8 * columns), f"the grid's pipeline, {named(tiles)}")


# Rows of groups times the weights of each group.

GROUPED_SIZES = {"e": 8, "m": 8192, "k": 2048, "n": 2048}
OFFSETS = {
    "aligned": tuple(range(0, 8193, 1024)),
    "unaligned": (0, 700, 1900, 2500, 4100, 4137, 6000, 7300, 8192),
}
# Without a tile of k: the whole of it in a step.
GROUPED_TILES: tuple[Tiles, ...] = (
    {"m": 1024, "n": 2048},
    {"m": 512, "n": 2048},
    {"m": 512, "n": 1024},
    {"m": 256, "n": 2048},
    {"m": 512, "n": 2048, "k": 1024},
)
# Megablox sets no limit of VMEM, and the compiler's own is too low for 1024 x 2048 x 2048: with 60
# MiB that would take 87 us with aligned offsets on v6e.
MEGABLOX_TILES: tuple[Tiles, ...] = (
    {"m": 512, "n": 2048, "k": 2048},
    {"m": 512, "n": 1024, "k": 2048},
    {"m": 1024, "n": 1024, "k": 2048},
    {"m": 512, "n": 1024, "k": 1024},
    {"m": 256, "n": 2048, "k": 2048},
)
GROUPED_LIMIT = 48 * 2**20
"""Bytes of VMEM for the largest tiles. XLA finds no room beside a kernel that may use far more."""


def grouped(bench: Bench) -> list[bool]:
    """Calls of Pallas alone: both sides make lists of groups and blocks with XLA first."""
    results = []
    for name, offsets in OFFSETS.items():
        own = best(_grouped(bench, tiles, offsets) for tiles in GROUPED_TILES)
        other = best(_megablox(bench, tiles, offsets) for tiles in MEGABLOX_TILES)
        results.append(at_most(f"grouped_matmul, {name}, against megablox", own, other, 1.0))
    return results


def _grouped(bench: Bench, tiles: Tiles, offsets: Sequence[int]) -> Timed:
    data = builds.specification("grouped_matmul")
    arrays = builds.arguments(data, {**GROUPED_SIZES, "edge": len(offsets)})
    if "k" not in tiles:
        data = builds.whole(data, "k", "o = dot(x, w, k)")
    data = builds.tiled(data, tiles)
    target = bench.estimator.target
    text, moved = builds.segmented(data, target, GROUPED_SIZES, offsets, GROUPED_LIMIT)
    cost = bench.call(text, data["name"], arrays)
    return bench.time(cost._replace(bytes=moved), named(tiles))


def _megablox(bench: Bench, tiles: Tiles, offsets: Sequence[int]) -> Timed:
    text = f"OFFSETS = {offsets}\n{peers.MEGABLOX}"
    size = GROUPED_SIZES
    arrays = [
        ((size["m"], size["k"]), "bfloat16"),
        ((size["e"], size["k"], size["n"]), "bfloat16"),
    ]
    options = {f"block_{axis}": tile for axis, tile in tiles.items()}
    moved = builds.moved(text, "gmm", arrays, (), **options)
    cost = bench.call(text, "gmm", arrays, **options)
    return bench.time(cost._replace(bytes=sum(moved.values())), f"megablox, {named(tiles)}")


# Attention.

# Where a length cuts a block, the kernel computes sub-blocks of 512 of its positions.
RAGGED_TILES: tuple[Tiles, ...] = (
    {"q": 512, "s": 2048},
    {"q": 1024, "s": 2048},
    {"q": 4096, "s": 2048},
)
PADDED_TILES: tuple[Tiles, ...] = (
    {"q": 512, "s": 512},
    {"q": 1024, "s": 2048},
    {"q": 1024, "s": 4096},
    {"q": 2048, "s": 4096},
)
# Own tiles, and block_q, block_k and the part of it computed at a time of the peers.
PEER_TILES: dict[str, tuple[tuple[Tiles, ...], tuple[tuple[int, int, int], ...]]] = {
    "attention": (
        ({"q": 1024, "s": 2048}, {"q": 1024, "s": 4096}, {"q": 2048, "s": 4096}),
        ((1024, 1024, 1024), (1024, 2048, 1024), (1024, 4096, 1024)),
    ),
    "causal_attention": (
        ({"q": 1024, "s": 1024}, {"q": 1024, "s": 2048}, {"q": 2048, "s": 2048}),
        ((512, 1024, 512), (1024, 1024, 512), (1024, 1024, 1024)),
    ),
}


def attention(bench: Bench) -> list[bool]:
    """The padded kernel is the same one without its bounds.

    What is required of the ragged batch is against tiles of 512 by 512, with which other designs
    have been measured; the ratio to the padded kernel's best tiles is printed besides.
    """
    data = builds.specification("ragged_attention")
    padded_data = builds.unbounded(copy.deepcopy(data))
    ragged = best(_attention(bench, data, RAGGED_TILES, 8, LENGTHS))
    full = best(_attention(bench, data, RAGGED_TILES, 8, FULL))
    every = _attention(bench, padded_data, PADDED_TILES, 8)
    padded = best(every)
    results = [
        faster("ragged_attention against padded in tiles of 512", every[0], ragged, 3.2),
        at_most("ragged_attention, all full, against padded", full, padded, 1.05),
    ]
    print(f"      ragged against padded at its best: {padded.seconds / ragged.seconds:.2f} x")
    return results


def _attention(
    bench: Bench,
    data: Spec,
    tried: Sequence[Tiles],
    batch: int = 1,
    lengths: Sequence[int] = (),
) -> list[Timed]:
    """The cost of a head of every sequence; with all lengths alike, of one sequence.

    The start of a call counts for every head where sequences differ: there are hundreds of steps.
    """
    alike = len(set(lengths)) < 2
    total = HEADS * batch if alike else HEADS
    if alike:
        batch, lengths = 1, lengths[:1]
    times = []
    for tiles in tried:
        edited = builds.tiled(copy.deepcopy(data), tiles)

        def heads(count: int, edited: Spec = edited) -> Cost:
            sizes = {"b": batch, "h": count, "q": 4096, "s": 4096, "d": 128}
            return bench.kernel(edited, sizes, lengths)

        cost = bench.slope(heads, total) if alike else Cost(0).plus(heads(1), total)
        times.append(bench.time(cost, named(tiles)))
    return times


def peer(bench: Bench) -> list[bool]:
    results = []
    for name, (tiles, blocks) in PEER_TILES.items():
        own = best(_attention(bench, builds.specification(name), tiles))
        other = best(_peers(bench, blocks, int(name == "causal_attention")))
        results.append(at_most(f"{name} against the better peer", own, other, 1.0))
    return results


def _peers(bench: Bench, blocks: Sequence[tuple[int, int, int]], causal: int) -> list[Timed]:
    """Cycles alone: they move no more bytes than their core has time for."""
    times = []
    for name, text in (("flash", peers.FLASH), ("splash", peers.SPLASH)):
        for block_q, block_s, inner in blocks:
            options = {"block_q": block_q, "block_s": block_s, "inner": inner, "causal": causal}

            def heads(count: int, text: str = text, options: Tiles = options) -> Cost:
                arrays: list[Argument] = [((1, count, 4096, 128), "bfloat16")] * 3
                return bench.program(text, "attention", arrays, **options)

            how = f"{name}, blocks {block_q} x {block_s}, {inner} at a time"
            times.append(bench.time(bench.slope(heads, HEADS), how))
    return times


# Steps that do work.


def steps(bench: Bench) -> list[bool]:
    tiles = {"q": 512, "s": 512}
    causal, _ = _live(bench, "causal_attention", tiles, 4096)
    share = causal / 8**2
    name = "sliding_window_attention"
    window = {size: _live(bench, name, tiles, size) for size in (4096, 8192, 16384)}
    live, walked = window[8192]
    shown = "; ".join(f"{w} steps, {n} at work at {size}" for size, (n, w) in window.items())
    figure = f"{share:.1%} ({causal} of 64 steps)"
    results = [report("causal_attention at 4096 works in", figure, "<= 57 %", share <= 0.57)]
    # A window of 1024 and a tile of 512 touch 3 tiles of 512, or 4 with one outside both bounds.
    figure = f"{live / 16:.2f} steps a tile ({walked / 16:.2f} walked)"
    results.append(report(f"{name} at 8192 works in", figure, "<= 3 steps a tile", live <= 3 * 16))
    print(f"      {shown}")
    return results


def _live(bench: Bench, name: str, tiles: Tiles, size: int) -> tuple[int, int]:
    """The steps of one head in which the generated predicate holds, and all of them."""
    import numpy as np

    data = builds.tiled(builds.specification(name), tiles)
    text = builds.text(data, bench.estimator.target)
    arrays = builds.arguments(data, {"b": 1, "h": 1, "q": size, "s": size, "d": 128})
    positions = r"(\w+), (\w+) = pl\.program_id\(2\), pl\.program_id\(3\)\n(.*?)\n\n"
    found = re.search(positions, text, re.DOTALL)
    assert found is not None
    grid = builds.pipeline(text, name, arrays).grid[2:]
    names = dict(zip(found.groups(), np.indices(grid), strict=False))
    names |= {"jnp": np, "lax": SimpleNamespace(div=np.floor_divide), "q": size, "s": size}
    exec("if True:\n" + found[3], names | {f"block_{axis}": t for axis, t in tiles.items()}, names)
    return int(np.sum(names["live"])), math.prod(grid)


# Streaming.

STREAM_SIZES = {"m": 8192, "n": 1024}


def streaming(bench: Bench) -> list[bool]:
    data = builds.specification("scale_add_any")
    by_grid = copy.deepcopy(data)
    for operand in (*by_grid["inputs"].values(), *by_grid["outputs"].values()):
        operand.pop("memory_space")
        operand.pop("buffers")
    grid = bench.time(bench.kernel(by_grid, STREAM_SIZES), "the grid's pipeline")
    text = builds.static(builds.text(data, bench.estimator.target))
    arrays = builds.arguments(data, STREAM_SIZES)
    core = bench.program(builds.frozen(text), data["name"], arrays)
    moved = 3 * 4 * math.prod(STREAM_SIZES.values())
    loop = bench.time(
        core._replace(bytes=moved),
        "the kernel's own copies, fetches and waits left out of the core",
    )
    return [at_most("scale_add_any against the grid's pipeline", loop, grid, 1.0)]


FIGURES: dict[str, Callable[[Bench], list[bool]]] = {
    "mean": mean,
    "matmul": matmul,
    "grouped": grouped,
    "attention": attention,
    "peers": peer,
    "steps": steps,
    "streaming": streaming,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Model times of ragged kernels.")
    parser.add_argument("--target", default="v6e", choices=sorted(CLOCK))
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(FIGURES))
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in FIGURES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(FIGURES)}")
    with Estimator(chosen.target) as estimator:
        print(f"{chosen.target}, libtpu {estimator.libtpu}: model time")
        bench = Bench(estimator)
        results = [kept for name in chosen.names or FIGURES for kept in FIGURES[name](bench)]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
