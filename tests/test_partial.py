"""Results of one tile that are taken for complete ones are refused, and only those."""

from __future__ import annotations

import json
from typing import Any

import bodies
import pytest

import kernelgen
from kernelgen.diagnostics import KernelgenError

F = "float32"
OUT, ROW = {"o": f"m n|{F}"}, {"o": f"m|{F}"}
ACC, BUFFER = {"acc": f"m|{F}"}, {"buf": f"m n|{F}"}

PARTIAL: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, str]]] = {
    "extreme of one tile in an output": (OUT, {"step": "o = x - max(x, n)"}, {}),
    "through a local": (OUT, {"step": ["top = max(x, n)", "o = exp(x - top)"]}, {}),
    "sum of the last tile": (ROW, {"step": "acc = sum(x, n)", "finish": "o = acc"}, ACC),
    "position in the last tile": (ROW, {"step": "acc = argmax(x, n)", "finish": "o = acc"}, ACC),
    "scan that starts anew": (OUT, {"step": "o = cumsum(x, n)"}, {}),
    "last of each tile in an output": (OUT, {"step": "o = x - last(x, n)"}, {}),
    "input read at the last step": (
        ROW,
        {"init": "acc = 0", "step": "acc += sum(x, n)", "finish": "o = acc + max(x, n)"},
        ACC,
    ),
    "input read at the first step": (
        ROW,
        {"init": "acc = max(x, n)", "step": "acc += sum(x, n)", "finish": "o = acc"},
        ACC,
    ),
    "buffer of one tile read at the end": (
        ROW,
        {"step": "buf = x", "finish": "o = sum(buf, n)"},
        BUFFER,
    ),
}


@pytest.mark.parametrize("name", PARTIAL)
def test_a_result_of_one_tile_is_refused(name: str) -> None:
    outputs, body, scratch = PARTIAL[name]
    spec = bodies.spec("partial", {"m": 8, "n": 128}, "n", bodies.X, outputs, body, scratch)
    with pytest.raises(KernelgenError) as caught:
        kernelgen.plan(kernelgen.loads(json.dumps(spec)))
    assert {found.code for found in caught.value.diagnostics} == {"KG215"}


@pytest.mark.parametrize("name", PARTIAL)
def test_the_same_body_over_a_whole_axis_is_fine_where_it_needs_no_other_phase(name: str) -> None:
    outputs, body, scratch = PARTIAL[name]
    if "finish" in body or "init" in body:
        body = {"step": [*([body["step"]] if isinstance(body["step"], str) else body["step"])]}
        body["step"].append("o = acc" if "acc" in scratch else "o = sum(buf, n)")
        body["step"][0] = body["step"][0].replace("+=", "=")
    spec = bodies.spec("complete", {"m": 8, "n": 0}, "", bodies.X, outputs, body, scratch)
    kernelgen.plan(kernelgen.loads(json.dumps(spec)))
