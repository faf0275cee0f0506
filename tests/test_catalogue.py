"""The catalogue: that it is complete, and that its cases reach every path of a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

import kernelgen
from kernelgen.spec import KernelSpec
from kernelgen.verify import cases

ROOT = Path(__file__).resolve().parent.parent
SPECS = {path.stem: kernelgen.load(path) for path in sorted((ROOT / "specs").glob("*.json"))}

KERNELS = {
    "add",
    "batched_matmul",
    "column_sum",
    "cumulative_sum",
    "flash_attention",
    "gated_linear_recurrence",
    "gated_matmul",
    "int8_matmul",
    "l2_normalise",
    "layer_norm",
    "logsumexp",
    "matmul",
    "matmul_bias_gelu",
    "matmul_transposed_left",
    "matmul_transposed_right",
    "rms_norm",
    "rope",
    "row_argmax",
    "row_max",
    "row_mean",
    "row_sum",
    "softmax",
    "softmax_statistics",
    "transpose",
}

every_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def tiles(spec: KernelSpec) -> dict[str, int]:
    """The axes that sizes may or may not divide."""
    return cases.tile_arguments(spec)


def test_the_catalogue_has_every_kernel_that_is_promised() -> None:
    assert set(SPECS) >= KERNELS


@every_spec
def test_a_spec_is_named_like_its_file_and_says_what_it_computes(spec: KernelSpec) -> None:
    assert SPECS[spec.name] is spec
    assert spec.doc.endswith(".")
    assert (ROOT / "specs" / str(spec.schema_)).resolve() == ROOT / "schemas/kernel.schema.json"


@every_spec
def test_a_spec_has_a_reference_of_its_own(spec: KernelSpec) -> None:
    assert spec.reference
    assert not {*spec.reference} & {*spec.body.init, *spec.body.step, *spec.body.finish}


@every_spec
def test_some_case_is_exactly_one_tile(spec: KernelSpec) -> None:
    assert any(all(case[a] == t for a, t in tiles(spec).items()) for case in spec.cases)


@every_spec
def test_some_case_is_smaller_than_a_tile_along_every_axis(spec: KernelSpec) -> None:
    assert any(all(case[a] < t for a, t in tiles(spec).items()) for case in spec.cases)


@every_spec
def test_some_case_takes_several_steps_and_ends_in_part_of_a_tile(spec: KernelSpec) -> None:
    assert any(
        all(case[a] > t and case[a] % t for a, t in tiles(spec).items()) for case in spec.cases
    )


@every_spec
def test_some_case_takes_several_steps_along_every_reduction_axis(spec: KernelSpec) -> None:
    steps = {axis: spec.axes[axis].tile or 0 for axis in spec.reduction}
    assert any(all(case[a] > t for a, t in steps.items()) for case in spec.cases)


def test_int8_matmul_is_not_offered_for_v4_whose_matrix_unit_has_no_int8() -> None:
    assert SPECS["int8_matmul"].targets == ("v5e", "v5p", "v6e", "tpu7x")


@pytest.mark.parametrize(("name", "most"), [("matmul", 75), ("flash_attention", 120)])
def test_a_generated_module_is_as_short_as_one_written_by_hand(name: str, most: int) -> None:
    assert len((ROOT / f"generated/{name}.py").read_text(encoding="utf-8").splitlines()) <= most


def test_every_spec_has_its_rendering_and_nothing_else_lies_beside_them() -> None:
    assert {path.stem for path in (ROOT / "generated").glob("*.py")} == set(SPECS)
