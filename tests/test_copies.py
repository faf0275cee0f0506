"""Kernels that copy blocks themselves: right whenever a copy is made, and wrong ones are found."""

from __future__ import annotations

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
    with Runner(time_limit=40, attempts=2) as running:
        yield running


@pytest.fixture(scope="module")
def short_runner() -> Iterator[Runner]:
    with Runner(time_limit=20, attempts=1) as running:
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
        case "one buffer too few is filled ahead":
            return replaced(text, f"range(min({loop.depth}, ", f"range(min({loop.depth - 1}, ")
        case "a result is overwritten before it is written":
            return replaced(text, loop.waits_to_write, "")
        case "the drain is left out":
            return replaced(text, loop.drain, "        pass\n")
        case "the drain ends one early":
            return replaced(text, f"({loop.depth}, {loop.end}), 0, -1", f"({loop.depth}, {loop.end}), 1, -1")
        case "one semaphore for all results":
            return every_slot(text, "o")
    raise ValueError(fault)


READING = [
    "a block is not waited for",
    "the next block is waited for",
    "the semaphore of another slot is waited for",
    "a block is overwritten before it is read",
    "one semaphore for all slots",
    "the last copies are not guarded",
    "one copy too many",
    "one buffer too few is filled ahead",
]
WRITING = [
    "a result is overwritten before it is written",
    "the drain is left out",
    "the drain ends one early",
    "one semaphore for all results",
]
FAULTS = [
    *((fault, STREAM) for fault in READING + WRITING),
    *((fault, RAGGED) for fault in READING),
]


@pytest.mark.parametrize(("fault", "loop"), FAULTS, ids=lambda p: getattr(p, "kernel", p))
def test_a_fault_is_found(short_runner: Runner, fault: str, loop: Loop) -> None:
    text = faulty(fault, loop)
    for about in (WHOLE, TAIL):
        for mode in MODES:
            found = failures(short_runner, loop.kernel, text, about, mode)
            print(fault, loop.kernel, about, mode, [f[:150] for f in found], flush=True)
    assert found
