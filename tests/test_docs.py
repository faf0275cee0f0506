"""README.md and docs/: every code block runs, every generated part is current."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import kernelgen
from kernelgen.cli import commands
from kernelgen.rules import RULES
from kernelgen.verify import cases, jnp_reference
from kernelgen.verify.run import Verifier

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = ("specs", "generated", "examples", "schemas")


class Block(NamedTuple):
    """A fenced block of code and where it stands."""

    page: str
    line: int
    language: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page.name, text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in re.finditer(r"^```(\S*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def blocks(language: str) -> pytest.MarkDecorator:
    chosen = [block for block in BLOCKS if block.language == language]
    return pytest.mark.parametrize("block", chosen, ids=lambda b: f"{b.page}:{b.line}")


def load_refresh() -> ModuleType:
    found = importlib.util.spec_from_file_location("refresh", ROOT / "docs/refresh.py")
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The folders that commands work on, where they may write."""
    for folder in FOLDERS:
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    return tmp_path


def run(arguments: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def without_setting_up(line: str) -> list[list[str]]:
    """The commands of a line after those that make the virtual environment, for this Python."""
    found = []
    for command in line.split(" && "):
        program, *arguments = shlex.split(command)
        if program in ("python3", ".venv/bin/pip"):
            continue
        module = Path(program).name
        found.append([sys.executable, *(["-m", module] if module != "python" else []), *arguments])
    return found


def test_every_code_block_is_of_a_kind_that_is_tested_here() -> None:
    assert {block.language for block in BLOCKS} <= {"sh", "python", "json", "text"}


@blocks("sh")
def test_the_commands_of_a_page_work(block: Block, clone: Path) -> None:
    for line in block.text.splitlines():
        for command in without_setting_up(line):
            if "pytest" not in command:
                run(command, clone)


@blocks("python")
def test_the_python_of_a_page_runs(block: Block, clone: Path) -> None:
    run([sys.executable, "-c", block.text], clone)


@blocks("json")
def test_the_specs_of_a_page_render_to_kernels_that_compute_what_they_say(block: Block) -> None:
    spec = kernelgen.loads(block.text, f"{block.page}:{block.line}")
    verifier = Verifier.of_text(spec, kernelgen.render(kernelgen.plan(spec)))
    for case in cases.declared(spec):
        assert verifier.run(case, "hlo") == []
        oracle = verifier.oracle(case, "random")
        independent = jnp_reference.evaluate(spec, oracle.inputs)
        for name, meaning in oracle.results[0].items():
            assert jnp_reference.disagreement(meaning, independent[name]) == ""


def test_readme_begins_with_two_commands_that_need_nothing_but_a_clone() -> None:
    first, second = [block for block in BLOCKS if block.page == "README.md"][:2]
    for block in (first, second):
        assert block.language == "sh"
        assert block.text.count("\n") == 1
        assert block.text.startswith(
            "python3 -m venv .venv && .venv/bin/pip install -e '.[test,tpu]' && "
        )


def test_the_first_command_of_readme_compares_the_matmul_with_jnp(clone: Path) -> None:
    first = next(block for block in BLOCKS if block.page == "README.md")
    assert "agrees with jnp" in run(without_setting_up(first.text.strip())[-1], clone)


def test_ci_installs_and_tests_as_the_second_command_of_readme_does() -> None:
    second = [block for block in BLOCKS if block.page == "README.md"][1]
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "-e '.[test,tpu]'" in ci
    (tests,) = without_setting_up(second.text.strip())
    assert f"""bin/pytest" {" ".join(tests[3:])}\n""" in ci


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_generated_parts_of_a_page_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert load_refresh().refreshed(text) == text, "run: python docs/refresh.py"


def test_every_page_is_refreshed() -> None:
    assert {ROOT / name for name in load_refresh().PAGES} == set(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    for target in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert (page.parent / target).exists(), target


def test_readme_lists_every_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `kernelgen (\w+)", readme, re.MULTILINE))
    assert listed == set(commands.commands)


def test_the_refusals_in_readme_are_rules() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    codes = re.findall(r"\| (KG[0-9]{3}) \|$", readme, re.MULTILINE)
    assert codes
    assert set(codes) <= set(RULES)
