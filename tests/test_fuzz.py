"""Random specs: valid ones give right, tidy modules; broken ones give findings."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import Any

import black
import catalogue
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelgen
from kernelgen.diagnostics import Diagnostic, KernelgenError
from kernelgen.rules import RULES
from kernelgen.verify.cases import Case
from kernelgen.verify.inputs import KINDS, InputKind
from kernelgen.verify.modules import Interpreter

MODULES = ("functools", "jax", "math")
"""What a generated module may import."""

FAMILIES = {
    "elementwise chains": strategies.elementwise_chains(),
    "whole reductions": strategies.whole_reductions(),
    "tiled reductions": strategies.tiled_reductions(),
    "dots": strategies.dots(),
    "scans": strategies.scans(),
    "ragged reductions": strategies.ragged,
}

every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def rendered(data: dict[str, Any]) -> str:
    return kernelgen.render(kernelgen.plan(catalogue.from_dict(data)))


def imported(text: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module).split(".")[0])
    return names


def unused_or_unknown_names(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F", "-q", "-"]
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    assert result.returncode in (0, 1), result.stderr
    return result.stdout


@every_family
@settings(max_examples=12)
@given(data=st.data())
def test_a_random_kernel_renders_to_a_tidy_module(
    family: st.SearchStrategy[strategies.Kernel], data: st.DataObject
) -> None:
    text = rendered(data.draw(family).data)
    assert imported(text) <= {*MODULES}
    assert text == black.format_str(text, mode=black.Mode())
    assert unused_or_unknown_names(text) == ""


def assert_correct(kernel: strategies.Kernel, kind: InputKind, interpreter: Interpreter) -> None:
    verifier = catalogue.verifier_of(kernel.data)
    failures = verifier.run(Case("random", kernel.sizes, {}), interpreter, kind)
    assert not failures, "\n".join(str(failure) for failure in failures)


@every_family
@settings(max_examples=12)
@given(data=st.data())
def test_a_random_kernel_gives_what_its_body_means(
    family: st.SearchStrategy[strategies.Kernel], data: st.DataObject
) -> None:
    assert_correct(data.draw(family), data.draw(st.sampled_from(KINDS)), "hlo")


@every_family
@settings(max_examples=4)
@given(data=st.data())
def test_a_random_kernel_runs_on_a_simulated_tpu(
    family: st.SearchStrategy[strategies.Kernel], data: st.DataObject
) -> None:
    assert_correct(data.draw(family), "random", "tpu")


def findings_or_module(data: Any) -> tuple[Diagnostic, ...]:
    """The findings about a spec; a spec without any renders to a module."""
    try:
        text = kernelgen.render(kernelgen.plan(kernelgen.loads(json.dumps(data))))
    except KernelgenError as error:
        return error.diagnostics or (Diagnostic("none", "an error without a finding"),)
    assert imported(text) <= {*MODULES}
    return ()


def assert_rendered_or_refused(data: Any) -> None:
    for finding in findings_or_module(data):
        assert finding.code in RULES
        assert finding.line >= 1
        assert finding.message.isprintable()


@settings(max_examples=300)
@given(data=st.data())
def test_a_broken_spec_is_rendered_or_refused_with_findings(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(catalogue.NAMES))
    text = (catalogue.ROOT / "specs" / f"{name}.json").read_text(encoding="utf-8")
    assert_rendered_or_refused(data.draw(strategies.mutations(json.loads(text))))


@settings(max_examples=200)
@given(line=strategies.garbage_lines(), phase=st.sampled_from(["init", "step", "finish"]))
def test_a_garbled_statement_is_rendered_or_refused_with_findings(line: str, phase: str) -> None:
    text = (catalogue.ROOT / "specs/matmul.json").read_text(encoding="utf-8")
    data = json.loads(text)
    data["body"][phase] = [data["body"][phase], line]
    assert_rendered_or_refused(data)
