"""Which spec files a command is about, and which file each of them is rendered into."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

SPECS = "specs"
"""The folder that ``check`` and ``diff`` look at when nothing is named."""

OUTPUT = "generated"
"""The folder that modules are written to, relative to the current one."""


class ProjectError(Exception):
    """The paths that a command was given make no sense; the message says why."""


def spec_files(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The spec files that ``paths`` stand for.

    Args:
        paths: Files, folders (every ``*.json`` in them, sorted) or ``-`` for standard input.

    Returns:
        The files as the user would name them, each once.

    Raises:
        ProjectError: A path does not exist, or a folder holds no spec.
    """
    files: dict[str, str] = {}
    for path in paths:
        for file in _expand(os.fspath(path)):
            files.setdefault(file if file == "-" else os.path.abspath(file), file)
    return list(files.values())


def _expand(path: str) -> Iterator[str]:
    if os.path.isdir(path):
        names = [n for n in os.listdir(path) if n.endswith(".json") and not n.startswith(".")]
        if not names:
            raise ProjectError(f"the folder {path} holds no spec (*.json)")
        yield from (os.path.join(path, name) for name in sorted(names))
    elif path == "-" or os.path.exists(path):
        yield path
    else:
        raise ProjectError(f"{path} does not exist")


def has_folder(paths: Iterable[str | os.PathLike[str]]) -> bool:
    """Whether a whole folder of specs is among ``paths``, so that orphans can be told."""
    return any(os.path.isdir(path) for path in paths)
