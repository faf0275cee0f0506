"""The one type in which kernelgen says that something is wrong.

Every stage raises :class:`KernelgenError` with all of its findings. A finding points into the
JSON document by its path of keys (``pointer``), and, inside a string, by a range of characters
(``span``); the source stage turns both into a line and a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .records import record

Pointer = tuple[str | int, ...]
"""A place in a JSON document: the keys and list indices that lead to it."""


@record
class Diagnostic:
    """One finding about a spec.

    Attributes:
        code: The rule's stable code, ``KG`` and three digits (see :mod:`kernelgen.rules`).
        message: What is wrong, naming the axis, operand or value.
        instead: The nearest thing that would be legal, empty where there is none.
        pointer: Where in the JSON document.
        span: The range of characters inside the string at ``pointer``, for expressions.
        on_key: The finding is about the key at ``pointer``, not about its value.
        path: The file, as the user named it.
        line: The line in the file, from 1; 0 until the source stage has located the finding.
        column: The column in the line, from 1; 0 until located.
        width: How many characters of the line the finding covers.
        excerpt: The source line itself; empty until located.
    """

    code: str
    message: str
    instead: str = ""
    pointer: Pointer = ()
    span: tuple[int, int] | None = None
    on_key: bool = False
    path: str = ""
    line: int = 0
    column: int = 0
    width: int = 1
    excerpt: str = ""


class KernelgenError(Exception):
    """A stage could not go on; ``diagnostics`` holds every finding it made."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n".join(f"{d.code}: {d.message}" for d in self.diagnostics))


def quoted(text: str, limit: int = 40) -> str:
    """``text`` in double quotes for a message: shortened, with nothing invisible in it."""
    shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return f'"{visible(shown)}"'


def visible(text: str) -> str:
    """``text`` with every character that does not print escaped, so that no input can forge a
    line of output or drive a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def nearest(name: str, known: Iterable[str]) -> str:
    """The "did you mean" for a misspelt name: the nearest known one, or the list of a few.

    Args:
        name: What the user wrote.
        known: The names that would have been accepted.

    Returns:
        A clause for ``Diagnostic.instead``; empty when nothing is near and the list is long.
    """
    from difflib import get_close_matches

    candidates = sorted(set(known))
    close = get_close_matches(name, candidates, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    if 0 < len(candidates) <= 12:
        return f"known: {listing(candidates)}"
    return ""


def listing(names: Sequence[str], conjunction: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``: how messages list names."""
    if len(names) <= 1:
        return "".join(names)
    return f"{', '.join(names[:-1])} {conjunction} {names[-1]}"
