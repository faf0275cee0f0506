"""Skeletons of kernel specs, for ``kernelgen new``."""

from __future__ import annotations

import json
import os
from pathlib import Path

from .resources import templates_folder

_SCHEMA = "schemas/kernel.schema.json"


def kinds() -> list[str]:
    """The kinds of kernel that there is a skeleton for."""
    return sorted(path.stem for path in _folder().glob("*.json"))


def skeleton(name: str, kind: str, path: str | None = None) -> str:
    """The text of a new spec.

    Args:
        name: The name of the kernel.
        kind: One of :func:`kinds`.
        path: Where the spec will be, so that it can name the JSON Schema if that is there.

    Returns:
        A valid spec.
    """
    text = (_folder() / f"{kind}.json").read_text(encoding="utf-8")
    text = text.replace(f'"name": "{kind}"', f'"name": "{name}"', 1)
    schema = _schema_near(path)
    return text.replace("{\n", f'{{\n  "$schema": {json.dumps(schema)},\n', 1) if schema else text


def _folder() -> Path:
    return templates_folder() / "new"


def _schema_near(path: str | None) -> str:
    """The way from a spec to the schema: in the folder beside, or in the current one."""
    if path is None:
        return ""
    folder = Path(path).absolute().parent
    for root in (folder.parent, Path.cwd()):
        if (root / _SCHEMA).is_file():
            return Path(os.path.relpath(root / _SCHEMA, folder)).as_posix()
    return ""
