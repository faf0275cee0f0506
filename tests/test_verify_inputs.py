"""Inputs that name positions: boundary values, offsets, padding, and sizes that follow."""

from __future__ import annotations

from typing import Any

import catalogue
import numpy as np
import pytest
from test_bounds import CACHE_UPDATE, CAUSAL, GROUPS, PAGED, RAGGED_SUM, SMEM, kernel

from kernelgen.language import check
from kernelgen.spec import KernelSpec
from kernelgen.verify import cases, inputs, jnp_reference, padding
from kernelgen.verify.inputs import InputKind

F, B = "float32", "int8"
SIZES = {"b": 12, "n": 3, "s": 30, "e": 6, "ends": 7, "k": 2, "m": 40, "p": 3, "page": 9, "t": 5,
         "d": 2, "i": 5}  # fmt: skip


def made(data: dict[str, Any]) -> KernelSpec:
    return catalogue.from_dict(data)


def drawn(data: dict[str, Any], kind: InputKind, seed: int = 0, **given: Any) -> dict[str, Any]:
    spec = made(data)
    sizes = {axis: SIZES[axis] for axis in spec.axes}
    arrays = inputs.without_padding(spec, sizes, kind, seed, {"s": 8}) | given
    return padding.poison(spec, check(spec), sizes, arrays)


def with_range(least: Any, most: Any) -> dict[str, Any]:
    lengths = {**RAGGED_SUM["inputs"]["lengths"], "range": [least, most]}
    return {**RAGGED_SUM, "inputs": {**RAGGED_SUM["inputs"], "lengths": lengths}}


# Values


def test_edges_of_a_range_are_its_ends_and_the_edges_of_a_tile() -> None:
    lengths = drawn(with_range(0, "size(s)"), "edges")["lengths"]
    assert set(lengths.tolist()) == {0, 1, 7, 8, 9, 30}


@pytest.mark.parametrize(("kind", "value"), [("lowest", 2), ("highest", 30)])
def test_all_of_a_range_may_be_its_least_or_its_greatest_value(kind: Any, value: int) -> None:
    assert set(drawn(with_range(2, "size(s)"), kind)["lengths"].tolist()) == {value}


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_whatever_the_kind_an_input_stays_in_its_range(kind: InputKind) -> None:
    for seed in range(5):
        lengths = drawn(with_range(3, "size(s) // 2"), kind, seed)["lengths"]
        assert lengths.min() >= 3
        assert lengths.max() <= 15


def test_lengths_without_a_range_may_be_negative_and_beyond_the_array() -> None:
    assert set(drawn(RAGGED_SUM, "edges")["lengths"].tolist()) == {-3, 0, 1, 7, 8, 9, 30, 35}
    assert set(drawn(RAGGED_SUM, "lowest")["lengths"].tolist()) == {-3}
    assert set(drawn(RAGGED_SUM, "highest")["lengths"].tolist()) == {35}


def test_indices_without_a_range_may_be_negative_and_beyond_the_array() -> None:
    count = np.array(SIZES["i"], np.int32)
    draws = [drawn(CACHE_UPDATE, "edges", seed, count_of=count)["slots"] for seed in range(20)]
    slots = {int(slot) for draw in draws for slot in draw}
    assert slots == {-3, 0, 1, 8, 14}


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_offsets_of_groups_rise_from_0_to_the_size_with_empty_groups(kind: InputKind) -> None:
    for seed in range(5):
        offsets = drawn(GROUPS, kind, seed)["offsets"]
        assert offsets[0] == 0
        assert offsets[-1] == SIZES["m"]
        assert np.all(np.diff(offsets) >= 0)
        assert np.any(np.diff(offsets) == 0)


def test_offsets_are_known_by_what_their_bounds_read_and_rise_along_that_dimension() -> None:
    axes = {
        **GROUPS["axes"],
        "b": {"tile": 1},
        "ends": {},
        "e": {"size": "size(ends) - 1", "tile": 1},
    }
    axes["m"] = {"tile": 4, "start": "ends_of[e, b]", "stop": "ends_of[e + 1, b]"}
    ends_of = {"axes": ["ends", "b"], "dtype": "int32", **SMEM}
    data = {
        **GROUPS,
        "axes": axes,
        "grid": ["b", *GROUPS["grid"]],
        "inputs": {"ends_of": ends_of, "x": GROUPS["inputs"]["x"], "y": GROUPS["inputs"]["y"]},
        "outputs": {"o": {"axes": ["b", "e", "k", "n"], "dtype": F}},
        "scratch": {"acc": {"axes": ["b", "e", "k", "n"], "dtype": F}},
        "body": {"init": "acc = 0", "step": "acc += dot(x, y, m)", "finish": "o = acc"},
    }
    ends = drawn(data, "random")["ends_of"]
    assert np.all(np.diff(ends, axis=0) >= 0)
    assert set(ends[0]) == {0}
    assert set(ends[-1]) == {SIZES["m"]}


def test_kinds_for_positions_are_only_tried_where_an_input_names_some() -> None:
    assert "edges" in inputs.kinds_for(made(RAGGED_SUM))
    assert "edges" not in inputs.kinds_for(made(CAUSAL))
    assert "edges" not in inputs.kinds_for(catalogue.spec("matmul"))


# Padding


def test_padding_is_what_lies_beyond_every_length() -> None:
    lengths = np.arange(12, dtype=np.int32) * 4 - 4
    x = drawn(RAGGED_SUM, "random", lengths=lengths)["x"]
    outside = np.arange(SIZES["s"]) >= lengths[:, None]
    assert np.array_equal(np.isnan(x), np.repeat(outside[:, None], SIZES["n"], axis=1))


def test_padding_of_integers_is_the_least_of_their_type() -> None:
    data = {**RAGGED_SUM, "inputs": {**RAGGED_SUM["inputs"]}}
    data["inputs"]["x"] = {"axes": ["b", "n", "s"], "dtype": B}
    data["outputs"] = {"o": {"axes": ["b", "n"], "dtype": "int32"}}
    data["scratch"] = {"acc": {"axes": ["b", "n"], "dtype": "int32"}}
    x = drawn(data, "integers", lengths=np.full(12, 10, np.int32))["x"]
    assert np.all(x[:, :, 10:] == -128)
    assert np.all(x[:, :, :10] >= -4)


def test_padding_of_a_paged_input_is_what_no_entry_in_bounds_names() -> None:
    table = np.array([[1, 2, 3]] * 6 + [[2, 4, 5]] * 6, np.int32)
    lengths = np.array([7] * 6 + [5] * 6, np.int32)
    arrays = drawn(PAGED, "random", table=table, lengths=lengths)
    seen = ~np.isnan(arrays["x"][:, :, 0])
    wanted = np.zeros((SIZES["page"], SIZES["t"]), bool)
    wanted[1], wanted[2] = True, True
    assert np.array_equal(seen, wanted)


def test_a_table_holds_anything_where_no_position_is_in_bounds() -> None:
    data = {**PAGED, "axes": {**PAGED["axes"], "p": {"tile": 1, "stop": "pages[b]"}, "t": {}}}
    data["inputs"] = {**PAGED["inputs"], "pages": {"axes": ["b"], "dtype": "int32", **SMEM}}
    del data["inputs"]["lengths"]
    arrays = drawn(data, "random", pages=np.array([0, 1, 2, 3] * 3, np.int32))
    assert (arrays["table"] == -(2**31)).sum(1).tolist() == [3, 2, 1, 0] * 3


def test_an_input_that_is_updated_in_place_is_its_own_result_and_has_no_padding() -> None:
    arrays = drawn(CACHE_UPDATE, "random", count_of=np.array(2, np.int32))
    assert not np.isnan(arrays["cache"]).any()
    assert np.isnan(arrays["x"][:, 0]).tolist() == [False, False, True, True, True]


def test_large_inputs_have_infinite_padding() -> None:
    spec = made(CACHE_UPDATE)
    arrays = inputs.draw(spec, {axis: SIZES[axis] for axis in spec.axes}, "large", 0)
    count = max(0, min(int(arrays["count_of"]), SIZES["i"]))
    assert np.isinf(arrays["x"][count:]).all()


def test_an_independent_reference_sees_0_for_padding() -> None:
    data = {**RAGGED_SUM, "reference": "jnp.sum(x * (jnp.arange(x.shape[2]) < "
            "lengths[:, None, None]), axis=2)"}  # fmt: skip
    arrays = drawn(data, "random", lengths=np.full(12, 10, np.int32))
    assert np.isnan(arrays["x"]).any()
    result = jnp_reference.evaluate(made(data), arrays)["o"]
    np.testing.assert_allclose(result, arrays["x"][:, :, :10].sum(2, dtype=float))


# Cases


@pytest.mark.parametrize("data", [GROUPS, PAGED, CACHE_UPDATE], ids=["groups", "paged", "cache"])
def test_sizes_of_cases_follow_from_one_another(data: dict[str, Any]) -> None:
    spec = made(data)
    for case in [*cases.generated(spec), *cases.empty(spec)]:
        assert {*case.sizes} == {*spec.axes}
        assert case.sizes.get("ends", 0) == case.sizes.get("e", -1) + 1, case
    assert "no ends" not in [case.name for case in cases.empty(spec)]


def test_no_case_is_without_blocks_to_choose_from() -> None:
    names = [case.name for case in cases.empty(made(PAGED))]
    assert names == ["no b", "no p", "no d", "no n", "no t"]


def test_declared_cases_keep_what_they_say() -> None:
    sizes = {axis: SIZES[axis] for axis in GROUPS["axes"]}
    assert [case.sizes for case in cases.declared(made({**GROUPS, "cases": [sizes]}))] == [sizes]


def test_an_axis_that_only_an_array_of_scalars_has_is_drawn_along() -> None:
    data = kernel(
        axes={"b": {"tile": 1}, "n": {"tile": 8}, "rows": {}, "s": {"stop": "lengths[row[b]]"}},
        grid="b n",
        inputs={"row": ("b|int32", SMEM), "lengths": ("rows|int32", SMEM), "x": f"b n s|{F}"},
        outputs={"o": f"b n|{F}"},
        body={"step": "o = sum(x, s)"},
    )
    sizes = {"b": 12, "n": 3, "rows": 4, "s": 30}
    arrays = inputs.draw(made(data), sizes, "random", 0)
    assert arrays["row"].min() >= 0
    assert 3 >= arrays["row"].max() >= 1
    assert arrays["lengths"].max() > 4
