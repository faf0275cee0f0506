"""Small stand-ins for the plan and render stages, for tests about files and about commands."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelgen import header
from kernelgen.diagnostics import Diagnostic, KernelgenError


def spec_text(name: str, tile: int = 8) -> str:
    return json.dumps(
        {
            "kernelgen": 1,
            "name": name,
            "doc": "o[m] = x[m]",
            "axes": {"m": {"tile": tile}},
            "grid": ["m"],
            "inputs": {"x": {"axes": ["m"], "dtype": "float32"}},
            "outputs": {"o": {"axes": ["m"], "dtype": "float32"}},
            "body": {"step": "o = x"},
        }
    )


class Stages:
    """Small stand-ins for the plan and render stages."""

    def __init__(self) -> None:
        self.rendered: list[str] = []
        self.suffix = ""
        self.broken: set[str] = set()

    def build(self, spec: Any, targets: Any = None) -> Any:
        if spec.name in self.broken:
            raise KernelgenError([Diagnostic("KG301", "broken", pointer=("grid", 0))])
        return SimpleNamespace(spec=spec)

    def body(self, plan: Any, templates: Any = None) -> str:
        self.rendered.append(plan.spec.name)
        return f'"""{plan.spec.doc}"""\n\nTILE = {plan.spec.axes["m"].tile}\n{self.suffix}'


@pytest.fixture(name="stages")
def stages_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stages]:
    stand_ins = Stages()
    for module, name in (("planner", "build"), ("renderer", "body")):
        package = importlib.import_module(f"kernelgen.{module}")
        monkeypatch.setattr(package, name, getattr(stand_ins, name), raising=False)
    yield stand_ins
    header.generator_digest.cache_clear()


@pytest.fixture(name="project")
def project_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: Stages) -> Path:
    (tmp_path / "specs").mkdir()
    for name in ("alpha", "beta", "gamma"):
        (tmp_path / f"specs/{name}.json").write_text(spec_text(name))
    monkeypatch.chdir(tmp_path)
    return tmp_path
