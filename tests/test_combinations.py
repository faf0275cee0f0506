"""Features together: masks of one value, outputs that differ, copies of short arrays."""

from __future__ import annotations

import itertools
import json
from typing import Any

import catalogue
import pytest

import kernelgen
from kernelgen.diagnostics import KernelgenError
from kernelgen.verify import cases
from kernelgen.verify.modules import Interpreter

SMEM = {"memory_space": "SMEM"}
REDUCTIONS = ("sum", "max", "min", "mean")
BOUNDS: dict[str, dict[str, str]] = {
    "the end of the array": {},
    "a length": {"stop": "size(s) - 3"},
    "the position of a row": {"stop": "q + 1"},
    "a window": {"start": "q - 9", "stop": "q + 1"},
}


def two_reductions(first: str, second: str, bounds: dict[str, str]) -> dict[str, Any]:
    return {
        "kernelgen": 1,
        "name": "two",
        "doc": "Two reductions of one value in one statement.",
        "axes": {"q": {"tile": 8}, "s": {**bounds}},
        "grid": ["q"],
        "inputs": {"x": {"axes": ["q", "s"], "dtype": "float32"}},
        "outputs": {"o": {"axes": ["q"], "dtype": "float32"}},
        "body": {"step": f"o = {first}(x, s) + 2 * {second}(x, s)"},
        "cases": [{"q": 12, "s": 37}],
    }


def tiled(data: dict[str, Any]) -> dict[str, Any]:
    """The same over an axis that the grid walks."""
    data["axes"]["s"]["tile"] = 128
    data |= {"grid": ["q", "s"], "reduction": ["s"]}
    data["scratch"] = {"acc": {"axes": ["q"], "dtype": "float32"}}
    step = data["body"]["step"].replace("o =", "acc +=")
    data["body"] = {"init": "acc = 0", "step": step, "finish": "o = acc"}
    data["cases"] = [{"q": 12, "s": 37}]
    return data


def failures(data: dict[str, Any], *names: str, interpreter: Interpreter = "hlo") -> list[str]:
    """What is wrong in the cases that have these words in their names; in the declared one else."""
    verifier = catalogue.verifier_of(data)
    around = [c for c in cases.generated(verifier.spec) if any(name in c.name for name in names)]
    chosen = around or cases.declared(verifier.spec)
    return [str(failure) for case in chosen for failure in verifier.run(case, interpreter)]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_a_value_is_masked_for_each_of_its_readers(bounds: str) -> None:
    for first, second in itertools.permutations(REDUCTIONS, 2):
        data = two_reductions(first, second, BOUNDS[bounds])
        assert failures(data) == [], (first, second)


@pytest.mark.parametrize("bounds", ["the end of the array", "a length"])
def test_a_tile_is_masked_for_each_of_its_readers(bounds: str) -> None:
    for first, second in (("sum", "max"), ("max", "sum"), ("min", "sum")):
        data = tiled(two_reductions(first, second, BOUNDS[bounds]))
        text = kernelgen.render(kernelgen.plan(catalogue.from_dict(data)))
        assert text.count("jnp.where(") >= 2
        assert [f for f in failures(data) if "depends on" not in f] == [], (first, second)


def unspecified(outputs: dict[str, str]) -> dict[str, Any]:
    return {
        "kernelgen": 1,
        "name": "two_outputs",
        "doc": "Outputs of which some say what is out of bounds.",
        "axes": {"b": {"tile": 1}, "q": {"tile": 8, "stop": "hi[b]"}, "s": {"tile": 128}},
        "grid": ["b", "q", "s"],
        "reduction": ["s"],
        "inputs": {
            "hi": {"axes": ["b"], "dtype": "int32", **SMEM},
            "x": {"axes": ["b", "q", "s"], "dtype": "float32"},
        },
        "outputs": {
            name: {"axes": ["b", "q"], "dtype": "float32", "outside": outside}
            for name, outside in outputs.items()
        },
        "scratch": {"acc": {"axes": ["b", "q"], "dtype": "float32"}},
        "body": {
            "init": "acc = 0",
            "step": "acc += sum(x, s)",
            "finish": [f"{name} = acc" for name in outputs],
        },
        "cases": [{"b": 3, "q": 20, "s": 130}],
    }


@pytest.mark.parametrize("one", ["zero", "unspecified"])
@pytest.mark.parametrize("other", ["zero", "unspecified"])
def test_each_output_is_right_in_bounds_whatever_the_others_hold_outside(
    one: str, other: str
) -> None:
    data = unspecified({"o": one, "r": other})
    assert failures(data, "tail", "less", interpreter="tpu") == []


def flags(space: str = "VMEM", **axes: Any) -> dict[str, Any]:
    return {
        "kernelgen": 1,
        "name": "flags",
        "doc": "Where x is larger than w.",
        "axes": {"e": {"tile": 1}, "edge": {"size": "size(e) + 1"}, "n": {"tile": 128}, **axes},
        "grid": ["n", "e", "m"],
        "inputs": {
            "off": {"axes": ["edge"], "dtype": "int32", **SMEM},
            "x": {"axes": ["m", "n"], "dtype": "float32"},
            "w": {"axes": ["e", "n"], "dtype": "float32"},
        },
        "outputs": {"o": {"axes": ["m", "n"], "dtype": "bool", "memory_space": space}},
        "body": {"step": "o = x > w"},
        "cases": [{"e": 3, "m": 300, "n": 130}],
    }


GROUPS = {"start": "off[e]", "stop": "off[e + 1]"}


@pytest.mark.parametrize("parts", [{"tile": 128}, {"tile": 256, "subtile": 128}])
def test_groups_may_have_booleans_side_by_side(parts: dict[str, int]) -> None:
    data = flags(m={**parts, **GROUPS})
    assert failures(data) == []
    assert failures(data, "tail", interpreter="tpu") == []


@pytest.mark.parametrize("section", ["inputs", "outputs"])
def test_booleans_that_the_kernel_would_copy_are_refused(section: str) -> None:
    data = copied({"tile": 8})
    name = next(iter(data[section])) if section == "outputs" else "x"
    data[section][name]["dtype"] = "bool"
    data["body"]["step"] = "o = x > 0" if section == "outputs" else "o = where(x, 1, 0)"
    with pytest.raises(KernelgenError) as raised:
        kernelgen.plan(kernelgen.loads(json.dumps(data)))
    assert "KG416" in {finding.code for finding in raised.value.diagnostics}


def copied(m: dict[str, int]) -> dict[str, Any]:
    return {
        "kernelgen": 1,
        "name": "copied",
        "doc": "One more than x, in rows up to hi.",
        "axes": {"b": {"tile": 1}, "m": {**m, "stop": "hi[b]"}, "n": {}},
        "grid": ["b", "m"],
        "inputs": {
            "hi": {"axes": ["b"], "dtype": "int32", **SMEM},
            "x": {"axes": ["b", "m", "n"], "dtype": "float32", "memory_space": "ANY"},
        },
        "outputs": {"o": {"axes": ["b", "m", "n"], "dtype": "float32", "memory_space": "ANY"}},
        "body": {"step": "o = x + 1"},
        "cases": [{"b": 2, "m": 300, "n": 5}],
    }


@pytest.mark.parametrize("m", [{"tile": 16}, {"tile": 256, "subtile": 128}])
def test_an_array_may_be_shorter_than_the_block_that_is_copied(m: dict[str, int]) -> None:
    assert failures(copied(m), "less", "one position") == []


def test_an_empty_reduction_reads_an_input_as_often_as_the_body_does() -> None:
    data = {
        "kernelgen": 1,
        "name": "scaled",
        "doc": "v times b, plus half of b, plus the sum of x over s.",
        "axes": {"q": {"tile": 8}, "s": {"tile": 128}, "d": {}},
        "grid": ["q", "s"],
        "reduction": ["s"],
        "inputs": {
            "x": {"axes": ["q", "s"], "dtype": "float32"},
            "b": {"axes": ["q"], "dtype": "float32"},
            "v": {"axes": ["q", "d"], "dtype": "float32"},
        },
        "outputs": {"o": {"axes": ["q", "d"], "dtype": "float32"}},
        "scratch": {
            "t": {"axes": ["q"], "dtype": "float32"},
            "u": {"axes": ["q"], "dtype": "float32"},
        },
        "body": {
            "init": ["t = b", "u = b * 0.5"],
            "step": "u += sum(x, s)",
            "finish": "o = v * t + u",
        },
        "cases": [{"q": 3, "s": 0, "d": 5}],
    }
    assert failures(data) == []
