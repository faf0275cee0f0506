"""From typed values over named axes to lowered values over dimensions, with masks.

Masking belongs to reductions: whatever combines positions along an axis first gets the identity
of its operation at positions outside the extent, unless the value is known to hold it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelgen.diagnostics import Diagnostic, listing
from kernelgen.language.dtypes import DTYPES, INT32_MAX, widened
from kernelgen.language.operations import OPERATIONS, WEAK, Fill
from kernelgen.language.program import (
    Apply,
    Assignment,
    Cast,
    Constant,
    Element,
    Positions,
    Read,
    Size,
    Type,
    Value,
    children,
    is_static,
    walk,
)
from kernelgen.plan import ir
from kernelgen.plan.ir import (
    Bind,
    Expr,
    Layout,
    Literal,
    Local,
    Statement,
    Store,
    Tail,
    locals_of,
)
from kernelgen.plan.layout import (
    contraction,
    is_vector_product,
    merge,
    move,
    named,
    orient,
    restricted,
    row,
    without,
)
from kernelgen.plan.model import Axis

@dataclass(frozen=True, slots=True)
class Context:
    """What lowering knows about a kernel.

    Attributes:
        axes: The schedule of every axis.
        layouts: The layout of every operand, output and scratch buffer.
        dtypes: Their element types.
        ragged: Axes whose last block may reach past the extent and that something combines.
        finishes: Whether anything is read after the last step along the reduction axes.
        taken: Names that new variables must not take.
        empty: Axes known to have no positions.
        whole: The body is lowered on whole arrays, in the wrapper.
    """

    axes: dict[str, Axis]
    layouts: dict[str, Layout]
    dtypes: dict[str, str]
    ragged: frozenset[str]
    finishes: bool
    taken: frozenset[str]
    empty: frozenset[str] = frozenset()
    whole: bool = False

    def strip(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The axes that have a dimension in the kernel."""
        return tuple(axis for axis in axes if not self.axes[axis].squeezed)


@dataclass(frozen=True, slots=True)
class Lowered:
    """An expression, the dimensions it has, and its element type."""

    expr: Expr
    layout: Layout
    dtype: str


@dataclass(slots=True)
class _Variable:
    """A Python variable of the kernel: a block that was loaded, or a local of the body."""

    lowered: Lowered
    fills: dict[str, Fill] = field(default_factory=dict)
    scanned: frozenset[str] = frozenset()


class Lowering:
    """Lowers the statements of one phase, in order."""

    def __init__(
        self,
        context: Context,
        statements: tuple[Assignment, ...],
        scratch: dict[str, Lowered] | None = None,
    ) -> None:
        self.context = context
        self.statements = statements
        self.findings: list[Diagnostic] = []
        self.variables: dict[str, _Variable] = {}
        self.loads: list[Bind] = []
        self.tails: dict[str, list[Bind]] = {}
        self.lines: list[Statement] = []
        self.position = 0
        self.new_names: set[str] = set()
        self.uncut: set[str] = set()
        self.constants = dict(scratch or {})

    def run(self) -> tuple[Statement, ...]:
        """The lowered phase: loads, masks of loaded blocks, then the statements."""
        for self.position, statement in enumerate(self.statements):
            self.statement(statement)
        tails = [tail for axis, masks in self.tails.items() if (tail := self.early(axis, masks))]
        return (*self.loads, *tails, *self.lines)

    def early(self, axis: str, masks: list[Bind]) -> Tail | None:
        """The masks of loaded blocks, unless they can join a later tail of the same axis."""
        names = {mask.name for mask in masks}
        for i, line in enumerate(self.lines):
            if isinstance(line, Tail) and line.axis == axis:
                self.lines[i] = Tail(axis, (*masks, *line.masks))
                return None
            if names & locals_of(line):
                break
        return Tail(axis, tuple(masks))

    # Statements

    def statement(self, statement: Assignment) -> None:
        target, storage = statement.target, statement.storage
        value = statement.value
        if storage == "local" and statement.operator:
            value = self.written_out(statement)
        if storage == "local":
            lowered = self.lower(value)
            self.define(target, value, lowered)
            return
        self.store(statement, self.lower(value, self.context.layouts[target]))
        self.variables.pop(target, None)
        self.constants.pop(target, None)

    def store(self, statement: Assignment, lowered: Lowered) -> None:
        frame = self.context.layouts[statement.target]
        symbol = OPERATIONS[statement.operator].infix if statement.operator else ""
        cast = lowered.dtype not in (statement.type.dtype, *WEAK)
        expr = move(lowered.expr, lowered.layout, frame)
        form: ir.Form = "block"
        if not frame:
            expr = ir.Extract(expr, len(lowered.layout)) if lowered.layout else expr
        elif not lowered.layout:
            form = "scalar"
        elif set(named(frame)) != set(named(lowered.layout)) and not symbol:
            form = "part"
        self.lines.append(Store(statement.target, expr, symbol, cast, form))

    def written_out(self, statement: Assignment) -> Value:
        """``x += y`` on a local, as ``x = x + y``."""
        variable = self.variables[statement.target].lowered
        operation = OPERATIONS[statement.operator]
        own = Read(statement.target, "local", Type(named(variable.layout), variable.dtype))
        return Apply(operation, (own, statement.value), (), statement.type)

    def define(self, name: str, value: Value, lowered: Lowered) -> None:
        fills = {axis: self.fill(value, axis) for axis in self.ragged_axes(value)}
        scanned = frozenset(axis for axis in value.type.axes if self.holds_last(value, axis))
        local = lowered
        if not self.context.whole:
            self.lines.append(Bind(name, lowered.expr, lowered.layout, lowered.dtype))
            local = Lowered(Local(name), lowered.layout, lowered.dtype)
        self.variables[name] = _Variable(local, fills, scanned)

    # Values

    def lower(self, value: Value, frame: Layout = ()) -> Lowered:
        """The value with dimensions; ``frame`` is a hint for values free to choose theirs."""
        match value:
            case Constant(value=number, type=type_):
                return Lowered(Literal(number), (), type_.dtype)
            case Size(axis=axis, type=type_):
                return Lowered(ir.Extent(axis), (), type_.dtype)
            case Positions():
                return self.positions(value, frame)
            case Read():
                return self.read(value)
            case Element(name=name, axes=axes, type=type_):
                if self.context.whole:
                    return Lowered(ir.Load(name), self.context.layouts[name], type_.dtype)
                return Lowered(ir.Scalar(name, axes), (), type_.dtype)
            case Cast():
                return self.cast(value, frame)
            case Apply():
                return self.apply(value, frame)

    def positions(self, value: Positions, frame: Layout) -> Lowered:
        axis = value.axis
        if self.context.axes[axis].squeezed:
            return Lowered(ir.Step(axis), (), "int32")
        layout = restricted(frame, (axis,)) if axis in frame else row((axis,))
        return Lowered(ir.Positions(axis, layout), layout, "int32")

    def cast(self, value: Cast, frame: Layout) -> Lowered:
        inner = value.value
        if isinstance(inner, Read) and inner.storage != "local":
            self.prepare(inner.name)
        lowered = self.lower(inner, frame)
        dtype = value.type.dtype
        if lowered.dtype == dtype:
            return lowered
        expr = lowered.expr
        if self.context.whole and isinstance(expr, Literal):
            return Lowered(expr, (), dtype)
        if {lowered.dtype, dtype} == {"float8_e4m3fn", "float8_e5m2"}:
            expr = ir.As(expr, "float32")  # the TPU has no direct conversion between the two
        return Lowered(ir.As(expr, dtype), lowered.layout, dtype)

    def apply(self, value: Apply, frame: Layout) -> Lowered:
        if is_static(value):
            args = tuple(self.lower(arg).expr for arg in value.args)
            return Lowered(self.folded(value, args, static=True), (), value.type.dtype)
        match value.operation.kind:
            case "elementwise":
                return self.elementwise(value, frame)
            case "reduction":
                return self.reduction(value)
            case "contraction":
                return self.contraction(value)
            case "scan":
                return self.scan(value)
            case "shift":
                return self.shift(value)
            case "select":
                return self.last(value)

    # Reading

    def read(self, value: Read) -> Lowered:
        name = value.name
        if value.storage == "local":
            return self.variables[name].lowered
        if name in self.constants:
            return self.constants[name]
        self.prepare(name)
        if name in self.variables:
            return self.variables[name].lowered
        return Lowered(ir.Load(name), self.context.layouts[name], self.context.dtypes[name])

    def prepare(self, name: str) -> None:
        """Load a block into a variable when it is read more than once before it is stored."""
        if name not in self.variables and name not in self.constants and self.reads(name) > 1:
            self.load(name)

    def reads(self, name: str) -> int:
        return sum(1 for _ in self.contexts(name))

    def contexts(self, name: str) -> Iterator[str]:
        """For each read of a block from here to its next store, the type it is read in."""
        for statement in self.statements[self.position :]:
            yield from _contexts(statement.value, name)
            if statement.target == name:
                return

    def load(self, name: str) -> None:
        """Bind a block to a variable, in the one type that all its readers want if there is one."""
        dtypes = set(self.contexts(name))
        stored = self.context.dtypes[name]
        dtype = dtypes.pop() if len(dtypes) == 1 else stored
        expr: Expr = ir.Load(name)
        if dtype != stored:
            expr = ir.As(expr, dtype)
        layout = self.context.layouts[name]
        lowered = Lowered(Local(name), layout, dtype)
        fills: dict[str, Fill] = {axis: None for axis in named(layout) if self.is_ragged(axis)}
        self.variables[name] = _Variable(lowered, fills)
        is_input = not any(name == statement.target for statement in self.statements)
        (self.loads if is_input else self.lines).append(Bind(name, expr, layout, dtype))

    # Elementwise

    def elementwise(self, value: Apply, frame: Layout) -> Lowered:
        fixed = [self.lower(arg) for arg in value.args if not _is_flexible(arg)]
        layout = merge([part.layout for part in fixed])
        iterator = iter(fixed)
        parts = []
        for arg in value.args:
            if not _is_flexible(arg):
                parts.append(next(iterator))
                continue
            part = self.lower(arg, layout or frame)
            layout = merge([layout, part.layout])
            parts.append(part)
        args = tuple(move(part.expr, part.layout, layout) for part in parts)
        if value.operation.jnp.count("{0}") > 1:
            args = (self.atomic(args[0], layout, parts[0].dtype), *args[1:])
        expr = self.folded(value, args)
        return Lowered(expr, () if isinstance(expr, Literal) else layout, value.type.dtype)

    def folded(self, value: Apply, args: tuple[Expr, ...], static: bool = False) -> Expr:
        """The call, simplified where arguments are numbers that only say there is nothing."""
        name = value.operation.name
        if name == "negative" and isinstance(args[0], Literal):
            return Literal(-args[0].value)
        if self.context.whole and not static:
            simpler = _without_zeros(name, args)
            if simpler is not None:
                return simpler
        return ir.Call(value.operation, args, static=static)

    def atomic(self, expr: Expr, layout: Layout, dtype: str) -> Expr:
        """A variable for an expression that prints more than once."""
        if isinstance(expr, Local | Literal):
            return expr
        name = self.fresh("x")
        self.lines.append(Bind(name, expr, layout, dtype))
        return Local(name)

    def fresh(self, stem: str) -> str:
        """A new variable name that shadows nothing."""
        taken = self.context.taken | self.new_names
        name, count = stem, 1
        while name in taken:
            count += 1
            name = f"{stem}{count}"
        self.new_names.add(name)
        return name

    # Reductions

    def reduction(self, value: Apply) -> Lowered:
        operation = value.operation
        if self.context.empty & set(value.axes):
            return self.nothing(value)
        if operation.name in ("argmax", "argmin"):
            return self.position_of_extreme(value)
        dtype = value.type.dtype
        axes = self.context.strip(value.axes)
        if operation.name == "mean":
            return self.mean(value, axes)
        identity = operation.identity_for(0, dtype)
        arg = self.lower(self.protected(value.args[0], axes, identity))
        if not axes:
            return arg
        return Lowered(self.reduce(operation.name, arg, axes), without(arg.layout, axes), dtype)

    def nothing(self, value: Apply) -> Lowered:
        """A reduction over an axis without positions: its identity."""
        dtype = value.type.dtype
        if value.operation.name in ("argmax", "argmin"):
            return Lowered(Literal(0), (), dtype)
        return Lowered(Literal(value.operation.identity_for(0, dtype)), (), dtype)

    def reduce(self, name: str, arg: Lowered, axes: tuple[str, ...]) -> Expr:
        dims = tuple(sorted(arg.layout.index(axis) for axis in axes))
        return ir.Call(OPERATIONS[name], (arg.expr,), dims)

    def mean(self, value: Apply, axes: tuple[str, ...]) -> Lowered:
        arg = self.lower(self.protected(value.args[0], axes, 0.0))
        layout = without(arg.layout, axes)
        if axes and all(self.context.axes[axis].tile is None for axis in value.axes):
            return Lowered(self.reduce("mean", arg, axes), layout, "float32")
        total = self.reduce("sum", arg, axes) if axes else arg.expr
        count: Expr = ir.Extent(value.axes[0])
        for axis in value.axes[1:]:
            count = ir.Call(OPERATIONS["multiply"], (count, ir.Extent(axis)), static=True)
        return Lowered(ir.Call(OPERATIONS["divide"], (total, count)), layout, "float32")

    def position_of_extreme(self, value: Apply) -> Lowered:
        (axis,) = value.axes
        operation = value.operation
        if self.context.axes[axis].squeezed:
            return Lowered(ir.Step(axis), (), "int32")
        dtype = value.args[0].type.dtype
        if dtype == "int32":
            return self.lower(self.integer_position(value, axis))
        arg = self.lower(
            self.protected(value.args[0], (axis,), operation.identity_for(0, dtype))
        )
        dim = arg.layout.index(axis)
        expr: Expr = ir.Call(operation, (arg.expr,), (dim,))
        if self.context.axes[axis].tile is not None:
            expr = ir.Call(OPERATIONS["add"], (expr, _start(axis)))
        return Lowered(expr, without(arg.layout, (axis,)), "int32")

    def integer_position(self, value: Apply, axis: str) -> Value:
        """The TPU finds positions of extremes in float32 only; for int32 they are searched for."""
        extreme = OPERATIONS["max" if value.operation.name == "argmax" else "min"]
        x = self.named_value(value.args[0], "x")
        rest = tuple(a for a in x.type.axes if a != axis)
        top = Apply(extreme, (x,), (axis,), Type(rest, "int32"))
        found = Apply(OPERATIONS["equal"], (x, top), (), Type(x.type.axes, "bool"))
        positions = Positions(axis, Type((axis,), "int32"))
        beyond = Constant(INT32_MAX, Type((), WEAK[0]))
        candidates = Apply(
            OPERATIONS["where"], (found, positions, beyond), (), Type(x.type.axes, "int32")
        )
        return Apply(OPERATIONS["min"], (candidates,), (axis,), Type(rest, "int32"))

    # Contractions

    def contraction(self, value: Apply) -> Lowered:
        x, y = value.args
        if self.context.empty & set(value.axes):
            return Lowered(Literal(0), (), value.type.dtype)
        axes = self.context.strip(value.axes)
        if not axes or self.is_vector_product(x, y, axes[0]):
            return self.lower(self.sum_of_products(value))
        axis = axes[0]
        if axis in self.context.ragged:
            x, y = self.protected(x, (axis,), 0), self.protected(y, (axis,), 0)
        a, b = self.matrix(self.lower(x)), self.matrix(self.lower(y))
        layout_a, _, swapped = orient(a.layout, b.layout, axis)
        if swapped:
            a, b = b, a
        b = self.right_operand(b, axis)
        self.check_product(value, a.layout, b.layout, axes)
        batch = [name for name in named(a.layout) if name in b.layout and name != axis]
        dot = ir.Dot(
            a.expr,
            b.expr,
            (a.layout.index(axis), b.layout.index(axis)),
            (
                tuple(a.layout.index(name) for name in batch),
                tuple(b.layout.index(name) for name in batch),
            ),
            (len(a.layout), len(b.layout)),
            value.type.dtype,
            a.dtype == b.dtype == "float32",
        )
        return Lowered(dot, contraction(a.layout, b.layout, axis), value.type.dtype)

    def is_vector_product(self, x: Value, y: Value, axis: str) -> bool:
        first, second = (self.context.strip(arg.type.axes) for arg in (x, y))
        return is_vector_product(first, second, axis)

    def sum_of_products(self, value: Apply) -> Value:
        """A product that is no matrix product, on the vector unit."""
        dtype = value.type.dtype
        args = []
        for arg in value.args:
            wide = widened(arg.type.dtype) if dtype == "int32" else "float32"
            args.append(arg if arg.type.dtype == wide else Cast(arg, Type(arg.type.axes, wide)))
        axes = (*value.type.axes, *value.axes)
        products = Apply(OPERATIONS["multiply"], tuple(args), (), Type(axes, dtype))
        return Apply(OPERATIONS["sum"], (products,), value.axes, value.type)

    def matrix(self, part: Lowered) -> Lowered:
        """The operand without the unit dimensions that a matrix product has no use for."""
        units = [i for i, axis in enumerate(part.layout) if axis is None]
        surplus = tuple(units[: max(0, len(part.layout) - 2)])
        if not surplus:
            return part
        layout = tuple(axis for i, axis in enumerate(part.layout) if i not in surplus)
        return Lowered(ir.Squeeze(part.expr, surplus), layout, part.dtype)

    def right_operand(self, b: Lowered, axis: str) -> Lowered:
        """A narrow right operand contracted along its lanes does not lower with a single row.

        A tiled axis keeps its tile then, which reaches past the array; a whole one is transposed.
        """
        rows = b.layout[-2]
        if b.layout[-1] != axis or not DTYPES[b.dtype].narrow:
            return b
        if rows is not None and self.context.axes[rows].tile is not None:
            self.uncut.add(rows)
            return b
        if len(b.layout) > 2:
            return b
        return Lowered(ir.Permute(b.expr, (1, 0)), b.layout[::-1], b.dtype)

    def check_product(self, value: Apply, x: Layout, y: Layout, axes: tuple[str, ...]) -> None:
        """The matrix unit lowers one contracted and one batch dimension in a block."""
        batch = [name for name in named(x) if name in y and name not in axes]
        for role, names in (("batch", batch), ("contracted", list(axes))):
            if len(names) > 1:
                pronoun = "it" if len(names) == 2 else "them"
                self.findings.append(
                    Diagnostic(
                        "KG408",
                        f"dot has {len(names)} {role} axes in a block: {listing(names)}",
                        f"give {listing(names[:-1])} tile 1 and put {pronoun} in the grid",
                        self.statements[self.position].pointer,
                        value.span,
                    )
                )

    # Along an axis

    def scan(self, value: Apply) -> Lowered:
        (axis,) = value.axes
        dtype = value.type.dtype
        args = list(value.args)
        if self.context.finishes:
            for i, arg in enumerate(args):
                if axis in arg.type.axes:
                    args[i] = self.protected(arg, (axis,), value.operation.identity_for(i, dtype))
        parts = [self.lower(arg) for arg in args]
        layout = merge([part.layout for part in parts])
        if axis not in layout:  # one position a step: the recurrence itself
            return self.recurrence(value, args)
        exprs = tuple(move(part.expr, part.layout, layout) for part in parts)
        dim = layout.index(axis) - len(layout)
        return Lowered(ir.Call(value.operation, exprs, (dim,)), layout, dtype)

    def recurrence(self, value: Apply, args: list[Value]) -> Lowered:
        if value.operation.name == "cumsum":
            return self.lower(args[0])
        a, x, h = args
        axes = tuple(dict.fromkeys((*a.type.axes, *h.type.axes)))
        decayed = Apply(OPERATIONS["multiply"], (a, h), (), Type(axes, "float32"))
        return self.lower(Apply(OPERATIONS["add"], (decayed, x), (), value.type))

    def shift(self, value: Apply) -> Lowered:
        part, by = self.lower(value.args[0]), self.lower(value.args[1])
        dim = part.layout.index(value.axes[0])
        return Lowered(
            ir.Call(value.operation, (part.expr, by.expr), (dim,)), part.layout, part.dtype
        )

    def last(self, value: Apply) -> Lowered:
        (axis,) = value.axes
        arg = value.args[0]
        if self.context.axes[axis].squeezed:
            return self.lower(arg)
        if axis in self.context.ragged and self.context.finishes and not self.holds_last(arg, axis):
            return self.lower(self.last_inside(value, axis))
        part = self.lower(arg)
        dim = part.layout.index(axis)
        expr = ir.Call(value.operation, (part.expr,), (dim,), along=axis)
        return Lowered(expr, without(part.layout, (axis,)), part.dtype)

    def holds_last(self, value: Value, axis: str) -> bool:
        """Whether a value repeats its last position outside the extent, as a masked scan does."""
        match value:
            case Cast(value=inner):
                return self.holds_last(inner, axis)
            case Read(name=name, storage="local"):
                return axis in self.variables[name].scanned
            case Apply(operation=operation, axes=axes):
                if operation.kind == "scan":
                    return axes == (axis,)
                varying = [arg for arg in value.args if axis in arg.type.axes]
                return operation.kind == "elementwise" and bool(varying) and all(
                    self.holds_last(arg, axis) for arg in varying
                )
            case _:
                return False

    def last_inside(self, value: Apply, axis: str) -> Value:
        """The value at the last position of the extent, selected by its position."""
        arg, dtype = value.args[0], value.type.dtype
        end = Apply(
            OPERATIONS["subtract"],
            (Size(axis, Type((), WEAK[0])), Constant(1, Type((), WEAK[0]))),
            (),
            Type((), WEAK[0]),
        )
        is_last = Apply(
            OPERATIONS["equal"],
            (Positions(axis, Type((axis,), "int32")), end),
            (),
            Type((axis,), "bool"),
        )
        zero = Constant(0, Type((), WEAK[0]))
        chosen = Apply(OPERATIONS["where"], (is_last, arg, zero), (), Type(arg.type.axes, dtype))
        return Apply(OPERATIONS["sum"], (chosen,), (axis,), value.type)

    # Masks

    def is_ragged(self, axis: str) -> bool:
        return axis in self.context.ragged

    def ragged_axes(self, value: Value) -> list[str]:
        return [axis for axis in value.type.axes if self.is_ragged(axis)]

    def fill(self, value: Value, axis: str, assumed: tuple[str, Fill] | None = None) -> Fill:
        """What a value holds outside the extent of an axis."""
        if isinstance(value, Constant):
            return value.value
        if axis not in value.type.axes:
            return "any"
        match value:
            case Read(name=name):
                if assumed is not None and assumed[0] == name:
                    return assumed[1]
                variable = self.variables.get(name)
                return variable.fills.get(axis) if variable else None
            case Cast(value=inner):
                return self.fill(inner, axis, assumed)
            case Apply(operation=operation, args=args) if operation.kind == "elementwise":
                return operation.fills(tuple(self.fill(arg, axis, assumed) for arg in args))
            case _:
                return None

    def protected(self, value: Value, axes: tuple[str, ...], identity: float) -> Value:
        """The value, or a masked form of it, that holds the identity outside the axes' extents."""
        for axis in axes:
            if not self.is_ragged(axis) or self.fill(value, axis) == identity:
                continue
            leaf = self.leaf(value, axis, identity)
            if leaf is not None:
                self.mask(*leaf, axis)
            else:
                value = self.named_value(value, "term")
                assert isinstance(value, Read)
                self.mask(value, identity, axis)
        return value

    def leaf(self, value: Value, axis: str, identity: float) -> tuple[Read, float] | None:
        """The one block or local to mask, and with what, so that the value holds the identity."""
        leaves = {
            part.name: part
            for part in walk(value)
            if isinstance(part, Read) and axis in part.type.axes
        }
        ragged = [read for read in leaves.values() if self.fill(read, axis) is None]
        if len(ragged) != 1:
            return None
        (read,) = ragged
        for number in (identity, 0.0, float("-inf"), float("inf")):
            if _holds(read.type.dtype, number):
                if self.fill(value, axis, (read.name, number)) == identity:
                    return read, number
        return None

    def mask(self, read: Read, fill: float, axis: str) -> None:
        """Replace what a variable holds outside the extent of an axis."""
        name = read.name
        if name not in self.variables:
            self.load(name)
        variable = self.variables[name]
        lowered = variable.lowered
        masked = ir.Inside(
            Local(name), lowered.layout.index(axis), axis, fill, lowered.dtype
        )
        bind = Bind(name, masked, lowered.layout, lowered.dtype)
        first = axis not in variable.fills or variable.fills[axis] is None
        if first and any(load.name == name for load in self.loads):
            self.tails.setdefault(axis, []).append(bind)
        elif self.lines and isinstance(tail := self.lines[-1], Tail) and tail.axis == axis:
            self.lines[-1] = Tail(axis, (*tail.masks, bind))
        else:
            self.lines.append(Tail(axis, (bind,)))
        variable.fills[axis] = fill

    def named_value(self, value: Value, stem: str) -> Value:
        """The value as a variable of its own."""
        if isinstance(value, Read) and (value.storage == "local" or value.name in self.variables):
            return value
        if isinstance(value, Read):
            self.load(value.name)
            return value
        name = self.fresh(stem)
        self.define(name, value, self.lower(value))
        return Read(name, "local", value.type, value.span)


def _without_zeros(name: str, args: tuple[Expr, ...]) -> Expr | None:
    """A sum or product with the zero that an empty axis leaves, simplified; 0 / 0 counts as 0."""
    zeros = [isinstance(arg, Literal) and arg.value == 0 for arg in args]
    if name == "add" and any(zeros):
        return args[1] if zeros[0] else args[0]
    if name == "subtract" and zeros[1]:
        return args[0]
    if (name == "multiply" and any(zeros)) or (name in ("divide", "square") and zeros[0]):
        return Literal(0)
    return None


def _contexts(value: Value, name: str) -> Iterator[str]:
    """The types in which a value reads a block: as stored, or as a cast right around it wants."""
    if isinstance(value, Read):
        if value.name == name:
            yield value.type.dtype
        return
    if isinstance(value, Cast) and isinstance(value.value, Read):
        if value.value.name == name:
            yield value.type.dtype
        return
    for child in children(value):
        yield from _contexts(child, name)


def _is_flexible(value: Value) -> bool:
    """Whether a value is made of positions and numbers only, and so may lie either way."""
    leaves = [part for part in walk(value) if not children(part)]
    return any(isinstance(leaf, Positions) for leaf in leaves) and all(
        isinstance(leaf, Positions | Constant | Size) for leaf in leaves
    )


def _holds(dtype: str, number: float) -> bool:
    """Whether an element type can hold a fill."""
    kind = DTYPES[dtype].kind
    if kind == "bool":
        return isinstance(number, bool)
    if kind == "float":
        return number == 0 or DTYPES[dtype].bits > 8
    return number == 0 or (DTYPES[dtype].bits == 32 and abs(number) < float("inf"))


def _start(axis: str) -> Expr:
    """The global position at which the current block of an axis starts."""
    return ir.Call(OPERATIONS["multiply"], (ir.Step(axis), Local(f"block_{axis}")))
