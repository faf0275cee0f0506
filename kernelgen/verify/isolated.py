"""Runs of generated modules in a process of their own, with a time limit.

A kernel that copies blocks itself waits for ever on a semaphore that nothing signals, in TPU
interpret mode as on a TPU.

Run as a module, this file is that process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import kernelgen
from kernelgen.spec import KernelSpec
from kernelgen.verify.cases import Case
from kernelgen.verify.child import Child, serve
from kernelgen.verify.inputs import InputKind
from kernelgen.verify.modules import XLA_FLAGS, Interpreter
from kernelgen.verify.run import Failure, Verifier

TIME_LIMIT = 120.0
"""Seconds for one run, that of a kernel's large cases included."""

ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "XLA_FLAGS": XLA_FLAGS}


class Runner(Child):
    """Verifies generated modules in another process; a context manager."""

    def __init__(self, time_limit: float = TIME_LIMIT, attempts: int = 2) -> None:
        """Start nothing yet.

        Args:
            time_limit: Seconds for one run.
            attempts: How often a run that does not finish is made: rarely, TPU interpret mode
                stalls for no reason.
        """
        super().__init__("kernelgen.verify.isolated", ENVIRONMENT, time_limit)
        self.attempts = attempts

    def run(
        self,
        spec: KernelSpec,
        text: str,
        case: Case,
        interpreter: Interpreter,
        kind: InputKind = "random",
        seed: int = 0,
    ) -> list[Failure]:
        """Run one case of a generated module, and compare.

        Args:
            spec: The kernel.
            text: Its module.
            case: Sizes and tiles.
            interpreter: How to run it.
            kind: The kind of inputs.
            seed: Of the inputs, and of the order of parallel steps.

        Returns:
            What went wrong, without the worst elements; empty for a correct kernel.
        """
        question = {
            "spec": spec.source.text,
            "text": text,
            "case": dataclasses.asdict(case),
            "run": [interpreter, kind, seed],
        }
        messages = self._messages(question)
        return [Failure(spec.name, case, kind, seed, interpreter, each) for each in messages]

    def _messages(self, question: Mapping[str, Any]) -> list[str]:
        message = ""
        for _ in range(self.attempts):
            try:
                return list(self.ask(question)["messages"])
            except TimeoutError as error:
                message = f"hung: {error}"
            except ChildProcessError as error:
                return [str(error)]
        return [message]


_verifiers: dict[tuple[str, str], Verifier] = {}


def _answer(question: Mapping[str, Any]) -> dict[str, list[str]]:
    key = (question["spec"], question["text"])
    if key not in _verifiers:
        _verifiers.clear()
        _verifiers[key] = Verifier.of_text(kernelgen.loads(key[0]), key[1])
    interpreter, kind, seed = question["run"]
    found = _verifiers[key].run(Case(**question["case"]), interpreter, kind, seed)
    return {"messages": [failure.message for failure in found]}


if __name__ == "__main__":
    serve(_answer)
