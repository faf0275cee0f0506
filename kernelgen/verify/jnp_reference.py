"""The independent reference: a spec's ``reference``, evaluated by jax in 64 bits.

Floating-point inputs arrive as float64 and integers as int64, so that the result can be compared
with the derived reference far below the rounding of the kernel. Booleans stay booleans.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelgen.language import check
from kernelgen.spec import KernelSpec
from kernelgen.spec import reference as jnp_text
from kernelgen.verify import padding, reference
from kernelgen.verify.inputs import is_irregular
from kernelgen.verify.values import Array, Bounded, kind

ROUNDOFF64_PER_32 = 2.0**-29
"""The unit roundoff of float64, in those of float32."""


def evaluate(spec: KernelSpec, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compute the outputs of a kernel by its ``reference``.

    Args:
        spec: A spec with a ``reference``.
        inputs: An array for every input.

    Returns:
        An array for every output: float64, int64 or bool.

    Raises:
        KernelgenError: The reference is no plain computation (KG115).
        ValueError: It does not give one array of the right shape for every output.
    """
    import jax
    import jax.numpy as jnp
    from jax import lax

    parsed = jnp_text.parse(spec.reference, tuple(spec.inputs))
    if is_irregular(spec):
        program = check(spec)
        sizes = reference.sizes_of(spec, program.domain, inputs)
        inputs = padding.cleared(spec, program, sizes, inputs)

    def compute(arrays: dict[str, Any]) -> Any:
        names: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax, **arrays}
        for step in parsed.steps:
            value = _run(step.value, names)
            if len(step.targets) > 1:
                names.update(zip(step.targets, value, strict=True))
            else:
                names[step.targets[0]] = value
        return _run(parsed.result, names)

    with jax.enable_x64(True):
        arrays = {
            name: jnp.asarray(_widest(np.asarray(inputs[name]), operand.dtype))
            for name, operand in spec.inputs.items()
        }
        # Compiled as a whole: operation by operation, a scan takes seconds.
        return _outputs(spec, jax.jit(compute)(arrays))


def _widest(array: Array, dtype: str) -> Array:
    to: Any = {"float": np.float64, "int": np.int64, "bool": np.bool_}[kind(dtype)]
    return array.astype(to)


def _run(expression: ast.expr, names: dict[str, Any]) -> Any:
    tree = ast.fix_missing_locations(ast.Expression(expression))
    builtins = {name: getattr(__import__("builtins"), name) for name in jnp_text.BUILTINS}
    # One dict for globals, so that lambdas see the names too. The text has been checked.
    return eval(compile(tree, "<reference>", "eval"), {**names, "__builtins__": builtins})


def _outputs(spec: KernelSpec, result: Any) -> dict[str, Array]:
    values = list(result) if isinstance(result, tuple | list) else [result]
    if len(values) != len(spec.outputs):
        wanted = ", ".join(spec.outputs)
        raise ValueError(f"reference of {spec.name} gives {len(values)} results for {wanted}")
    return {
        name: _widest(np.asarray(value), operand.dtype)
        for (name, operand), value in zip(spec.outputs.items(), values, strict=True)
    }


def disagreement(derived: Bounded, independent: Array) -> str:
    """Compare an output of the two references.

    Both compute in float64, so they may differ by what a float32 kernel may, scaled down to
    the unit roundoff of float64.

    Args:
        derived: The output's meaning, with its float32 interval.
        independent: The same output by the spec's ``reference``.

    Returns:
        What differs, in words; empty where they agree.
    """
    if derived.center.shape != independent.shape:
        return f"shape {independent.shape} instead of {derived.center.shape}"
    with np.errstate(invalid="ignore"):
        off = np.abs(derived.center - independent)
        slack = ROUNDOFF64_PER_32 * (derived.hi - derived.lo) + 2.0**-51 * np.abs(derived.center)
        fine = (off <= slack) | (derived.center == independent)
        fine |= np.isnan(derived.center) & np.isnan(independent) | derived.unknown
    if np.all(fine):
        return ""
    at = np.unravel_index(np.argmin(fine), fine.shape)
    place = ", ".join(str(int(i)) for i in at)
    return f"at [{place}]: {derived.center[at]!r} by the body, {independent[at]!r} by reference"
