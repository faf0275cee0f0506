"""Settings of the test run: jax on the CPU, and examples that are the same every time."""

from __future__ import annotations

import os

# Before anything imports jax: a test run neither looks for nor uses an accelerator.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from kernelgen.verify.modules import XLA_FLAGS

os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)

from hypothesis import HealthCheck, settings

# Every example of a kernel is compiled, and other workers use the same cores: a deadline would
# measure the machine. HYPOTHESIS_PROFILE=search looks at other examples every time.
_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW
)
settings.register_profile("search", deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
