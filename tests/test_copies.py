"""Kernels that copy blocks themselves: right whenever a copy is made, and wrong ones are found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import catalogue
import pytest
from faults import replaced

import kernelgen
from kernelgen.verify import cases
from kernelgen.verify.cases import Case
from kernelgen.verify.isolated import Runner
from kernelgen.verify.modules import Interpreter

COPYING = tuple(n for n in catalogue.NAMES if kernelgen.plan(catalogue.spec(n)).copies)
MODES: tuple[Interpreter, ...] = ("tpu", "tpu eager")
WHOLE, TAIL = "several steps", "several steps and a tail"


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner(time_limit=60) as running:
        yield running


def case_of(name: str, about: str) -> Case:
    return next(case for case in cases.generated(catalogue.spec(name)) if case.name == about)


def failures(runner: Runner, name: str, text: str, about: str, mode: Interpreter) -> list[str]:
    found = runner.run(catalogue.spec(name), text, case_of(name, about), mode)
    return [failure.message for failure in found]


def test_some_kernels_of_the_catalogue_copy_blocks() -> None:
    assert {"matmul_any", "ragged_mean_any", "scale_add_any"} <= set(COPYING)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("about", [WHOLE, TAIL])
@pytest.mark.parametrize("name", COPYING)
def test_copies_are_right_as_late_and_as_early_as_they_can_be_made(
    runner: Runner, name: str, about: str, mode: Interpreter
) -> None:
    assert failures(runner, name, catalogue.module_text(name), about, mode) == []


# Seeded faults


class Loop(NamedTuple):
    """Names in a copying kernel: the step, one past the last one, and the number of buffers."""

    kernel: str
    step: str
    end: str
    depth: int
    array: str

    @property
    def wait(self) -> str:
        return f'        fetch({self.step}, "wait")\n'

    @property
    def ahead(self) -> str:
        condition = f"{self.step} + {self.depth} < {self.end}"
        return f'pl.when({condition})(lambda: fetch({self.step} + {self.depth}, "start"))'

    @property
    def unguarded(self) -> str:
        return f'fetch({self.step} + {self.depth}, "start")'

    @property
    def waits_to_write(self) -> str:
        step, depth = self.step, self.depth
        return f'        pl.when({step} >= {depth})(lambda: flush({step} - {depth}, "wait"))\n'

    @property
    def drain(self) -> str:
        return f'        flush({self.end} - back, "wait")\n'


STREAM = Loop("scale_add_any", "m_i", "m_end", 3, "x")
RAGGED = Loop("ragged_mean_any", "s_i", "s_end", 2, "x")


def refilled_before_it_is_read(text: str, loop: Loop) -> str:
    late = replaced(text, f"        {loop.ahead}\n", "")
    return replaced(late, loop.wait, f"{loop.wait}        {loop.ahead}\n")


def every_slot(text: str, name: str) -> str:
    """One semaphore for all the buffers of an operand."""
    return replaced(text, f"{name}_sem.at[slot]", f"{name}_sem.at[0]")


def waits_for_another_slot(text: str, loop: Loop) -> str:
    own = f"{loop.array}_sem.at[slot]"
    other = f'lax.rem({loop.step} + (action == "wait"), {loop.depth})'
    return replaced(text, own, f"{loop.array}_sem.at[{other}]")


def faulty(fault: str, loop: Loop) -> str:
    text = catalogue.module_text(loop.kernel)
    match fault:
        case "a block is not waited for":
            return replaced(text, loop.wait, "")
        case "the next block is waited for":
            return replaced(text, loop.wait, loop.wait.replace(loop.step, f"{loop.step} + 1"))
        case "the semaphore of another slot is waited for":
            return waits_for_another_slot(text, loop)
        case "a block is overwritten before it is read":
            return refilled_before_it_is_read(text, loop)
        case "one semaphore for all slots":
            return every_slot(text, loop.array)
        case "the last copies are not guarded":
            return replaced(text, loop.ahead, loop.unguarded)
        case "one copy too many":
            return replaced(text, loop.ahead, loop.ahead.replace("<", "<="))
        case "a result is overwritten before it is written":
            return replaced(text, loop.waits_to_write, "")
        case "the drain is left out":
            return replaced(text, loop.drain, "        pass\n")
        case "the drain ends one early":
            return replaced(text, f"{loop.end}), 0, -1)", f"{loop.end}), 1, -1)")
        case "one semaphore for all results":
            return every_slot(text, "o")
    raise ValueError(fault)


RACE, NAN, HANG = "RACE|race", "nan", "hung"
LEFT = "CpuCallback error|non-zero count"
"""Past the array, or a semaphore that nothing has waited for."""

FAULTS: list[tuple[str, Loop, str, Interpreter, str]] = [
    ("a block is not waited for", STREAM, WHOLE, "tpu", NAN),
    ("a block is not waited for", STREAM, WHOLE, "tpu eager", RACE),
    ("the next block is waited for", STREAM, TAIL, "tpu", NAN),
    ("the semaphore of another slot is waited for", STREAM, WHOLE, "tpu", HANG),
    ("a block is overwritten before it is read", STREAM, WHOLE, "tpu", RACE),
    ("one semaphore for all slots", STREAM, WHOLE, "tpu", NAN),
    ("the last copies are not guarded", STREAM, WHOLE, "tpu eager", LEFT),
    ("one copy too many", STREAM, WHOLE, "tpu eager", LEFT),
    ("a result is overwritten before it is written", STREAM, WHOLE, "tpu", NAN),
    ("the drain is left out", STREAM, WHOLE, "tpu", NAN),
    ("the drain ends one early", STREAM, WHOLE, "tpu", NAN),
    ("one semaphore for all results", STREAM, WHOLE, "tpu", "has to be"),
    ("a block is not waited for", RAGGED, WHOLE, "tpu", NAN),
    ("a block is overwritten before it is read", RAGGED, WHOLE, "tpu", RACE),
    ("one semaphore for all slots", RAGGED, WHOLE, "tpu", NAN),
    ("the last copies are not guarded", RAGGED, TAIL, "tpu eager", LEFT),
    ("one copy too many", RAGGED, TAIL, "tpu eager", LEFT),
]


def label(parameter: object) -> str:
    return parameter.kernel if isinstance(parameter, Loop) else str(parameter)


@pytest.mark.parametrize(("fault", "loop", "about", "mode", "symptom"), FAULTS, ids=label)
def test_a_fault_is_found(
    runner: Runner, fault: str, loop: Loop, about: str, mode: Interpreter, symptom: str
) -> None:
    runner.attempts, runner.time_limit = (1, 10) if symptom == HANG else (2, 60)
    found = failures(runner, loop.kernel, faulty(fault, loop), about, mode)
    assert found
    assert re.search(symptom, found[0])


# The process


def test_a_run_that_stalls_once_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[object] = [TimeoutError("late"), {"messages": ["wrong"]}]
    asked = Runner(attempts=2)
    monkeypatch.setattr(asked, "ask", lambda question: _next(answers))
    name = STREAM.kernel
    assert failures(asked, name, "", WHOLE, "tpu") == ["wrong"]
    answers += [TimeoutError("late"), TimeoutError("late")]
    assert failures(asked, name, "", WHOLE, "tpu") == ["hung: late"]


def _next(answers: list[object]) -> object:
    answer = answers.pop(0)
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_a_process_that_dies_is_a_failure_and_the_next_run_has_a_new_one(runner: Runner) -> None:
    text = catalogue.module_text(STREAM.kernel)
    dies = replaced(text, "import functools\n", "import functools\nimport os\n\nos._exit(3)\n")
    (found,) = failures(runner, STREAM.kernel, dies, TAIL, "tpu")
    assert "exit code 3" in found
    assert failures(runner, STREAM.kernel, text, TAIL, "tpu") == []
