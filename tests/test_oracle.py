"""The derived reference: that it accepts every right kernel, and no wrong one."""

from __future__ import annotations

import math
from typing import Any

import catalogue
import faults
import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelgen.diagnostics import KernelgenError
from kernelgen.language import check
from kernelgen.language.operations import OPERATIONS, Operation, logical
from kernelgen.spec import reference as jnp_text
from kernelgen.verify import apply, cases, compare, inputs, modules, reference, values
from kernelgen.verify.cases import Case
from kernelgen.verify.run import Failure, Verifier
from kernelgen.verify.values import Bounded

# Operations, one by one


@pytest.mark.parametrize(("operation", "dtype"), tiny.KERNELS.values(), ids=tiny.KERNELS)
def test_an_operation_on_the_cpu_stays_within_its_error_rule(
    operation: Operation, dtype: str
) -> None:
    verifier = catalogue.verifier_of(tiny.spec(operation, dtype))
    case = Case("tiny", {axis: tiny.SIZES[axis] for axis in verifier.spec.axes}, {})
    for kind in inputs.kinds_for(verifier.spec):
        failures = verifier.run(case, "hlo", kind)
        assert not failures, "\n".join(str(failure) for failure in failures)


ELEMENTWISE = sorted(
    name
    for name, row in OPERATIONS.items()
    if row.kind == "elementwise" and row.typing is not logical and name not in ("power", "where")
)
NUMBERS = st.floats(-50, 50, width=32)
WIDTHS = st.sampled_from((0.0, 1e-6, 1e-3, 0.1, 1.0))


def interval(middle: float, width: float) -> Bounded:
    low, high = np.asarray([middle - width]), np.asarray([middle + width])
    return Bounded(("i",), "float32", np.asarray([middle]), low, high)


@settings(max_examples=400)
@given(data=st.data(), name=st.sampled_from(ELEMENTWISE))
def test_whatever_the_operands_are_the_result_lies_in_the_interval(
    data: st.DataObject, name: str
) -> None:
    operation = OPERATIONS[name]
    args = [interval(data.draw(NUMBERS), data.draw(WIDTHS)) for _ in range(operation.arity)]
    if name == "clip":
        args[2] = interval(float(args[1].hi[0]) + 1, 0.5)
    result = apply.elementwise(operation, args, operation.typing(("float32",) * len(args))[1])
    for _ in range(8):
        point = [np.asarray([data.draw(st.floats(a.lo[0], a.hi[0]))]) for a in args]
        with np.errstate(all="ignore"):
            value = np.asarray(operation.numpy(np, *point))
        inside = (value >= result.lo) & (value <= result.hi)
        assert np.all(inside | np.isnan(value) | result.unknown)


# Values


def exactly(numbers: Any, dtype: str = "float32") -> Bounded:
    return values.exactly(("i",), dtype, np.asarray(numbers))


def off_by(numbers: Any, error: float) -> Bounded:
    center = np.asarray(numbers, float)
    return Bounded(("i",), "float32", center, center - error, center + error)


def test_one_rounding_of_exact_operands_leaves_the_two_numbers_around_the_result() -> None:
    third = apply.elementwise(OPERATIONS["multiply"], (exactly([1.1]), exactly([1.3])), "float32")
    assert third.lo <= third.center <= third.hi
    assert third.hi - third.lo <= 2.0**-24 * third.center


def test_operations_on_whole_numbers_leave_one_result() -> None:
    numbers = exactly([3.0, -4.0, 2.0])
    for name in ("add", "subtract", "multiply", "maximum"):
        assert np.all(apply.elementwise(OPERATIONS[name], (numbers, numbers), "float32").exact)
    assert np.all(apply.reduction(OPERATIONS["sum"], numbers, ("i",), "float32").exact)
    assert np.all(apply.cumsum(OPERATIONS["cumsum"], numbers, "i", "float32").exact)


def test_whole_numbers_whose_sum_may_be_rounded_on_the_way_leave_an_interval() -> None:
    numbers = exactly([2.0**24, 1.0, -(2.0**24)])
    total = apply.reduction(OPERATIONS["sum"], numbers, ("i",), "float32")
    assert total.center == 1
    assert total.lo <= 0 <= 2 <= total.hi


def test_the_sum_of_n_terms_may_be_off_by_gamma_of_n_minus_1() -> None:
    numbers = exactly(np.full(100, 0.1, np.float32))
    total = apply.reduction(OPERATIONS["sum"], numbers, ("i",), "float32")
    bound = 99 * 2.0**-24 * float(total.center)
    assert bound <= float(total.hi - total.center) <= 1.1 * bound


def test_an_ambiguous_comparison_allows_both_branches_and_a_clear_one_does_not() -> None:
    condition = apply.elementwise(
        OPERATIONS["greater"], (off_by([1.0, 3.0], 0.1), exactly([1.05, 1.0])), "bool"
    )
    chosen = apply.elementwise(
        OPERATIONS["where"], (condition, exactly([5.0, 5.0]), exactly([7.0, 7.0])), "float32"
    )
    assert chosen.lo.tolist() == [5, 5]
    assert chosen.hi.tolist() == [7, 5]


def test_floor_may_take_either_number_only_near_a_whole_one() -> None:
    result = apply.elementwise(OPERATIONS["floor"], (off_by([2.0, 2.5], 0.01),), "float32")
    assert result.lo.tolist() == [1, 2]
    assert result.hi.tolist() == [2, 2]


def test_argmax_may_be_any_position_as_large_as_the_largest_within_the_error() -> None:
    numbers = off_by([1.0, 4.99, 5.0, 3.0], 0.01)
    place = apply.reduction(OPERATIONS["argmax"], numbers, ("i",), "int32")
    assert (place.lo, place.center, place.hi) == (1, 2, 2)
    tied = exactly([1.0, 5.0, 5.0])
    place = apply.reduction(OPERATIONS["argmax"], tied, ("i",), "int32")
    assert (place.lo, place.hi) == (1, 1)


def test_a_cast_to_an_integer_truncates_and_may_take_either_number_only_near_a_whole_one() -> None:
    result = values.convert(off_by([-1.5, 2.0], 0.01), "int32")
    assert result.center.tolist() == [-1, 2]
    assert result.lo.tolist() == [-1, 1]
    assert result.hi.tolist() == [-1, 2]


def test_a_cast_out_of_range_may_give_anything() -> None:
    result = values.convert(exactly([1e10, math.nan, 300.0]), "int8")
    assert result.lo.tolist() == [-128] * 3
    assert result.hi.tolist() == [127] * 3


def test_int32_wraps_around() -> None:
    big = exactly([2**31 - 1], "int32")
    total = apply.elementwise(OPERATIONS["add"], (big, exactly([1], "int32")), "int32")
    assert (total.lo.tolist(), total.hi.tolist()) == ([-(2**31)], [-(2**31)])


def test_a_float_beyond_float32_is_infinite_and_has_to_be() -> None:
    square = apply.elementwise(
        OPERATIONS["multiply"], (exactly([1e30]), exactly([1e30])), "float32"
    )
    assert square.lo.tolist() == [math.inf]


def test_a_sum_that_overflows_only_in_some_orders_may_be_anything() -> None:
    numbers = exactly([3e38, 3e38, -3e38])
    assert apply.reduction(OPERATIONS["sum"], numbers, ("i",), "float32").unknown
    assert not apply.reduction(OPERATIONS["sum"], abs_(numbers), ("i",), "float32").unknown


def abs_(value: Bounded) -> Bounded:
    return apply.elementwise(OPERATIONS["abs"], (value,), "float32")


def test_an_infinite_term_makes_a_sum_infinite_and_opposite_ones_make_it_nan() -> None:
    total = apply.reduction(OPERATIONS["sum"], exactly([1.0, math.inf]), ("i",), "float32")
    assert total.lo == math.inf
    total = apply.reduction(OPERATIONS["sum"], exactly([-math.inf, math.inf]), ("i",), "float32")
    assert np.isnan(total.lo)
    assert np.isnan(total.hi)


def test_a_subnormal_result_may_be_flushed_to_zero() -> None:
    tiny_number = apply.elementwise(
        OPERATIONS["multiply"], (exactly([1e-30]), exactly([1e-10])), "float32"
    )
    assert tiny_number.lo == 0
    assert tiny_number.hi > 0


def test_a_divisor_of_either_sign_may_give_anything() -> None:
    result = apply.elementwise(
        OPERATIONS["divide"], (exactly([1.0]), off_by([0.0], 0.1)), "float32"
    )
    assert result.unknown.all()


# Comparison


def test_nan_is_right_only_where_the_body_means_nan() -> None:
    expected = {"o": (exactly([math.nan, 1.0]),)}
    right = {"o": np.asarray([math.nan, 1.0], np.float32)}
    wrong = {"o": np.asarray([1.0, math.nan], np.float32)}
    assert compare.compare(expected, right) == []
    (mismatch,) = compare.compare(expected, wrong)
    assert mismatch.count == 2


def test_a_mismatch_names_the_worst_element_and_what_it_has_to_be() -> None:
    expected = {"o": (off_by([1.0, 2.0, 3.0], 0.1),)}
    actual = {"o": np.asarray([1.0, 2.2, 3.9], np.float32)}
    (mismatch,) = compare.compare(expected, actual)
    assert mismatch.index == (2,)
    assert mismatch.count == 2
    assert mismatch.excess == pytest.approx(9, rel=1e-5)
    assert mismatch.message.startswith("o[2] is 3.9")


@pytest.mark.parametrize("wrong", [np.zeros(4, np.float32), np.zeros(3, np.float64)])
def test_another_shape_or_dtype_is_a_mismatch(wrong: Any) -> None:
    (mismatch,) = compare.compare({"o": (exactly([0.0, 0.0, 0.0]),)}, {"o": wrong})
    assert "instead of" in mismatch.message


def test_a_failure_prints_step_inputs_and_seed() -> None:
    verifier = catalogue.verifier("row_sum")
    broken = Verifier(verifier.spec, lambda x, **_: np.asarray(x).sum(1) + 1)
    case = Case("wrong", {"m": 9, "n": 300}, {"m": 8, "n": 128})
    (failure,) = broken.run(case, "hlo", "integers", seed=5)
    for part in ("row_sum", "m=9, n=300", "m=8, n=128", "integers", "seed 5", "step m", "o["):
        assert part in str(failure)


# Seeded faults


def failures_of(
    name: str, text: str, case: Case, interpreter: modules.Interpreter = "hlo", kind: Any = "random"
) -> list[Failure]:
    return Verifier.of_text(catalogue.spec(name), text).run(case, interpreter, kind)


def long_reduction(name: str) -> Case:
    case = cases.long_reduction(catalogue.spec(name))
    assert case is not None
    steps = math.prod(case.sizes[k] // case.tiles.get(k, 1) for k in catalogue.spec(name).reduction)
    assert steps >= 4
    return case


def uneven(name: str) -> Case:
    return next(case for case in cases.generated(catalogue.spec(name)) if "tail" in case.name)


ACCUMULATING = (
    "batched_matmul",
    "column_sum",
    "cumulative_sum",
    "flash_attention",
    "gated_linear_recurrence",
    "gated_matmul",
    "logsumexp",
    "matmul",
    "matmul_bias_gelu",
    "matmul_transposed_left",
    "matmul_transposed_right",
    "row_mean",
    "row_sum",
    "softmax_statistics",
)


@pytest.mark.parametrize("name", ACCUMULATING)
def test_a_bfloat16_accumulator_is_rejected(name: str) -> None:
    scratch = catalogue.spec(name).scratch
    text = faults.with_narrow_scratch(catalogue.module_text(name), scratch)
    (failure, *_) = failures_of(name, text, long_reduction(name))
    assert failure.mismatch is not None, failure


@pytest.mark.parametrize("name", ["matmul", "batched_matmul"])
def test_whole_numbers_show_a_bfloat16_accumulator_bit_by_bit(name: str) -> None:
    text = faults.with_narrow_scratch(catalogue.module_text(name), catalogue.spec(name).scratch)
    case = long_reduction(name)
    expected = catalogue.verifier(name).oracle(case, "integers").expected
    assert all(np.all(value.exact) for value in expected["o"])
    assert failures_of(name, text, case, kind="integers")
    assert not failures_of(name, catalogue.module_text(name), case, kind="integers")


REDUCING = tuple(name for name in catalogue.NAMES if catalogue.spec(name).reduction)
MASKED = tuple(name for name in REDUCING if "% block_" in catalogue.module_text(name))


@pytest.mark.parametrize("name", REDUCING)
def test_a_missing_init_is_rejected(name: str) -> None:
    text = faults.without_phase(catalogue.module_text(name), "init")
    assert failures_of(name, text, uneven(name))


@pytest.mark.parametrize("name", ["flash_attention", "int8_matmul", "ragged_mean_any"])
@pytest.mark.parametrize("phase", ["init", "finish"])
def test_a_missing_phase_is_rejected_on_a_simulated_tpu(name: str, phase: str) -> None:
    text = faults.without_phase(catalogue.module_text(name), phase)
    assert failures_of(name, text, uneven(name), "tpu")


@pytest.mark.parametrize("name", REDUCING)
def test_an_init_at_every_step_is_rejected(name: str) -> None:
    text = faults.at_every_step(catalogue.module_text(name), "init")
    kind = "negative" if name == "row_max" else "random"
    assert failures_of(name, text, long_reduction(name), kind=kind)


@pytest.mark.parametrize("name", [n for n in REDUCING if catalogue.spec(n).body.finish])
def test_a_missing_finish_is_rejected(name: str) -> None:
    text = faults.without_phase(catalogue.module_text(name), "finish")
    assert failures_of(name, text, uneven(name))


@pytest.mark.parametrize("name", MASKED)
def test_an_unmasked_tail_is_rejected(name: str) -> None:
    text = faults.without_tail_masks(catalogue.module_text(name))
    assert failures_of(name, text, uneven(name))


@pytest.mark.parametrize("name", ["matmul", "matmul_transposed_left", "gated_matmul"])
def test_a_tail_masked_on_one_side_only_is_rejected(name: str) -> None:
    text = faults.without_tail_masks(catalogue.module_text(name), keep=1)
    assert failures_of(name, text, uneven(name), "tpu")


@pytest.mark.parametrize(
    ("name", "fill"),
    [("row_max", "0"), ("row_argmax", "0"), ("row_sum", "1"), ("softmax_statistics", "0")],
)
def test_a_wrong_identity_is_rejected(name: str, fill: str) -> None:
    text = faults.with_mask_fill(catalogue.module_text(name), fill)
    assert failures_of(name, text, uneven(name), kind="negative")


EDITS: dict[str, tuple[str, str, str]] = {
    "floor grid": ("row_sum", "pl.cdiv(m, block_m)", "m // block_m"),
    "swapped index map": (
        "matmul",
        "lambda m_i, n_i, k_i: (m_i, k_i)",
        "lambda m_i, n_i, k_i: (k_i, m_i)",
    ),
    "shifted index map": (
        "add",
        "out_specs=pl.BlockSpec((block_m, block_n), lambda m_i, n_i: (m_i, n_i))",
        "out_specs=pl.BlockSpec((block_m, block_n), lambda m_i, n_i: (m_i, 0))",
    ),
    "parallel reduction": (
        "matmul",
        '("parallel", "parallel", "arbitrary")',
        '("parallel", "parallel", "parallel")',
    ),
    "mean over the tiles": ("row_mean", "acc / n", "acc / (pl.cdiv(n, 128) * 128)"),
    "wrong axis reduced": ("layer_norm", "x.shape[1]", "x.shape[0]"),
    "dropped epilogue": ("matmul_bias_gelu", "jax.nn.gelu(", "("),
}
"""Name of a kernel, what its module says, and what it says with the fault."""


def edited(name: str, old: str, new: str) -> str:
    return faults.replaced(catalogue.module_text(name), old, new)


@pytest.mark.parametrize("fault", ["floor grid", "swapped index map", "shifted index map"])
def test_a_wrong_walk_is_rejected(fault: str) -> None:
    name = EDITS[fault][0]
    assert failures_of(name, edited(*EDITS[fault]), uneven(name), "tpu")


def test_a_parallel_reduction_axis_is_rejected() -> None:
    name = EDITS["parallel reduction"][0]
    assert failures_of(name, edited(*EDITS["parallel reduction"]), uneven(name), "tpu")


@pytest.mark.parametrize("name", ["add", "softmax", "matmul"])
def test_one_wrong_element_by_one_unit_in_the_last_place_is_rejected_where_all_is_exact(
    name: str,
) -> None:
    verifier = catalogue.verifier(name)
    case = cases.generated(verifier.spec)[0]
    oracle = verifier.oracle(case, "integers")
    expected = oracle.expected
    actual = verifier.call(case, "hlo", oracle.inputs)
    assert not compare.compare(expected, actual)
    exact = np.argwhere(np.logical_and.reduce([way.exact for way in expected["o"]]))
    place = tuple(exact[len(exact) // 2])
    wrong = actual["o"].copy()
    bits = wrong.view(np.uint16 if wrong.itemsize == 2 else np.uint32)
    bits[place] ^= 1
    (mismatch,) = compare.compare(expected, {"o": wrong})
    assert mismatch.index == tuple(int(i) for i in place)


def test_a_body_that_depends_on_its_tiles_is_found() -> None:
    data = catalogue.spec("row_sum").model_dump(mode="json", by_alias=True, exclude_none=True)
    data["body"]["step"] = ["acc += sum(x, n) + 1"]
    spec = catalogue.from_dict(data)
    case = uneven("row_sum")
    arrays = inputs.draw(spec, case.sizes, "random", 0)
    assert reference.depends_on_tiles(spec, check(spec), arrays, case.tiles) == ["o"]


# The text of references


@pytest.mark.parametrize(
    "line",
    [
        "x @ y",
        "jnp.einsum('mk,kn->mn', x, y)",
        "lax.scan(lambda h, a: (h + a, h), jnp.zeros(x.shape[1]), x)[1]",
        "jnp.stack([x[i] for i in range(x.shape[0])])",
        "x[..., None] * y.T, jax.nn.softmax(x, axis=-1)",
        "x.at[0].set(y[0])",
    ],
)
def test_a_reference_may_compute(line: str) -> None:
    assert jnp_text.parse([line], ["x", "y"]).result is not None


@pytest.mark.parametrize(
    "line",
    [
        "__import__('os').system('true')",
        "x.__class__",
        "x.tofile('f')",
        "jnp.load('f')",
        "jnp.save('f', x)",
        "jax.debug.callback(print, x)",
        "jax.nn.jnp.load('f')",
        "jax.pure_callback(len, x, x)",
        "jax.numpy.load('f')",
        "(lambda a: a)(jnp).load('f')",
        "[jnp][0].load('f')",
        "[_ for _ in x]",
        "(y := x)",
        "f'{x}'",
        "open('f')",
        "eval('1')",
        "import os",
        "unknown + x",
        "await x",
        "{}",
        "x; y",
        "",
        "x +",
        "jnp",
        "9" * 5000,
        "(" * 300,
        "lambda jnp: 1",
        "lambda len: 1",
    ],
)
def test_a_reference_may_do_nothing_else(line: str) -> None:
    with pytest.raises(KernelgenError) as raised:
        jnp_text.parse([line], ["x", "y"])
    assert {finding.code for finding in raised.value.diagnostics} == {"KG115"}


@pytest.mark.parametrize("line", ["jnp = x", "x.T = y", "a = b = x", "x[0] = y", "len = x"])
def test_a_line_of_a_reference_binds_new_names_only(line: str) -> None:
    with pytest.raises(KernelgenError):
        jnp_text.parse([line, "x"], ["x", "y"])
