"""The catalogue as tests use it: specs, rendered modules and verifiers, each made once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import kernelgen
from kernelgen.spec import KernelSpec
from kernelgen.verify.run import Verifier

ROOT = Path(__file__).resolve().parent.parent
NAMES = tuple(sorted(path.stem for path in (ROOT / "specs").glob("*.json")))


@cache
def spec(name: str) -> KernelSpec:
    """The spec of a catalogue kernel."""
    return kernelgen.load(ROOT / "specs" / f"{name}.json")


@cache
def module_text(name: str) -> str:
    """Its module. That ``generated/`` holds the same text is `kernelgen check`'s business."""
    return kernelgen.render(kernelgen.plan(spec(name)))


@cache
def verifier(name: str) -> Verifier:
    """Its function with its oracle."""
    return Verifier.of_text(spec(name), module_text(name))


def from_dict(data: dict[str, Any]) -> KernelSpec:
    """A spec that a test made up."""
    return kernelgen.loads(json.dumps(data))


def whole_blocks(name: str) -> KernelSpec:
    """The spec of a catalogue kernel without sub-blocks, so that tiles may be small."""
    data = json.loads(spec(name).source.text)
    for axis in data["axes"].values():
        axis.pop("subtile", None)
    return from_dict(data)


def verifier_of(data: dict[str, Any]) -> Verifier:
    """The verifier of a spec that a test made up."""
    made = from_dict(data)
    return Verifier.of_text(made, kernelgen.render(kernelgen.plan(made)))
