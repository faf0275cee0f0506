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
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

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
    Program,
    Read,
    Size,
    Storage,
    Type,
    Value,
    walk,
)
from kernelgen.spec import KernelSpec, Operand
from kernelgen.verify import apply
from kernelgen.verify.values import (
    Array,
    Bounded,
    arranged,
    convert,
    everything,
    exactly,
    kind,
    read,
    stored,
)

Sizes = Mapping[str, int]
Window = dict[str, slice]
"""The positions of the reduction axes that a step sees; other axes are seen whole."""


def sizes_of(spec: KernelSpec, inputs: Mapping[str, Array]) -> dict[str, int]:
    """The extent of every axis, from the inputs that carry it.

    Raises:
        ValueError: Two inputs disagree about an axis, or an axis has no input.
    """
    sizes: dict[str, int] = {}
    for name, operand in spec.inputs.items():
        for axis, extent in zip(operand.axes, inputs[name].shape, strict=True):
            if sizes.setdefault(axis, extent) != extent:
                raise ValueError(f"axis {axis} is {sizes[axis]} and, in {name}, {extent}")
    missing = [axis for axis in spec.axes if axis not in sizes]
    if missing:
        raise ValueError(f"no input carries axis {missing[0]}")
    return sizes


def meaning(spec: KernelSpec, program: Program, inputs: Mapping[str, Array]) -> dict[str, Bounded]:
    """Run a body once over whole arrays.

    Args:
        spec: The kernel.
        program: Its typed body.
        inputs: An array for every input.

    Returns:
        A value for every output, with its dimensions in the order of the output's axes.
    """
    return stepped(spec, program, inputs, sizes_of(spec, inputs), ways(program)[0])


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
        self.sizes = sizes_of(spec, inputs)
        self.empty = 0 in self.sizes.values()
        self.tiles = {axis: self.tile(axis, tiles) for axis in spec.reduction}
        self.window: Window = {}
        self.locals: dict[str, Bounded] = {}
        self.scratch: dict[str, Bounded] = {}
        self.results: dict[str, Bounded] = {}

    def tile(self, axis: str, tiles: Sizes) -> int:
        declared = self.spec.axes[axis].tile or self.sizes[axis]
        return max(1, min(tiles.get(axis, declared), self.sizes[axis]))

    def outputs(self) -> dict[str, Bounded]:
        self.window = {axis: slice(0, tile) for axis, tile in self.tiles.items()}
        for name, operand in self.spec.scratch.items():
            self.scratch[name] = self.garbage(operand, [self.extent(a) for a in operand.axes])
        for name, output in self.spec.outputs.items():
            self.results[name] = self.garbage(output, [self.sizes[a] for a in output.axes])
        self.run(self.program.init)
        for window in self.windows():
            self.window = window
            self.run(self.program.step)
        self.window = {axis: slice(0, tile) for axis, tile in self.tiles.items()}
        self.run(self.program.finish)
        return self.results

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

    def garbage(self, operand: Operand, shape: list[int]) -> Bounded:
        """A buffer before it is written: anything."""
        lowest, highest = everything(operand.dtype)
        center = exactly(operand.axes, operand.dtype, np.full(shape, highest)).center
        lo, hi = np.full_like(center, lowest), np.full_like(center, highest)
        if kind(operand.dtype) == "float":
            center = np.full_like(center, np.nan)
        return Bounded(operand.axes, operand.dtype, center, lo, hi)

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
            place = tuple(self.window.get(axis, slice(None)) for axis in statement.type.axes)
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
                return exactly(value.type.axes, "int32", self.positions(value.axis))
            case Read():
                return self.read(value)
            case Element():
                return self.input(value.name)
            case Cast():
                return convert(
                    self.value(value.value), value.type.dtype, self.roundings.get(id(value))
                )
            case Apply():
                return self.apply(value)

    def positions(self, axis: str) -> Array:
        where = self.window.get(axis, slice(0, self.sizes[axis]))
        return np.arange(where.start, where.stop)

    def read(self, value: Read) -> Bounded:
        if value.storage == "input":
            return self.input(value.name)
        if value.storage == "local":
            return self.locals[value.name]
        held = self.scratch[value.name]
        return _taken(held, tuple(slice(self.extent(axis)) for axis in held.axes))

    def input(self, name: str) -> Bounded:
        operand = self.spec.inputs[name]
        where = tuple(self.window.get(axis, slice(None)) for axis in operand.axes)
        return read(operand.axes, operand.dtype, np.asarray(self.inputs[name])[where])

    def apply(self, value: Apply) -> Bounded:
        operation, axes, dtype = value.operation, value.axes, value.type.dtype
        args = [self.value(arg) for arg in value.args]
        match operation.kind:
            case "elementwise":
                return apply.elementwise(operation, args, dtype, empty=self.empty)
            case "contraction":
                return apply.dot(args[0], args[1], axes[0], value.type.axes, dtype)
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
            case _:
                return apply.moved(operation, args, axes[0])

    def globally(self, position: Bounded, axis: str) -> Bounded:
        """Positions in the step's window as positions along the whole axis."""
        start = self.window[axis].start if axis in self.window else 0
        parts = (part + start for part in (position.center, position.lo, position.hi))
        return Bounded(position.axes, position.dtype, *parts)


def _taken(value: Bounded, place: tuple[slice, ...]) -> Bounded:
    parts = (part[place] for part in (value.center, value.lo, value.hi))
    return Bounded(value.axes, value.dtype, *parts)


def _written(buffer: Bounded, value: Bounded, place: tuple[slice, ...]) -> Bounded:
    """The buffer with ``value``, broadcast along the axes it lacks, at ``place``."""
    value = arranged(value, buffer.axes)
    parts = []
    for old, new in zip(
        (buffer.center, buffer.lo, buffer.hi), (value.center, value.lo, value.hi), strict=True
    ):
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
