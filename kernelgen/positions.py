"""A strict JSON reader that knows where everything stands.

It runs only when something has to be located: the ordinary path is :func:`json.loads` (see
:mod:`kernelgen.source`), which accepts exactly the same documents. Mistakes that leave no doubt
about what follows (a comment, a trailing comma, a duplicate key, NaN) are noted and read past, so
that one run names them all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from .diagnostics import Pointer, quoted
from .limits import MAX_DEPTH, MAX_FINDINGS, MAX_ITEMS, MAX_NUMBER, MAX_STRING, MAX_VALUES
from .records import record

Span = tuple[int, int]

_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|#[^\n]*", re.DOTALL)
# A string up to its closing quote, or up to whatever may not stand in one.
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_PIECE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]"
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_TOKEN = re.compile(r"[-+.\w]+")
_LITERALS = frozenset({"true", "false", "null"})
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})
_HINTS = {"True": "true", "False": "false", "None": "null"}


@record
class Place:
    """Where a value stands: its own range of characters and, in an object, that of its key."""

    value: Span
    key: Span | None = None


@record
class Finding:
    """A mistake in the text, before its offset has become a line and a column."""

    code: str
    message: str
    span: Span
    instead: str = ""


class _Stop(Exception):  # noqa: N818 - it carries no error, it ends the reading
    """What follows can no longer be understood."""


@dataclass
class Reader:
    """Reads ``text`` once; ``places`` and ``findings`` are what it leaves behind."""

    text: str
    places: dict[Pointer, Place] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    _at: int = 0

    def read(self) -> Reader:
        """Read the whole document.

        Returns:
            The reader itself, filled.
        """
        try:
            self._surrogates(self.text, lambda i: (i, i + 1))
            self._gap()
            self._value((), None)
            self._gap()
            if self._at < len(self.text):
                self._stop("KG003", "text after the end of the JSON value", self._here())
        except _Stop:
            pass
        return self

    def _note(self, code: str, message: str, span: Span, instead: str = "") -> None:
        self.findings.append(Finding(code, message, span, instead))
        if len(self.findings) >= MAX_FINDINGS:
            raise _Stop

    def _stop(self, code: str, message: str, span: Span, instead: str = "") -> NoReturn:
        self._note(code, message, span, instead)
        raise _Stop

    def _here(self) -> Span:
        """The token at the current offset, or one character."""
        token = _TOKEN.match(self.text, self._at)
        return (self._at, token.end() if token else self._at + 1)

    def _gap(self) -> None:
        """Skip white space, and comments with a finding."""
        while True:
            self._at = _SPACE.match(self.text, self._at).end()  # type: ignore[union-attr]
            comment = _COMMENT.match(self.text, self._at)
            if not comment:
                return
            self._note("KG003", "JSON has no comments", comment.span(), "say it in doc")
            self._at = comment.end()

    def _value(self, pointer: Pointer, key: Span | None) -> None:
        start = self._at
        char = self.text[start : start + 1]
        if len(self.places) >= MAX_VALUES:
            self._stop("KG006", f"the file holds more than {MAX_VALUES:,} values", self._here())
        # Reserved now, so that a container comes before what it contains.
        self.places[pointer] = Place((start, start + 1), key)
        if char == "{":
            self._container(pointer, "}")
        elif char == "[":
            self._container(pointer, "]")
        elif char == '"':
            self._string()
        else:
            self._scalar(char)
        self.places[pointer] = Place((start, self._at), key)

    def _container(self, pointer: Pointer, close: str) -> None:
        opened = self._at
        if len(pointer) >= MAX_DEPTH:
            self._stop("KG006", f"nested deeper than {MAX_DEPTH} levels", (opened, opened + 1))
        self._at += 1
        keys: set[str] = set()
        count = 0
        comma: int | None = None
        while True:
            self._gap()
            if self.text.startswith(close, self._at):
                if comma is not None:
                    self._note("KG003", "trailing comma", (comma, comma + 1), "remove it")
                self._at += 1
                return
            if self._at >= len(self.text):
                self._stop("KG003", f"this is never closed with {close}", (opened, opened + 1))
            if count and comma is None:
                self._stop("KG003", f"expected , or {close} here", self._here())
            if count >= MAX_ITEMS:
                self._stop("KG006", f"more than {MAX_ITEMS:,} items", (opened, opened + 1))
            self._item(pointer, count, close, keys)
            count += 1
            self._gap()
            comma = self._at if self.text.startswith(",", self._at) else None
            self._at += comma is not None

    def _item(self, pointer: Pointer, count: int, close: str, keys: set[str]) -> None:
        if close == "]":
            self._value((*pointer, count), None)
            return
        start = self._at
        if not self.text.startswith('"', start):
            self._stop("KG003", "expected a key in double quotes", self._here())
        key = self._string()
        span = (start, self._at)
        if key in keys:
            self._note("KG004", f"the key {quoted(key)} appears twice in this object", span)
        keys.add(key)
        self._gap()
        if not self.text.startswith(":", self._at):
            self._stop("KG003", "expected : after the key", self._here())
        self._at += 1
        self._gap()
        self._value((*pointer, key), span)

    def _string(self) -> str:
        start = self._at
        match = _STRING.match(self.text, start)
        assert match is not None, "called at a double quote"
        end = self._at = match.end() + 1
        if not self.text.startswith('"', end - 1):
            self._bad_string(start, end - 1)
        value: str = json.loads(self.text[start:end])
        if len(value) > MAX_STRING:
            message = f"a string longer than {MAX_STRING:,} characters"
            self._stop("KG006", message, (start, start + 1))
        if "\\" in match.group():
            self._surrogates(value, lambda i: inside(self.text, start, (i, i + 1)))
        return value

    def _bad_string(self, start: int, end: int) -> NoReturn:
        """Say why the string that starts at ``start`` cannot go on at ``end``."""
        char = self.text[end : end + 1]
        if char == "\\":
            self._stop("KG003", "not a JSON escape", (end, end + 2), r"a backslash is written \\")
        if char in ("", "\n", "\r"):
            self._stop("KG003", "this string has no closing quote on its line", (start, end))
        message = f"control character U+{ord(char):04X} inside a string"
        self._stop("KG003", message, (end, end + 1))

    def _surrogates(self, value: str, where: Callable[[int], Span]) -> None:
        if value.isascii():
            return
        for index, char in enumerate(value):
            if "\ud800" <= char <= "\udfff":
                message = f"lone surrogate U+{ord(char):04X} is no character"
                self._note("KG002", message, where(index))

    def _scalar(self, char: str) -> None:
        span = self._here()
        token = self.text[span[0] : span[1]]
        self._at = span[1]
        if not char:
            self._stop("KG003", "the file ends where a value is expected", (len(self.text),) * 2)
        if token in _NOT_FINITE:
            self._note("KG005", f"{token} is not a JSON number", span)
        elif char == "'":
            self._stop("KG003", "JSON strings stand in double quotes", span)
        elif not (token in _LITERALS or self._number(token, span)):
            hint = f"write {_HINTS[token]}" if token in _HINTS else ""
            self._stop("KG003", f"expected a JSON value, found {quoted(token)}", span, hint)

    def _number(self, token: str, span: Span) -> bool:
        """Whether ``token`` is a number; one that is out of bounds is noted."""
        match = _NUMBER.fullmatch(token)
        if match is None:
            return False
        if len(token) > MAX_NUMBER:
            self._note("KG006", f"a number of {len(token):,} characters", span)
        elif (match[1] or match[2]) and float(token) in (float("inf"), float("-inf")):
            self._note("KG005", f"{token} is too large for a float", span)
        return True


def inside(text: str, start: int, span: Span) -> Span:
    """The range of ``text`` that a range of characters of a string value came from.

    Args:
        text: The document.
        start: The offset of the string's opening quote.
        span: A range of characters of the decoded string.

    Returns:
        The offsets of the same characters as they are written, escapes included.
    """
    offsets: list[int] = []
    at = start + 1
    while text[at] != '"' and len(offsets) < span[1]:
        offsets.append(at)
        at = _PIECE.match(text, at).end()  # type: ignore[union-attr]
    offsets.append(at)
    first, last = (offsets[min(max(index, 0), len(offsets) - 1)] for index in span)
    return (first, last)
