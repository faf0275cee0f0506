"""The meaning of bounds, indices and sizes, against NumPy written for each kernel."""

from __future__ import annotations

from typing import Any

import catalogue
import numpy as np
import pytest

from kernelgen.language import Program, check
from kernelgen.spec import KernelSpec
from kernelgen.verify import cases, inputs, padding, reference
from kernelgen.verify.values import Bounded

F, I = "float32", "int32"  # noqa: E741
Arrays = dict[str, Any]


def kernel(**keys: Any) -> dict[str, Any]:
    """A whole spec; operands are ``"axes | dtype"`` with further keys behind."""

    def operands(rows: dict[str, Any]) -> dict[str, Any]:
        made = {}
        for name, row in rows.items():
            text, more = row if isinstance(row, tuple) else (row, {})
            axes, dtype = text.split("|")
            made[name] = {"axes": axes.split(), "dtype": dtype.strip(), **more}
        return made

    sections = {name: operands(keys.pop(name, {})) for name in ("inputs", "outputs", "scratch")}
    keys["grid"] = keys["grid"].split()
    keys["reduction"] = keys.get("reduction", "").split()
    return {"kernelgen": 1, "name": "bounded", "doc": "Bounded.", **sections, **keys}


SMEM = {"memory_space": "SMEM"}
LENGTHS = {"lengths": (f"b|{I}", SMEM)}

RAGGED_AXES = {"b": {"tile": 1}, "n": {"tile": 8}, "s": {"tile": 4, "stop": "lengths[b]"}}


def ragged(body: dict[str, Any]) -> dict[str, Any]:
    return kernel(
        axes=RAGGED_AXES, grid="b n s", reduction="s",
        inputs={**LENGTHS, "x": f"b n s|{F}"}, outputs={"o": f"b n|{F}"},
        scratch={"acc": f"b n|{F}"}, body=body,
    )  # fmt: skip


RAGGED_SUM = ragged({"init": "acc = 0", "step": "acc += sum(x, s)", "finish": "o = acc"})
RAGGED_MEAN = ragged(
    {"init": "acc = 0", "step": "acc += sum(x, s)", "finish": "o = acc / maximum(count(s), 1)"}
)
RAGGED_MAX = ragged(
    {"init": "acc = -inf", "step": "acc = maximum(acc, max(x, s))", "finish": "o = acc"}
)
RAGGED_ARGMAX = kernel(
    axes={**RAGGED_AXES, "s": {"start": "starts[b]", "stop": "lengths[b]"}}, grid="b n",
    inputs={**LENGTHS, "starts": (f"b|{I}", SMEM), "x": f"b n s|{F}"}, outputs={"o": f"b n|{I}"},
    body={"step": "o = argmax(x, s)"},
)  # fmt: skip
WHOLE_MEAN = kernel(
    axes={**RAGGED_AXES, "s": {"stop": "lengths[b]"}}, grid="b n",
    inputs={**LENGTHS, "x": f"b n s|{F}"}, outputs={"o": f"b n s|{F}"},
    body={"step": "o = x - mean(x, s)"},
)  # fmt: skip


def attention(stop: str, start: str | None = None, more: dict[str, Any] | None = None) -> Any:
    bounds = {"stop": stop, **({"start": start} if start else {})}
    heads = {"index": {"g": "h * size(g) // size(h)"}}
    return kernel(
        axes={"b": {"tile": 1}, "h": {"tile": 1}, "g": {}, "q": {"tile": 4},
              "s": {"tile": 4, **bounds}, "d": {}},
        grid="b h q s", reduction="s",
        inputs={**(more or {}), "query": f"b h q d|{F}", "key": (f"b g s d|{F}", heads),
                "value": (f"b g s d|{F}", heads)},
        outputs={"o": f"b h q d|{F}"},
        scratch={"top": f"b h q|{F}", "total": f"b h q|{F}", "acc": f"b h q d|{F}"},
        body={
            "init": ["top = -inf", "total = 0", "acc = 0"],
            "step": [
                "score = dot(query, key, d)",
                "new_top = maximum(top, max(score, s))",
                "p = exp(score - new_top)",
                "decay = exp(top - new_top)",
                "total = decay * total + sum(p, s)",
                "acc = decay * acc + dot(p, value, s)",
                "top = new_top",
            ],
            "finish": "o = acc / total",
        },
    )  # fmt: skip


CAUSAL = attention("q + 1")
SLIDING = attention("q - 1", "q - 4")
RAGGED_CAUSAL = attention("min(q + 1, lengths[b])", more=LENGTHS)

PAGED = kernel(
    axes={"b": {"tile": 1}, "p": {"tile": 1}, "page": {}, "d": {}, "n": {},
          "t": {"stop": "lengths[b] - p * size(t)"}},
    grid="b p", reduction="p",
    inputs={**LENGTHS, "table": (f"b p|{I}", SMEM), "w": f"n d|{F}",
            "x": (f"page t d|{F}", {"index": {"page": "table[b, p]"}})},
    outputs={"o": f"b n|{F}"}, scratch={"acc": f"b n|{F}"},
    body={"init": "acc = 0", "step": "acc += sum(sum(dot(x, w, d), t), p)", "finish": "o = acc"},
)  # fmt: skip

CACHE_UPDATE = kernel(
    axes={"i": {"tile": 1, "stop": "count_of"}, "page": {}, "d": {}}, grid="i",
    inputs={"slots": (f"i|{I}", SMEM), "count_of": (f"|{I}", SMEM), "x": f"i d|{F}",
            "cache": f"page d|{F}"},
    outputs={"o": (f"page d|{F}", {"index": {"page": "slots[i]"}, "alias": "cache"})},
    body={"step": "o = 2 * x + 0 * max(cache, page)"},
)  # fmt: skip

PARALLEL = kernel(
    axes={"b": {"tile": 1}, "m": {"tile": 4, "stop": "lengths[b]"}, "k": {"tile": 4}},
    grid="b m k", reduction="k",
    inputs={**LENGTHS, "x": f"b m k|{F}"}, outputs={"o": f"b m|{F}"}, scratch={"acc": f"b m|{F}"},
    body={"init": "acc = 0", "step": "acc += sum(x, k)", "finish": "o = acc"},
)  # fmt: skip

GROUPS = kernel(
    axes={"e": {"tile": 1}, "ends": {"size": "size(e) + 1"}, "n": {"tile": 8}, "k": {"tile": 8},
          "m": {"tile": 4, "start": "offsets[e]", "stop": "offsets[e + 1]"}},
    grid="e n k m", reduction="m",
    inputs={"offsets": (f"ends|{I}", SMEM), "scale": f"e n|{F}", "x": f"m k|{F}", "y": f"m n|{F}"},
    outputs={"o": f"e k n|{F}"}, scratch={"acc": f"e k n|{F}"},
    body={"init": "acc = 0", "step": "acc += dot(x, y, m)", "finish": "o = acc * scale"},
)  # fmt: skip

SCAN = kernel(
    axes={"b": {"tile": 1}, "n": {"tile": 8}, "t": {"tile": 4, "stop": "lengths[b]"}},
    grid="b n t", reduction="t",
    inputs={**LENGTHS, "a": f"b n t|{F}", "x": f"b n t|{F}"},
    outputs={"o": f"b n t|{F}", "end": f"b n|{F}"}, scratch={"state": f"b n|{F}"},
    body={"init": "state = 0",
          "step": ["h = linear_scan(a, x, t, state)", "o = h", "state = last(h, t)"],
          "finish": "end = state"},
)  # fmt: skip

KERNELS = {
    "ragged sum": RAGGED_SUM,
    "ragged mean": RAGGED_MEAN,
    "ragged max": RAGGED_MAX,
    "ragged argmax": RAGGED_ARGMAX,
    "mean of a whole axis": WHOLE_MEAN,
    "causal": CAUSAL,
    "sliding": SLIDING,
    "ragged causal": RAGGED_CAUSAL,
    "paged": PAGED,
    "cache update": CACHE_UPDATE,
    "parallel": PARALLEL,
    "groups": GROUPS,
    "scan": SCAN,
}

SIZES = {"b": 6, "n": 5, "s": 10, "h": 4, "g": 2, "q": 9, "d": 3, "p": 3, "page": 7, "t": 11,
         "i": 5, "m": 13, "k": 6, "e": 4, "ends": 5}  # fmt: skip
LENGTH_VALUES = np.array([0, 4, 5, 999, -3, 9], np.int32)


def made(data: dict[str, Any]) -> tuple[KernelSpec, Program]:
    spec = catalogue.from_dict(data)
    return spec, check(spec)


def sizes_for(spec: KernelSpec) -> dict[str, int]:
    return {axis: SIZES[axis] for axis in spec.axes}


def drawn(spec: KernelSpec, kind: inputs.InputKind = "random", **given: Any) -> Arrays:
    """Inputs with those that are given; padding holds NaN, or what the kind has for it."""
    arrays = inputs.without_padding(spec, sizes_for(spec), kind, 3) | given
    return padding.poison(spec, check(spec), sizes_for(spec), arrays)


def meant(spec: KernelSpec, program: Program, arrays: Arrays) -> dict[str, np.ndarray]:
    return {name: value.center for name, value in reference.meaning(spec, program, arrays).items()}


def assert_means(data: dict[str, Any], arrays: Arrays, **wanted: Any) -> None:
    """The meaning is what NumPy says, and in tiles of any size it lies in the interval."""
    spec, program = made(data)
    for name, value in meant(spec, program, arrays).items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-6, atol=1e-6, err_msg=name)
    for tile in (1, 3, 4, 5, 64):
        tiles = dict.fromkeys(spec.reduction, tile)
        for name, value in reference.stepped(spec, program, arrays, tiles).items():
            assert_around(value, np.asarray(wanted[name], float))


def assert_around(value: Bounded, wanted: np.ndarray) -> None:
    slack = 1e-6 * np.maximum(1, np.abs(wanted))
    assert value.center.shape == wanted.shape
    assert np.all((wanted >= value.lo - slack) & (wanted <= value.hi + slack))
    assert np.all(np.abs(value.center - wanted) <= slack)


# Reductions


def rows(x: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    return [x[b, :, : max(0, min(int(n), x.shape[2]))] for b, n in enumerate(lengths)]


@pytest.mark.parametrize(
    ("data", "function"),
    [(RAGGED_SUM, np.sum), (RAGGED_MEAN, np.mean), (RAGGED_MAX, np.max)],
    ids=["sum", "mean", "max"],
)
def test_a_ragged_reduction_takes_what_each_length_lets_in(data: Any, function: Any) -> None:
    arrays = drawn(made(data)[0], lengths=LENGTH_VALUES)
    wanted = [
        function(row.astype(float), axis=1) if row.size else np.zeros(SIZES["n"])
        for row in rows(arrays["x"], LENGTH_VALUES)
    ]
    assert_means(data, arrays, o=np.stack(wanted))


def test_mean_over_a_whole_bounded_axis_divides_by_what_is_in_bounds() -> None:
    arrays = drawn(made(WHOLE_MEAN)[0], lengths=LENGTH_VALUES)
    wanted = np.zeros(arrays["x"].shape)
    for b, row in enumerate(rows(arrays["x"], LENGTH_VALUES)):
        if row.size:
            wanted[b, :, : row.shape[1]] = row - row.mean(1, keepdims=True, dtype=float)
    assert_means(WHOLE_MEAN, arrays, o=wanted)


def test_argmax_is_a_position_in_the_whole_axis_between_start_and_stop() -> None:
    starts = np.array([0, 2, 3, -4, 0, 9], np.int32)
    arrays = drawn(made(RAGGED_ARGMAX)[0], lengths=LENGTH_VALUES, starts=starts)
    wanted = np.zeros((SIZES["b"], SIZES["n"]))
    for b, (start, stop) in enumerate(zip(starts, LENGTH_VALUES, strict=True)):
        start, stop = max(start, 0), min(stop, SIZES["s"])
        if stop > start:
            wanted[b] = start + np.argmax(arrays["x"][b, :, start:stop], axis=1)
    assert_means(RAGGED_ARGMAX, arrays, o=wanted)


# Attention


def attended(arrays: Arrays, start: Any, stop: Any) -> np.ndarray:
    """Softmax over start(b, q) <= s < stop(b, q), row by row; rows without any s are 0."""
    query, key, value = (arrays[name].astype(float) for name in ("query", "key", "value"))
    result = np.zeros(query.shape)
    group = query.shape[1] // key.shape[1]
    for b, h, q in np.ndindex(query.shape[:3]):
        lo, hi = max(0, start(b, q)), min(key.shape[2], stop(b, q))
        if hi > lo:
            score = key[b, h // group, lo:hi] @ query[b, h, q]
            weight = np.exp(score - score.max())
            result[b, h, q] = weight @ value[b, h // group, lo:hi] / weight.sum()
    return result


def test_causal_attention_in_tiles_is_the_masked_softmax() -> None:
    arrays = drawn(made(CAUSAL)[0])
    assert_means(CAUSAL, arrays, o=attended(arrays, lambda b, q: 0, lambda b, q: q + 1))


def test_sliding_attention_in_tiles_is_the_masked_softmax_and_rows_without_positions_are_0() -> (
    None
):
    arrays = drawn(made(SLIDING)[0])
    wanted = attended(arrays, lambda b, q: q - 4, lambda b, q: q - 1)
    assert np.all(wanted[:, :, :2] == 0)
    assert_means(SLIDING, arrays, o=wanted)


def test_ragged_causal_attention_in_tiles_is_the_masked_softmax() -> None:
    arrays = drawn(made(RAGGED_CAUSAL)[0], lengths=LENGTH_VALUES)
    wanted = attended(arrays, lambda b, q: 0, lambda b, q: min(q + 1, int(LENGTH_VALUES[b])))
    assert_means(RAGGED_CAUSAL, arrays, o=wanted)


def test_a_row_with_nothing_in_bounds_is_exactly_0() -> None:
    spec, program = made(SLIDING)
    value = reference.meaning(spec, program, drawn(spec))["o"]
    for part in (value.center, value.lo, value.hi):
        assert np.all(part[:, :, :2] == 0)


# Indices


def test_pages_are_gathered_through_the_table_and_clamped_to_the_array() -> None:
    table = np.array([[0, 6, 2], [1, 1, 1], [5, 99, -7]] * 2, np.int32)
    lengths = np.array([12, 33, 25, 999, -3, 0], np.int32)
    arrays = drawn(made(PAGED)[0], table=table, lengths=lengths)
    wanted = np.zeros((SIZES["b"], SIZES["n"]))
    for b, length in enumerate(lengths):
        for at in range(max(0, min(int(length), SIZES["p"] * SIZES["t"]))):
            page = np.clip(table[b, at // SIZES["t"]], 0, SIZES["page"] - 1)
            wanted[b] += arrays["w"].astype(float) @ arrays["x"][page, at % SIZES["t"]]
    assert_means(PAGED, arrays, o=wanted)


def test_positions_that_are_written_leave_the_rest_of_the_cache_as_it_was() -> None:
    slots, count = np.array([5, 2, 5, 99, 0], np.int32), np.array(4, np.int32)
    arrays = drawn(made(CACHE_UPDATE)[0], slots=slots, count_of=count)
    wanted = arrays["cache"].astype(float)
    for i in range(4):
        wanted[min(slots[i], SIZES["page"] - 1)] = 2 * arrays["x"][i].astype(float)
    assert_means(CACHE_UPDATE, arrays, o=wanted)


def test_what_is_never_written_through_an_index_may_be_anything() -> None:
    data = {**CACHE_UPDATE, "outputs": {"o": dict(CACHE_UPDATE["outputs"]["o"])}}
    del data["outputs"]["o"]["alias"]
    spec, program = made(data)
    slots, count = np.array([5, 2, 5, 1, 0], np.int32), np.array(4, np.int32)
    value = reference.meaning(spec, program, drawn(spec, slots=slots, count_of=count))["o"]
    assert value.unknown.all(axis=1).tolist() == [True, False, False, True, True, False, True]


def test_an_alias_without_an_index_keeps_what_is_outside_the_bounds() -> None:
    data = {**PARALLEL, "outputs": {"o": {"axes": ["b", "m"], "dtype": F, "alias": "old"}}}
    data["inputs"] = {**PARALLEL["inputs"], "old": {"axes": ["b", "m"], "dtype": F}}
    data["body"] = {**PARALLEL["body"], "finish": "o = acc + 0 * old"}
    arrays = drawn(made(data)[0], lengths=LENGTH_VALUES)
    wanted = arrays["old"].astype(float)
    for b, n in enumerate(LENGTH_VALUES):
        n = max(0, n)
        wanted[b, :n] = arrays["x"][b, :n].sum(1, dtype=float)
    assert_means(data, arrays, o=wanted)


# Bounds of axes that stay


def test_positions_outside_a_bounded_parallel_axis_are_exactly_0() -> None:
    spec, program = made(PARALLEL)
    arrays = drawn(spec, lengths=LENGTH_VALUES)
    wanted = np.zeros((SIZES["b"], SIZES["m"]))
    for b, n in enumerate(LENGTH_VALUES):
        wanted[b, : max(0, n)] = arrays["x"][b, : max(0, n)].sum(1, dtype=float)
    assert_means(PARALLEL, arrays, o=wanted)
    value = reference.meaning(spec, program, arrays)["o"]
    assert np.all(value.exact[wanted == 0])


def test_positions_outside_may_be_anything_if_the_output_says_so() -> None:
    output = {"axes": ["b", "m"], "dtype": F, "outside": "unspecified"}
    spec, program = made({**PARALLEL, "outputs": {"o": output}})
    value = reference.meaning(spec, program, drawn(spec, lengths=LENGTH_VALUES))["o"]
    outside = np.arange(SIZES["m"]) >= LENGTH_VALUES[:, None]
    assert np.array_equal(value.unknown, outside)


def test_groups_between_offsets_are_reduced_one_by_one() -> None:
    offsets = np.array([0, 3, 3, 9, 13], np.int32)
    arrays = drawn(made(GROUPS)[0], offsets=offsets)
    wanted = np.zeros((SIZES["e"], SIZES["k"], SIZES["n"]))
    for e in range(SIZES["e"]):
        rows = slice(offsets[e], offsets[e + 1])
        wanted[e] = arrays["x"][rows].T.astype(float) @ arrays["y"][rows] * arrays["scale"][e]
    assert_means(GROUPS, arrays, o=wanted)


def test_a_scan_hands_on_the_state_at_the_last_position_in_bounds() -> None:
    arrays = drawn(made(SCAN)[0], lengths=LENGTH_VALUES)
    a, x = arrays["a"].astype(float), arrays["x"].astype(float)
    every, end = np.zeros(x.shape), np.zeros(x.shape[:2])
    for b, n in enumerate(LENGTH_VALUES):
        for t in range(max(0, min(n, SIZES["t"]))):
            end[b] = a[b, :, t] * end[b] + x[b, :, t]
            every[b, :, t] = end[b]
    assert_means(SCAN, arrays, o=every, end=end)


@pytest.mark.parametrize("tile", [None, 4], ids=["whole", "in tiles"])
def test_the_last_position_is_the_last_one_in_bounds(tile: int | None) -> None:
    t = {"start": "2", "stop": "lengths[b]", **({"tile": tile} if tile else {})}
    data = kernel(
        axes={**SCAN["axes"], "t": t},
        grid="b n t" if tile else "b n",
        inputs={**LENGTHS, "x": f"b n t|{F}"},
        outputs={"o": f"b n|{F}"},
        body={"step": "o = last(x, t)"},
    )
    if tile:
        data |= {"reduction": ["t"], "body": {"step": "state = last(x, t)", "finish": "o = state"}}
        data["scratch"] = {"state": {"axes": ["b", "n"], "dtype": F}}
    arrays = drawn(made(data)[0], lengths=LENGTH_VALUES)
    wanted = np.zeros((SIZES["b"], SIZES["n"]))
    for b, n in enumerate(LENGTH_VALUES):
        if n > 2:
            wanted[b] = arrays["x"][b, :, min(n, SIZES["t"]) - 1]
    assert_means(data, arrays, o=wanted)


# Numbers that spoil what they meet


def test_an_infinite_element_spoils_no_more_than_the_rows_of_tiles_that_see_it() -> None:
    """Whether a row that does not see it shares a tile with one that does, nothing tells."""
    spec, program = made(CAUSAL)
    arrays = drawn(spec)
    arrays["value"][0, 0, 6, 1] = np.inf
    value = reference.meaning(spec, program, arrays)["o"]
    seen = value.unknown[0, 0]
    assert seen[:6, 1].all()
    assert np.isinf(value.lo[0, 0, 6:, 1]).all()
    assert not seen[:, [0, 2]].any()
    assert np.isfinite(value.lo[1:]).all()


def test_integers_in_padding_count_for_nothing_in_a_dot() -> None:
    small = {"axes": ["m", "k"], "dtype": "int8"}, {"axes": ["m", "n"], "dtype": "int8"}
    whole = {"axes": ["e", "k", "n"], "dtype": I}
    data = {**GROUPS, "outputs": {"o": whole}, "scratch": {"acc": whole}}
    data["inputs"] = {**GROUPS["inputs"], "x": small[0], "y": small[1]}
    data["inputs"]["scale"] = {"axes": ["e", "n"], "dtype": I}
    data["axes"] = {**GROUPS["axes"], "m": {**GROUPS["axes"]["m"], "stop": "offsets[e + 1] - 1"}}
    offsets = np.array([0, 3, 3, 9, 13], np.int32)
    arrays = drawn(made(data)[0], offsets=offsets)
    assert (arrays["x"][8] == -128).all()
    wanted = np.zeros((SIZES["e"], SIZES["k"], SIZES["n"]))
    for e in range(SIZES["e"]):
        x, y = (arrays[name][offsets[e] : max(offsets[e], offsets[e + 1] - 1)] for name in "xy")
        wanted[e] = x.T.astype(int) @ y.astype(int) * arrays["scale"][e]
    assert_means(data, arrays, o=wanted)


# Padding, tiles, sizes


@pytest.mark.parametrize("data", KERNELS.values(), ids=KERNELS)
def test_what_padding_holds_never_reaches_a_result(data: Any) -> None:
    spec, program = made(data)
    sizes = sizes_for(spec)
    for kind in inputs.kinds_for(spec):
        if kind == "large":
            continue
        arrays = inputs.draw(spec, sizes, kind, 5)
        cleared = meant(spec, program, padding.cleared(spec, program, sizes, arrays))
        for number in (np.nan, np.inf):
            poisoned = padding.poison(spec, program, sizes, arrays, number)
            for name, value in meant(spec, program, poisoned).items():
                np.testing.assert_array_equal(value, cleared[name], err_msg=f"{name}, {kind}")


@pytest.mark.parametrize("data", KERNELS.values(), ids=KERNELS)
def test_no_result_depends_on_the_tiles(data: Any) -> None:
    spec, program = made(data)
    for kind in inputs.kinds_for(spec):
        for seed in range(2):
            arrays = inputs.draw(spec, sizes_for(spec), kind, seed)
            for tile in (1, 3, 4, 64):
                tiles = dict.fromkeys(spec.reduction, tile)
                assert reference.depends_on_tiles(spec, program, arrays, tiles) == [], kind


@pytest.mark.parametrize("data", KERNELS.values(), ids=KERNELS)
def test_every_generated_case_has_a_meaning_without_nan(data: Any) -> None:
    spec, program = made(data)
    for case in [*cases.generated(spec), *cases.empty(spec)]:
        if max(case.sizes.values()) > 300:
            continue
        arrays = inputs.draw(spec, case.sizes, "edges", 0, case.tiles)
        for name, value in meant(spec, program, arrays).items():
            assert not np.isnan(value).any(), (case, name)


def test_whole_numbers_have_one_right_sum_whatever_the_padding_holds() -> None:
    spec, program = made(GROUPS)
    arrays = drawn(spec, "integers")
    for result in reference.runs(spec, program, arrays, {"m": 4}):
        assert result["o"].exact.all()


def test_a_case_that_disagrees_with_a_size_that_follows_is_told() -> None:
    spec, program = made(GROUPS)
    sizes = sizes_for(spec) | {"ends": 4}
    told = reference.contradiction(spec, program.domain, sizes)
    assert told == "axis ends is 4, but size(e) + 1 is 5"


def test_an_input_that_disagrees_with_a_size_that_follows_is_refused() -> None:
    spec, program = made(GROUPS)
    arrays = drawn(spec) | {"offsets": np.zeros(3, np.int32)}
    with pytest.raises(ValueError, match=r"axis ends is 3, but size\(e\) \+ 1 is 5"):
        reference.meaning(spec, program, arrays)
