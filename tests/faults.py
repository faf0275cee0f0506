"""Seeded faults: edits of generated modules that make them wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection

Edit = Callable[[ast.AST], ast.AST | None]


class _Rewriter(ast.NodeTransformer):
    """Applies an edit to every node; None leaves the node as it is."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        self.count = 0

    def visit(self, node: ast.AST) -> ast.AST:
        node = self.generic_visit(node)
        changed = self.edit(node)
        if changed is None:
            return node
        self.count += 1
        return ast.copy_location(changed, node)


def rewritten(text: str, edit: Edit) -> str:
    """The module with every node that ``edit`` answers replaced.

    Raises:
        ValueError: The module has no such node, so that the fault would not be one.
    """
    rewriter = _Rewriter(edit)
    tree = ast.fix_missing_locations(rewriter.visit(ast.parse(text)))
    if not rewriter.count:
        raise ValueError("nothing to edit")
    return ast.unparse(tree)


def with_narrow_scratch(text: str, names: Collection[str]) -> str:
    """Scratch buffers of bfloat16 in place of float32, with every store cast."""
    scratch = {f"{name}_ref" for name in names}

    def edit(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.keyword) and node.arg == "scratch_shapes":
            shapes = ast.unparse(node.value).replace("jnp.float32", "jnp.bfloat16")
            return ast.keyword("scratch_shapes", _expression(shapes))
        if isinstance(node, ast.AugAssign) and _ref(node.target) in scratch:
            return _cast_store(node.target, f"{ast.unparse(node.target)} + ({_text(node)})")
        if isinstance(node, ast.Assign) and _ref(node.targets[0]):
            return _cast_store(node.targets[0], _text(node))
        return None

    return rewritten(text, edit)


def without_phase(text: str, phase: str) -> str:
    """``init`` or ``finish`` never runs."""
    return _phase_replaced(text, phase, lambda lines: [])


def at_every_step(text: str, phase: str) -> str:
    """``init`` or ``finish`` runs at every step."""
    return _phase_replaced(text, phase, lambda lines: lines)


def _phase_replaced(
    text: str, phase: str, repeated: Callable[[list[ast.stmt]], list[ast.stmt]]
) -> str:
    """The phase replaced by what is left of it for every step."""

    def edit(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.FunctionDef):
            return None
        if node.name == f"_{phase}":
            return ast.If(ast.Constant(True), repeated(node.body) or [ast.Pass()], [])
        if any(_is_loop(line) for line in node.body):
            return _around_loop(node, phase, repeated)
        return None

    return rewritten(text, edit)


def _around_loop(
    kernel: ast.FunctionDef,
    phase: str,
    repeated: Callable[[list[ast.stmt]], list[ast.stmt]],
) -> ast.FunctionDef | None:
    """A kernel that loops itself: its init stands before the loop, its finish after it."""
    (at,) = (i for i, line in enumerate(kernel.body) if _is_loop(line))
    part = kernel.body[:at] if phase == "init" else kernel.body[at + 1 :]
    stores = [line for line in part if isinstance(line, ast.Assign) and _ref(line.targets[0])]
    if not stores:
        return None
    loop = kernel.body[at]
    assert isinstance(loop, ast.FunctionDef)
    loop.body = [*repeated(stores), *loop.body]
    kernel.body = [line for line in kernel.body if line not in stores]
    return kernel


def _is_loop(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "loop"


def without_tail_masks(text: str, keep: int = 0) -> str:
    """What lies past the end of an axis takes part, in all blocks but the first ``keep``."""
    return rewritten(text, lambda node: _without_masks(node, keep))


def _without_masks(node: ast.AST, keep: int) -> ast.AST | None:
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.BinOp):
        return None
    if not isinstance(node.test.op, ast.Mod):
        return None
    masks = [line for line in node.body if _is_mask(line)]
    gone = masks[keep:]
    if not gone:
        return None
    kept = [line for line in node.body if line not in gone]
    return ast.If(node.test, kept or [ast.Pass()], [])


def _is_mask(line: ast.stmt) -> bool:
    return isinstance(line, ast.Assign) and ast.unparse(line.value).startswith("jnp.where")


def with_mask_fill(text: str, fill: str) -> str:
    """Another number in place of the identity of a reduction."""

    def edit(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.If) and any(_is_mask(line) for line in node.body):
            return ast.If(node.test, [_with_fill(line, fill) for line in node.body], [])
        return None

    return rewritten(text, edit)


def _with_fill(line: ast.stmt, fill: str) -> ast.stmt:
    if not _is_mask(line):
        return line
    assert isinstance(line, ast.Assign)
    assert isinstance(line.value, ast.Call)
    line.value.args[-1] = _expression(fill)
    return line


def replaced(text: str, old: str, new: str) -> str:
    """The module with one piece of text in place of another.

    Raises:
        ValueError: The module does not hold it.
    """
    if old not in text:
        raise ValueError(f"no {old!r} to replace")
    return text.replace(old, new)


def _text(node: ast.Assign | ast.AugAssign) -> str:
    return ast.unparse(node.value)


def _cast_store(target: ast.AST, value: str) -> ast.AST:
    ref = _ref(target)
    cast = f"jnp.broadcast_to({value}, {ref}.shape).astype({ref}.dtype)"
    return ast.parse(f"{ast.unparse(target)} = {cast}").body[0]


def _ref(target: ast.AST) -> str:
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        return target.value.id
    return ""


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
