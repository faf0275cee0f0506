"""Lowered values as Python source."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from itertools import groupby

from kernelgen.language.dtypes import DTYPES, widened
from kernelgen.language.operations import ATOM, BITAND, BITOR, POWER, SUM, TERM, UNARY
from kernelgen.planner import ir
from kernelgen.planner.ir import Bind, Expr, Store, Tail
from kernelgen.planner.model import Plan
from kernelgen.planner.names import names_of, unused
from kernelgen.planner.targets import LANES

Text = tuple[str, int]
"""Source of an expression and how tightly it binds."""

INDENT = "    "

WIDTH = 88
"""Columns of a generated line, black's default."""

_EXPONENT = re.compile(r"e\+?(-?)0*")


class Printer:
    """Prints expressions and statements, and remembers which names they use.

    Attributes:
        statics: Sizes and tiles that the printed code needs as arguments, in order of use.
        steps: Axes whose grid position it needs.
        refs: SMEM operands that it reads.
        helpers: Module functions that it calls.
    """

    def __init__(self, plan: Plan, whole: bool = False) -> None:
        self.plan = plan
        self.whole = whole
        self.statics: dict[str, None] = {}
        self.steps: dict[str, None] = {}
        self.refs: dict[str, None] = {}
        self.helpers: dict[str, None] = {}
        self.axes = plan.axes
        self.tiles = {c.name: c.tile if c.looped else c.buffer for c in plan.copies}
        taken = set(names_of(plan))
        self.inside_name = unused("inside", taken)
        self.masked_name = unused("masked", taken)

    # Statements

    def statements(self, statements: tuple[ir.Statement, ...]) -> list[str]:
        """One line a statement, unformatted; tails are blocks."""
        lines: list[str] = []
        for statement in joined(statements):
            match statement:
                case tuple():
                    lines.append(self.loads(statement))
                case Bind():
                    lines.extend(self.masked(statement))
                case Store():
                    lines.append(self.store(statement))
                case Tail(axis=axis, masks=masks):
                    lines.append(self.trace(axis))
                    for mask in masks:
                        lines.extend(f"{INDENT}{line}" for line in self.masked(mask))
        return lines

    def loads(self, binds: tuple[Bind, ...]) -> str:
        """Blocks read as they are, in one assignment."""
        names = ", ".join(bind.name for bind in binds)
        return f"{names} = {', '.join(self.text(bind.value) for bind in binds)}"

    def trace(self, axis: str | None) -> str:
        """The condition on which a trace has masks."""
        if axis is None:
            return f"if {self.masked_name}:  # the block reaches past the bounds"
        size, block = self.static(axis), self.length(axis)
        return f"if {size} % {block}:  # the last {axis} block is ragged: garbage past the end"

    def masked(self, mask: Bind) -> list[str]:
        """One masked block, in one line or two."""
        value = mask.value
        if not isinstance(value, ir.Inside):
            return [f"{mask.name} = {self.text(value)}"]
        if not (DTYPES[value.dtype].narrow and value.along_lanes):
            return [f"{mask.name} = {self.text(value)}"]
        # A select along the lanes of a narrow block of fewer than 8 rows does not lower.
        wide = f"{value.value.name}.astype(jnp.{widened(value.dtype)})"
        chosen = f"jnp.where({self.inside_name}, {wide}, {number(value.fill)[0]})"
        return [
            f"{self.inside_name} = {self.text(value.condition)}",
            f"{mask.name} = {chosen}.astype({value.value.name}.dtype)  # 32-bit select",
        ]

    def store(self, store: Store) -> str:
        operand = self.plan.operands[store.name]
        if self.whole:
            return f"{store.name} = {self.whole_value(store)}"
        if operand.memory_space == "SMEM":
            return f"{operand.ref}[0, 0] {store.operator}= {self.scalar(store, operand.dtype)}"
        value = self.expr(store.value)
        ref = self.tiles.get(store.name, operand.ref)
        if store.form == "scalar":
            return f"{ref}[...] = {_filled(value[0], ref, store.name in self.tiles)}"
        if store.form == "part":
            value = f"jnp.broadcast_to({value[0]}, {ref}.shape)", ATOM
        if store.cast:
            value = f"{_wrapped(value, ATOM)}.astype({ref}.dtype)", ATOM
        return f"{ref}[...] {store.operator}= {value[0]}"

    def scalar(self, store: Store, dtype: str) -> str:
        """A value for SMEM, whose words take no integer for a float."""
        value = store.value
        if isinstance(value, ir.Literal) and dtype == "float32":
            return number(float(value.value) or 0.0, exact=True)[0]
        return self.text(value)

    def whole_value(self, store: Store) -> str:
        """The stored value as a whole array, for the wrapper."""
        operand = self.plan.operands[store.name]
        shape = shape_text(list(operand.axes))
        dtype = f"jnp.{jnp_dtype(operand.dtype)}"
        value = self.expr(store.value)
        if store.form == "scalar":
            zero = value[0] == "0"
            return (
                f"jnp.zeros({shape}, {dtype})"
                if zero
                else f"jnp.full({shape}, {value[0]}, {dtype})"
            )
        if store.form == "part":
            view = shape_text([axis or "1" for axis in operand.view])
            value = f"jnp.broadcast_to({value[0]}, {view})", ATOM
        if operand.is_view:
            value = f"{_wrapped(value, ATOM)}.reshape({', '.join(operand.axes)})", ATOM
        if store.cast:
            value = f"{_wrapped(value, ATOM)}.astype({dtype})", ATOM
        return value[0]

    # Expressions

    def text(self, expr: Expr) -> str:
        """The source of an expression."""
        return self.expr(expr)[0]

    def expr(self, expr: Expr) -> Text:
        """The source of an expression and its precedence."""
        match expr:
            case ir.Literal(value=value):
                return number(value)
            case ir.Extent(axis=axis):
                return self.static(axis), ATOM
            case ir.Local(name=name):
                return self.local(name), ATOM
            case ir.Load(name=name):
                return self.load(name), ATOM
            case ir.Scalar(name=name, indices=indices):
                self.refs[name] = None
                index = ", ".join(self.text(index) for index in indices) or "0"
                return f"{name}_ref[{index}]", ATOM
            case ir.Step(axis=axis):
                return self.step(axis), ATOM
            case ir.Quotient():
                return self.quotient(expr)
            case ir.Iota(name=name, dim=dim):
                return f"lax.broadcasted_iota(jnp.int32, {name}.shape, {dim})", ATOM
            case ir.Call():
                return self.call(expr)
            case ir.Dot():
                return self.dot(expr), ATOM
            case ir.As(value=value, dtype=dtype):
                return self.converted(value, dtype), ATOM
            case ir.Positions(axis=axis, layout=layout):
                return self.positions(axis, layout)
            case ir.Inside():
                return self.inside(expr)
            case _:
                return self.reshaped(expr), ATOM

    def local(self, name: str) -> str:
        part = self.plan.part
        is_block = name.startswith("block_") and name in {a.block for a in self.plan.axes.values()}
        is_sub = part is not None and name == part.block
        return self.static(name) if is_block or is_sub else name

    def length(self, axis: str) -> str:
        """How many positions of an axis a block has, or the part of it that the body sees."""
        plan = self.axes[axis]
        return plan.length or self.static(plan.block)

    @contextlib.contextmanager
    def in_part(self) -> Iterator[None]:
        """While this lasts, what is printed sees part of a block, where blocks have parts."""
        part, outer = self.plan.part, (self.axes, self.tiles)
        if part is not None:
            self.axes = part.axes
            self.tiles = {**self.tiles, **{name: tile for name, (_, tile) in part.tiles.items()}}
        yield
        self.axes, self.tiles = outer

    def load(self, name: str) -> str:
        operand = self.plan.operands[name]
        if not self.whole:
            ref = self.tiles.get(name, operand.ref)
            return f"{ref}[{'0, 0' if operand.memory_space == 'SMEM' else '...'}]"
        if not operand.is_view or operand.kind != "input":
            return name
        return f"{name}.reshape({', '.join(axis or '1' for axis in operand.view)})"

    def static(self, name: str) -> str:
        self.statics[name] = None
        return name

    def step(self, axis: str) -> str:
        self.steps[axis] = None
        return self.plan.axes[axis].step

    def reshaped(self, expr: Expr) -> str:
        match expr:
            case ir.Permute(value=value, order=(1, 0)):
                return f"{self.atom(value)}.T"
            case ir.Permute(value=value, order=order):
                return f"jnp.transpose({self.text(value)}, {order})"
            case ir.Expand(value=value, dims=dims):
                return f"jnp.expand_dims({self.text(value)}, {_dims(dims)})"
            case ir.Squeeze(value=value, dims=dims):
                return f"jnp.squeeze({self.text(value)}, {_dims(dims)})"
            case ir.WithOnes(value=value):
                return self.helper("with_ones", self.text(value))
            case ir.Ones(axis=axis, dtype=dtype):
                shape = shape_text([self.length(axis), str(LANES)])
                return f"jnp.ones({shape}, jnp.{jnp_dtype(dtype)})"
            case ir.Across(value=value, axis=axis):
                return self.helper("across", f"{self.text(value)}, {self.length(axis)}")
            case ir.Lanes(value=value, part=part, rank=rank):
                lanes = {"first": f":{LANES}", "rest": f"{LANES}:", "one": ":1"}[part]
                read = self.atom(value).removesuffix("[...]")
                return f"{read}[{', '.join([*[':'] * (rank - 1), lanes])}]"
            case ir.Fill(value=value):
                return f"jnp.full((1, 1), {self.text(value)})"
            case ir.Extract(value=value, rank=rank):
                return f"{self.atom(value)}[{', '.join('0' * rank)}]"
        raise AssertionError(expr)

    def helper(self, name: str, arguments: str) -> str:
        """The call of a function of the module."""
        self.helpers[f"_{name}"] = None
        return f"_{name}({arguments})"

    def atom(self, expr: Expr) -> str:
        return _wrapped(self.expr(expr), ATOM)

    def converted(self, value: Expr, dtype: str) -> str:
        if isinstance(value, ir.Literal | ir.Extent) or (
            isinstance(value, ir.Call) and value.static
        ):
            return f"jnp.{jnp_dtype(dtype)}({self.text(value)})"
        return f"{self.atom(value)}.astype(jnp.{jnp_dtype(dtype)})"

    def positions(self, axis: str, layout: ir.Layout) -> Text:
        plan = self.axes[axis]
        block = self.static(axis) if self.whole else self.length(axis)
        shape = shape_text([block if a == axis else "1" for a in layout])
        iota = f"lax.broadcasted_iota(jnp.int32, {shape}, {layout.index(axis)})"
        if plan.origin and not self.whole:
            return f"{plan.origin} + {iota}", SUM
        if plan.tile is None or self.whole:
            return iota, ATOM
        return f"{self.step(axis)} * {self.static(block)} + {iota}", SUM

    def quotient(self, expr: ir.Quotient) -> Text:
        """Traced integers are divided by functions that need no sign: they are not negative."""
        x, y = self.expr(expr.x), self.text(expr.y)
        if expr.up:
            return f"pl.cdiv({x[0]}, {y})", ATOM
        if isinstance(expr.x, ir.Extent | ir.Literal):
            return f"{_wrapped(x, TERM)} // {y}", TERM
        return f"lax.div({x[0]}, {y})", ATOM

    def inside(self, expr: ir.Inside) -> Text:
        name, condition = expr.value.name, self.expr(expr.condition)
        if expr.dtype != "bool":
            return f"jnp.where({condition[0]}, {name}, {number(expr.fill)[0]})", ATOM
        if expr.fill:
            return f"{name} | ~{_wrapped(condition, ATOM)}", BITOR
        return f"{name} & {_wrapped(condition, BITAND + 1)}", BITAND

    def dot(self, dot: ir.Dot) -> str:
        options = f"preferred_element_type=jnp.{dot.dtype}"
        if dot.highest:
            options = f"precision=lax.Precision.HIGHEST, {options}"
        x, y = self.text(dot.x), self.text(dot.y)
        if dot.contract == (1, 0) and dot.rank == (2, 2):
            return f"jnp.dot({x}, {y}, {options})"
        contract = tuple((dim,) for dim in dot.contract)
        return f"lax.dot_general({x}, {y}, ({contract}, {dot.batch}), {options})"

    def call(self, call: ir.Call) -> Text:
        operation = call.operation
        template = operation.python if call.static else operation.jnp
        assert template is not None, operation.name
        if template.startswith("_"):
            self.helpers[template.split("(")[0]] = None
        precedence = operation.precedence
        if call.static and "**" in template:
            precedence = POWER
        wrap = _wrapper(operation.infix, template, precedence)
        args = [wrap(i, self.expr(arg)) for i, arg in enumerate(call.args)]
        dims = _dims(call.dims) if call.dims else ""
        last = self.last_index(call) if "{last}" in template else ""
        return template.format(*args, axis=dims, last=last), precedence

    def last_index(self, call: ir.Call) -> str:
        (dim,) = call.dims
        return ", ".join([*[":"] * dim, "-1:"]) if dim else "-1:"


def joined(
    statements: tuple[ir.Statement, ...],
) -> Iterator[ir.Statement | tuple[Bind, ...]]:
    """The statements, with neighbouring loads taken together."""
    for is_load, group in groupby(statements, _is_load):
        if is_load:
            yield tuple(bind for bind in group if isinstance(bind, Bind))
        else:
            yield from group


def _is_load(statement: ir.Statement) -> bool:
    return isinstance(statement, Bind) and isinstance(statement.value, ir.Load)


def _wrapper(infix: str, template: str, precedence: int) -> Callable[[int, Text], str]:
    """How arguments are parenthesised in a template of the given precedence."""
    if precedence >= ATOM:
        return lambda i, text: text[0] if "{0}[" not in template else _wrapped(text, ATOM)
    if precedence == POWER:
        return lambda i, text: _wrapped(text, ATOM)
    if precedence == UNARY:
        return lambda i, text: _wrapped(text, UNARY)
    if infix in ("+", "-", "*", "/", "//", "%", "and", "or"):
        return lambda i, text: _wrapped(text, precedence + (i > 0))
    return lambda i, text: _wrapped(text, precedence + 1)


def _wrapped(text: Text, precedence: int) -> str:
    source, own = text
    return source if own >= precedence else f"({source})"


def _dims(dims: tuple[int, ...]) -> str:
    return str(dims[0]) if len(dims) == 1 else str(dims)


def _filled(value: str, ref: str, is_view: bool) -> str:
    if is_view:  # a view of a reference has a shape, but is no array
        return f"jnp.full({ref}.shape, {value}, {ref}.dtype)"
    return f"jnp.zeros_like({ref})" if value == "0" else f"jnp.full_like({ref}, {value})"


def number(value: float, exact: bool = False) -> Text:
    """A Python literal of a number; 0.0 prints as 0, which suits any type, unless ``exact``."""
    if isinstance(value, float) and math.isinf(value):
        return ("jnp.inf", ATOM) if value > 0 else ("-jnp.inf", UNARY)
    if value == -(2**31):
        return "jnp.iinfo(jnp.int32).min", ATOM
    if value == 2**31 - 1:
        return "jnp.iinfo(jnp.int32).max", ATOM
    text = repr(int(value)) if value == 0 and not exact else _EXPONENT.sub(r"e\1", repr(value))
    return text, (UNARY if text.startswith("-") else ATOM)


def jnp_dtype(dtype: str) -> str:
    """The name of an element type in jax.numpy."""
    return "bool_" if dtype == "bool" else dtype


def shape_text(dims: list[str]) -> str:
    """A Python tuple of dimensions."""
    if not dims:
        return "()"
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"
