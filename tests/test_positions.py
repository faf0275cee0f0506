"""Bounds, indices, ranges, aliases and buffers: what has no meaning is refused, with its place."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import kernelgen
from kernelgen.diagnostics import Diagnostic, KernelgenError

F, I = "float32", "int32"  # noqa: E741

RAGGED: dict[str, Any] = {
    "kernelgen": 1,
    "name": "ragged",
    "doc": "o[b, n] = sum over s < lengths[b] of x[b, s, n].",
    "axes": {"b": {"tile": 1}, "n": {"tile": 128}, "s": {"tile": 8, "stop": "lengths[b]"}},
    "grid": ["b", "n", "s"],
    "reduction": ["s"],
    "inputs": {
        "lengths": {"axes": ["b"], "dtype": I, "memory_space": "SMEM"},
        "x": {"axes": ["b", "s", "n"], "dtype": F},
    },
    "outputs": {"o": {"axes": ["b", "n"], "dtype": F}},
    "scratch": {"acc": {"axes": ["b", "n"], "dtype": F}},
    "body": {"init": "acc = 0", "step": "acc += sum(x, s)", "finish": "o = acc"},
}
GATHER: dict[str, Any] = {
    "kernelgen": 1,
    "name": "gather",
    "doc": "o[b, n] = table[ids[b], n].",
    "axes": {"b": {"tile": 1}, "v": {}, "n": {"tile": 128}},
    "grid": ["b", "n"],
    "inputs": {
        "ids": {"axes": ["b"], "dtype": I, "memory_space": "SMEM", "range": [0, "size(v) - 1"]},
        "table": {"axes": ["v", "n"], "dtype": F, "index": {"v": "ids[b]"}},
    },
    "outputs": {"o": {"axes": ["b", "n"], "dtype": F}},
    "body": {"step": "o = table"},
}
UPDATE: dict[str, Any] = {
    "kernelgen": 1,
    "name": "update",
    "doc": "o[m, n] = 2 * x[m, n], in place.",
    "axes": {"m": {"tile": 8}, "n": {"tile": 128}},
    "grid": ["m", "n"],
    "inputs": {"x": {"axes": ["m", "n"], "dtype": F}},
    "outputs": {"o": {"axes": ["m", "n"], "dtype": F, "alias": "x"}},
    "body": {"step": "o = 2 * x"},
}
TWO_LENGTHS = {"axes": ["b", "n"], "dtype": I, "memory_space": "SMEM"}
LENGTH = {"axes": ["b"], "dtype": F, "memory_space": "SMEM"}


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A spec with keys replaced; ``a__b`` is a nested one."""
    data = copy.deepcopy(base)
    for path, value in changes.items():
        *parents, key = path.split("__")
        target = data
        for parent in parents:
            target = target.setdefault(parent, {})
        target[key] = value
    return data


def findings(data: dict[str, Any]) -> list[Diagnostic]:
    with pytest.raises(KernelgenError) as caught:
        kernelgen.plan(kernelgen.loads(json.dumps(data, indent=1)))
    return list(caught.value.diagnostics)


STOP = ("axes", "s", "stop")
STOPS: dict[str, tuple[str, str, str, str]] = {
    "unknown name": ("lenghts[b]", "KG202", "lenghts", "lengths"),
    "unknown scalar alone": ("count", "KG202", "count", ""),
    "name of an output": ("o[b]", "KG202", "o", ""),
    "float": ("lengths[b] + 0.5", "KG216", "0.5", "whole"),
    "quotient that is no whole number": ("lengths[b] / 2", "KG216", "/", "//"),
    "number past 32 bits": ("lengths[b] + 3000000000", "KG216", "3000000000", "32-bit"),
    "function of tiles": ("exp(lengths[b])", "KG216", "exp", "SMEM scalars"),
    "division by a scalar": ("n // lengths[b]", "KG216", "lengths[b]", "positive"),
    "division by 0": ("lengths[b] // 0", "KG216", "0", "positive"),
    "tile of an operand": ("x[b, s, n]", "KG216", "x[b, s, n]", "SMEM"),
    "no subscript": ("lengths", "KG205", "lengths", "lengths[b]"),
    "two subscripts": ("lengths[b, n]", "KG205", "lengths[b, n]", "lengths[b]"),
    "subscript with several positions a step": ("lengths[n]", "KG406", "lengths[n]", "tile 1"),
    "size of nothing": ("size(z)", "KG204", "z", ""),
}


@pytest.mark.parametrize(("text", "code", "marked", "words"), STOPS.values(), ids=STOPS)
def test_a_bound_without_meaning_is_refused_where_it_stands(
    text: str, code: str, marked: str, words: str
) -> None:
    (found,) = [f for f in findings(changed(RAGGED, {"axes__s__stop": text})) if f.code == code]
    assert found.pointer == STOP
    assert marked in found.excerpt[found.column - 1 :][: found.width]
    assert words in f"{found.message} {found.instead}"


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any], str, tuple[str | int, ...], str]] = {
    "bound of a float scalar": (
        RAGGED, {"inputs__lengths": LENGTH}, "KG216", STOP, "use int32",
    ),
    "bound by an axis walked inside": (
        RAGGED, {"axes__n__stop": "s + 1"}, "KG217", ("axes", "n", "stop"), "s",
    ),
    "bound by the axis itself": (
        RAGGED, {"axes__s__stop": "s + 1"}, "KG217", STOP, "s",
    ),
    "start by an axis walked inside": (
        RAGGED, {"axes__n__start": "s"}, "KG217", ("axes", "n", "start"), "s",
    ),
    "last position of bounds that vary": (
        RAGGED,
        {"axes__s__stop": "n + 1", "inputs__lengths__axes": ["b"],
         "body__step": ["acc += last(x, s) + 0 * lengths[b]"]},
        "KG218", ("body", "step", 0), "tile 1",
    ),
    "rolled along bounds": (
        UPDATE,
        {"outputs__o": {"axes": ["m", "n"], "dtype": F}, "axes__n": {"stop": "5"}, "grid": ["m"],
         "body__step": ["o = roll(x, 1, n)"]},
        "KG218", ("body", "step", 0), "index(n)",
    ),
    "sum of what does not vary as the bounds do": (
        RAGGED,
        {"axes__s__stop": "n + 1", "inputs__y": {"axes": ["s"], "dtype": F},
         "body__step": ["acc += sum(y, s) + 0 * x * lengths[b]"]},
        "KG218", ("body", "step", 0), "n",
    ),
    "index by an unknown name": (
        GATHER, {"inputs__table__index": {"v": "idz[b]"}}, "KG202",
        ("inputs", "table", "index", "v"), "ids",
    ),
    "index of an axis that the operand lacks": (
        GATHER, {"inputs__table__index": {"b": "ids[b]"}}, "KG107",
        ("inputs", "table", "index"), "b",
    ),
    "index by an axis of several positions a step": (
        GATHER, {"inputs__table__index": {"v": "n"}}, "KG406",
        ("inputs", "table", "index", "v"), "tile 1",
    ),
    "range of three": (
        GATHER, {"inputs__ids__range": [0, 1, 2]}, "KG103", ("inputs", "ids", "range"), "",
    ),
    "range of floats": (
        GATHER, {"inputs__ids__range": [0, 1.5]}, "KG103", ("inputs", "ids", "range"), "",
    ),
    "range by a scalar": (
        GATHER, {"inputs__ids__range": [0, "ids[b]"]}, "KG216", ("inputs", "ids", "range", 1),
        "sizes",
    ),
    "alias of an unknown input": (
        UPDATE, {"outputs__o__alias": "xx"}, "KG412", ("outputs", "o", "alias"), "x",
    ),
    "alias of another type": (
        UPDATE, {"inputs__x__dtype": "bfloat16"}, "KG412", ("outputs", "o", "alias"), "dtype",
    ),
    "alias of other axes": (
        UPDATE,
        {"inputs__x__axes": ["n", "m"], "axes__m__tile": 128},
        "KG412", ("outputs", "o", "alias"), "axes",
    ),
    "alias with bounds": (
        UPDATE, {"axes__m__stop": "3"}, "KG412", ("outputs", "o", "alias"), "index",
    ),
    "two outputs in place of one input": (
        UPDATE,
        {"outputs__p": {"axes": ["m", "n"], "dtype": F, "alias": "x"},
         "body__step": ["o = 2 * x", "p = x"]},
        "KG412", ("outputs", "p", "alias"), "already",
    ),
    "buffers of an operand that the grid pipelines": (
        UPDATE, {"inputs__x__buffers": 3}, "KG413", ("inputs", "x", "buffers"), "ANY",
    ),
    "buffers of an operand in ANY that does not move in the loop": (
        RAGGED,
        {"inputs__w": {"axes": ["n"], "dtype": F, "memory_space": "ANY", "buffers": 3},
         "body__finish": "o = acc * w"},
        "KG413", ("inputs", "w", "buffers"), "innermost",
    ),
    "scratch in ANY": (
        RAGGED, {"scratch__acc__memory_space": "ANY"}, "KG410",
        ("scratch", "acc", "memory_space"), "VMEM",
    ),
    "output vector in SMEM": (
        RAGGED, {"outputs__o__memory_space": "SMEM"}, "KG406",
        ("outputs", "o", "memory_space"), "VMEM",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("base", "changes", "code", "place", "words"), OTHERS.values(), ids=OTHERS)
def test_is_refused_with_its_place_and_what_is_legal(
    base: dict[str, Any],
    changes: dict[str, Any],
    code: str,
    place: tuple[str | int, ...],
    words: str,
) -> None:
    found = [f for f in findings(changed(base, changes)) if f.code == code]
    assert found
    assert found[0].pointer[: len(place)] == place
    assert words in f"{found[0].message} {found[0].instead}"


@pytest.mark.parametrize("base", [RAGGED, GATHER, UPDATE], ids=lambda data: data["name"])
def test_what_the_refused_specs_are_made_from_is_legal(base: dict[str, Any]) -> None:
    kernelgen.plan(kernelgen.loads(json.dumps(base)))


def test_every_rule_about_positions_and_copies_is_shown_to_fire() -> None:
    shown = {code for _, _, code, _, _ in OTHERS.values()} | {row[1] for row in STOPS.values()}
    assert shown >= {"KG216", "KG217", "KG218", "KG406", "KG410", "KG412", "KG413"}
