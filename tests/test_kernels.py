"""Every kernel of the catalogue, against both of its references and in both interpreters."""

from __future__ import annotations

import ast
import functools
import inspect
from typing import Any

import catalogue
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import NAMES

from kernelgen.spec import KernelSpec
from kernelgen.verify import cases, inputs, jnp_reference, modules, reference
from kernelgen.verify.cases import Case
from kernelgen.verify.inputs import InputKind
from kernelgen.verify.modules import Interpreter
from kernelgen.verify.values import numpy_dtype

every_kernel = pytest.mark.parametrize("name", NAMES)


def label(parameter: object) -> str:
    return parameter.name if isinstance(parameter, Case) else str(parameter)


def pairs(make: Any) -> list[tuple[str, Case]]:
    return [(name, case) for name in NAMES for case in make(catalogue.spec(name))]


def assert_correct(
    name: str, case: Case, interpreter: Interpreter, kind: InputKind = "random"
) -> None:
    failures = catalogue.verifier(name).run(case, interpreter, kind)
    assert not failures, "\n".join(str(failure) for failure in failures)


def drawn(spec: KernelSpec, case: Case, kind: InputKind = "random") -> dict[str, Any]:
    return inputs.draw(spec, case.sizes, kind, seed=1)


# Values


@pytest.mark.parametrize(("name", "case"), pairs(cases.declared), ids=label)
def test_a_declared_case_is_right_and_both_references_agree(name: str, case: Case) -> None:
    verifier = catalogue.verifier(name)
    oracle = verifier.oracle(case, "random")
    independent = jnp_reference.evaluate(verifier.spec, oracle.inputs)
    for output, derived in oracle.results[0].items():
        assert jnp_reference.disagreement(derived, independent[output]) == "", output
    # The edges of tiles are seen in both interpreters, with small tiles and the spec's.
    assert_correct(name, case, "hlo" if fits(verifier.spec, case) else "tpu")


def fits(spec: KernelSpec, case: Case) -> bool:
    """Whether tiles divide all sizes: the simulator sees that with long reductions only."""
    tiles = {**cases.tile_arguments(spec), **case.tiles}
    return all(case.sizes[axis] % tile == 0 for axis, tile in tiles.items())


def edges(spec: KernelSpec) -> list[Case]:
    """Cases that differ in what is masked and cut; `kernelgen verify` runs all there are."""
    about = ("a tile and one", "several steps and a tail", "less than a tile", "one position")
    return [case for case in cases.generated(spec) if case.name in about]


def tail(spec: KernelSpec) -> Case:
    return next(case for case in cases.generated(spec) if "tail" in case.name)


def other_edges(spec: KernelSpec) -> list[Case]:
    return [case for case in edges(spec) if case != tail(spec)]


@pytest.mark.parametrize(("name", "case"), pairs(other_edges), ids=label)
def test_sizes_around_the_tiles_are_right(name: str, case: Case) -> None:
    assert_correct(name, case, "hlo")


@every_kernel
def test_tails_are_right_on_a_simulated_tpu(name: str) -> None:
    assert_correct(name, tail(catalogue.spec(name)), "tpu")


@every_kernel
def test_tails_are_right_with_inputs_of_every_kind(name: str) -> None:
    kinds = inputs.kinds_for(catalogue.spec(name))
    assert "random" in kinds
    for kind in kinds:
        assert_correct(name, tail(catalogue.spec(name)), "hlo", kind)


def long_reductions() -> list[tuple[str, Case]]:
    found = [(name, cases.long_reduction(catalogue.spec(name))) for name in NAMES]
    return [(name, case) for name, case in found if case is not None]


@pytest.mark.parametrize(("name", "case"), long_reductions(), ids=label)
def test_a_long_reduction_in_several_steps_is_right(name: str, case: Case) -> None:
    assert_correct(name, case, "tpu")
    assert_correct(name, case, "tpu", "integers")


@every_kernel
def test_an_axis_without_positions_gives_what_the_body_means(name: str) -> None:
    for case in cases.empty(catalogue.spec(name)):
        assert_correct(name, case, "hlo")


@every_kernel
def test_the_result_does_not_depend_on_the_tiles(name: str) -> None:
    spec, program = catalogue.spec(name), catalogue.verifier(name).program
    for case in edges(spec):
        for kind in ("random", "integers"):
            arrays = drawn(spec, case, kind)
            assert reference.depends_on_tiles(spec, program, arrays, case.tiles) == []


# The public function


def small(spec: KernelSpec) -> Case:
    return next(case for case in cases.generated(spec) if case.name == "less than a tile")


def function(name: str) -> Any:
    return catalogue.verifier(name).function


@every_kernel
def test_arrays_are_positional_and_tiles_are_keywords_with_the_spec_s_defaults(name: str) -> None:
    spec = catalogue.spec(name)
    parameters = inspect.signature(function(name)).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert positional == list(spec.inputs)
    tiles = {f"block_{axis}": tile for axis, tile in cases.tile_arguments(spec).items()}
    parts = {f"subblock_{name}": axis.subtile for name, axis in spec.axes.items() if axis.subtile}
    assert keywords == {**tiles, **parts, "interpret": False}


@every_kernel
def test_the_module_imports_nothing_but_jax(name: str) -> None:
    imported = set()
    for node in ast.walk(ast.parse(catalogue.module_text(name))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module))
    assert imported <= {
        "functools", "jax", "jax.numpy", "jax.experimental", "jax.experimental.pallas"
    }  # fmt: skip


@every_kernel
def test_neither_jit_nor_64_bit_mode_changes_anything(name: str) -> None:
    spec = catalogue.spec(name)
    case = small(spec)
    arrays = drawn(spec, case)
    usual = modules.call(function(name), spec, arrays, case.tiles, "hlo")
    run = functools.partial(
        function(name), interpret=True, **cases.block_arguments(spec, case.tiles)
    )
    with jax.enable_x64(True):
        # Under jit, the mode is that of the caller when the kernel is lowered, too.
        wide = jax.tree.leaves(jax.jit(run)(*map(jnp.asarray, arrays.values())))
    assert [array.dtype for array in wide] == [
        numpy_dtype(operand.dtype) for operand in spec.outputs.values()
    ]
    for array, output in zip(wide, spec.outputs, strict=True):
        assert bitwise_equal(usual[output], array)


def bitwise_equal(x: Any, y: Any) -> bool:
    x, y = np.asarray(x), np.asarray(y)
    return x.dtype == y.dtype and x.tobytes() == y.tobytes()


def shared_axes() -> list[tuple[str, str, str]]:
    """Kernel, input and an axis that another input has, too."""
    return [
        (name, operand, axis)
        for name in NAMES
        for operand, declared in catalogue.spec(name).inputs.items()
        for axis in declared.axes
        if sum(axis in other.axes for other in catalogue.spec(name).inputs.values()) > 1
    ]


@pytest.mark.parametrize(("name", "operand", "axis"), shared_axes())
def test_a_size_that_fits_no_other_input_is_an_error_naming_input_and_axis(
    name: str, operand: str, axis: str
) -> None:
    spec = catalogue.spec(name)
    arrays = drawn(spec, small(spec))
    place = spec.inputs[operand].axes.index(axis)
    arrays[operand] = np.concatenate([arrays[operand]] * 2, axis=place)
    with pytest.raises(ValueError, match=str(arrays[operand].shape[place])) as raised:
        function(name)(*arrays.values(), interpret=True)
    involved = [n for n, other in spec.inputs.items() if axis in other.axes]
    assert any(f"{n}[" in str(raised.value) for n in involved)
    assert axis in str(raised.value)


def operands() -> list[tuple[str, str]]:
    return [(name, operand) for name in NAMES for operand in catalogue.spec(name).inputs]


@pytest.mark.parametrize(("name", "operand"), operands())
def test_a_wrong_rank_is_an_error_naming_the_input(name: str, operand: str) -> None:
    spec = catalogue.spec(name)
    arrays = drawn(spec, small(spec))
    arrays[operand] = arrays[operand][None]
    with pytest.raises(ValueError, match=operand):
        function(name)(*arrays.values(), interpret=True)


@pytest.mark.parametrize(("name", "operand"), operands())
def test_a_wrong_dtype_is_an_error_naming_the_input_and_both_dtypes(
    name: str, operand: str
) -> None:
    spec = catalogue.spec(name)
    arrays = drawn(spec, small(spec))
    arrays[operand] = arrays[operand].astype(np.int16)
    with pytest.raises(TypeError, match="int16") as raised:
        function(name)(*arrays.values(), interpret=True)
    assert operand in str(raised.value)
    assert spec.inputs[operand].dtype in str(raised.value)
