"""Where the files that are not Python live: in the wheel, or beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent


def templates_folder() -> Path:
    """The folder with kernelgen's own templates.

    Returns:
        ``kernelgen/templates`` where kernelgen is installed, ``templates`` in a source checkout.
    """
    packaged = PACKAGE / "templates"
    return packaged if packaged.is_dir() else PACKAGE.parent / "templates"
