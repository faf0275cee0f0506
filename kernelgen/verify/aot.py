"""Ahead-of-time compilation of generated modules for TPUs that this machine does not have.

The compiler (libtpu) runs in a process of its own: some inputs abort it, and some take forever. One
process serves many requests, because loading libtpu takes seconds; it is started again after it
died or was stopped.

Run as a module, this file is that process: a JSON object a line on standard input, an answer a
line on standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from kernelgen.spec import KernelSpec

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


class Compiler:
    """The compiler's process; a context manager."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        """Start nothing yet; ``time_limit`` is in seconds, for one module on one target."""
        self.time_limit = time_limit
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None

    def __enter__(self) -> Compiler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

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
        target = str(request["target"])
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        alarm = threading.Timer(self.time_limit, process.kill)
        alarm.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            late = not alarm.is_alive()
            alarm.cancel()
        if not line:
            return Compiled(target, False, self._death(late))
        return Compiled(**json.loads(line))

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            # Open as long as the process runs; close() closes it.
            self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
            root = str(Path(__file__).parents[2])
            path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kernelgen.verify.aot"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                encoding="utf-8",
                env={**os.environ, **ENVIRONMENT, "PYTHONPATH": path},
            )
        return self._process

    def _death(self, late: bool) -> str:
        if late:
            self.close()
            return f"the compiler did not finish within {self.time_limit:g} s"
        assert self._process is not None
        code = self._process.wait()
        text = ""
        if self._log is not None:
            self._log.seek(0)
            text = self._log.read()[-2000:].strip()
        self.close()
        return f"the compiler died with exit code {code}: {text}"


def _serve() -> None:
    """Answer requests until standard input ends."""
    # What libraries print would garble the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(json.dumps(_answer(request)) + "\n")
        answers.flush()


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
    _serve()
