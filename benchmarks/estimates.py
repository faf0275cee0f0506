"""Cycle estimates of the TPU compiler, from a machine that has no TPU.

libtpu simulates the final schedule of every operation that it compiles ahead of time, and writes
the cycles down when ``--xla_jf_dump_static_llo_profile_to`` is set. It evaluates grid positions,
minima, maxima and selects of them, takes a prefetched scalar for 0, and takes a quotient for 0.
Transfers come out at more than the bandwidth of the memory, so that a time is the larger of
cycles / clock and bytes / bandwidth, with the bytes from the blocks that are really moved.

The compiler runs in a process of its own with a time limit, because some programs abort it or keep
it busy for minutes. Answers are cached in the user's cache folder by everything they depend on.

Run as a module, this file is that process: a JSON object a line on standard input, an answer a
line on standard output.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kernelgen.verify.aot import ENVIRONMENT, TOPOLOGIES  # noqa: E402

# jax looks for a TPU in this process too.
os.environ.update(ENVIRONMENT)

CLOCK = {"v5e": 1.5e9, "v6e": 1.75e9}
"""Cycles a second."""

BANDWIDTH = {"v5e": 819e9, "v6e": 1640e9}
"""Bytes a second between HBM and VMEM."""

TIME_LIMIT = 240.0
"""Seconds for one program."""

PROFILE = re.compile(r'hlo_op_name: "([^"]+)"\s+estimated_cycles: (\d+)')

Argument = tuple[tuple[int, ...], str]
"""Shape and dtype of an array."""


@dataclass(frozen=True)
class Program:
    """Something to compile.

    Attributes:
        text: Python source.
        function: The function in it.
        arguments: Shape and dtype of its arrays.
        options: Its other arguments, by keyword.
    """

    text: str
    function: str
    arguments: tuple[Argument, ...]
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Estimate:
    """What the compiler estimates.

    Attributes:
        cycles: The sum over all operations; None where the program does not compile.
        operations: The cycles of each.
        message: What the compiler objected to.
    """

    cycles: int | None
    operations: Mapping[str, int] = field(default_factory=dict)
    message: str = ""


class Estimator:
    """The compiler's process, and the cache in front of it; a context manager."""

    def __init__(self, target: str, time_limit: float = TIME_LIMIT) -> None:
        """Start nothing yet; ``time_limit`` is in seconds, for one program."""
        self.target = target
        self.time_limit = time_limit
        self.libtpu = version("libtpu")
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self._cache = Path(home) / "kernelgen-benchmarks"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Estimator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def estimate(self, program: Program) -> Estimate:
        """The estimate of a program, from the cache if it was compiled before."""
        request = json.dumps({**asdict(program), "target": self.target}, sort_keys=True)
        versions = f"{self.libtpu} {version('jax')} "
        path = self._cache / f"{hashlib.sha256((versions + request).encode()).hexdigest()}.json"
        if not path.exists():
            answer = self._ask(request)
            self._cache.mkdir(parents=True, exist_ok=True)
            path.write_text(answer)
        return Estimate(**json.loads(path.read_text()))

    def _ask(self, request: str) -> str:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        alarm = threading.Timer(self.time_limit, process.kill)
        alarm.start()
        try:
            process.stdin.write(request + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        late = not alarm.is_alive()
        alarm.cancel()
        if line:
            return line
        self.close()
        end = f"no answer within {self.time_limit:g} s" if late else "the compiler aborted"
        return json.dumps({"cycles": None, "message": end})

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env={**os.environ, **ENVIRONMENT},
            )
        return self._process


def _serve() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        # Read when libtpu is loaded.
        os.environ["LIBTPU_INIT_ARGS"] = f"--xla_jf_dump_static_llo_profile_to={folder}"
        for line in sys.stdin:
            try:
                answer = _answer(json.loads(line), Path(folder))
            except Exception as error:
                # Whatever the compiler objects to is the answer.
                answer = Estimate(None, message=f"{type(error).__name__}: {error}"[:2000])
            answers.write(json.dumps(asdict(answer)) + "\n")
            answers.flush()


def _answer(request: Mapping[str, Any], folder: Path) -> Estimate:
    for path in folder.iterdir():
        path.unlink()
    _compile(request)
    operations: dict[str, int] = {}
    for path in folder.iterdir():
        for name, cycles in PROFILE.findall(path.read_text()):
            operations[name] = operations.get(name, 0) + int(cycles)
    return Estimate(sum(operations.values()) or None, operations)


def _compile(request: Mapping[str, Any]) -> None:
    import jax
    import jax.sharding as shardings
    import numpy as np
    from jax.experimental import topologies

    topology = topologies.get_topology_desc(
        topology_name=TOPOLOGIES[request["target"]], platform="tpu"
    )
    mesh = shardings.Mesh(np.array(topology.devices[:1]), ("x",))
    everywhere: Any = shardings.PartitionSpec
    sharding = shardings.NamedSharding(mesh, everywhere())
    struct: Any = jax.ShapeDtypeStruct
    arguments = [struct(tuple(s), np.dtype(d), sharding=sharding) for s, d in request["arguments"]]
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(request["text"], "<program>", "exec", dont_inherit=True), names)
    function, options = names[request["function"]], request["options"]
    # Some lowerings ask which TPU they are for.
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        jax.jit(lambda *arrays: function(*arrays, **options)).lower(*arguments).compile()


if __name__ == "__main__":
    _serve()
