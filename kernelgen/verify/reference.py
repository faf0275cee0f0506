"""The derived reference: what a body means, and how far a correct kernel may be from it.

The meaning of a body is its program run once over whole arrays (:func:`meaning`). The bound comes
from a second run of the same program in the tiles of the kernel (:func:`stepped`), with the
interval of every value carried along: the rounding of every operation, in every step, with the
magnitudes that occur there. So the bound needs no tolerance set by hand, and a body of which the
result depends on the tiles is found before any kernel runs.

A compiler may drop the rounding of a cast to a narrow float, for all elements or none: every
combination is a run of its own (:func:`ways`), so that a rounding that does happen is known
exactly instead of blurring the bound.

Along an empty reduction axis there are no steps: the outputs are ``finish`` of ``init``. Where an
axis is empty, 0 / 0 is 0 (the mean of nothing, a softmax over nothing); elsewhere it is NaN.

Positions outside the bounds of an axis count as the identity of whatever combines them. A step
runs for those rows only that have something in bounds in it; the scratch of the others stays as it
is. Positions of an output that are outside, and those for which nothing is in bounds, are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from kernelgen.language.dtypes import DTYPES
from kernelgen.language.expressions import converted
from kernelgen.language.operations import OPERATIONS, Operation
from kernelgen.language.program import (
    Apply,
    Assignment,
    Cast,
    Constant,
    Domain,
    Element,
    Positions,
    Program,
    Read,
    Size,
    Storage,
    Type,
    Value,
    walk,
)
from kernelgen.spec import KernelSpec
from kernelgen.verify import apply
from kernelgen.verify.cases import LANES, block_arguments
from kernelgen.verify.outputs import finished
from kernelgen.verify.region import Named, Region, Sizes, Window, both, extents
from kernelgen.verify.region import extent as extent_of
from kernelgen.verify.values import (
    Array,
    Bounded,
    anything,
    arranged,
    chosen,
    convert,
    exactly,
    kind,
    parts_of,
    read,
    stored,
)


def sizes_of(spec: KernelSpec, domain: Domain, inputs: Mapping[str, Array]) -> dict[str, int]:
    """The extent of every axis, from the inputs that carry it and from the sizes that follow.

    Raises:
        ValueError: Two inputs disagree about an axis, an axis has no input, or an input disagrees
            with a size that follows from others.
    """
    sizes: dict[str, int] = {}
    for name, operand in spec.inputs.items():
        for axis, extent in zip(operand.axes, inputs[name].shape, strict=True):
            if sizes.setdefault(axis, extent) != extent:
                raise ValueError(f"axis {axis} is {sizes[axis]} and, in {name}, {extent}")
    sizes = extents(sizes, domain)
    missing = [axis for axis in spec.axes if axis not in sizes]
    if missing:
        raise ValueError(f"no input carries axis {missing[0]}")
    problem = contradiction(spec, domain, sizes)
    if problem:
        raise ValueError(problem)
    return sizes


def contradiction(spec: KernelSpec, domain: Domain, sizes: Sizes) -> str:
    """What is wrong with sizes of which some follow from others; empty if nothing is."""
    for axis, value in domain.sizes.items():
        follows = extent_of(value, sizes)
        if sizes[axis] != follows:
            return f"axis {axis} is {sizes[axis]}, but {spec.axes[axis].size} is {follows}"
    return ""


def meaning(spec: KernelSpec, program: Program, inputs: Mapping[str, Array]) -> dict[str, Bounded]:
    """Run a body once over whole arrays.

    Args:
        spec: The kernel.
        program: Its typed body.
        inputs: An array for every input.

    Returns:
        A value for every output, with its dimensions in the order of the output's axes.
    """
    return stepped(spec, program, inputs, sizes_of(spec, program.domain, inputs), ways(program)[0])


Roundings = Mapping[int, bool]
"""Whether each narrow cast rounds, by the identity of its node in the program."""

MAX_CASTS = 3
"""Narrow casts of which every combination is tried; a body with more gets a wider bound."""


def ways(program: Program) -> list[Roundings]:
    """The combinations of narrow casts that round; the first is none of them."""
    casts = [id(cast) for cast in _narrow_casts(program)]
    if len(casts) > MAX_CASTS:
        return [{}]
    return [dict(zip(casts, way, strict=True)) for way in product((False, True), repeat=len(casts))]


def _narrow_casts(program: Program) -> Iterator[Cast | Assignment]:
    for _, statements in program.phases():
        for statement in statements:
            if statement.storage == "scratch" and _is_narrow_float(statement.type.dtype):
                yield statement
            for value in walk(statement.value):
                if isinstance(value, Cast) and _is_narrow_float(value.type.dtype):
                    yield value


def _is_narrow_float(dtype: str) -> bool:
    return dtype in DTYPES and DTYPES[dtype].kind == "float" and DTYPES[dtype].narrow


def stepped(
    spec: KernelSpec,
    program: Program,
    inputs: Mapping[str, Array],
    tiles: Sizes,
    roundings: Roundings | None = None,
) -> dict[str, Bounded]:
    """Run a body in tiles along its reduction axes, as its kernel does.

    Args:
        spec: The kernel.
        program: Its typed body.
        inputs: An array for every input.
        tiles: The tile of every tiled axis that differs from the spec's.
        roundings: Which narrow casts round (see :func:`ways`); unknown for those left out.

    Returns:
        A value for every output, with its dimensions in the order of the output's axes.
    """
    return _Run(spec, program, inputs, tiles, roundings or {}).outputs()


class _Run:
    def __init__(
        self,
        spec: KernelSpec,
        program: Program,
        inputs: Mapping[str, Array],
        tiles: Sizes,
        roundings: Roundings,
    ) -> None:
        self.spec = spec
        self.program = program
        self.inputs = inputs
        self.roundings = roundings
        self.domain = program.domain
        self.sizes = sizes_of(spec, self.domain, inputs)
        self.empty = 0 in self.sizes.values()
        self.given = tiles
        self.tiles = {axis: self.tile(axis) for axis in spec.reduction}
        self.window: Window = {}
        self.locals: dict[str, Bounded] = {}
        self.scratch: dict[str, Bounded] = {}
        self.results: dict[str, Bounded] = {}

    def tile(self, axis: str) -> int:
        size = self.sizes[axis]
        if self.spec.axes[axis].subtile:  # a block has whole sub-blocks, and may exceed the axis
            subtile = self.subtile(axis)
            size = -(-size // subtile) * subtile
        return max(1, min(self.given.get(axis) or self.spec.axes[axis].tile or size, size))

    def outputs(self) -> dict[str, Bounded]:
        self.window = {axis: slice(0, tile) for axis, tile in self.tiles.items()}
        for name, operand in self.spec.scratch.items():
            extents = [self.extent(axis) for axis in operand.axes]
            self.scratch[name] = anything(operand.axes, operand.dtype, extents)
        for name, output in self.spec.outputs.items():
            held = self.domain.held(name)
            self.results[name] = anything(held, output.dtype, [self.sizes[axis] for axis in held])
        self.run(self.program.init)
        for window, rows in self.parts():
            self.window = window
            scratch, results = dict(self.scratch), dict(self.results)
            self.run(self.program.step)
            if self.domain.bounds:
                self.keep_idle_rows(scratch, rows)
            if rows is not None:
                self.keep_results(results, rows)
        self.window = {axis: slice(0, tile) for axis, tile in self.tiles.items()}
        self.run(self.program.finish)
        self.window = {}
        return {name: finished(self.region, name, self.results[name]) for name in self.results}

    @property
    def region(self) -> Region:
        return Region(self.spec, self.domain, self.sizes, self.inputs, self.window)

    # Rows that have nothing in bounds

    def keep_idle_rows(self, before: Mapping[str, Bounded], rows: Named | None) -> None:
        """A step leaves the scratch of rows that have nothing in bounds in it as it was.

        ``rows`` tells which rows the step is for; None where it is for all of them.
        """
        reduced = self.reduced_axes()
        inside = self.region.inside(reduced)
        if inside is None:
            return
        live = inside.any_along(reduced)
        if rows is not None:
            live = both(live, rows)
        for name, old in before.items():
            own = live.any_along([axis for axis in live.axes if axis not in old.axes])
            extents = {a: self.extent(a) for a in old.axes if a in self.window}
            place = tuple(slice(extents.get(axis)) for axis in old.axes)
            new = _taken(self.scratch[name], place)
            kept = chosen(own.axes, own.data, new, _taken(old, place))
            self.scratch[name] = _written(self.scratch[name], kept, place)

    def reduced_axes(self) -> list[str]:
        """The axes that steps walk, and those that a step reduces as a whole."""
        values = [part for each in self.program.step for part in walk(each.value)]
        applied = [value for value in values if isinstance(value, Apply)]
        removed = [axis for value in applied for axis in value.axes]
        return list(dict.fromkeys((*self.spec.reduction, *removed)))

    def keep_results(self, before: Mapping[str, Bounded], rows: Named) -> None:
        """A step leaves the results of the rows that it is not for as they were."""
        for name, old in before.items():
            own = rows.any_along([axis for axis in rows.axes if axis not in old.axes])
            self.results[name] = chosen(own.axes, own.data, self.results[name], old)

    # Sub-blocks

    def parts(self) -> Iterator[tuple[Window, Named | None]]:
        """What the steps see one after the other, and for which rows; None for all of them.

        The rows whose block no bound cuts see it at once, the others in sub-blocks.
        """
        name = next((axis for axis in self.tiles if self.spec.axes[axis].subtile), None)
        if name is None:
            yield from ((window, None) for window in self.windows())
            return
        subtile = self.subtile(name)
        for window in self.windows():
            self.window = window
            whole, at = self.whole(name), window[name]
            yield window, whole
            for start in range(at.start, at.stop, subtile):
                part = slice(start, min(start + subtile, at.stop))
                yield {**window, name: part}, Named(whole.axes, ~whole.data)

    def subtile(self, name: str) -> int:
        """Positions in a sub-block: as the module cuts it, no more than the axis has tiles for."""
        declared = block_arguments(self.spec, self.given).get(f"subblock_{name}")
        size = declared or self.spec.axes[name].subtile or LANES
        return max(1, min(size, -(-self.sizes[name] // LANES) * LANES))

    def whole(self, name: str) -> Named:
        """The rows of blocks in which every row has all of a block of an axis in bounds."""
        inside = self.region.inside([name])
        assert inside is not None
        axes, whole = inside.axes[:-1], np.all(inside.data, -1)
        if self.extent(name) < self.tiles[name]:
            return Named(axes, np.zeros_like(whole))
        for dim, axis in enumerate(axes):
            size = whole.shape[dim]
            tile = min(size, self.given.get(axis) or self.spec.axes[axis].tile or size)
            starts = np.arange(0, size, tile)
            blocks = np.logical_and.reduceat(whole, starts, axis=dim)
            whole = np.repeat(blocks, np.minimum(tile, size - starts), axis=dim)
        return Named(axes, whole)

    def windows(self) -> Iterator[Window]:
        order = [axis for axis in self.spec.grid if axis in self.tiles]
        order += [axis for axis in self.tiles if axis not in order]
        starts = [range(0, self.sizes[axis], self.tiles[axis]) for axis in order]
        for at in product(*starts):
            yield {
                axis: slice(start, min(start + self.tiles[axis], self.sizes[axis]))
                for axis, start in zip(order, at, strict=True)
            }

    def extent(self, axis: str) -> int:
        if axis not in self.window:
            return self.sizes[axis]
        where = self.window[axis]
        return int(where.stop) - int(where.start)

    # Statements

    def run(self, statements: tuple[Assignment, ...]) -> None:
        self.locals = {}
        for statement in statements:
            self.assign(statement)

    def assign(self, statement: Assignment) -> None:
        value = self.value(self.updated(statement))
        target = statement.target
        if statement.storage == "local":
            self.locals[target] = value
        elif statement.storage == "scratch":
            value = convert(value, statement.type.dtype, self.roundings.get(id(statement)))
            place = tuple(slice(self.extent(axis)) for axis in statement.type.axes)
            self.scratch[target] = _written(self.scratch[target], value, place)
        else:
            # The rounding of the store itself is exact: see `values.stored`.
            if kind(statement.type.dtype) != "float" or kind(value.dtype) != "float":
                value = convert(value, statement.type.dtype)
            axes = self.results[target].axes
            place = tuple(self.window.get(axis, slice(None)) for axis in axes)
            self.results[target] = _written(self.results[target], value, place)

    def updated(self, statement: Assignment) -> Value:
        """``x += y`` as the value ``x + y``."""
        if not statement.operator:
            return statement.value
        operation = OPERATIONS[statement.operator]
        stores = self.scratch if statement.storage == "scratch" else self.locals
        held = stores[statement.target]
        storage: Storage = "scratch" if statement.storage == "scratch" else "local"
        current = Read(statement.target, storage, Type(held.axes, held.dtype))
        args: tuple[Value, ...] = (current, statement.value)
        wanted, dtype = operation.typing(tuple(arg.type.dtype for arg in args))
        args = tuple(converted(arg, to) for arg, to in zip(args, wanted, strict=True))
        return Apply(operation, args, (), Type(statement.type.axes, dtype))

    # Values

    def value(self, value: Value) -> Bounded:
        match value:
            case Constant():
                return exactly((), value.type.dtype, value.value)
            case Size():
                return exactly((), value.type.dtype, self.sizes[value.axis])
            case Positions():
                return exactly(value.type.axes, "int32", self.region.positions(value.axis))
            case Read():
                return self.read(value)
            case Element():
                return read(value.type.axes, value.type.dtype, self.region.element(value).data)
            case Cast():
                return convert(
                    self.value(value.value), value.type.dtype, self.roundings.get(id(value))
                )
            case Apply():
                return self.apply(value)

    def read(self, value: Read) -> Bounded:
        if value.storage == "input":
            return read(value.type.axes, value.type.dtype, self.region.seen(value.name))
        if value.storage == "local":
            return self.locals[value.name]
        held = self.scratch[value.name]
        return _taken(held, tuple(slice(self.extent(axis)) for axis in held.axes))

    def apply(self, value: Apply) -> Bounded:
        operation, axes, dtype = value.operation, value.axes, value.type.dtype
        given = [self.value(arg) for arg in value.args]
        inside = self.region.inside(axes)
        args = given if inside is None else self.masked(operation, given, inside)
        match operation.kind:
            case "elementwise":
                return apply.elementwise(operation, args, dtype, empty=self.empty)
            case "contraction":
                product = apply.dot(args[0], args[1], axes, value.type.axes, dtype)
                return product if inside is None else apply.spoiled(product, args, inside)
            case "reduction" if operation.name == "mean":
                extent = int(np.prod([self.sizes[axis] for axis in axes]))
                return apply.mean(args[0], axes, extent, empty=self.empty)
            case "reduction":
                reduced = apply.reduction(operation, args[0], axes, dtype)
                return self.globally(reduced, axes[0]) if operation.axes > 0 else reduced
            case "scan" if operation.name == "cumsum":
                return apply.cumsum(operation, args[0], axes[0], dtype)
            case "scan":
                return apply.linear_scan(operation, args, axes[0], value.type.axes, dtype)
            case "select" if inside is not None:
                return self.last_inside(args[0], axes[0])
            case _:
                return apply.moved(operation, args, axes[0])

    def masked(self, operation: Operation, args: Sequence[Bounded], inside: Named) -> list[Bounded]:
        """The operands with the operation's identity at positions outside the bounds.

        An operand of ``dot`` is masked where no position of the axes it lacks is in bounds; the
        other one has these axes. A step sees one position of an axis with tile 1.
        """
        made = []
        for i, arg in enumerate(args):
            if operation.identity is None or (operation.name == "linear_scan" and i == 2):
                made.append(arg)
                continue
            mask = inside
            if operation.kind == "contraction":
                lacked = [axis for axis in inside.axes if axis not in arg.axes]
                mask = inside.any_along([a for a in lacked if self.spec.axes[a].tile != 1])
            fill = operation.identity_for(i, arg.dtype)
            made.append(chosen(mask.axes, mask.data, arg, fill))
        return made

    def last_inside(self, value: Bounded, axis: str) -> Bounded:
        """The value at the last position of the step that is in bounds."""
        positions, stop = self.region.positions(axis), self.domain.bounds[axis].stop
        end = Named((), np.asarray(self.sizes[axis])) if stop is None else self.region.value(stop)
        at = np.minimum(end.data, positions[-1] + 1) - 1 - positions[0]
        every = tuple(dict.fromkeys((*value.axes, *end.axes)))
        last = Named(end.axes, np.clip(at, 0, len(positions) - 1)).along(every)
        dim = every.index(axis)
        shape = [1 if a == axis else self.extent(a) for a in every]
        parts = []
        for part in parts_of(arranged(value, every)):
            full = np.broadcast_to(part, [*shape[:dim], len(positions), *shape[dim + 1 :]])
            parts.append(np.take_along_axis(full, np.broadcast_to(last, shape), dim).squeeze(dim))
        return Bounded(tuple(a for a in every if a != axis), value.dtype, *parts)

    def globally(self, position: Bounded, axis: str) -> Bounded:
        """Positions in the step's window as positions along the whole axis."""
        start = self.window[axis].start if axis in self.window else 0
        parts = (part + start for part in (position.center, position.lo, position.hi))
        return Bounded(position.axes, position.dtype, *parts)


def _taken(value: Bounded, place: tuple[slice, ...]) -> Bounded:
    parts = (part[place] for part in parts_of(value))
    return Bounded(value.axes, value.dtype, *parts)


def _written(buffer: Bounded, value: Bounded, place: tuple[slice, ...]) -> Bounded:
    """The buffer with ``value``, broadcast along the axes it lacks, at ``place``."""
    value = arranged(value, buffer.axes)
    parts = []
    for old, new in zip(parts_of(buffer), parts_of(value), strict=True):
        part = old.copy()
        part[place] = new
        parts.append(part)
    return Bounded(buffer.axes, buffer.dtype, *parts)


def runs(
    spec: KernelSpec, program: Program, inputs: Mapping[str, Array], tiles: Sizes
) -> list[dict[str, Bounded]]:
    """Run a body in tiles, once for each way in which its narrow casts may round.

    Args:
        spec: The kernel.
        program: Its typed body.
        inputs: An array for every input.
        tiles: The tiles it runs with, where they differ from the spec's.

    Returns:
        The values of the outputs for each way; in the first, no cast rounds.
    """
    return [stepped(spec, program, inputs, tiles, way) for way in ways(program)]


def expected(results: Sequence[Mapping[str, Bounded]]) -> dict[str, tuple[Bounded, ...]]:
    """What the outputs of a kernel have to be.

    Args:
        results: What :func:`runs` returned.

    Returns:
        For every output, and for each way in which casts may round: its value, and the smallest
        and largest number of the output's own type that a correct kernel may give.
    """
    return {name: tuple(_stored(result[name]) for result in results) for name in results[0]}


def _stored(value: Bounded) -> Bounded:
    if kind(value.dtype) != "float":
        return value
    return Bounded(value.axes, value.dtype, value.center, *stored(value, value.dtype))


def depends_on_tiles(
    spec: KernelSpec, program: Program, inputs: Mapping[str, Array], tiles: Sizes
) -> list[str]:
    """The outputs of which the value changes with the tiles, so that the body is no kernel.

    Returns:
        Names of outputs; a correct body has none.
    """
    whole = meaning(spec, program, inputs)
    parts = stepped(spec, program, inputs, tiles, ways(program)[0])
    return [name for name in spec.outputs if not _agrees(whole[name].center, parts[name])]


def _agrees(center: Array, parts: Bounded) -> bool:
    """Whether a float64 result lies in an interval, give or take float64's own rounding."""
    slack = 2.0**-40 * np.abs(center) if kind(parts.dtype) == "float" else 0
    with np.errstate(invalid="ignore"):
        inside = (center >= parts.lo - slack) & (center <= parts.hi + slack)
    inside |= np.isnan(center) & np.isnan(parts.center)
    if kind(parts.dtype) == "float":
        inside |= parts.unknown | (center == parts.center)
    return bool(np.all(inside))
