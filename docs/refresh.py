"""Brings the generated parts of README.md and docs/ up to date.

A generated part stands between ``<!-- begin: name -->`` and ``<!-- end: name -->``. Run this after
a change of the operation table, of the rules, of the catalogue or of ``generated/matmul.py``::

    python docs/refresh.py
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import kernelgen
from kernelgen.diagnostics import listing
from kernelgen.language import syntax
from kernelgen.language.dtypes import DTYPES, REFUSED, widened
from kernelgen.language.operations import OPERATIONS, Operation
from kernelgen.rules import RULES

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/language.md", "docs/catalogue.md", "docs/rules.md")

_PART = re.compile(r"(<!-- begin: ([a-z-]+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)

_KINDS = {
    "elementwise": "Position by position; operands broadcast by the names of their axes",
    "reduction": "Reductions: the named axes go",
    "contraction": "Contraction",
    "scan": "Scans: a running combination along the named axis, which stays",
    "shift": "Shifts",
    "select": "Selection",
}


def refreshed(text: str) -> str:
    """A page with every generated part made anew."""
    return _PART.sub(lambda match: match[1] + PARTS[match[2]]() + match[3], text)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in r)} |\n" for r in lines)


def grammar() -> str:
    """The grammar of a statement, from the parser's own description."""
    assert syntax.__doc__
    block = syntax.__doc__.split("::\n", 1)[1].split("\nThe grammar is closed", 1)[0]
    return f"```text\n{textwrap.dedent(block).strip()}\n```\n"


def operations() -> str:
    """The operation table, kind by kind."""
    parts = []
    for kind, title in _KINDS.items():
        rows = [operation for operation in OPERATIONS.values() if operation.kind == kind]
        header = ["In a body", "Meaning", "Element types"]
        if kind in ("reduction", "contraction", "scan"):
            header.append("Outside the extent")
        cells = [[f"`{usage(row)}`", row.doc, types(row), identity(row)] for row in rows]
        parts.append(f"**{title}**\n\n{table(header, (c[: len(header)] for c in cells))}")
    return "\n".join(parts)


def usage(operation: Operation) -> str:
    """How a body writes an operation."""
    if operation.infix:
        space = " " if operation.infix.isalpha() else ""
        if operation.arity == 1:
            return f"{operation.infix}{space}x"
        return f"x {operation.infix} y"
    values = {"where": ["condition", "x", "y"], "clip": ["x", "low", "high"]}.get(
        operation.name, ["x", "y", "z"][: operation.arity]
    )
    values = {"linear_scan": ["a", "x", "h"], "roll": ["x", "shift"]}.get(operation.name, values)
    axes = {0: [], 1: ["axis"], -1: ["axis, ..."]}[operation.axes]
    at = len(values) if operation.axis_at is None else operation.axis_at
    return f"{operation.name}({', '.join([*values[:at], *axes, *values[at:]])})"


def types(operation: Operation) -> str:
    """The element types of an operation, in the words of its typing rule."""
    rule = (operation.typing.__doc__ or "").split("\n", 1)[0].rstrip(".")
    return rule[:1].lower() + rule[1:]


def identity(operation: Operation) -> str:
    """What stands in for positions outside the extent."""
    if not operation.identity:
        return ""
    if operation.name in ("any", "all"):
        return str(operation.identity[0]["bool"]).lower()
    return ", ".join(dict.fromkeys(_identity(values) for values in operation.identity))


def _identity(values: dict[str, float]) -> str:
    words = {kind: f"{value:g}" for kind, value in values.items() if kind != "bool"}
    if abs(values["float"]) == float("inf"):
        return f"{words['float']}, or int32's {'smallest' if values['float'] < 0 else 'largest'}"
    return words["float"]


def dtypes() -> str:
    """The element types, and what stands for those that are refused."""
    rows = [[f"`{t.name}`", str(t.bits), f"`{widened(t.name)}`"] for t in DTYPES.values()]
    use: dict[str, list[str]] = {}
    for name, instead in REFUSED.items():
        use.setdefault(instead, []).append(f"`{name}`")
    refused = "; ".join(f"{listing(names)} (use `{instead}`)" for instead, names in use.items())
    return table(["dtype", "Bits", "Arithmetic in"], rows) + f"\nRefused: {refused}.\n"


def catalogue() -> str:
    """Every spec of the catalogue, with its formula."""
    specs = [kernelgen.load(path) for path in sorted((ROOT / "specs").glob("*.json"))]
    return table(
        ["Kernel", "Computes", "Grid", "Carried along"],
        [
            [
                f"[{spec.name}](../specs/{spec.name}.json)",
                f"`{' '.join(spec.doc.split())}`" if "`" not in spec.doc else spec.doc,
                ", ".join(spec.grid),
                ", ".join(spec.reduction),
            ]
            for spec in specs
        ],
    )


def rules() -> str:
    """Every rule with its reason."""
    return table(
        ["Code", "Finding", "Why"],
        [[rule.code, rule.title, rule.why] for _, rule in sorted(RULES.items())],
    )


def matmul_spec() -> str:
    """The spec of the matmul."""
    return f"```json\n{(ROOT / 'specs/matmul.json').read_text(encoding='utf-8').strip()}\n```\n"


def matmul() -> str:
    """The generated matmul."""
    text = (ROOT / "generated/matmul.py").read_text(encoding="utf-8")
    return f"```python\n{text.strip()}\n```\n"


PARTS: dict[str, Callable[[], str]] = {
    "grammar": grammar,
    "operations": operations,
    "dtypes": dtypes,
    "catalogue": catalogue,
    "rules": rules,
    "matmul-spec": matmul_spec,
    "matmul": matmul,
}


def main() -> None:
    """Write every page whose generated parts have changed."""
    for name in PAGES:
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        if (new := refreshed(text)) != text:
            page.write_text(new, encoding="utf-8", newline="\n")
            print(f"updated   {name}")


if __name__ == "__main__":
    main()
