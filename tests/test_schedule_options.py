"""Sub-blocks, sums by dot and replicated statistics: other ways to the same result."""

from __future__ import annotations

import json
from typing import Any

import catalogue
import pytest
from faults import replaced

import kernelgen
from kernelgen.diagnostics import Diagnostic, KernelgenError
from kernelgen.spec import KernelSpec
from kernelgen.verify import cases
from kernelgen.verify.run import Verifier

ROWS = ("top", "total")
"""The statistics of the rows of an attention kernel."""


def data_of(name: str, **changes: Any) -> dict[str, Any]:
    """A spec of the catalogue with changes at ``section__name__key`` places; None removes a key."""
    data: dict[str, Any] = json.loads(catalogue.spec(name).source.text)
    for place, value in changes.items():
        *parents, key = place.split("__")
        holder = data
        for parent in parents:
            holder = holder[parent]
        holder.pop(key, None)
        if value is not None:
            holder[key] = value
    return data


def spec_of(name: str, **changes: Any) -> KernelSpec:
    return catalogue.from_dict(data_of(name, **changes))


def findings(data: dict[str, Any]) -> tuple[Diagnostic, ...]:
    with pytest.raises(KernelgenError) as raised:
        kernelgen.plan(kernelgen.loads(json.dumps(data)))
    return raised.value.diagnostics


def failures(spec: KernelSpec, interpreter: Any = "hlo") -> list[str]:
    verifier = Verifier.of_text(spec, kernelgen.render(kernelgen.plan(spec)))
    case = next(case for case in cases.generated(spec) if "tail" in case.name)
    return [str(failure) for failure in verifier.run(case, interpreter, "random")]


def is_rejected(spec: KernelSpec, text: str, interpreter: Any) -> bool:
    """Whether some case of the verifier's own, with some lengths, shows a fault."""
    verifier = Verifier.of_text(spec, text)
    return any(
        verifier.run(case, interpreter, "random", seed)
        for case in sorted(cases.generated(spec), key=lambda case: "tail" not in case.name)
        for seed in range(3)
    )


SUBTILE = {"tile": 256, "subtile": 128}
"""Two sub-blocks in a block, also where a case has its own tiles."""

OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "a mean in sub-blocks": (
        "ragged_mean",
        {"axes__s": {**SUBTILE, "stop": "lengths[b]"}},
    ),
    "a maximum in sub-blocks": (
        "ragged_max",
        {"axes__s": {**SUBTILE, "stop": "lengths[b]"}},
    ),
    "rows of a batch in sub-blocks": (
        "ragged_matmul",
        {"axes__m": {**SUBTILE, "stop": "lengths[b]"}},
    ),
    "rows of a batch in sub-blocks, others unspecified": (
        "ragged_matmul",
        {"axes__m": {**SUBTILE, "stop": "lengths[b]"}, "outputs__o__outside": "unspecified"},
    ),
    "rows that a step stores in sub-blocks": (
        "ragged_matmul_any",
        {
            "axes__m": {**SUBTILE, "stop": "lengths[b]"},
            "inputs__x__memory_space": None,
            "outputs__o__memory_space": None,
        },
    ),
    "blocks that the kernel copies in sub-blocks": (
        "ragged_matmul_any",
        {"axes__m": {**SUBTILE, "stop": "lengths[b]"}},
    ),
    "bounds that vary in sub-blocks": (
        "causal_attention",
        {"axes__s": {**SUBTILE, "sums": "dot", "stop": "q + 1"}},
    ),
    "queries in sub-blocks": (
        "causal_attention",
        {"axes__q": {**SUBTILE, "stop": "size(q) - 3"}},
    ),
    "a window in sub-blocks": (
        "sliding_window_attention",
        {"axes__s": {**SUBTILE, "start": "q - 100", "stop": "q + 1"}, "reference": None},
    ),
    "groups in sub-blocks that a step stores": (
        "grouped_matmul",
        {
            "axes__k": {},
            "grid": ["n", "e", "m"],
            "reduction": None,
            "scratch": None,
            "body": {"step": "o = dot(x, w, k)"},
        },
    ),
    "groups that are summed in sub-blocks": (
        "segment_sum",
        {"axes__n": {**SUBTILE, "start": "offsets[e]", "stop": "offsets[e + 1]"}},
    ),
    "a running sum with bounds in sub-blocks": (
        "cumulative_sum",
        {"axes__t": {**SUBTILE, "stop": "size(t) - 3"}, "reference": None},
    ),
    "sums by a dot of their own": (
        "row_sum",
        {"axes__n": {"tile": 128, "sums": "dot"}, "inputs__x__dtype": "bfloat16"},
    ),
    "sums by a dot beside a vector's": (
        "attention",
        {f"scratch__{name}__replicated": None for name in ROWS},
    ),
    "replicated sums of the vector unit": ("attention", {"axes__s": {"tile": 128}}),
    "a replicated sum of rows": ("row_sum", {"scratch__acc__replicated": True}),
    "a replicated maximum of rows": ("row_max", {"scratch__best__replicated": True}),
    "replicated statistics of a softmax": (
        "softmax_statistics",
        {"scratch__top__replicated": True, "scratch__total__replicated": True},
    ),
    "replicated statistics beside single ones": ("logsumexp", {"scratch__top__replicated": True}),
}
"""The kernel of the catalogue, and the changes of its schedule."""


@pytest.mark.parametrize("option", OPTIONS)
def test_a_schedule_computes_what_the_body_means(option: str) -> None:
    name, changes = OPTIONS[option]
    assert failures(spec_of(name, **changes)) == []


@pytest.mark.parametrize(
    "option",
    [
        "rows that a step stores in sub-blocks",
        "blocks that the kernel copies in sub-blocks",
        "groups in sub-blocks that a step stores",
        "bounds that vary in sub-blocks",
        "sums by a dot beside a vector's",
    ],
)
def test_a_schedule_runs_on_a_simulated_tpu(option: str) -> None:
    name, changes = OPTIONS[option]
    assert failures(spec_of(name, **changes), interpreter="tpu") == []


FAULTS: dict[str, tuple[str, str, str]] = {
    "a sub-block left out in front": (
        "groups in sub-blocks that a step stores",
        "lax.div(jnp.maximum(m_start - m_i * block_m, 0), subblock_m)",
        "1 + lax.div(jnp.maximum(m_start - m_i * block_m, 0), subblock_m)",
    ),
    "a sub-block left out at the end": (
        "a mean in sub-blocks",
        "pl.cdiv(jnp.minimum(s_stop - s_i * block_s, block_s), subblock_s)",
        "pl.cdiv(jnp.minimum(s_stop - s_i * block_s, block_s), subblock_s) - 1",
    ),
    "a sub-block without masks": (
        "a mean in sub-blocks",
        "step(s_sub, subblock_s, masked=True)",
        "step(s_sub, subblock_s, masked=False)",
    ),
    "the first sub-block for every one": (
        "a mean in sub-blocks",
        "pl.ds(s_sub * s_size, s_size)",
        "pl.ds(0, s_size)",
    ),
    "positions of the block for those of its part": (
        "a mean in sub-blocks",
        "s_from = s_i * block_s + s_sub * s_size",
        "s_from = s_i * block_s",
    ),
    "no zeros beside the sub-blocks": (
        "rows that a step stores in sub-blocks",
        "o_ref[...] = jnp.zeros_like(o_ref)\n        lax",
        "lax",
    ),
    "zeros over what another group has stored": (
        "groups in sub-blocks that a step stores",
        "@pl.when(first_visit)",
        "@pl.when(first_visit | True)",
    ),
    "sums that the product's columns take": (
        "sums by a dot beside a vector's",
        "product[:, 128:]",
        "product[:, : product.shape[1] - 128]",
    ),
}
"""The schedule, what its module says, and what it says with the fault."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_schedule_is_rejected(fault: str) -> None:
    option, old, new = FAULTS[fault]
    name, changes = OPTIONS[option]
    spec = spec_of(name, **changes)
    text = replaced(kernelgen.render(kernelgen.plan(spec)), old, new)
    assert is_rejected(spec, text, "tpu" if "zeros" in fault else "hlo")


def test_a_product_with_ones_gives_sums_and_columns_at_once() -> None:
    text = catalogue.module_text("attention")
    assert text.count("jnp.dot(p, _with_ones(value)") == 1
    assert "jnp.sum" not in text


def test_a_block_that_no_bound_cuts_is_computed_at_once() -> None:
    text = catalogue.module_text("ragged_attention")
    assert "pl.when(live & whole)(lambda: step(0, block_s, masked=False))" in text


@pytest.mark.parametrize("name", ["ragged_attention", "grouped_matmul"])
def test_blocks_have_to_hold_whole_sub_blocks(name: str) -> None:
    spec = catalogue.spec(name)
    (axis,) = (axis for axis in spec.axes if spec.axes[axis].subtile)
    verifier = catalogue.verifier(name)
    case = cases.generated(spec)[0]
    arrays = verifier.oracle(case, "random").inputs
    with pytest.raises(ValueError, match=f"is no multiple of subblock_{axis} = 96"):
        verifier.function(*arrays.values(), **{f"block_{axis}": 128, f"subblock_{axis}": 96})


REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "sub-blocks without bounds": ("matmul", {"axes__k__subtile": 128}, "KG308", "stop"),
    "sub-blocks of two axes": (
        "ragged_attention",
        {"axes__q": {"tile": 512, "subtile": 256, "stop": "lengths[b]"}},
        "KG308",
        "one of the two",
    ),
    "sub-blocks that are no rows of registers": (
        "ragged_attention",
        {"axes__s__subtile": 64},
        "KG308",
        "multiple of 128",
    ),
    "sub-blocks that do not divide the block": (
        "ragged_attention",
        {"axes__s__subtile": 384},
        "KG308",
        "divides the tile",
    ),
    "a row that is replicated": (
        "column_sum",
        {"scratch__acc__replicated": True},
        "KG414",
        "remove replicated",
    ),
    "a matrix that is replicated": (
        "matmul",
        {"scratch__acc__replicated": True},
        "KG414",
        "remove replicated",
    ),
    "no sum along the axis": ("matmul", {"axes__k__sums": "dot"}, "KG415", "remove sums"),
    "a sum of float32": ("row_sum", {"axes__n__sums": "dot"}, "KG415", "bfloat16"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_schedule_that_makes_no_sense_is_refused(case: str) -> None:
    name, changes, code, instead = REFUSED[case]
    (finding,) = (f for f in findings(data_of(name, **changes)) if f.code == code)
    assert instead in finding.instead
