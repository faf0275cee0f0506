"""The JSON Schema of kernel specs, for editors: made from the models, tidied for people."""

from __future__ import annotations

import json
from typing import Any

from kernelgen import names
from kernelgen.spec.models import SUPPORTED_DTYPES, KernelSpec

_NAMED = ("axes", "inputs", "outputs", "scratch")
_LINES = ("init", "step", "finish", "reference")


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that accepts what a kernel spec may be.

    Returns:
        The schema as plain data.
    """
    schema = KernelSpec.model_json_schema(by_alias=True)
    for definition in (schema, *schema["$defs"].values()):
        definition["properties"] = {
            key: _tidy(key, value) for key, value in definition["properties"].items()
        }
    for key in _NAMED:
        schema["properties"][key]["propertyNames"] = _name()
    schema["properties"]["name"] |= _name()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def text() -> str:
    """The schema as the text of ``schemas/kernel.schema.json``."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _name() -> dict[str, Any]:
    return {"pattern": names.PATTERN, "maxLength": names.MAX_LENGTH}


def _tidy(key: str, value: dict[str, Any]) -> dict[str, Any]:
    """One property without what only Pydantic needs: titles of keys, null, internal dtypes."""
    value = {k: v for k, v in value.items() if k != "title"}
    branches = [b for b in value.pop("anyOf", []) if b != {"type": "null"}]
    for branch in branches:
        value = branch | value
    if key in _LINES:
        value = _lines(value)
    if key == "dtype":
        value["enum"] = list(SUPPORTED_DTYPES)
    if value.get("default", ()) in (None, [], {}):
        del value["default"]
    return value


def _lines(value: dict[str, Any]) -> dict[str, Any]:
    array = {k: value.pop(k) for k in ("type", "items", "minItems") if k in value}
    return {"anyOf": [{"type": "string"}, array], **value}
