"""Generated modules, loaded from their text and called."""

from __future__ import annotations

import contextlib
import io
import linecache
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, Literal

import numpy as np

from kernelgen.spec import KernelSpec
from kernelgen.verify.cases import block_arguments
from kernelgen.verify.values import Array, numpy_dtype

Interpreter = Literal["hlo", "tpu", "tpu eager"]
"""``hlo`` runs a kernel as XLA operations; ``tpu`` simulates the memories, semaphores and copies
of a TPU, with copies done when they are waited for, or (``eager``) as soon as they are started."""


XLA_FLAGS = "--xla_disable_hlo_passes=algsimp,constant_folding --xla_cpu_enable_fast_min_max=false"
"""What keeps XLA on a CPU to the kernel as written, as the TPU's compiler does.

Its algebraic simplifier makes selects of masks by multiplication, which hides the NaN that they
let through, and quotients of products, which overflow where the kernel does not. Without it, a
conditional that is folded to a constant ends the process (jax 0.10), so that nothing is folded. The
variable has to be set before jax starts.
"""


class FaultError(Exception):
    """The simulator found a fault that need not change any value, such as a race."""


def load(text: str, name: str) -> ModuleType:
    """Import a module from its text, without a file and without ``sys.modules``.

    Args:
        text: Python source.
        name: The module's name.

    Returns:
        The module.
    """
    filename = f"<generated {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = ModuleType(name)
    module.__file__ = filename
    exec(compile(text, filename, "exec", dont_inherit=True), module.__dict__)
    return module


def function(module: ModuleType, spec: KernelSpec) -> Callable[..., Any]:
    """The public function of a generated module."""
    found: Callable[..., Any] = getattr(module, spec.name)
    return found


def call(
    run: Callable[..., Any],
    spec: KernelSpec,
    inputs: Mapping[str, Array],
    tiles: Mapping[str, int],
    interpreter: Interpreter,
    seed: int = 0,
) -> dict[str, Array]:
    """Call a generated function in an interpreter.

    Args:
        run: The function.
        spec: Its spec.
        inputs: An array for every input.
        tiles: Tiles that differ from the defaults.
        interpreter: How to run it.
        seed: In which order the simulator takes parallel steps.

    Returns:
        The outputs by name.

    Raises:
        FaultError: A race, a semaphore that is left signalled, or a result of the wrong kind.
        Exception: Whatever the function or the interpreter raises.
    """
    arguments: dict[str, Any] = dict(block_arguments(spec, tiles))
    arguments["interpret"] = interpret_argument(interpreter, seed)
    arrays = [inputs[name] for name in spec.inputs]
    with watched() if interpreter != "hlo" else contextlib.nullcontext():
        result = run(*arrays, **arguments)
        return _outputs(spec, result)


def _outputs(spec: KernelSpec, result: Any) -> dict[str, Array]:
    values = result if isinstance(result, tuple | list) else (result,)
    if len(values) != len(spec.outputs):
        raise FaultError(f"{len(values)} results for {len(spec.outputs)} outputs")
    return {name: np.asarray(value) for name, value in zip(spec.outputs, values, strict=True)}


def interpret_argument(interpreter: Interpreter, seed: int = 0) -> Any:
    """What a generated function takes as ``interpret`` for an interpreter."""
    if interpreter == "hlo":
        return True
    from jax.experimental.pallas import tpu as pltpu

    return pltpu.InterpretParams(
        detect_races=True,
        uninitialized_memory="nan",
        out_of_bounds_reads="raise",
        dma_execution_mode="eager" if interpreter == "tpu eager" else "on_wait",
        random_seed=seed,
    )


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Turn what the simulator only prints or notes into errors, and clean up after it.

    Raises:
        FaultError: It printed about a semaphore, or it noted a race (jax 0.10 does not raise).
    """
    from jax.experimental.pallas import tpu as pltpu

    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
        for line in printed.getvalue().splitlines():
            if "non-zero count" in line or "RACE DETECTED" in line:
                raise FaultError(line.strip())
        if _race_noted():
            raise FaultError("the simulator noted a race")
    finally:
        _forget_failed_callbacks()
        reset: Any = pltpu.reset_tpu_interpret_mode_state
        reset()


def _forget_failed_callbacks() -> None:
    """jax waits for callbacks when the process ends, and would raise their errors once more."""
    import jax

    finish: Any = jax.effects_barrier
    try:
        finish()
    except Exception:
        # The error has been raised by the call itself already.
        with contextlib.suppress(ImportError, AttributeError):
            from jax._src import dispatch

            tokens: Any = dispatch.runtime_tokens
            tokens.clear()


def _race_noted() -> bool:
    try:
        from jax._src.pallas.mosaic.interpret import interpret_pallas_call as simulator
    except ImportError:
        return False
    return bool(getattr(getattr(simulator, "races", None), "races_found", False))


def shapes(spec: KernelSpec, sizes: Mapping[str, int]) -> list[tuple[tuple[int, ...], Any]]:
    """Shape and dtype of every argument."""
    return [
        (tuple(sizes[axis] for axis in operand.axes), numpy_dtype(operand.dtype))
        for operand in spec.inputs.values()
    ]
