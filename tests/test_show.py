"""The plan as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

import kernelgen
from kernelgen.show import table

ROOT = Path(__file__).parent.parent
SPECS = sorted((ROOT / "specs").glob("*.json"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_axis_operand_and_target_has_a_line(path: Path) -> None:
    spec = kernelgen.load(path)
    shown = table(kernelgen.plan(spec))
    firsts = [line.split()[0] for line in shown.split("\n") if line.strip()]
    for name in (*spec.axes, *spec.inputs, *spec.outputs, *spec.scratch, *spec.targets):
        assert name in firsts
    assert not any(line != line.rstrip() for line in shown.split("\n"))


def test_residency_follows_from_the_order_of_the_grid() -> None:
    shown = table(kernelgen.plan(kernelgen.load(ROOT / "specs/matmul.json")))
    lines = [" ".join(line.split()) for line in shown.split("\n")]
    inputs = "input bfloat16 VMEM"
    every = "fetched per step of m, n and k"
    assert f"a {inputs} (m, k) 512 x 512 tile of m, tile of k {every}" in lines
    assert f"b {inputs} (k, n) 512 x 1024 tile of k, tile of n {every}" in lines
    assert any(line.endswith("written per step of m and n, stays along k") for line in lines)
    assert any(line.endswith("kept across steps") for line in lines)
