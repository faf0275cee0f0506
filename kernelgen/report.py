"""Findings as text: pure functions of diagnostics."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from .diagnostics import Diagnostic, visible
from .rules import RULES

_WINDOW = 100


def ordered(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The findings by file and place, none of them twice."""
    return sorted(dict.fromkeys(diagnostics), key=lambda d: (d.path, d.line, d.column, d.code))


def place(diagnostic: Diagnostic) -> str:
    """``path:line:column``, as far as they are known."""
    path = visible(diagnostic.path) or "<spec>"
    if not diagnostic.line:
        return path
    return f"{path}:{diagnostic.line}:{diagnostic.column}"


def text(diagnostic: Diagnostic) -> str:
    """A finding for people: place, message, source line with a caret, reason and remedy.

    Args:
        diagnostic: The finding.

    Returns:
        Lines, each with its newline.
    """
    d = diagnostic
    lines = [f"{place(d)}: error[{d.code}]: {visible(d.message)}"]
    if d.excerpt.strip():
        lines += _excerpt(d)
    rule = RULES.get(d.code)
    if rule and rule.why:
        lines.append(f"  why: {rule.why}")
    if d.instead:
        lines.append(f"  instead: {visible(d.instead)}")
    return "\n".join(lines) + "\n"


def texts(diagnostics: Iterable[Diagnostic]) -> str:
    """All findings for people, in order."""
    return "".join(text(d) for d in ordered(diagnostics))


def _excerpt(d: Diagnostic) -> list[str]:
    start, end = d.column - 1, d.column - 1 + d.width
    first = max(0, start - _WINDOW // 2) if len(d.excerpt) > _WINDOW else 0
    last = first + _WINDOW
    shown = "".join(c if c.isprintable() else " " for c in d.excerpt[first:last])
    before, under = shown[: start - first], shown[start - first : end - first]
    left = "…" if first else ""
    right = "…" if last < len(d.excerpt) else ""
    number = str(d.line)
    caret = " " * (len(left) + _columns(before)) + "^" * max(1, _columns(under))
    return [
        f"  {number} | {left}{shown}{right}".rstrip(),
        f"  {' ' * len(number)} | {caret}",
    ]


def _columns(text: str) -> int:
    """How many columns of a terminal ``text`` takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
