"""Rules about the names in a spec: which are legal, distinct, known and used.

They look at the plain JSON data, so that a spec with a mistyped value still gets every finding
about its names. What is not of the expected type is passed over: Pydantic reports it.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Any

from kernelgen import names
from kernelgen.diagnostics import Diagnostic, Pointer, listing, nearest, quoted, visible
from kernelgen.limits import MAX_FINDINGS
from kernelgen.spec.models import OPERANDS

_Places = list[tuple[Any, Pointer]]

_KINDS = {"axes": "an axis", "inputs": "an input", "outputs": "an output", "scratch": "a scratch"}


def findings(data: dict[str, Any], *, complete: bool) -> list[Diagnostic]:
    """Check the names in a spec.

    Args:
        data: The document.
        complete: The document fits the models, so that what is absent is really absent.

    Returns:
        The findings, not yet located.
    """
    found = list(islice(_everywhere(data), MAX_FINDINGS))
    if complete and not any(d.code == "KG107" for d in found):
        # A misspelt axis would also make the right one look unused.
        found += _used_axes(data)
    return found


def _everywhere(data: dict[str, Any]) -> Iterator[Diagnostic]:
    yield from _version(data)
    yield from _legal_names(data)
    yield from _distinct_names(data)
    yield from _nulls(data)
    yield from _texts(data)
    yield from _axis_lists(data)
    yield from _indices(data)
    yield from _cases(data)


def _section(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _named(data: dict[str, Any]) -> Iterator[tuple[str, str, Pointer, bool]]:
    """Everything that has a name: what it is, its name, and where the name stands."""
    if isinstance(data.get("name"), str):
        yield "the kernel", data["name"], ("name",), False
    for key, kind in _KINDS.items():
        for name in _section(data, key):
            yield kind, name, (key, name), True


def _version(data: dict[str, Any]) -> Iterator[Diagnostic]:
    """Python, and so Pydantic, takes true and 1.0 for 1."""
    if isinstance(data.get("kernelgen"), bool | float):
        message = f'"kernelgen" must be an integer, not {json.dumps(data["kernelgen"])}'
        yield Diagnostic("KG103", message, 'write "kernelgen": 1', pointer=("kernelgen",))


def _legal_names(data: dict[str, Any]) -> Iterator[Diagnostic]:
    for _, name, pointer, on_key in _named(data):
        reason = names.problem(name)
        if reason:
            message = f"the name {quoted(name)} {reason}"
            hint = names.alternative(name)
            yield Diagnostic("KG104", message, hint, pointer=pointer, on_key=on_key)


def _distinct_names(data: dict[str, Any]) -> Iterator[Diagnostic]:
    owners: dict[str, str] = {}
    for kind, name, pointer, on_key in _named(data):
        if name in owners:
            message = f"{quoted(name)} is already the name of {owners[name]}"
            yield Diagnostic("KG105", message, pointer=pointer, on_key=on_key)
        owners.setdefault(name, kind)


def _nulls(data: dict[str, Any]) -> Iterator[Diagnostic]:
    """The keys that may be left out, so that Pydantic takes null for them."""
    from kernelgen.spec.errors import null

    for key in ("$schema", "reference"):
        if key in data and data[key] is None:
            yield null((key,))
    optional: dict[str, tuple[str, ...]] = {
        "axes": ("tile", "start", "stop", "size"),
        "inputs": ("range", "buffers"),
        "outputs": ("alias", "buffers"),
    }
    for section, keys in optional.items():
        for name, value in _section(data, section).items():
            for key in keys:
                if isinstance(value, dict) and key in value and value[key] is None:
                    yield null((section, name, key))


def _strings(value: object, pointer: Pointer) -> Iterator[tuple[str, Pointer]]:
    if isinstance(value, str):
        yield value, pointer
    elif isinstance(value, list):
        yield from ((v, (*pointer, i)) for i, v in enumerate(value) if isinstance(v, str))


def _texts(data: dict[str, Any]) -> Iterator[Diagnostic]:
    body = _section(data, "body")
    texts: _Places = [(data.get(key), (key,)) for key in ("doc", "reference")]
    texts += [(body.get(phase), ("body", phase)) for phase in ("init", "step", "finish")]
    texts += [
        (axis.get(key), ("axes", name, key))
        for name, axis in _section(data, "axes").items()
        if isinstance(axis, dict)
        for key in ("start", "stop", "size")
    ]
    for value, where in texts:
        for text, pointer in _strings(value, where):
            yield from _visible(text, pointer)


def _visible(text: str, pointer: Pointer) -> Iterator[Diagnostic]:
    """Text that reads the same to people and to machines."""
    if text and not text.strip():
        yield Diagnostic("KG110", f"{quoted(str(pointer[0]))} is blank", pointer=pointer)
    if text.isascii() and text.replace("\n", "").isprintable():
        return
    for index, char in enumerate(text):
        if unicodedata.category(char) in ("Cc", "Cf", "Co", "Zl", "Zp") and char != "\n":
            message = f"invisible character U+{ord(char):04X} in the text"
            span = (index, index + 1)
            yield Diagnostic("KG113", message, "remove it", pointer=pointer, span=span)


def _axis_lists(data: dict[str, Any]) -> Iterator[Diagnostic]:
    lists: _Places = [(data.get(key), (key,)) for key in ("grid", "reduction")]
    for key in OPERANDS:
        for name, operand in _section(data, key).items():
            if isinstance(operand, dict):
                lists.append((operand.get("axes"), (key, name, "axes")))
    known = data.get("axes")
    for value, where in lists:
        axes = list(_strings(value, where)) if isinstance(value, list) else []
        yield from _repeated(axes)
        if isinstance(known, dict):
            yield from _unknown(axes, known)
    targets = data.get("targets")
    if isinstance(targets, list):
        yield from _repeated(list(_strings(targets, ("targets",))))


def _indices(data: dict[str, Any]) -> Iterator[Diagnostic]:
    """An index stands for an axis of its operand."""
    for section in ("inputs", "outputs"):
        for name, operand in _section(data, section).items():
            if not isinstance(operand, dict):
                continue
            index, axes = operand.get("index"), operand.get("axes")
            if not (isinstance(index, dict) and isinstance(axes, list)):
                continue
            for axis in index:
                if axis not in axes:
                    at: dict[str, Any] = {"pointer": (section, name, "index", axis)}
                    hint = nearest(axis, [a for a in axes if isinstance(a, str)])
                    message = f"{visible(name)} has no axis {quoted(axis)}"
                    yield Diagnostic("KG107", message, hint, on_key=True, **at)


def _repeated(items: list[tuple[str, Pointer]]) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for name, pointer in items:
        if name in seen:
            message = f"{quoted(name)} is listed twice"
            yield Diagnostic("KG108", message, "list it once", pointer=pointer)
        seen.add(name)


def _unknown(axes: list[tuple[str, Pointer]], known: dict[str, Any]) -> Iterator[Diagnostic]:
    for name, pointer in axes:
        if name not in known:
            hint = nearest(name, known)
            yield Diagnostic("KG107", f"unknown axis {quoted(name)}", hint, pointer=pointer)


def _used_axes(data: dict[str, Any]) -> Iterator[Diagnostic]:
    users: dict[str, set[str]] = {}
    for key in OPERANDS:
        for operand in _section(data, key).values():
            for axis in operand["axes"]:
                users.setdefault(axis, set()).add(key)
    for name, axis in data["axes"].items():
        sections = users.get(name, set())
        if "size" in axis:
            continue
        at: dict[str, Any] = {"pointer": ("axes", name), "on_key": True}
        if not sections:
            yield Diagnostic("KG109", f"no operand has the axis {quoted(name)}", "remove it", **at)
        elif "inputs" not in sections and (
            sections != {"scratch"} or "tile" not in axis or name in data.get("grid", ())
        ):
            message = f"the size of {quoted(name)} is unknown: no input has this axis"
            yield Diagnostic("KG111", message, "give an input this axis", **at)


def _cases(data: dict[str, Any]) -> Iterator[Diagnostic]:
    axes, cases = data.get("axes"), data.get("cases")
    if not (isinstance(axes, dict) and isinstance(cases, list)):
        return
    for index, case in enumerate(cases):
        if not isinstance(case, dict):
            continue
        for name in case:
            if name not in axes:
                hint = nearest(name, axes)
                at: dict[str, Any] = {"pointer": ("cases", index, name), "on_key": True}
                yield Diagnostic("KG107", f"unknown axis {quoted(name)}", hint, **at)
        follows = {n for n, axis in axes.items() if isinstance(axis, dict) and "size" in axis}
        absent = [name for name in axes if name not in case and name not in follows]
        if absent:
            message = f"the case has no size for {listing([visible(a) for a in absent[:5]])}"
            yield Diagnostic("KG112", message, pointer=("cases", index))
