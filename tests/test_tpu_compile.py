"""The real TPU compiler takes what kernelgen accepts, on every generation that a spec names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import bodies
import catalogue
import pytest
import tiny
from catalogue import NAMES

import kernelgen
from kernelgen.language.operations import Operation
from kernelgen.spec import KernelSpec
from kernelgen.verify import aot, cases

pytestmark = pytest.mark.skipif(not aot.installed(), reason="libtpu is not installed")

EXTREME_TARGETS = ("v4", "tpu7x")


@pytest.fixture(scope="session")
def compiler() -> Iterator[aot.Compiler]:
    with aot.Compiler() as running:
        yield running


def assert_compiles(
    compiler: aot.Compiler, spec: KernelSpec, sizes: dict[str, int], targets: Sequence[str]
) -> None:
    text = kernelgen.render(kernelgen.plan(spec))
    answers = compiler.compile(text, spec.name, aot.arguments(spec, sizes), targets)
    refused = [f"{answer.target}: {answer.message}" for answer in answers if not answer.ok]
    assert not refused, "\n".join(refused)


@pytest.mark.parametrize("name", NAMES)
def test_a_catalogue_kernel_compiles_for_all_its_targets(compiler: aot.Compiler, name: str) -> None:
    spec = catalogue.spec(name)
    tiles = cases.tile_arguments(spec)
    # Sizes that no tile divides: only then are the masks of tails traced.
    declared = [case.sizes for case in cases.declared(spec)]
    uneven = next(c for c in declared if all(c[a] > t and c[a] % t for a, t in tiles.items()))
    assert_compiles(compiler, spec, uneven, spec.targets)


@pytest.mark.parametrize(("operation", "dtype"), tiny.KERNELS.values(), ids=tiny.KERNELS)
def test_every_operation_of_the_table_compiles(
    compiler: aot.Compiler, operation: Operation, dtype: str
) -> None:
    spec = catalogue.from_dict(tiny.spec(operation, dtype))
    every = dtype == tiny.dtypes(operation)[0]
    targets = [t for t in spec.targets if every or t in EXTREME_TARGETS]
    assert_compiles(compiler, spec, {axis: tiny.SIZES[axis] for axis in spec.axes}, targets)


@pytest.mark.parametrize("name", sorted(bodies.TABLE))
def test_a_body_beyond_the_catalogue_compiles(compiler: aot.Compiler, name: str) -> None:
    spec = catalogue.from_dict(bodies.TABLE[name])
    assert_compiles(compiler, spec, spec.cases[0], spec.targets)
    assert_compiles(compiler, spec, dict.fromkeys(spec.axes, 1), spec.targets[:1])


def test_the_compiler_s_objection_is_reported(compiler: aot.Compiler) -> None:
    arguments = [((3,), "float32")]
    (answer,) = compiler.compile("def f(x):\n    return x.missing", "f", arguments, ["v5e"])
    assert not answer.ok
    assert "missing" in answer.message


def test_a_compiler_that_dies_or_hangs_is_reported_and_started_again() -> None:
    arguments = [((3,), "float32")]
    dies = "import os\ndef f(x):\n    os._exit(3)"
    hangs = "import time\ndef f(x):\n    time.sleep(600)"
    with aot.Compiler() as compiler:
        (death,) = compiler.compile(dies, "f", arguments, ["v5e"])
        assert "exit code 3" in death.message
        compiler.time_limit = 10
        (hang,) = compiler.compile(hangs, "f", arguments, ["v5e"])
        assert "10 s" in hang.message
        compiler.time_limit = 120
        (fine,) = compiler.compile("def f(x):\n    return x + 1", "f", arguments, ["v5e"])
        assert fine.ok, fine.message
