"""Turns what Pydantic reports about a spec into findings in the spec's own words."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

from pydantic import ValidationError

from kernelgen.diagnostics import Diagnostic, Pointer, nearest, quoted
from kernelgen.limits import MAX_FINDINGS
from kernelgen.spec.models import (
    MEMORY_SPACES,
    OUTSIDE,
    SIZE_LIMIT,
    SUPPORTED_DTYPES,
    TARGETS,
    model_at,
)

_WANTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_LINES = "a string or a list of strings"


def translate(error: ValidationError) -> list[Diagnostic]:
    """One finding for each of Pydantic's errors.

    Args:
        error: What Pydantic raised.

    Returns:
        The findings, not yet located.
    """
    details = error.errors(include_url=False, include_context=True)
    # Pydantic counts only the valid items of a list, so a list of wrong ones is too short as well.
    own = (d for d in details if not (d["type"] == "too_short" and d["input"]))
    return [_finding(detail) for detail in islice(own, MAX_FINDINGS)]


def _finding(detail: Any) -> Diagnostic:
    kind: str = detail["type"]
    pointer: Pointer = detail["loc"]
    value = detail["input"]
    if "range" in pointer and pointer[0] == "inputs" and value is not None:
        return _no_range(pointer, value)
    if kind == "missing":
        return _missing(pointer)
    if kind == "extra_forbidden":
        return _unknown_key(pointer)
    if value is None:
        return null(pointer)
    if kind == "literal_error":
        return _unknown_value(pointer, value)
    if kind in _WANTED:
        lines = pointer[0] in ("body", "reference") and kind == "tuple_type"
        wanted = _LINES if lines else _WANTED[kind]
        message = f"{label(pointer)} must be {wanted}, not {_describe(value)}"
        return Diagnostic("KG103", message, pointer=pointer)
    return _out_of_range(kind, pointer, detail)


def _no_range(pointer: Pointer, value: object) -> Diagnostic:
    where = pointer[: pointer.index("range") + 2]
    if len(where) == len(pointer[: pointer.index("range") + 1]):
        message = f"{label(where)} must be a list of two limits, not {_describe(value)}"
        return Diagnostic("KG103", message, 'write [0, "size(s)"]', pointer=where)
    message = f"{label(where)} must be an integer or an expression of sizes"
    return Diagnostic("KG103", f"{message}, not {_describe(value)}", pointer=where)


def null(pointer: Pointer) -> Diagnostic:
    """The finding about a ``null``, which no key takes."""
    return Diagnostic(
        "KG103", f"{label(pointer)} is null", "leave the key out instead", pointer=pointer
    )


def label(pointer: Pointer) -> str:
    """What a message calls the value at ``pointer``: its key, or an item of its list."""
    if isinstance(pointer[-1], int):
        return f"item {pointer[-1] + 1} of {label(pointer[:-1])}"
    return quoted(pointer[-1])


def _missing(pointer: Pointer) -> Diagnostic:
    key = str(pointer[-1])
    owner = label(pointer[:-1]) if len(pointer) > 1 else "the spec"
    fields = model_at(pointer[:-1]).model_fields
    meaning = next((f.description for n, f in fields.items() if key in (n, f.alias)), "") or ""
    hint = f"{quoted(key)}: {meaning[:1].lower()}{meaning[1:].rstrip('.')}"
    return Diagnostic("KG101", f"{owner} has no {quoted(key)}", hint, pointer=pointer)


def _unknown_key(pointer: Pointer) -> Diagnostic:
    key = str(pointer[-1])
    fields = model_at(pointer[:-1]).model_fields
    known = [field.alias or name for name, field in fields.items()]
    return Diagnostic(
        "KG102", f"unknown key {quoted(key)}", nearest(key, known), pointer=pointer, on_key=True
    )


def _unknown_value(pointer: Pointer, value: object) -> Diagnostic:
    if pointer == ("kernelgen",):
        message = f"this kernelgen reads spec version 1, not {_describe(value)}"
        return Diagnostic("KG114", message, 'write "kernelgen": 1', pointer=pointer)
    if not isinstance(value, str):
        message = f"{label(pointer)} must be a string, not {_describe(value)}"
        return Diagnostic("KG103", message, pointer=pointer)
    known: tuple[str, ...]
    if pointer[-1] == "dtype":
        known, what = SUPPORTED_DTYPES, "dtype"
    elif pointer[-1] == "memory_space":
        known, what = MEMORY_SPACES, "memory space"
    elif pointer[-1] == "outside":
        known, what = OUTSIDE, "value of outside"
    else:
        known, what = TARGETS, "target"
    near = nearest(value, known)
    if not near.startswith("did"):
        near = _ignoring_case(value, known) or near
    return Diagnostic("KG106", f"unknown {what} {quoted(value)}", near, pointer=pointer)


_ALIASES = {"fp32": "float32", "f32": "float32", "bf16": "bfloat16", "float": "float32"}


def _ignoring_case(value: str, known: tuple[str, ...]) -> str:
    folded = value.lower()
    folded = _ALIASES.get(folded, folded)
    same = next((name for name in known if name.lower() == folded), "")
    return f"did you mean {same}?" if same else ""


def _out_of_range(kind: str, pointer: Pointer, detail: Any) -> Diagnostic:
    context = detail.get("ctx", {})
    if kind == "greater_than_equal":
        message = f"{label(pointer)} is {_describe(detail['input'])}"
        return Diagnostic("KG110", message, f"at least {context['ge']}", pointer=pointer)
    if kind == "less_than_equal":
        message = f"{label(pointer)} is {_describe(detail['input'])}"
        if context["le"] == SIZE_LIMIT:
            message = f"{label(pointer)} does not fit 32 bits"
        return Diagnostic("KG110", message, f"at most {context['le']}", pointer=pointer)
    if kind in ("too_short", "string_too_short"):
        return Diagnostic("KG110", f"{label(pointer)} is empty", pointer=pointer)
    return Diagnostic("KG103", f"{label(pointer)}: {detail['msg']}", pointer=pointer)


def _describe(value: object) -> str:
    """A JSON value in a few words."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the string {quoted(value)}"
    return "a list" if isinstance(value, list) else "an object"
