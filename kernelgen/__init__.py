"""kernelgen: readable, verified JAX Pallas TPU kernels from JSON kernel specs.

Everything that the command line does is a call here first::

    import kernelgen

    spec = kernelgen.load("specs/matmul.json")
    text = kernelgen.render(kernelgen.plan(spec))
    kernelgen.write(["specs"], "generated")
    kernelgen.check(["specs"], "generated")

What is wrong with a spec is raised as :class:`KernelgenError`, with every finding and its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .api import (
        check,
        diff,
        json_schema,
        load,
        loads,
        plan,
        plans,
        render,
        validate,
        verify,
        write,
    )
    from .diagnostics import Diagnostic, KernelgenError
    from .emit import Verdict, Written
    from .planner.model import Plan
    from .project import ProjectError
    from .spec import KernelSpec

__all__ = [
    "Diagnostic",
    "KernelSpec",
    "KernelgenError",
    "Plan",
    "ProjectError",
    "Verdict",
    "Written",
    "__version__",
    "check",
    "diff",
    "json_schema",
    "load",
    "loads",
    "plan",
    "plans",
    "render",
    "validate",
    "verify",
    "write",
]

_HOMES = {
    "Diagnostic": "diagnostics",
    "KernelgenError": "diagnostics",
    "KernelSpec": "spec",
    "Plan": "planner.model",
    "ProjectError": "project",
    "Verdict": "emit",
    "Written": "emit",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts quickly."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES.get(name, 'api')}", __name__), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
