"""From typed values over named axes to lowered values over dimensions."""

from __future__ import annotations

from kernelgen.diagnostics import Diagnostic, listing
from kernelgen.language.dtypes import DTYPES
from kernelgen.language.expressions import converted
from kernelgen.language.operations import OPERATIONS
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
    is_static,
)
from kernelgen.language.types import WEAK
from kernelgen.planner import ir
from kernelgen.planner.blocks import Blocks, Variable
from kernelgen.planner.bounds import end_position, first_position
from kernelgen.planner.bounds import operation as operation_
from kernelgen.planner.context import Context, Lowered
from kernelgen.planner.ir import REPLICATED, Bind, Expr, Layout, Literal, Local, Statement, Store
from kernelgen.planner.layout import (
    contraction,
    is_flexible,
    is_vector_product,
    merge,
    move,
    named,
    orient,
    restricted,
    row,
    without,
)
from kernelgen.planner.masks import Masks
from kernelgen.planner.outputs import Outputs
from kernelgen.planner.replicated import met, narrowed
from kernelgen.planner.rewrite import (
    ZERO,
    applied,
    integer_position,
    recurrence,
    scan_operands,
    sum_of_products,
    without_zeros,
)
from kernelgen.planner.sums import Sums


class Lowering:
    """Lowers the statements of one phase, in order."""

    def __init__(
        self,
        context: Context,
        statements: tuple[Assignment, ...],
        scratch: dict[str, Lowered] | None = None,
    ) -> None:
        self.context = context
        self.blocks = Blocks(context, statements, scratch)
        self.masks = Masks(self.blocks, self.named_value, self.lower)
        self.stores = Outputs(context, self.masks)
        self.sums = Sums(self.blocks, self.masks, self.single, self.matrix_product)
        if context.segments is not None:
            first = Lowered(Local(context.segments.first), (), "bool")
            self.blocks.variables[context.segments.first] = Variable(first)
        self.findings: list[Diagnostic] = []
        self.uncut: set[str] = set()

    def run(self) -> tuple[Statement, ...]:
        """The lowered phase."""
        for position, statement in enumerate(self.blocks.statements):
            self.blocks.position = position
            self.statement(statement)
        return self.blocks.phase()

    # Statements

    def statement(self, statement: Assignment) -> None:
        target, storage = statement.target, statement.storage
        value, operator = statement.value, statement.operator
        if operator and (storage == "local" or self.is_converted(statement)):
            value, operator = self.written_out(statement), ""
        if storage == "local":
            self.define(target, value, self.lower(value))
            return
        if storage == "output" and not self.context.whole:
            value = self.stores.in_bounds(target, value)
        self.store(statement, operator, self.lower(value, self.context.layouts[target]))
        self.blocks.stored(target)

    def is_converted(self, statement: Assignment) -> bool:
        """Whether ``t += x`` computes in another type than the buffer's, so that it rounds once."""
        stored = self.context.dtypes[statement.target]
        dtypes = (stored, statement.value.type.dtype)
        return OPERATIONS[statement.operator].typing(dtypes)[1] != stored

    def store(self, statement: Assignment, operator: str, lowered: Lowered) -> None:
        frame = self.context.layouts[statement.target]
        if REPLICATED not in frame:
            lowered = narrowed(lowered)
        symbol = OPERATIONS[operator].infix if operator else ""
        cast = lowered.dtype not in (statement.type.dtype, *WEAK)
        expr, layout = self.fitted(lowered, frame)
        form: ir.Form = "block"
        if not frame:
            expr = ir.Extract(expr, len(layout)) if layout else expr
        elif not layout and not symbol:
            form = "scalar"
        elif layout != frame and not symbol:
            form = "part"
        self.blocks.lines.append(Store(statement.target, expr, symbol, cast, form))

    def fitted(self, lowered: Lowered, frame: Layout) -> tuple[Expr, Layout]:
        """The value in the order of a buffer's dimensions, and of no higher rank."""
        expr, layout = self.moved(lowered, frame) if frame else (lowered.expr, lowered.layout)
        surplus = len(layout) - len(frame)
        if frame and surplus > 0:
            return ir.Squeeze(expr, tuple(range(surplus))), layout[surplus:]
        return expr, layout

    def moved(self, lowered: Lowered, frame: Layout) -> tuple[Expr, Layout]:
        """A value brought into a frame; booleans, which cannot be reshaped, as numbers."""
        expr, layout = move(lowered.expr, lowered.layout, frame)
        if expr is lowered.expr or lowered.dtype != "bool":
            return expr, layout
        numbers, layout = move(ir.As(lowered.expr, "int32"), lowered.layout, frame)
        return ir.Call(OPERATIONS["not_equal"], (numbers, Literal(0))), layout

    def written_out(self, statement: Assignment) -> Value:
        """``x += y`` as ``x = x + y``."""
        target, operation = statement.target, OPERATIONS[statement.operator]
        if statement.storage == "local":
            variable = self.blocks.variables[target].lowered
            own = Read(target, "local", Type(named(variable.layout), variable.dtype))
            return Apply(operation, (own, statement.value), (), statement.type)
        own = Read(target, "scratch", statement.type)
        wanted, dtype = operation.typing((own.type.dtype, statement.value.type.dtype))
        args = (converted(own, wanted[0]), converted(statement.value, wanted[1]))
        return Apply(operation, args, (), Type(own.type.axes, dtype))

    def define(self, name: str, value: Value, lowered: Lowered) -> None:
        fills = {axis: self.masks.fill(value, axis) for axis in self.masks.masked_axes(value)}
        self.stores.define(name, value)
        scanned = frozenset(axis for axis in value.type.axes if self.masks.holds_last(value, axis))
        local = lowered
        if not self.context.whole:
            self.blocks.lines.append(Bind(name, lowered.expr, lowered.layout, lowered.dtype))
            local = Lowered(Local(name), lowered.layout, lowered.dtype)
        self.blocks.variables[name] = Variable(local, fills, scanned)

    # Values

    def single(self, value: Value) -> Lowered:
        """The value with one lane of what is replicated."""
        return narrowed(self.lower(value))

    def lower(self, value: Value, frame: Layout = ()) -> Lowered:
        """The value with dimensions; ``frame`` is a hint for values free to choose theirs."""
        end = self.end(value)
        if end is not None:
            return Lowered(Local(end), (), "int32")
        match value:
            case Constant(value=number, type=type_):
                return Lowered(Literal(number), (), type_.dtype)
            case Size(axis=axis, type=type_):
                return Lowered(ir.Extent(axis), (), type_.dtype)
            case Positions():
                return self.positions(value, frame)
            case Read(name=name, storage="local"):
                return self.blocks.variables[name].lowered
            case Read(name=name):
                return self.blocks.block(name)
            case Element(name=name, indices=indices, type=type_):
                if self.context.whole:
                    return Lowered(ir.Load(name), self.context.layouts[name], type_.dtype)
                scalars = tuple(self.lower(index).expr for index in indices)
                return Lowered(ir.Scalar(name, scalars), (), type_.dtype)
            case Cast():
                return self.cast(value, frame)
            case Apply():
                return self.apply(value, frame)

    def end(self, value: Value) -> str | None:
        """The variable that holds an end of some bounds, if the value is one."""
        if not isinstance(value, Apply | Element) or self.context.whole:
            return None
        for axis, bounds in self.context.bounds.items():
            if not self.context.varies(axis) and value in (bounds.start, bounds.stop):
                plan = self.context.axes[axis]
                return plan.stop if value == bounds.stop else plan.start
        return None

    def positions(self, value: Positions, frame: Layout) -> Lowered:
        axis = value.axis
        if self.context.axes[axis].squeezed:
            return Lowered(ir.Step(axis), (), "int32")
        layout = restricted(frame, (axis,)) if axis in frame else row((axis,))
        return Lowered(ir.Positions(axis, layout), layout, "int32")

    def cast(self, value: Cast, frame: Layout) -> Lowered:
        inner = value.value
        if isinstance(inner, Read) and inner.storage != "local":
            self.blocks.prepare(inner.name)
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

    # Elementwise

    def elementwise(self, value: Apply, frame: Layout) -> Lowered:
        fixed = [self.lower(arg) for arg in value.args if not is_flexible(arg)]
        layout = fixed_layout = merge([ir.plain(part.layout) for part in fixed])
        iterator = iter(fixed)
        parts = []
        for arg in value.args:
            if not is_flexible(arg):
                parts.append(next(iterator))
                continue
            part = self.lower(arg, fixed_layout or frame or layout)
            layout = merge([layout, ir.plain(part.layout)])
            parts.append(part)
        parts, layout = met(parts, layout)
        if value.operation.transcendental and not layout and not self.context.whole:
            layout = (None, None)
            parts = [Lowered(ir.Fill(part.expr), layout, part.dtype) for part in parts]
        args = tuple(self.moved(part, layout)[0] for part in parts)
        if value.operation.jnp.count("{0}") > 1:
            args = (self.blocks.atomic(args[0], layout, parts[0].dtype), *args[1:])
        expr = self.folded(value, args)
        return Lowered(expr, () if isinstance(expr, Literal) else layout, value.type.dtype)

    def folded(self, value: Apply, args: tuple[Expr, ...], static: bool = False) -> Expr:
        """The call, simplified where arguments are numbers that only say there is nothing."""
        name = value.operation.name
        if name == "negative" and isinstance(args[0], Literal):
            return Literal(-args[0].value)
        if self.context.whole and not static:
            simpler = without_zeros(name, args)
            if simpler is not None:
                return simpler
            numbers = tuple(arg.value for arg in args if isinstance(arg, Literal))
            known = value.operation.fills(numbers) if len(numbers) == len(args) else None
            if isinstance(known, float | int):
                return Literal(known)
        return ir.Call(value.operation, args, static=static)

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
        if len(axes) == 1 and operation.name == "sum" and axes[0] in self.context.dotted:
            return self.sums.sum(value, axes[0])
        arg = self.single(self.masks.protected(value.args[0], value.axes, identity))
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
        arg = self.single(self.masks.protected(value.args[0], axes, 0.0))
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
            return self.lower(integer_position(value, self.named_value(value.args[0], "x"), axis))
        arg = self.single(
            self.masks.protected(value.args[0], (axis,), operation.identity_for(0, dtype))
        )
        dim = arg.layout.index(axis)
        expr: Expr = ir.Call(operation, (arg.expr,), (dim,))
        if self.context.axes[axis].tile is not None:
            expr = operation_("add", expr, first_position(self.context.axes[axis]))
        return Lowered(expr, without(arg.layout, (axis,)), "int32")

    # Contractions

    def contraction(self, value: Apply) -> Lowered:
        x, y = value.args
        if self.context.empty & set(value.axes):
            return Lowered(Literal(0), (), value.type.dtype)
        axes = self.context.strip(value.axes)
        if not axes or self.is_vector_product(x, y, axes[0]):
            return self.lower(sum_of_products(value))
        if axes[0] in self.context.dotted:
            joined = self.sums.product(value)
            if joined is not None:
                return joined
        return self.matrix_product(value, axes)

    def matrix_product(self, value: Apply, axes: tuple[str, ...]) -> Lowered:
        """A contraction on the matrix unit."""
        (x, y), axis = value.args, axes[0]
        if self.context.is_masked(axis):
            # 0 * NaN is NaN; an integer times 0 is 0
            both = value.type.dtype == "float32" or not self.masks.is_exact(y, axis)
            if both:
                x = self.masks.protected(x, (axis,), 0)
            if both or self.masks.is_exact(y, axis):
                y = self.masks.protected(y, (axis,), 0)
        a, b = self.matrix(self.single(x)), self.matrix(self.single(y))
        if orient(a.layout, b.layout, axis)[2]:
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
                        self.blocks.statements[self.blocks.position].pointer,
                        value.span,
                    )
                )

    # Along an axis

    def scan(self, value: Apply) -> Lowered:
        (axis,) = value.axes
        dtype = value.type.dtype
        args = list(value.args)
        if self.context.finishes:
            args = scan_operands(value, axis, self.context.bounds.get(axis))
            for i, arg in enumerate(value.args):
                if axis in arg.type.axes:
                    args[i] = self.masks.protected(
                        arg, (axis,), value.operation.identity_for(i, dtype)
                    )
        parts = [self.single(arg) for arg in args]
        layout = merge([part.layout for part in parts])
        if axis not in layout:  # one position a step: the recurrence itself
            return self.lower(recurrence(value, args))
        exprs = tuple(self.moved(part, layout)[0] for part in parts)
        return Lowered(ir.Call(value.operation, exprs, (layout.index(axis),)), layout, dtype)

    def shift(self, value: Apply) -> Lowered:
        part, by = self.single(value.args[0]), self.lower(value.args[1])
        dim = part.layout.index(value.axes[0])
        return Lowered(
            ir.Call(value.operation, (part.expr, by.expr), (dim,)), part.layout, part.dtype
        )

    def last(self, value: Apply) -> Lowered:
        (axis,) = value.axes
        arg = value.args[0]
        if self.context.axes[axis].squeezed:
            return self.lower(arg)
        if (
            self.context.is_masked(axis)
            and self.context.finishes
            and not self.masks.holds_last(arg, axis)
        ):
            return self.last_inside(value, axis)
        part = self.single(arg)
        dim = part.layout.index(axis)
        expr = ir.Call(value.operation, (part.expr,), (dim,))
        return Lowered(expr, without(part.layout, (axis,)), part.dtype)

    def last_inside(self, value: Apply, axis: str) -> Lowered:
        """The value at the last position of a block that counts, selected by its position."""
        plan, bounds = self.context.axes[axis], self.context.bounds.get(axis)
        is_bounded = bounds is not None and bounds.stop is not None
        stop: Expr = Local(plan.stop) if is_bounded else ir.Extent(axis)
        if plan.tile is not None:
            stop = operation_("minimum", stop, end_position(plan))
        name = self.blocks.fresh(f"{axis}_last")
        last = Lowered(operation_("subtract", stop, Literal(1)), (), "int32")
        self.blocks.lines.append(Bind(name, last.expr, (), "int32"))
        self.blocks.variables[name] = Variable(Lowered(Local(name), (), "int32"))
        positions = Positions(axis, Type((axis,), "int32"))
        is_last = applied("equal", (positions, Read(name, "local", Type((), "int32"))), "bool")
        part = self.single(applied("where", (is_last, value.args[0], ZERO), value.type.dtype))
        expr = self.reduce("sum", part, (axis,))
        return Lowered(expr, without(part.layout, (axis,)), value.type.dtype)

    def named_value(self, value: Value, stem: str) -> Read:
        """The value as a variable of its own."""
        if isinstance(value, Read):
            if value.storage != "local" and value.name not in self.blocks.variables:
                self.blocks.load(value.name)
            return value
        name = stem if stem in self.context.seen else self.blocks.fresh(stem)
        self.define(name, value, self.lower(value))
        return Read(name, "local", value.type, value.span)
