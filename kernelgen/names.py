"""Which names a spec may use.

Names of kernels, axes, operands and locals become names of the generated Python module, so they
are plain ASCII and never shadow anything that the module itself needs.
"""

from __future__ import annotations

import re
from keyword import iskeyword

MAX_LENGTH = 40
PATTERN = r"^[a-z][a-z0-9_]*$"

_NAME = re.compile(r"[a-z][a-z0-9_]*")

MODULE_NAMES = frozenset({"jax", "jnp", "lax", "pl", "pltpu", "functools", "interpret"})
"""Names that every generated module may import or take as an argument."""

# Written out, because dir(builtins) and keyword.softkwlist differ between Python versions.
_SOFT_KEYWORDS = frozenset({"match", "case", "type"})
_BUILTINS = """
    abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod
    compile complex copyright credits delattr dict dir divmod enumerate eval exec exit filter float
    format frozenset getattr globals hasattr hash help hex id input int isinstance issubclass iter
    len license list locals map max memoryview min next object oct open ord pow print property quit
    range repr reversed round set setattr slice sorted staticmethod str sum super tuple type vars
    zip
"""
_RESERVED = frozenset(_BUILTINS.split())


def problem(name: str) -> str:
    """Why ``name`` may not be used, as a clause that follows the name.

    Args:
        name: The name of a kernel, an axis, an operand or a local.

    Returns:
        The reason; empty where the name is fine.
    """
    if not _NAME.fullmatch(name):
        return "is not a lower-case ASCII identifier (a letter, then letters, digits and _)"
    if len(name) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH} characters"
    if iskeyword(name) or name in _SOFT_KEYWORDS:
        return "is a Python keyword"
    if name in _RESERVED:
        return "is a Python builtin, which the generated module would shadow"
    if name in MODULE_NAMES:
        return "is a name that the generated module uses itself"
    if name.endswith("_ref"):
        return "ends in _ref, as the kernel's own references do"
    if name.startswith("block_"):
        return "starts with block_, as the tile arguments of the generated function do"
    return ""


def alternative(name: str) -> str:
    """A legal name close to ``name``, as a clause for ``Diagnostic.instead``; may be empty."""
    plain = re.sub(r"[^a-z0-9_]+", "_", name[: MAX_LENGTH * 2].lower()).strip("_")
    plain = plain.removesuffix("_ref").removeprefix("block_")[:MAX_LENGTH].lstrip("0123456789_")
    for candidate in (plain, f"{plain}_in", f"{plain[0:1]}_{plain[1:]}"):
        if plain and not problem(candidate):
            return f"for example {candidate}"
    return ""
