"""Ahead-of-time compilation of generated modules for TPUs that this machine does not have.

The compiler (libtpu) runs in a process of its own: some inputs abort it, and some take forever.

Run as a module, this file is that process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelgen.spec import KernelSpec
from kernelgen.verify.child import Child, serve

TOPOLOGIES = {
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "tpu7x": "tpu7x:2x2x1",
}
"""The smallest topology of each generation that both supported jax versions know."""

ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "JAX_PLATFORMS": "cpu",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    # Flags for the CPU are not for the TPU.
    "XLA_FLAGS": "",
}
"""What lets libtpu compile on a machine without a TPU, several at once."""

TIME_LIMIT = 120.0
"""Seconds for one module on one target: a typical kernel takes less than three."""

Argument = tuple[tuple[int, ...], str]
"""Shape and dtype of an array."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The compiler's answer for one target.

    Attributes:
        target: The TPU generation.
        ok: Whether it compiled.
        message: The compiler's message where it did not.
        seconds: How long it took.
        code_bytes: Size of the executable; 0 where it did not compile.
    """

    target: str
    ok: bool
    message: str = ""
    seconds: float = 0.0
    code_bytes: int = 0


def installed() -> bool:
    """Whether libtpu is there."""
    from importlib.util import find_spec

    return find_spec("libtpu") is not None


def arguments(spec: KernelSpec, sizes: Mapping[str, int]) -> list[Argument]:
    """Shape and dtype of every argument of a kernel's function."""
    return [
        (tuple(sizes[axis] for axis in operand.axes), operand.dtype)
        for operand in spec.inputs.values()
    ]


class Compiler(Child):
    """The compiler's process; a context manager."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        """Start nothing yet; ``time_limit`` is in seconds, for one module on one target."""
        super().__init__("kernelgen.verify.aot", ENVIRONMENT, time_limit)

    def compile(
        self,
        text: str,
        name: str,
        arguments: Sequence[Argument],
        targets: Sequence[str],
        tiles: Mapping[str, int] | None = None,
    ) -> list[Compiled]:
        """Compile a generated module.

        Args:
            text: The module.
            name: Its public function.
            arguments: Shape and dtype of every argument.
            targets: TPU generations.
            tiles: The tile of every axis that does not run with its default.

        Returns:
            An answer for every target, in their order.
        """
        blocks = {f"block_{axis}": tile for axis, tile in (tiles or {}).items()}
        request = {"text": text, "name": name, "arguments": list(arguments), "blocks": blocks}
        return [self._compile({**request, "target": target}) for target in targets]

    def _compile(self, request: dict[str, Any]) -> Compiled:
        try:
            return Compiled(**self.ask(request))
        except (TimeoutError, ChildProcessError) as error:
            return Compiled(str(request["target"]), False, f"the compiler {error}")


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    import time

    start = time.monotonic()
    answer: dict[str, Any] = {"target": request["target"], "ok": False}
    try:
        answer["code_bytes"] = _compiled_size(request)
        answer["ok"] = True
    except Exception as error:
        # Whatever the compiler objects to is the answer.
        answer["message"] = f"{type(error).__name__}: {error}"
    answer["seconds"] = time.monotonic() - start
    return answer


def _compiled_size(request: Mapping[str, Any]) -> int:
    import functools

    import jax
    import jax.sharding as shardings
    import numpy as np

    from kernelgen.verify.modules import load
    from kernelgen.verify.values import numpy_dtype

    mesh = _mesh(request["target"])
    everywhere: Any = shardings.PartitionSpec
    sharding = shardings.NamedSharding(mesh, everywhere())
    struct: Any = jax.ShapeDtypeStruct
    arguments = [
        struct(tuple(shape), np.dtype(numpy_dtype(dtype)), sharding=sharding)
        for shape, dtype in request["arguments"]
    ]
    module = load(request["text"], request["name"])
    function = functools.partial(getattr(module, request["name"]), **request["blocks"])
    # Some lowerings ask which TPU they are for.
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        compiled = jax.jit(function).lower(*arguments).compile()
    memory: Any = compiled.memory_analysis()
    return int(getattr(memory, "generated_code_size_in_bytes", 0) or 0)


_MESHES: dict[str, Any] = {}


def _mesh(target: str) -> Any:
    if target not in _MESHES:
        import numpy as np
        from jax.experimental import topologies
        from jax.sharding import Mesh

        topology = topologies.get_topology_desc(topology_name=TOPOLOGIES[target], platform="tpu")
        _MESHES[target] = Mesh(np.array(topology.devices[:1]), ("x",))
    return _MESHES[target]


if __name__ == "__main__":
    serve(_answer)
