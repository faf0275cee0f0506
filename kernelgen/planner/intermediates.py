"""How much VMEM the values take that a kernel makes on the way.

The compiler works register by register: an elementwise chain that is read once never exists as a
whole. What does is a value that several statements read, the result of a matrix product, and a
narrow block widened to 32 bits; each lives until its last reader, which may overwrite it in
place. Measured against ``used_scoped_memory_configs`` of compiled kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kernelgen.language.dtypes import DTYPES
from kernelgen.planner.ir import (
    REPLICATED,
    As,
    Bind,
    Call,
    Dot,
    Expr,
    Inside,
    Layout,
    Load,
    Local,
    Statement,
    Store,
    Tail,
    WithOnes,
    locals_in,
    locals_of,
    parts,
)

SizeOf = Callable[[Layout, str], int]
"""Bytes in VMEM of a block with the given dimensions and element type."""

SCAN_COPIES = 4
"""Blocks that a scan holds at once: two operands and their shifted copies."""


def peak_bytes(statements: tuple[Statement, ...], size_of: SizeOf) -> int:
    """The most that the intermediates of a phase take at once."""
    lines = list(_flattened(statements))
    live: dict[str, int] = {}
    kinds: dict[str, tuple[Layout, str]] = {}
    peak = 0
    for i, line in enumerate(lines):
        later = [name for other in lines[i + 1 :] for name in locals_of(other)]
        dying = {name for name in locals_of(line) if name not in later} - {line.name}
        made = _made(line, later, lines[i + 1 :], size_of)
        reused = max((live.get(name, 0) for name in dying), default=0)
        in_place = reused if isinstance(line, Bind) and not _has_dot(line.value) else 0
        before = sum(bytes_ for name, bytes_ in live.items() if name != line.name)
        peak = max(peak, before + max(made - in_place, 0) + _temporary(line, kinds, size_of))
        for name in dying:
            live.pop(name, None)
        if isinstance(line, Bind):
            live[line.name] = made
            kinds[line.name] = (line.layout, line.dtype)
    return peak


def _flattened(statements: tuple[Statement, ...]) -> Iterator[Bind | Store]:
    for statement in statements:
        if isinstance(statement, Tail):
            yield from statement.masks
        else:
            yield statement


def _made(
    line: Bind | Store,
    later: list[str],
    following: list[Bind | Store],
    size_of: SizeOf,
) -> int:
    """Bytes of the block that a statement makes, as far as it has to exist as a whole."""
    if isinstance(line, Store) or isinstance(line.value, Load) or len(line.layout) < 2:
        return 0
    feeds = any(line.name in locals_of(other) and _has_dot(other.value) for other in following)
    whole = later.count(line.name) > 1 or feeds or _has_dot(line.value) or _is_widened(line.value)
    return size_of(line.layout, line.dtype) if whole else 0


def _has_dot(expr: Expr) -> bool:
    return isinstance(expr, Dot) or any(_has_dot(part) for part in parts(expr))


def _is_widened(expr: Expr) -> bool:
    """Whether a narrow block is converted to 32 bits, or masked, which does the same."""
    if isinstance(expr, As) and isinstance(expr.value, Load):
        return True
    return isinstance(expr, Inside) and DTYPES[expr.dtype].narrow


def _temporary(line: Bind | Store, kinds: dict[str, tuple[Layout, str]], size_of: SizeOf) -> int:
    """Bytes of what a statement makes inside its expression: operands of products and scans."""
    total = 0
    pending = [line.value]
    while pending:
        expr = pending.pop()
        pending.extend(parts(expr))
        if isinstance(expr, Dot):
            total += sum(_operand(x, kinds, size_of) for x in (expr.x, expr.y))
            if isinstance(expr.y, WithOnes) and isinstance(line, Bind):
                total += _ones(expr, line.layout, kinds, size_of)
        if isinstance(expr, Call) and expr.operation.kind in ("scan", "shift"):
            copies = SCAN_COPIES if expr.operation.kind == "scan" else 1
            if isinstance(line, Bind):
                total += copies * size_of(line.layout, "float32")
    return total


def _ones(dot: Dot, layout: Layout, kinds: dict[str, tuple[Layout, str]], size_of: SizeOf) -> int:
    """Bytes of the right operand with ones in front, and of the sums in front of the product."""
    rows, columns = layout
    contracted = next((kinds[n][0][-1] for n in locals_in(dot.x) if n in kinds), rows)
    joined = [size_of((contracted, axis), "bfloat16") for axis in (REPLICATED, columns)]
    return sum(joined) + size_of((rows, REPLICATED), "float32")


def _operand(expr: Expr, kinds: dict[str, tuple[Layout, str]], size_of: SizeOf) -> int:
    """Bytes of an operand of a product that is computed on the spot."""
    if not isinstance(expr, As):
        return 0
    names = [part.name for part in (expr.value, *parts(expr.value)) if isinstance(part, Local)]
    return max((size_of(kinds[name][0], expr.dtype) for name in names if name in kinds), default=0)
