"""The text of a spec's ``reference``: what it may say.

It is text from a file, and it is executed; so it is parsed first, and only what computes is
allowed: expressions over the inputs, ``jnp``, ``jax.nn``, ``jax.scipy.special`` and ``lax``. This
module needs neither NumPy nor jax.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelgen.diagnostics import Diagnostic, KernelgenError, nearest

ROOTS = ("jax", "jnp", "lax")
MODULES = ("jnp", "jnp.linalg", "jax", "jax.nn", "jax.lax", "jax.scipy.special", "lax")
"""What a dotted name may start with; the rest is one name without underscore in front."""

_PACKAGES = ("jax.scipy",)
_FILES = frozenset({"load", "save", "savez", "fromfile", "from_dlpack", "frompyfunc", "jax"})
"""Functions of jnp that read or write files or run foreign code; and no module leads to jax."""

_JAX = frozenset({"vmap", "nn", "lax", "scipy", "numpy"})
BUILTINS = ("abs", "float", "int", "len", "max", "min", "range", "sum", "tuple", "zip")
# fmt: off
ARRAY_ATTRIBUTES = frozenset((
    "T", "add", "all", "any", "apply", "argmax", "argmin", "astype", "at", "clip", "cumprod",
    "cumsum", "dot", "dtype", "flatten", "get", "mT", "max", "mean", "min", "multiply", "ndim",
    "prod", "ravel", "repeat", "reshape", "round", "set", "shape", "size", "squeeze", "std", "sum",
    "swapaxes", "take", "transpose", "var",
))
# fmt: on
MAX_LENGTH = 4000

_NODES = (
    ast.Module, ast.Expression, ast.Expr, ast.Assign, ast.Name, ast.Load, ast.Store, ast.Constant,
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.keyword,
    ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Starred, ast.Lambda,
    ast.arguments, ast.arg, ast.ListComp, ast.GeneratorExp, ast.comprehension,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One assignment of a reference: the names it binds, and the expression."""

    targets: tuple[str, ...]
    value: ast.expr


@dataclass(frozen=True, slots=True)
class Reference:
    """A parsed reference: assignments, then the results in the order of the outputs."""

    steps: tuple[Step, ...]
    result: ast.expr


def parse(lines: Sequence[str], inputs: Sequence[str]) -> Reference:
    """Parse a reference.

    Args:
        lines: Assignments ``name = expression``; the last line is an expression, or several
            separated by commas for several outputs. Earlier names may be used; sizes are
            written ``x.shape[0]``.
        inputs: The names of the arrays.

    Returns:
        The parsed lines.

    Raises:
        KernelgenError: KG115 for whatever is no plain computation.
    """
    findings: list[Diagnostic] = []
    steps: list[Step] = []
    known = set(inputs)
    result: ast.expr | None = None
    for number, line in enumerate(lines):
        try:
            step = _step(line, known)
            last = number == len(lines) - 1
            if bool(step.targets) == last:
                wrong = "the last line is no expression" if last else "the line binds no name"
                raise _ProblemError(step.value, wrong)
        except _ProblemError as problem:
            findings.append(problem.finding(number))
            continue
        known.update(step.targets)
        if last:
            result = step.value
        else:
            steps.append(step)
    if findings or result is None:
        raise KernelgenError(findings or [Diagnostic("KG115", "reference is empty")])
    return Reference(tuple(steps), result)


class _ProblemError(Exception):
    def __init__(self, node: ast.AST | None, message: str, instead: str = "") -> None:
        super().__init__(message)
        self.node, self.message, self.instead = node, message, instead

    def finding(self, number: int) -> Diagnostic:
        start = getattr(self.node, "col_offset", 0)
        end = getattr(self.node, "end_col_offset", None) or start + 1
        pointer = ("reference", number)
        return Diagnostic("KG115", self.message, self.instead, pointer, (start, end))


def _step(line: str, known: set[str]) -> Step:
    if len(line) > MAX_LENGTH:
        raise _ProblemError(None, f"line of {len(line)} characters", f"at most {MAX_LENGTH}")
    try:
        tree = ast.parse(line.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _ProblemError(None, f"no Python expression: {error}") from None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr | ast.Assign):
        raise _ProblemError(tree.body[0] if tree.body else None, "not one assignment or expression")
    statement = tree.body[0]
    _check(statement, known | _bound(statement))
    if isinstance(statement, ast.Expr):
        return Step((), statement.value)
    return Step(tuple(_targets(statement)), statement.value)


def _targets(statement: ast.Assign) -> Iterator[str]:
    if len(statement.targets) != 1:
        raise _ProblemError(statement, "assigns twice")
    target = statement.targets[0]
    for part in target.elts if isinstance(target, ast.Tuple) else [target]:
        if not isinstance(part, ast.Name):
            raise _ProblemError(part, "only names are assigned")
        yield part.id


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement's lambdas, comprehensions and targets bind."""
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _check(statement: ast.stmt, known: set[str]) -> None:
    inside: set[ast.AST] = set()
    for node in ast.walk(statement):
        if not isinstance(node, _NODES):
            raise _ProblemError(node, f"{type(node).__name__} is not allowed in a reference")
        if node in inside:
            continue
        if isinstance(node, ast.Attribute):
            inside.update(_check_attribute(node))
        elif isinstance(node, ast.arg):
            _check_binding(node, node.arg)
        elif isinstance(node, ast.Name):
            _check_name(node, known)
        elif isinstance(node, ast.Constant):
            _check_constant(node)


def _check_name(node: ast.Name, known: set[str]) -> None:
    if isinstance(node.ctx, ast.Store):
        _check_binding(node, node.id)
    if node.id in ROOTS:
        raise _ProblemError(node, f"{node.id} alone is no value")
    if node.id not in known and node.id not in BUILTINS:
        raise _ProblemError(node, f"unknown name {node.id}", nearest(node.id, (*known, *BUILTINS)))


def _check_binding(node: ast.AST, name: str) -> None:
    if name.startswith("_"):
        raise _ProblemError(node, "names do not start with an underscore")
    if name in (*ROOTS, *BUILTINS):
        raise _ProblemError(node, f"{name} has a meaning already")


def _check_constant(node: ast.Constant) -> None:
    if isinstance(node.value, bytes):
        raise _ProblemError(node, "bytes are not allowed in a reference")
    if isinstance(node.value, int) and abs(node.value) > 2**63:
        raise _ProblemError(node, "whole number beyond 64 bits")


def _check_attribute(node: ast.Attribute) -> list[ast.AST]:
    """Check a dotted name; returns the nodes that have been looked at with it."""
    parts, nodes, root = [node.attr], [], node.value
    while isinstance(root, ast.Attribute):
        parts.append(root.attr)
        nodes.append(root)
        root = root.value
    if not isinstance(root, ast.Name) or root.id not in ROOTS:
        return _check_array_attribute(node)
    path = ".".join([root.id, *reversed(parts)])
    _check_path(node, path)
    return [*nodes, root]


def _check_array_attribute(node: ast.Attribute) -> list[ast.AST]:
    if node.attr not in ARRAY_ATTRIBUTES:
        raise _ProblemError(
            node, f"attribute {node.attr} is not allowed", nearest(node.attr, ARRAY_ATTRIBUTES)
        )
    return []


def _check_path(node: ast.Attribute, path: str) -> None:
    module, _, name = path.rpartition(".")
    if module not in MODULES or name.startswith("_") or path in (*MODULES, *_PACKAGES):
        raise _ProblemError(node, f"{path} is not allowed", f"functions of {', '.join(MODULES)}")
    if name in _FILES or (module == "jax" and name not in _JAX):
        raise _ProblemError(node, f"{path} is not allowed", "a reference only computes")
