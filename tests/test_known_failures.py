"""Mistakes that people made when they wrote Pallas kernels for TPUs by hand, as specs.

Each test is a kind of mistake: either kernelgen refuses the spec and says why, or the mistake
cannot be made because the code in question is generated.
"""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import catalogue
import pytest

import kernelgen
from kernelgen.diagnostics import Diagnostic, KernelgenError
from kernelgen.verify import cases
from kernelgen.verify.cases import Case
from kernelgen.verify.inputs import InputKind
from kernelgen.verify.run import Verifier

Spec = dict[str, Any]

FLOAT_MATMUL: Spec = {
    "kernelgen": 1,
    "name": "matmul",
    "doc": "o[m, n] = sum over k of a[m, k] * b[k, n].",
    "axes": {"m": {"tile": 128}, "n": {"tile": 128}, "k": {"tile": 128}},
    "grid": ["m", "n", "k"],
    "reduction": ["k"],
    "inputs": {
        "a": {"axes": ["m", "k"], "dtype": "float32"},
        "b": {"axes": ["k", "n"], "dtype": "float32"},
    },
    "outputs": {"o": {"axes": ["m", "n"], "dtype": "float32"}},
    "scratch": {"acc": {"axes": ["m", "n"], "dtype": "float32"}},
    "body": {"init": "acc = 0", "step": "acc += dot(a, b, k)", "finish": "o = acc"},
}

COPY: Spec = {
    "kernelgen": 1,
    "name": "copied",
    "doc": "o[m, n] = x[m, n].",
    "axes": {"m": {"tile": 8}, "n": {"tile": 128}},
    "grid": ["m", "n"],
    "inputs": {"x": {"axes": ["m", "n"], "dtype": "float32"}},
    "outputs": {"o": {"axes": ["m", "n"], "dtype": "float32"}},
    "body": {"step": "o = x"},
}


def changed(spec: Spec, **changes: Any) -> Spec:
    """The spec with values replaced; a double underscore separates the keys of a path."""
    spec = copy.deepcopy(spec)
    for path, value in changes.items():
        *parents, key = path.split("__")
        holder = spec
        for parent in parents:
            holder = holder[parent]
        holder[key] = value
    return spec


def text_of(spec: Spec) -> str:
    return kernelgen.render(kernelgen.plan(catalogue.from_dict(spec)))


def refusals(spec: Spec) -> tuple[Diagnostic, ...]:
    with pytest.raises(KernelgenError) as raised:
        text_of(spec)
    return raised.value.diagnostics


def refused(spec: Spec, code: str) -> Diagnostic:
    found = refusals(spec)
    assert code in {finding.code for finding in found}, found
    return next(finding for finding in found if finding.code == code)


@cache
def verifier_of(text: str) -> Verifier:
    """One for all inputs of a spec, so that jax compiles its kernel once."""
    return catalogue.verifier_of(json.loads(text))


def assert_right(
    spec: Spec,
    sizes: dict[str, int],
    kind: InputKind = "random",
    tiles: dict[str, int] | None = None,
) -> None:
    case = Case("known", sizes, tiles or {})
    verifier = verifier_of(json.dumps(spec))
    for interpreter in ("hlo", "tpu"):
        failures = verifier.run(case, interpreter, kind)  # type: ignore[arg-type]
        assert not failures, failures[0]


# Tails


@pytest.mark.parametrize("sizes", [(200, 100, 300), (128, 128, 129), (1, 1, 1), (127, 130, 255)])
def test_a_reduction_tail_is_masked_on_both_operands(sizes: tuple[int, int, int]) -> None:
    assert_right(FLOAT_MATMUL, dict(zip("mnk", sizes, strict=True)))


def test_a_tail_is_masked_only_in_traces_where_the_tile_does_not_divide() -> None:
    # A mask stands under `if k % block_k`, which is decided when the kernel is traced.
    tree = ast.parse(text_of(FLOAT_MATMUL))
    guarded = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    masks = [n for branch in guarded for n in ast.walk(branch) if _is_where(n)]
    assert len(masks) == 2
    assert len([n for n in ast.walk(tree) if _is_where(n)]) == 2


def _is_where(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "jnp.where"


def reduction(operation: str, start: str, update: str, finish: str, dtype: str = "float32") -> Spec:
    return {
        "kernelgen": 1,
        "name": operation,
        "doc": f"o[m] = {operation} over n of x[m, n].",
        "axes": {"m": {"tile": 8}, "n": {"tile": 128}},
        "grid": ["m", "n"],
        "reduction": ["n"],
        "inputs": {"x": {"axes": ["m", "n"], "dtype": dtype}},
        "outputs": {"o": {"axes": ["m"], "dtype": "float32"}},
        "scratch": {"acc": {"axes": ["m"], "dtype": "float32"}},
        "body": {"init": f"acc = {start}", "step": update, "finish": finish},
    }


def test_a_maximum_of_negative_numbers_is_not_the_zero_of_a_padded_tail() -> None:
    spec = reduction("row_max", "-inf", "acc = maximum(acc, max(x, n))", "o = acc")
    assert_right(spec, {"m": 5, "n": 300}, "negative")


def test_a_minimum_of_positive_numbers_is_not_the_zero_of_a_padded_tail() -> None:
    spec = reduction("row_min", "inf", "acc = minimum(acc, min(x, n))", "o = acc")
    assert_right(spec, {"m": 5, "n": 300}, "ones")


@pytest.mark.parametrize(
    "spec",
    [
        reduction("row_mean", "0", "acc += mean(x, n)", "o = acc"),
        reduction("row_mean", "0", "acc += sum(x, n)", "o = acc / size(n)"),
    ],
)
def test_a_mean_divides_by_the_true_extent_and_not_by_the_padded_one(spec: Spec) -> None:
    assert_right(spec, {"m": 5, "n": 300}, "ones")


@pytest.mark.parametrize("operation", ["sum", "max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_an_integer_tail_holds_the_identity_of_its_type(operation: str, dtype: str) -> None:
    update = {
        "sum": "acc = acc + sum(x, n)",
        "max": "acc = maximum(acc, max(x, n))",
        "min": "acc = minimum(acc, min(x, n))",
    }.get(operation, f"acc = acc + {operation}(x, n)")
    start = {"max": "-2000", "min": "2000"}.get(operation, "0")
    spec = reduction(f"row_{operation}", start, update, "o = acc", dtype)
    spec["scratch"]["acc"]["dtype"] = "int32"
    spec["outputs"]["o"]["dtype"] = "int32"
    for kind in ("random", "negative", "extremes"):
        assert_right(spec, {"m": 5, "n": 200}, kind)  # type: ignore[arg-type]


# Blocks and the grid


@pytest.mark.parametrize(
    ("tiles", "axis", "instead"),
    [
        ((4, 128), "m", "8"),
        ((8, 64), "n", "128"),
        ((8, 192), "n", "128 or 256"),
        ((12, 128), "m", "8 or 16"),
    ],
)
def test_an_illegal_block_is_refused_with_the_nearest_legal_tiles(
    tiles: tuple[int, int], axis: str, instead: str
) -> None:
    spec = changed(COPY, axes={"m": {"tile": tiles[0]}, "n": {"tile": tiles[1]}})
    finding = refused(spec, "KG401")
    assert finding.pointer == ("axes", axis, "tile")
    assert "x" in finding.message
    assert axis in finding.message
    assert instead in finding.instead


def test_a_whole_axis_is_legal_whatever_its_size() -> None:
    spec = changed(COPY, axes={"m": {"tile": 8}, "n": {}}, grid=["m"])
    assert_right(spec, {"m": 12, "n": 50})


def test_a_grid_covers_the_last_part_of_an_axis() -> None:
    spec = changed(COPY, axes={"m": {"tile": 128}, "n": {"tile": 128}})
    assert_right(spec, {"m": 200, "n": 130})
    assert "pl.cdiv(m, block_m)" in text_of(spec)


def test_index_maps_count_blocks_and_not_elements() -> None:
    for maps in _index_maps(text_of(COPY)):
        assert "*" not in maps
    assert_right(COPY, {"m": 24, "n": 256})


def _index_maps(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Lambda):
            yield ast.unparse(node)


def test_a_kernel_without_tiles_is_refused() -> None:
    spec = changed(COPY, axes={"m": {}, "n": {}}, grid=[])
    assert "tile" in refused(spec, "KG306").message


@pytest.mark.parametrize("grid", [["k", "m", "n"], ["m", "k", "n"], ["k", "n", "m"]])
def test_a_reduction_axis_that_is_not_innermost_is_refused(grid: list[str]) -> None:
    finding = refused(changed(FLOAT_MATMUL, grid=grid), "KG305")
    assert "k" in finding.message
    assert '"k"]' in finding.instead


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_reduction_axes_are_walked_in_order_behind_the_parallel_ones(name: str) -> None:
    spec = catalogue.spec(name)
    plan = kernelgen.plan(spec)
    domain = plan.program.domain
    # Without an axis that the kernel itself loops over, and with groups and blocks as one.
    merged = {groups.axis for groups in domain.groups.values()}
    walked = [axis for axis in plan.grid if axis not in merged]
    # Steps that may write one block, of groups or at an index, are walked in order, too.
    ordered = {*spec.reduction, *(groups.group for groups in domain.groups.values())}
    for output in spec.outputs:
        for value in domain.indices.get(output, {}).values():
            ordered |= {*value.type.axes}
    first = next((i for i, axis in enumerate(walked) if axis in ordered), len(walked))
    roles = ["parallel"] * first + ["arbitrary"] * (len(walked) - first)
    found = re.search(r"dimension_semantics=(\(.*?\))", catalogue.module_text(name), re.DOTALL)
    assert found is not None
    assert list(ast.literal_eval(found.group(1))) == roles
    assert all(roles[walked.index(axis)] == "arbitrary" for axis in ordered if axis in walked)


# Accumulators and element types


def test_an_accumulator_without_init_is_refused() -> None:
    body = {"step": "acc += dot(a, b, k)", "finish": "o = acc"}
    finding = refused(changed(FLOAT_MATMUL, body=body), "KG209")
    assert "acc" in finding.message


def test_an_accumulator_is_set_at_the_first_step_of_all_reduction_axes_together() -> None:
    spec: Spec = {
        "kernelgen": 1,
        "name": "scaled_total",
        "doc": "o[n] = w[n] * sum over j and k of x[j, k].",
        "axes": {"j": {"tile": 8}, "k": {"tile": 128}, "n": {}},
        "grid": ["j", "k"],
        "reduction": ["j", "k"],
        "inputs": {
            "x": {"axes": ["j", "k"], "dtype": "float32"},
            "w": {"axes": ["n"], "dtype": "float32"},
        },
        "outputs": {"o": {"axes": ["n"], "dtype": "float32"}},
        "scratch": {"acc": {"axes": ["n"], "dtype": "float32"}},
        "body": {"init": "acc = 0", "step": "acc += sum(x, j, k)", "finish": "o = acc * w"},
    }
    assert_right(spec, {"j": 20, "k": 300, "n": 40})


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_narrow_accumulator_is_refused_because_each_sum_is_rounded(dtype: str) -> None:
    finding = refused(changed(FLOAT_MATMUL, scratch__acc__dtype=dtype), "KG403")
    assert finding.pointer == ("scratch", "acc", "dtype")
    assert "float32" in finding.instead


def test_a_narrow_integer_accumulator_is_refused() -> None:
    spec = changed(
        FLOAT_MATMUL,
        inputs__a__dtype="int8",
        inputs__b__dtype="int8",
        outputs__o__dtype="int32",
        scratch__acc__dtype="int8",
        targets=["v5e"],
    )
    assert "int32" in refused(spec, "KG403").instead


@pytest.mark.parametrize(
    ("dtype", "scratch", "preferred"),
    [("bfloat16", "float32", "float32"), ("int8", "int32", "int32")],
)
def test_a_product_of_narrow_operands_is_summed_in_32_bits(
    dtype: str, scratch: str, preferred: str
) -> None:
    spec = changed(
        FLOAT_MATMUL,
        inputs__a__dtype=dtype,
        inputs__b__dtype=dtype,
        scratch__acc__dtype=scratch,
        outputs__o__dtype=dtype,
        targets=["v5e"],
    )
    assert f"preferred_element_type=jnp.{preferred}" in text_of(spec)


def test_a_sum_of_65536_ones_in_bfloat16_is_65536() -> None:
    spec = changed(FLOAT_MATMUL, inputs__a__dtype="bfloat16", inputs__b__dtype="bfloat16")
    case = Case("ones", {"m": 8, "n": 128, "k": 65536}, {"m": 8, "n": 128, "k": 4096})
    verifier = Verifier.of_text(catalogue.from_dict(spec), text_of(spec))
    oracle = verifier.oracle(case, "ones")
    assert (verifier.call(case, "hlo", oracle.inputs)["o"] == 65536).all()


@pytest.mark.parametrize(
    ("dtypes", "targets", "code"),
    [
        (("int8", "int8"), ["v4"], "KG405"),
        (("float8_e4m3fn", "float8_e4m3fn"), ["v4", "v5e"], "KG405"),
        (("int8", "int4"), ["v5e"], "KG206"),
        (("int32", "int32"), ["v5e"], "KG206"),
        (("bool", "bool"), ["v5e"], "KG206"),
        (("uint8", "uint8"), ["v5e"], "KG404"),
        (("int16", "int16"), ["v5e"], "KG404"),
        (("float16", "float16"), ["v5e"], "KG404"),
    ],
)
def test_operands_that_the_matrix_unit_does_not_multiply_are_refused(
    dtypes: tuple[str, str], targets: list[str], code: str
) -> None:
    spec = changed(
        FLOAT_MATMUL, inputs__a__dtype=dtypes[0], inputs__b__dtype=dtypes[1], targets=targets
    )
    assert refused(spec, code).instead or refused(spec, code).message


@pytest.mark.parametrize(
    ("dtype", "instead"),
    [("float64", "float32"), ("int64", "int32"), ("uint64", "int32"), ("float16", "bfloat16")],
)
@pytest.mark.parametrize("section", ["inputs__x", "outputs__o"])
def test_types_that_tpu_kernels_cannot_load_are_refused_with_the_nearest_that_they_can(
    dtype: str, instead: str, section: str
) -> None:
    finding = refused(changed(COPY, **{f"{section}__dtype": dtype}), "KG404")
    assert instead in finding.instead


def test_a_value_is_cast_to_its_output_s_type_when_it_is_stored() -> None:
    spec = changed(COPY, outputs__o__dtype="bfloat16", body__step="o = exp(x) / 3")
    assert ".astype(o_ref.dtype)" in text_of(spec)
    assert_right(spec, {"m": 20, "n": 200})


def test_full_precision_products_are_asked_for_only_in_float32() -> None:
    narrow = changed(FLOAT_MATMUL, inputs__a__dtype="bfloat16", inputs__b__dtype="bfloat16")
    assert "HIGHEST" in text_of(FLOAT_MATMUL)
    assert "HIGHEST" not in text_of(narrow)


# Memory


def test_vmem_that_the_default_does_not_suffice_for_is_asked_for_up_to_the_chip_s_size() -> None:
    large = {axis: {"tile": 1024} for axis in "mnk"}
    sizes = [{"m": 4096, "n": 4096, "k": 4096}]
    spec = changed(FLOAT_MATMUL, axes=large, cases=sizes, targets=["v5e"])
    limit = re.search(r"vmem_limit_bytes=(.*?)[,)]\n", text_of(spec))
    assert limit is not None
    number = eval(limit.group(1), {})
    assert 16 * 2**20 < number <= 128 * 2**20
    small = changed(FLOAT_MATMUL, cases=sizes, targets=["v5e"])
    assert "vmem_limit_bytes" not in text_of(small)


def test_vmem_beyond_the_chip_s_size_is_refused_with_bytes_and_smaller_tiles() -> None:
    huge = {axis: {"tile": 4096} for axis in "mnk"}
    finding = refused(changed(FLOAT_MATMUL, axes=huge, targets=["v5p"]), "KG501")
    assert "v5p" in finding.message
    assert "MiB" in finding.message
    assert finding.instead


def test_a_scalar_in_vmem_is_refused() -> None:
    spec = changed(COPY, inputs__scale={"axes": [], "dtype": "float32"}, body__step="o = x * scale")
    assert "SMEM" in refused(spec, "KG409").instead


def test_a_scalar_in_smem_is_read() -> None:
    scale = {"axes": [], "dtype": "float32", "memory_space": "SMEM"}
    spec = changed(COPY, inputs__scale=scale, body__step="o = x * scale")
    assert_right(spec, {"m": 20, "n": 200})


@pytest.mark.parametrize("section", ["inputs__x", "outputs__o"])
def test_a_vector_in_smem_is_refused(section: str) -> None:
    spec = changed(COPY, **{f"{section}__memory_space": "SMEM"})
    codes = {finding.code for finding in refusals(spec)}
    assert codes & {"KG406", "KG205"}


def test_scratch_that_nothing_copies_to_vmem_is_refused() -> None:
    scratch = {"s": {"axes": ["m", "n"], "dtype": "float32", "memory_space": "ANY"}}
    refused(changed(COPY, scratch=scratch, body__step=["s = x", "o = s"]), "KG410")


@pytest.mark.parametrize("section", ["inputs__x", "outputs__o"])
def test_an_operand_in_any_is_copied_by_the_kernel(section: str) -> None:
    spec = changed(COPY, **{f"{section}__memory_space": "ANY"})
    assert "make_async_copy" in text_of(spec)


# The language


@pytest.mark.parametrize("name", ["erfc", "expm1", "prod", "sort", "flip", "cbrt", "lgamma", "fft"])
def test_a_function_that_the_tpu_lacks_is_refused(name: str) -> None:
    refused(changed(COPY, body__step=f"o = {name}(x)"), "KG203")


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "softplus", "log1p"])
def test_a_function_whose_usual_form_the_tpu_lacks_is_rewritten(name: str) -> None:
    spec = changed(COPY, body__step=f"o = {name}(x)")
    assert not re.search(r"erfc|expm1|cumsum\(", text_of(spec))
    assert_right(spec, {"m": 20, "n": 200}, "mixed")


def test_a_running_sum_does_not_print_the_missing_primitive() -> None:
    assert not re.search(r"\bjnp\.cumsum|lax\.cumsum", catalogue.module_text("cumulative_sum"))


@pytest.mark.parametrize("step", ["o = x + [1, 2, 3]", "o = x + (1, 2)", "o = x[0]"])
def test_a_table_of_constants_is_no_part_of_the_language(step: str) -> None:
    assert {finding.code for finding in refusals(changed(COPY, body__step=step))} & {
        "KG201",
        "KG205",
    }


# The generated module

GONE_OR_PRIVATE = re.compile(
    r"pltpu\.ANY|TPUMemorySpace|TPUCompilerParams|pl\.load|pl\.store|pl\.reciprocal|jax\._src"
)


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_only_names_of_both_supported_jax_versions_are_used(name: str) -> None:
    assert not GONE_OR_PRIVATE.search(catalogue.module_text(name))


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_masks_select_and_never_multiply(name: str) -> None:
    for node in ast.walk(ast.parse(catalogue.module_text(name))):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            assert not any(_is_mask(factor) for factor in (node.left, node.right))


def _is_mask(factor: ast.expr) -> bool:
    """Whether a factor is a comparison, perhaps as a number."""
    while isinstance(factor, ast.Call) and isinstance(factor.func, ast.Attribute):
        factor = factor.func.value
    return isinstance(factor, ast.Compare)


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_a_kernel_captures_no_arrays(name: str) -> None:
    tree = ast.parse(catalogue.module_text(name))
    for node in tree.body:
        assert not isinstance(node, ast.Assign | ast.AnnAssign), ast.unparse(node)


def test_what_runs_in_an_interpreter_is_not_thereby_legal_on_a_tpu() -> None:
    # The interpreters run blocks of 4 rows; kernelgen refuses them all the same.
    verifier = Verifier.of_text(catalogue.from_dict(COPY), text_of(COPY))
    case = Case("small", {"m": 12, "n": 128}, {"m": 4, "n": 128})
    assert not verifier.run(case, "tpu")
    refused(changed(COPY, axes__m__tile=4), "KG401")


def test_the_largest_case_of_every_kernel_takes_several_steps() -> None:
    # With one step, a wrong walk and a wrong accumulator look right.
    for name in catalogue.NAMES:
        spec = catalogue.spec(name)
        # Where all tiles are 1, every position of the grid is a step.
        tiles = cases.tile_arguments(spec) or dict.fromkeys(spec.grid, 1)
        assert any(any(c.get(a, 0) > t for a, t in tiles.items()) for c in spec.cases), name


def test_a_finding_says_where_and_what_instead() -> None:
    finding = refused(json.loads(json.dumps(changed(COPY, axes__m__tile=4))), "KG401")
    assert finding.line > 0
    assert finding.instead
