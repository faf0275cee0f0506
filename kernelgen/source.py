"""The first stage: strict JSON text, and where everything in it stands.

Reading is one call of :func:`json.loads` with hooks that refuse what RFC 8259 refuses. Only when
something is wrong does the positioned reader of :mod:`kernelgen.positions` run, which finds the
same mistakes and says where they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from .diagnostics import Diagnostic, KernelgenError, Pointer
from .limits import MAX_BYTES, MAX_DEPTH, MAX_ITEMS, MAX_NUMBER, MAX_STRING, MAX_VALUES

if TYPE_CHECKING:
    from .positions import Place, Span

# kernelgen.positions is imported where something has to be located, which is rare.

STDIN = "<stdin>"
"""The path that stands for standard input."""

UNRENDERED = frozenset({"$schema", "reference", "cases"})
"""Keys that the generated module does not depend on."""


@dataclass(frozen=True)
class Source:
    """One spec as text and as plain JSON data.

    Attributes:
        path: The file, as the user named it.
        text: The whole text.
        data: The JSON object that the text holds.
    """

    path: str
    text: str
    data: dict[str, Any]

    @cached_property
    def _places(self) -> dict[Pointer, Place]:
        from .positions import Reader

        return Reader(self.text).read().places

    def _is_string(self, pointer: Pointer) -> bool:
        place = self._places.get(pointer)
        return place is not None and self.text[place.value[0]] == '"'

    def locate(self, diagnostic: Diagnostic) -> Diagnostic:
        """Say where in the file a finding is.

        Args:
            diagnostic: A finding with a pointer into the document.

        Returns:
            The finding with path, line, column, width and excerpt. A pointer to something that
            is not there (a missing key) is located at the nearest thing around it.
        """
        from .positions import inside

        pointer = diagnostic.pointer
        if pointer[-1:] == (0,) and self._is_string(pointer[:-1]):
            # A string may stand for the list of that one string.
            pointer = pointer[:-1]
            diagnostic = replace(diagnostic, pointer=pointer)
        exact = pointer in self._places
        while pointer and pointer not in self._places:
            pointer = pointer[:-1]
        place = self._places[pointer]
        start, end = place.value
        if place.key and (diagnostic.on_key or not exact):
            start, end = place.key
        elif diagnostic.span and self._is_string(pointer):
            start, end = inside(self.text, start, diagnostic.span)
        elif not exact:
            end = start + 1
        return _at(diagnostic, self.path, self.text, (start, end))

    def digest(self) -> str:
        """The SHA-256 of everything that the rendering depends on, as hex digits.

        White space, ``$schema``, ``reference`` and ``cases`` do not change it.
        """
        data = {key: value for key, value in self.data.items() if key not in UNRENDERED}
        canonical = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


def read(path: str | os.PathLike[str]) -> Source:
    """Read a spec file; ``-`` reads standard input.

    Args:
        path: The file.

    Returns:
        The source.

    Raises:
        KernelgenError: The file cannot be read or is not strict JSON.
    """
    shown = os.fspath(path)
    try:
        if shown == "-":
            return parse(sys.stdin.buffer.read(MAX_BYTES + 1), STDIN)
        with open(shown, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise KernelgenError([Diagnostic("KG001", f"cannot read: {reason}", path=shown)]) from None
    return parse(content, shown)


def parse(text: str | bytes, path: str = STDIN) -> Source:
    """Parse the text of a spec.

    Args:
        text: The document.
        path: The name it has in messages.

    Returns:
        The source.

    Raises:
        KernelgenError: With every mistake found, each with its position.
    """
    if len(text) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES:,} bytes"
        raise KernelgenError([Diagnostic("KG006", message, path=path)])
    if isinstance(text, bytes):
        text = _decode(text, path)
    if text.startswith("\ufeff"):
        _fail("KG002", "the file starts with a byte-order mark", "save it without one", path, text)
    try:
        data = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_refuse,
        )
        _within_limits(data)
    except (ValueError, RecursionError) as error:
        _explain(text, path, error)
    if not isinstance(data, dict):
        _fail("KG103", "a spec is a JSON object", "start it with {", path, text)
    return Source(path, text, data)


def _decode(content: bytes, path: str) -> str:
    for mark in (b"\xff\xfe", b"\xfe\xff"):
        if content.startswith(mark):
            _fail("KG002", "the file is UTF-16", "save it as UTF-8", path, "")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8")
        text = before + content[error.start :].decode("utf-8", "replace")
        byte = f"byte 0x{content[error.start]:02X} is not UTF-8"
        _fail("KG002", byte, "save it as UTF-8", path, text, len(before))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate key")
    return result


def _integer(token: str) -> int:
    if len(token) > MAX_NUMBER:
        raise ValueError("number too long")
    return int(token)


def _float(token: str) -> float:
    value = float(token)
    if len(token) > MAX_NUMBER or value in (float("inf"), float("-inf")):
        raise ValueError("number out of bounds")
    return value


def _refuse(token: str) -> NoReturn:
    raise ValueError(token)


def _within_limits(data: object) -> None:
    """Refuse what is too deep, too large, or holds a lone surrogate."""
    level: list[object] = [data]
    depth = total = 0
    while level:
        total += len(level)
        if total > MAX_VALUES:
            raise ValueError("too many values")
        level = [item for value in level for item in _items(value, depth)]
        depth += 1


def _items(value: object, depth: int) -> Collection[object]:
    """What ``value`` contains, once it is known to keep the limits itself."""
    items: Collection[object] = ()
    if isinstance(value, str):
        _check(value)
    elif isinstance(value, list):
        items = value
    elif isinstance(value, dict):
        for key in value:
            _check(key)
        items = value.values()
    if len(items) > MAX_ITEMS or (depth >= MAX_DEPTH and isinstance(value, list | dict)):
        raise ValueError("too large")
    return items


def _check(value: str) -> None:
    if len(value) > MAX_STRING:
        raise ValueError("string too long")
    if not value.isascii():
        value.encode()  # a lone surrogate raises UnicodeEncodeError, which is a ValueError


def _explain(text: str, path: str, error: Exception) -> NoReturn:
    """Raise the positioned form of whatever made ``text`` unacceptable."""
    from .positions import Reader

    findings = Reader(text).read().findings
    if not findings:
        offset = getattr(error, "pos", 0)
        _fail("KG003", f"not JSON: {getattr(error, 'msg', error)}", "", path, text, offset)
    located = (_at(Diagnostic(f.code, f.message, f.instead), path, text, f.span) for f in findings)
    raise KernelgenError(dict.fromkeys(located))


def _fail(code: str, message: str, instead: str, path: str, text: str, offset: int = 0) -> NoReturn:
    diagnostic = Diagnostic(code, message, instead)
    raise KernelgenError([_at(diagnostic, path, text, (offset, offset + 1))])


def _at(diagnostic: Diagnostic, path: str, text: str, span: Span) -> Diagnostic:
    """Turn a range of characters of ``text`` into line, column, width and excerpt."""
    start, end = span
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    last = len(text) if last < 0 else last
    return replace(
        diagnostic,
        path=path,
        line=text.count("\n", 0, start) + 1,
        column=start - first + 1,
        width=max(1, min(end, last) - start),
        excerpt=text[first:last].rstrip("\r"),
    )
