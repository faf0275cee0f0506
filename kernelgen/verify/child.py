"""A process of its own for what may abort, or never end: a question a line, an answer a line.

One process serves many questions, because loading jax takes seconds; it is started again after it
died or was stopped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self


class Child:
    """A module of kernelgen that answers in a process of its own; a context manager."""

    def __init__(self, module: str, environment: Mapping[str, str], time_limit: float) -> None:
        """Start nothing yet.

        Args:
            module: What ``python -m`` runs; it calls :func:`serve`.
            environment: Variables that the process has besides those of this one.
            time_limit: Seconds for one answer.
        """
        self.time_limit = time_limit
        self._module = module
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None

    def __enter__(self) -> Self:
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

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question.

        Raises:
            TimeoutError: There was none within the time limit; the process has been stopped.
            ChildProcessError: The process died.
        """
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        alarm = threading.Timer(self.time_limit, process.kill)
        alarm.start()
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            late = not alarm.is_alive()
            alarm.cancel()
        if not line:
            raise self._death(late)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            # Open as long as the process runs; close() closes it.
            self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
            root = str(Path(__file__).parents[2])
            path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                encoding="utf-8",
                env={**os.environ, **self._environment, "PYTHONPATH": path},
            )
        return self._process

    def _death(self, late: bool) -> OSError:
        if late:
            self.close()
            return TimeoutError(f"did not finish within {self.time_limit:g} s")
        assert self._process is not None
        code = self._process.wait()
        text = ""
        if self._log is not None:
            self._log.seek(0)
            text = self._log.read()[-2000:].strip()
        self.close()
        return ChildProcessError(f"died with exit code {code}: {text}")


def serve(answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """Answer questions until standard input ends."""
    # What libraries print would garble the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()
