"""Everything that one spec is verified with, on a machine without a TPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import kernelgen
from kernelgen.spec import KernelSpec
from kernelgen.verify import cases, inputs, jnp_reference, reference
from kernelgen.verify.cases import Case
from kernelgen.verify.inputs import InputKind
from kernelgen.verify.isolated import Runner
from kernelgen.verify.modules import Interpreter
from kernelgen.verify.run import Verifier


@dataclass(frozen=True, slots=True)
class Report:
    """What verification of one kernel found.

    Attributes:
        kernel: The kernel's name.
        runs: How many runs and comparisons were made.
        failures: What went wrong, a line each; empty for a correct kernel.
    """

    kernel: str
    runs: int
    failures: tuple[str, ...]


def verify(spec: KernelSpec) -> Report:
    """Render a spec and compare its module with what the body means.

    The body must not depend on the tiles; ``reference``, where there is one, must agree with it;
    and the module must agree with both, in ``interpret=True`` and in TPU interpret mode with
    uninitialised memory as NaN and race detection, at the spec's cases and at sizes around tiles.
    Where the kernel copies blocks itself, TPU interpret mode makes the copies both as late and as
    early as it can, in a process with a time limit.

    Args:
        spec: The kernel.

    Returns:
        The report. That a kernel is right in interpreters does not say that a TPU compiles it.

    Raises:
        KernelgenError: The spec does not render.
    """
    plan = kernelgen.plan(spec)
    text = kernelgen.render(plan)
    verifier = Verifier.of_text(spec, text)
    with Runner() as runner:

        def simulated(case: Case, kind: InputKind = "random") -> list[str]:
            if not plan.copies:
                return _run(verifier, case, "tpu", kind)
            modes: tuple[Interpreter, ...] = ("tpu", "tpu eager")
            found = [runner.run(spec, text, case, mode, kind) for mode in modes]
            return [str(failure) for failures in found for failure in failures]

        found = list(_checks(spec, verifier, simulated))
    return Report(spec.name, len(found), tuple(line for failures in found for line in failures))


class _Simulated(Protocol):
    """A run in TPU interpret mode: what went wrong."""

    def __call__(self, case: Case, kind: InputKind = "random") -> list[str]: ...


def _checks(spec: KernelSpec, verifier: Verifier, simulated: _Simulated) -> Iterator[list[str]]:
    around = cases.generated(spec)
    for case in around:
        yield _tile_dependence(spec, verifier, case)
    declared = []
    for case in cases.declared(spec):
        problem = reference.contradiction(spec, verifier.program.domain, case.sizes)
        if problem:
            yield [f"{spec.name}: {problem} (case {case.name})"]
        else:
            declared.append(case)
    for case in declared:
        if spec.reference:
            yield _disagreements(verifier, case)
        yield simulated(case)
    for case in [*around, *declared, *cases.empty(spec)]:
        yield _run(verifier, case, "hlo")
    tail = next(case for case in around if "tail" in case.name)
    yield simulated(tail)
    kinds = inputs.kinds_for(spec)
    for kind in kinds:
        yield _run(verifier, tail, "hlo", kind)
    if "edges" in kinds:
        for case in around:
            yield _run(verifier, case, "hlo", "edges")
        yield simulated(tail, "edges")


def _run(
    verifier: Verifier, case: Case, interpreter: Interpreter, kind: InputKind = "random"
) -> list[str]:
    return [str(failure) for failure in verifier.run(case, interpreter, kind)]


def _tile_dependence(spec: KernelSpec, verifier: Verifier, case: Case) -> list[str]:
    found = []
    kinds: list[InputKind] = ["random", "integers"]
    kinds += [kind for kind in inputs.kinds_for(spec) if kind in ("lowest", "highest", "edges")]
    for kind in kinds:
        arrays = inputs.draw(spec, case.sizes, kind, 1, case.tiles)
        for output in reference.depends_on_tiles(spec, verifier.program, arrays, case.tiles):
            found.append(
                f"{spec.name}: {output} depends on the tiles ({case.name}): one run of the body "
                "over whole arrays gives another value than its steps"
            )
    return list(dict.fromkeys(found))


def _disagreements(verifier: Verifier, case: Case) -> list[str]:
    oracle = verifier.oracle(case, "random")
    independent = jnp_reference.evaluate(verifier.spec, oracle.inputs)
    return [
        f"{verifier.spec.name}: reference and body differ in {output} ({case.name}): {difference}"
        for output, derived in oracle.results[0].items()
        if (difference := jnp_reference.disagreement(derived, independent[output]))
    ]
