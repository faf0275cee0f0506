"""Everything that one spec is verified with, on a machine without a TPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import kernelgen
from kernelgen.spec import KernelSpec
from kernelgen.verify import cases, inputs, jnp_reference, reference
from kernelgen.verify.cases import Case
from kernelgen.verify.inputs import InputKind
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

    Args:
        spec: The kernel.

    Returns:
        The report. That a kernel is right in interpreters does not say that a TPU compiles it.

    Raises:
        KernelgenError: The spec does not render.
    """
    verifier = Verifier.of_text(spec, kernelgen.render(kernelgen.plan(spec)))
    found = [list(failures) for failures in _checks(spec, verifier)]
    return Report(spec.name, len(found), tuple(line for failures in found for line in failures))


def _checks(spec: KernelSpec, verifier: Verifier) -> Iterator[list[str]]:
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
        yield _run(verifier, case, "tpu")
    for case in [*around, *declared, *cases.empty(spec)]:
        yield _run(verifier, case, "hlo")
    tail = next(case for case in around if "tail" in case.name)
    yield _run(verifier, tail, "tpu")
    kinds = inputs.kinds_for(spec)
    for kind in kinds:
        yield _run(verifier, tail, "hlo", kind)
    if "edges" in kinds:
        for case in around:
            yield _run(verifier, case, "hlo", "edges")
        yield _run(verifier, tail, "tpu", "edges")


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
