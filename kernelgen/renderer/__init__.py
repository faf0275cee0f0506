"""The text of a module: templates that print a plan, then black."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kernelgen.planner.model import Plan

if TYPE_CHECKING:
    from jinja2 import Environment

_environments: dict[Path | None, Environment] = {}


def body(plan: Plan, templates: Path | None = None) -> str:
    """Print a plan.

    Args:
        plan: The plan.
        templates: A folder whose templates replace kernelgen's own of the same name.

    Returns:
        The module below its header: docstring, imports, kernel and public function, in black's
        style.
    """
    from kernelgen.formatter import format_module
    from kernelgen.renderer.module import module

    if templates not in _environments:
        _environments[templates] = _environment(templates)
    text = _environments[templates].get_template("module.py.j2").render(module=module(plan))
    return format_module(_with_imports(text))


def _environment(templates: Path | None) -> Environment:
    from jinja2 import ChoiceLoader, FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    from kernelgen.resources import templates_folder

    folders = [path for path in (templates, templates_folder()) if path is not None]
    environment = ImmutableSandboxedEnvironment(
        loader=ChoiceLoader([FileSystemLoader(folder) for folder in folders]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"listed": _listed, "bracketed": _bracketed}
    return environment


def _listed(items: tuple[str, ...]) -> str:
    """One item as it is, several as a list: how pallas_call takes and returns outputs."""
    return items[0] if len(items) == 1 else _bracketed(items)


def _bracketed(items: tuple[str, ...]) -> str:
    """A list; several items have a line each, as the comma behind the last tells black."""
    return f"[{', '.join(items)}{',' if len(items) > 1 else ''}]"


def _with_imports(text: str) -> str:
    """Leave out the imports that the printed code has no use for."""
    lines = []
    for line in text.split("\n"):
        name = line.rsplit(" ", 1)[-1]
        is_import = line.startswith(("import ", "from ")) and name in ("functools", "lax")
        if not is_import or f"{name}." in text:
            lines.append(line)
    return "\n".join(lines)
