"""Settings of the test run: jax on the CPU, and examples that are the same every time."""

from __future__ import annotations

import os

# Before anything imports jax: a test run neither looks for nor uses an accelerator.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from kernelgen.verify.modules import XLA_FLAGS

# Most of a run is XLA compiling kernels that are called once or twice: without optimisation, that
# takes two thirds of the time. The processes of test_copies do optimise.
os.environ.setdefault(
    "XLA_FLAGS",
    f"{XLA_FLAGS} --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)

import pytest
from hypothesis import HealthCheck, settings

# Every example of a kernel is compiled, and other workers use the same cores: a deadline would
# measure the machine. HYPOTHESIS_PROFILE=search looks at other examples every time.
_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW
)
settings.register_profile("search", deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one catalogue kernel follow one another.

    pytest-xdist hands out runs of neighbours, so that most tests of a kernel meet in one process,
    where jax has compiled the kernel already.
    """
    # Stable, and the same in every process, as pytest-xdist requires.
    items.sort(key=_kernel)


def _kernel(item: pytest.Item) -> str:
    if item.path.stem != "test_kernels" or not isinstance(item, pytest.Function):
        return ""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("name", "")) if callspec else ""
