"""Black, at the speed that one command needs.

``import black`` also loads black's command line, which takes as long as its formatter. Here only
the formatter is loaded, and what :func:`black.format_str` does with it is done again: formatting
twice, because the first pass may add commas that the second one has to see. The second pass skips
functions to which the first has added nothing but white space.

Tests compare the result with black's own. Where the inside of black has moved, black's own
``format_str`` is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from types import ModuleType

_BETWEEN = "\n\n\n"
"""What black puts between the functions of a module."""


def format_module(text: str) -> str:
    """Format a module as black does by default.

    Args:
        text: Python source.

    Returns:
        The source in black's style.
    """
    once = _formatter()
    first = once(text)
    parts = first.split(_BETWEEN)
    known = _dense(text)
    try:
        parts = [p if _dense(p) in known else once(p).rstrip("\n") for p in parts]
    except ValueError:
        # A string with blank lines in it was taken apart.
        return once(first)
    return f"{_BETWEEN.join(parts).rstrip()}\n"


def _dense(text: str) -> str:
    return "".join(text.split())


@cache
def _formatter() -> Callable[[str], str]:
    """One pass of black over a text."""
    try:
        return _core()
    except (ImportError, AttributeError, TypeError):
        import black

        return lambda text: black.format_str(text, mode=black.Mode())


def _core() -> Callable[[str], str]:
    """One pass, from black's modules without its command line."""
    with _Core():
        from black.comments import normalize_fmt_off
        from black.linegen import LineGenerator, transform_line
        from black.lines import EmptyLineTracker, LinesBlock
        from black.mode import Feature, Mode, TargetVersion, supports_feature
        from black.parsing import lib2to3_parse

    # Told, so that black need not look for them in the text.
    versions = {TargetVersion.PY311}
    features = {feature for feature in Feature if supports_feature(versions, feature)}
    mode = Mode(target_versions=versions)

    def once(text: str) -> str:
        tree = lib2to3_parse(text.lstrip(), versions)
        normalize_fmt_off(tree, mode, ())
        tracker = EmptyLineTracker(mode=mode)
        blocks: list[LinesBlock] = []
        for line in LineGenerator(mode=mode, features=features).visit(tree):
            blocks.append(tracker.maybe_empty_lines(line))
            blocks[-1].content_lines += map(str, transform_line(line, mode, features))
        blocks[-1].after = 0
        return "".join(line for block in blocks for line in block.all_lines())

    once("x = 1\n")
    return once


class _Core:
    """While it lasts, ``black`` is a package whose own code has not run."""

    def __enter__(self) -> None:
        found = find_spec("black")
        self.replaced = "black" not in sys.modules and found is not None
        if self.replaced and found is not None:
            package = ModuleType("black")
            package.__spec__ = found
            package.__path__ = found.submodule_search_locations or []
            sys.modules["black"] = package

    def __exit__(self, *_: object) -> None:
        # Whoever imports black later gets all of it.
        if self.replaced:
            del sys.modules["black"]
