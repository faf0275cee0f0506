"""The formatter is black, loaded more quickly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import black
import pytest

from kernelgen import formatter

ROOT = Path(__file__).parent.parent
FOLDERS = ("kernelgen/renderer", "generated")
MODULES = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py"))]

UNUSUAL = {
    "already formatted": "x = 1\n",
    "leading blank lines": "\n\n  \nx = 1\n",
    "no newline at the end": "x = 1",
    "long call": f"x = f({', '.join(f'argument_{i}' for i in range(20))})\n",
    "long return": f"def f():\n    return g({', '.join(f'a{i}=b[{i}]' for i in range(20))})(x)\n",
    "magic comma": "f(a, b,)\n",
    "blank lines inside a string": 'x = """a\n\n\nb"""\n\n\n\ny = f( 1 )\n',
    "decorators": "@a\n@b (1)\ndef f( x ): pass\n\ndef g(): pass\n",
    "comments": "# a\nx = 1 # b\n\n\n\n# c\ndef f():\n\n    # d\n    pass\n",
    "lambda": f"x = [pl.BlockSpec((a, b), lambda i, j: ({'i' * 40}, {'j' * 40}))]\n",
    "module docstring": '"""  a  """\nimport b\n',
}


def expected(text: str) -> str:
    return black.format_str(text, mode=black.Mode())


@pytest.mark.parametrize("text", UNUSUAL.values(), ids=UNUSUAL)
def test_formats_as_black_does(text: str) -> None:
    assert formatter.format_module(text) == expected(text)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_formats_a_whole_module_as_black_does(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    # Spaces at the ends of lines, so that there is something to do.
    text = "\n".join(line + " " if line.endswith((")", ":")) else line for line in lines)
    assert formatter.format_module(text) == expected(text)


def test_falls_back_to_black_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def moved() -> None:
        raise ImportError("no module named black.linegen")

    monkeypatch.setattr(formatter, "_core", moved)
    formatter._formatter.cache_clear()
    assert formatter.format_module("x=1") == "x = 1\n"
    formatter._formatter.cache_clear()


def test_does_not_load_the_command_line_of_black() -> None:
    code = (
        "import sys; from kernelgen import formatter; formatter.format_module('x=1');"
        "assert 'black.linegen' in sys.modules; assert 'black.files' not in sys.modules;"
        "import black; assert black.format_str('x=1', mode=black.Mode()) == 'x = 1\\n'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
