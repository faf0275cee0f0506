"""Runs the generated matmul on the CPU, in Pallas's interpreter, and compares it with jnp.

From the root of the repository, after ``kernelgen render specs/matmul.json``::

    python -m examples.matmul
"""

from __future__ import annotations

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

from generated.matmul import matmul

SHAPES = ((512, 1024, 512), (600, 1100, 1300), (200, 300, 700), (1, 7, 50))
BLOCK_K = 128
"""Smaller than the default, so that every shape takes several steps along k."""


def rounding_bound(a: np.ndarray, b: np.ndarray, block: int) -> np.ndarray:
    """How far a product accumulated in float32, block by block, and rounded once may be off.

    Args:
        a: The left operand in float64.
        b: The right operand in float64.
        block: Terms that are summed in one step.

    Returns:
        The bound for each element.
    """
    terms = block + a.shape[1] / block
    accumulated = terms * 2.0**-24 / (1 - terms * 2.0**-24) * (abs(a) @ abs(b))
    return accumulated + 2.0**-8 * (abs(a @ b) + accumulated)


def main() -> int:
    """Compare on every shape; 1 if any element is off by more than its bound."""
    worst = 0.0
    for m, n, k in SHAPES:
        keys = jax.random.split(jax.random.key(m))
        a = jax.random.normal(keys[0], (m, k), jnp.bfloat16)
        b = jax.random.normal(keys[1], (k, n), jnp.bfloat16)
        exact_a, exact_b = np.asarray(a, np.float64), np.asarray(b, np.float64)

        o = np.asarray(matmul(a, b, block_k=BLOCK_K, interpret=True), np.float64)
        expected = np.asarray(jnp.matmul(a, b, preferred_element_type=jnp.float32), np.float64)

        error = abs(o - expected)
        used = float(np.max(error / rounding_bound(exact_a, exact_b, BLOCK_K)))
        worst = max(worst, used)
        print(f"{m} x {k} x {n}: largest error {error.max():.3g}, {used:.2f} of its bound")
    print("agrees with jnp" if worst <= 1 else "DIFFERS from jnp")
    return int(worst > 1)


if __name__ == "__main__":
    sys.exit(main())
