"""Bodies beyond the catalogue: their values, and that the TPU compiler takes them."""

from __future__ import annotations

import bodies
import catalogue
import pytest

from kernelgen.verify import cases

EDGES = ("several steps and a tail", "one position")

every_body = pytest.mark.parametrize("name", sorted(bodies.TABLE))


@every_body
def test_a_body_is_right_at_sizes_around_its_tiles(name: str) -> None:
    verifier = catalogue.verifier_of(bodies.TABLE[name])
    around = [c for c in cases.generated(verifier.spec) if c.name in EDGES]
    assert around
    for case in [*around, *cases.empty(verifier.spec)]:
        assert verifier.run(case, "hlo") == []
    (declared,) = cases.declared(verifier.spec)
    assert verifier.run(declared, "tpu") == []
