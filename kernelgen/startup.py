"""What makes the command line start quickly. Nothing here is needed for correctness."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

_PLUGINS = "pydantic.plugin._loader"


def quicken() -> None:
    """Prepare a process that is about to run one command and end.

    Only the command line calls this; a program that imports kernelgen keeps its own settings.
    """
    # Importing makes objects and hardly any garbage; the default looks for it every 700 objects.
    gc.set_threshold(100_000, 50, 100)
    _skip_pydantic_plugins()


def _skip_pydantic_plugins() -> None:
    """Keep Pydantic from importing ``importlib.metadata`` and reading that of every package.

    Its environment variable for disabling plugins saves only the second half. Where a version of
    Pydantic has no such module, what is put here is never looked at.
    """
    if _PLUGINS not in sys.modules:
        loader = ModuleType(_PLUGINS)
        loader.get_plugins = lambda: ()  # type: ignore[attr-defined]
        sys.modules[_PLUGINS] = loader
