"""Random kernel specs: valid ones, built so that they stay valid, and broken ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import kernelgen
from kernelgen.diagnostics import KernelgenError
from kernelgen.language.dtypes import INT32_MAX
from kernelgen.language.operations import OPERATIONS
from kernelgen.language.types import arithmetic, comparison, real

Draw = Any
"""Hypothesis' draw function."""

Json = Any

TILE = 128
"""Legal along every dimension of every element type."""

SIZES = (1, 7, 127, 128, 129, 200, 300)
SHORT_SIZES = (1, 2, 5, 8, 33, 130)

NUMBERS = ("float32", "bfloat16", "int32", "int8")
FLOATS = ("float32", "bfloat16")

_ELEMENTWISE = [row for row in OPERATIONS.values() if row.kind == "elementwise"]
UNARY = sorted(
    row.name
    for row in _ELEMENTWISE
    if row.arity == 1 and not row.infix and row.typing in (arithmetic, real)
)
INFIX = ("+", "-", "*", "/", "//", "%")
BINARY = ("minimum", "maximum")
COMPARISONS = sorted(row.infix for row in _ELEMENTWISE if row.typing is comparison)
REDUCTIONS = ("sum", "mean", "max", "min", "argmax", "argmin")
ACCUMULATORS = {
    "sum": ("0", "{acc} += sum({x}, {k})"),
    "mean": ("0", "{acc} += mean({x}, {k})"),
    "max": ("-inf", "{acc} = maximum({acc}, max({x}, {k}))"),
    "min": ("inf", "{acc} = minimum({acc}, min({x}, {k}))"),
}
TERMS = ("{x}", "-{x}", "0.5 * {x}", "abs({x}) + 1", "maximum({x}, 0)", "tanh({x})")


@dataclass(frozen=True)
class Kernel:
    """A spec as JSON data, and the sizes to run it with."""

    data: dict[str, Any]
    sizes: dict[str, int]

    def __repr__(self) -> str:
        data = {key: value for key, value in self.data.items() if key not in ("doc", "kernelgen")}
        return f"Kernel({data}, sizes={self.sizes})"


@dataclass
class _Block:
    """What an expression may name: a block, with its axes."""

    name: str
    axes: tuple[str, ...]


class _Builder:
    """A spec under construction: axes first, then operands, then a body."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.axes: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}
        self.inputs: dict[str, Any] = {}
        self.scratch: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        self.reduction: list[str] = []
        self.init: list[str] = []
        self.step: list[str] = []
        self.finish: list[str] = []

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def axis(self, name: str, *, tiled: bool) -> str:
        self.axes[name] = {"tile": TILE} if tiled else {}
        self.sizes[name] = self.pick(SIZES if tiled else SHORT_SIZES)
        return name

    def leading(self) -> tuple[str, ...]:
        """Perhaps an axis in front of all others, one position a step."""
        if not self.draw(st.booleans()):
            return ()
        self.axes["b"] = {"tile": 1}
        self.sizes["b"] = self.pick((1, 2, 3))
        return ("b",)

    def input(self, name: str, axes: Sequence[str], dtypes: Sequence[str]) -> _Block:
        order = self.ordered(axes)
        self.inputs[name] = {"axes": list(order), "dtype": self.pick(dtypes)}
        return _Block(name, order)

    def ordered(self, axes: Sequence[str]) -> tuple[str, ...]:
        """The axes in any order, those of tile 1 in front."""
        rest = [axis for axis in axes if axis != "b"]
        front = [axis for axis in axes if axis == "b"]
        return (*front, *self.draw(st.permutations(rest)))

    def output(self, name: str, axes: Sequence[str], dtypes: Sequence[str] = FLOATS) -> None:
        self.outputs[name] = {"axes": list(self.ordered(axes)), "dtype": self.pick(dtypes)}

    def grid(self) -> list[str]:
        walked = [axis for axis in self.axes if self.axes[axis] and axis not in self.reduction]
        return [*walked, *self.reduction]

    def kernel(self) -> Kernel:
        body = {"init": self.init, "step": self.step, "finish": self.finish}
        data: dict[str, Any] = {
            "kernelgen": 1,
            "name": "kernel",
            "doc": "A random kernel.",
            "axes": self.axes,
            "grid": self.grid(),
            "inputs": self.inputs,
            "outputs": self.outputs,
            "body": {phase: lines for phase, lines in body.items() if lines},
            # Memory is planned for the sizes of the cases.
            "cases": [self.sizes],
        }
        if self.reduction:
            data["reduction"] = self.reduction
        if self.scratch:
            data["scratch"] = self.scratch
        # Blocks of three tiled axes need more than the 16 MiB of v4.
        data["targets"] = ["v5e", "v6e"]
        return Kernel(data, self.sizes)

    # Expressions

    def number(self, blocks: Sequence[_Block], depth: int = 2) -> str:
        """An expression over some of the blocks."""
        if depth == 0 or self.draw(st.integers(0, 5)) == 0:
            return self.leaf(blocks)
        form = self.pick(("unary", "unary", "infix", "infix", "infix", "binary", "where", "more"))
        x = self.number(blocks, depth - 1)
        if form == "unary":
            return f"{self.pick(UNARY)}({x})"
        if form == "more":
            return self.pick(
                (f"({x}) ** 2", f"-({x})", f"cast({x}, bfloat16)", f"clip({x}, -2, 2)")
            )
        y = self.number(blocks, depth - 1)
        if form == "infix":
            return f"({x}) {self.pick(INFIX)} ({y})"
        if form == "binary":
            return f"{self.pick(BINARY)}({x}, {y})"
        return f"where({self.condition(x, y)}, {x}, {y})"

    def condition(self, x: str, y: str) -> str:
        one = f"({x}) {self.pick(COMPARISONS)} ({y})"
        return self.pick((one, f"not ({one})", f"({one}) and ({x}) > 0", f"({one}) or ({y}) < 1"))

    def scalars(self) -> list[_Block]:
        """Perhaps a scalar of the call, perhaps one for every position in front."""
        found = []
        for name, axes in (("alpha", ()), ("gain", ("b",))):
            if set(axes) <= set(self.axes) and self.draw(st.integers(0, 3)) == 0:
                dtype = self.pick(("float32", "int32"))
                self.inputs[name] = {"axes": list(axes), "dtype": dtype, "memory_space": "SMEM"}
                found.append(_Block(f"{name}[b]" if axes else name, axes))
        return found

    def leaf(self, blocks: Sequence[_Block]) -> str:
        if self.draw(st.integers(0, 3)) == 0:
            axis = self.pick([a for a in self.axes if a != "b"])
            return self.pick(("0.5", "2", "1.25e-1", f"size({axis})", "3.0"))
        return self.pick(blocks).name

    def using(self, blocks: Sequence[_Block], depth: int = 2) -> str:
        """An expression that uses every block at least once."""
        text = self.number(blocks, depth)
        for block in blocks:
            text = f"({text}) {self.pick(('+', '*', '-'))} {block.name}"
        return text


@st.composite
def elementwise_chains(draw: Draw) -> Kernel:
    """Blocks in any order of axes, locals, one or two outputs."""
    new = _Builder(draw)
    axes = (*new.leading(), new.axis("m", tiled=True), new.axis("n", tiled=draw(st.booleans())))
    blocks = [new.input("x", axes, NUMBERS)]
    for name in ("y", "z")[: draw(st.integers(0, 2))]:
        blocks.append(new.input(name, draw(_some(axes)), NUMBERS))
    blocks += new.scalars()
    if draw(st.booleans()):
        part = new.using(blocks[:1])
        if not new.axes["n"] and draw(st.booleans()):
            part = f"roll({part}, {draw(st.integers(-3, 200))}, n)"
        new.step.append(f"part = {part}")
        blocks.append(_Block("part", axes))
    if draw(st.integers(0, 3)) == 0:
        new.input("chosen", draw(_some(axes)), ("bool",))
        new.step.append(f"picked = where(chosen, {new.number(blocks, 1)}, {new.number(blocks, 1)})")
        blocks.append(_Block("picked", axes))
    new.step.append(f"o = {new.using(blocks)}")
    new.output("o", axes)
    if draw(st.booleans()):
        new.step.append(f"p = {new.number(blocks)}")
        new.output("p", axes, NUMBERS[:3])
    return new.kernel()


@st.composite
def whole_reductions(draw: Draw) -> Kernel:
    """Reductions over an axis that is in one block, used or given away."""
    new = _Builder(draw)
    front = (*new.leading(), new.axis("m", tiled=True))
    axes = (*front, new.axis("n", tiled=False))
    blocks = [new.input("x", axes, NUMBERS)]
    if draw(st.booleans()):
        blocks.append(new.input("w", ("n",), FLOATS))
    reduced = f"{new.pick(REDUCTIONS)}({new.using(blocks)}, n)"
    new.step.append(f"r = {reduced}")
    if draw(st.booleans()):
        new.step.append(f"o = {new.using([*blocks, _Block('r', front)])}")
        new.output("o", axes)
    else:
        new.step.append("o = r")
        new.output("o", front)
    return new.kernel()


@st.composite
def tiled_reductions(draw: Draw) -> Kernel:
    """One or two accumulators over one or two tiled axes, with an epilogue."""
    new = _Builder(draw)
    front = (*new.leading(), new.axis("m", tiled=draw(st.booleans())))
    new.reduction = [new.axis(k, tiled=True) for k in ("k", "j")[: draw(st.integers(1, 2))]]
    if len(new.reduction) > 1:
        # Three dimensions of 128 would not fit in the smallest VMEM.
        new.axes["m"], new.sizes["m"] = {}, min(new.sizes["m"], 9)
    axes = (*front, *new.reduction)
    blocks = [new.input("x", axes, FLOATS)]
    if draw(st.booleans()):
        blocks.append(new.input("w", ("k",), FLOATS))
    accumulators = []
    for acc in ("first", "second")[: draw(st.integers(1, 2))]:
        start, update = ACCUMULATORS[new.pick(sorted(ACCUMULATORS))]
        new.scratch[acc] = {"axes": list(front), "dtype": "float32"}
        new.init.append(f"{acc} = {start}")
        used = blocks if acc == "first" else blocks[:1]
        along = ", ".join(new.reduction)
        new.step.append(update.format(acc=acc, x=new.using(used, 1), k=along))
        accumulators.append(_Block(acc, front))
    if draw(st.booleans()):
        accumulators.append(new.input("bias", ("m",), NUMBERS))
    new.finish.append(f"o = {new.using(accumulators)}")
    new.output("o", front)
    return new.kernel()


@st.composite
def ragged_reductions(draw: Draw) -> Kernel:
    """Accumulators over an axis that each sequence has in part, with any options of a schedule."""
    new = _Builder(draw)
    new.axes["b"], new.sizes["b"] = {"tile": 1}, new.pick((1, 2, 3))
    front = ("b", new.axis("m", tiled=draw(st.booleans())))
    new.reduction = [new.axis("k", tiled=True)]
    new.inputs["lengths"] = {"axes": ["b"], "dtype": "int32", "memory_space": "SMEM"}
    new.axes["k"]["stop"] = new.pick(("lengths[b]", "min(lengths[b], size(k) - 1)"))
    if draw(st.booleans()):
        new.axes["k"]["start"] = "lengths[b] // 3"
    if draw(st.booleans()):
        new.axes["k"] |= {"tile": 2 * TILE, "subtile": TILE}
    x = new.input("x", (*front, "k"), FLOATS)
    dotted = draw(st.booleans())
    if dotted:  # a vector's sum of rounded values is left unrounded by XLA in some of the steps
        new.inputs["x"]["axes"] = [*front, "k"]
    accumulators = []
    for acc in ("first", "second")[: draw(st.integers(1, 2))]:
        start, update = ACCUMULATORS[new.pick(("max", "min", "sum", "sum"))]
        value = new.pick(TERMS).format(x=x.name)
        if "sum" in update and dotted:
            value = f"cast({value}, bfloat16)"
            new.axes["k"]["sums"] = "dot"
        new.scratch[acc] = {"axes": list(front), "dtype": "float32"}
        new.init.append(f"{acc} = {start}")
        new.step.append(update.format(acc=acc, x=value, k="k"))
        accumulators.append(_Block(acc, front))
    new.finish.append(f"o = {' + '.join(block.name for block in accumulators)}")
    new.output("o", front)
    return new.kernel()


def as_they_may_be(kernel: Kernel, wished: bool) -> Kernel:
    """The kernel with the statistics replicated that lie as columns, if wished."""
    data: dict[str, Any] = _copied(kernel.data)
    for scratch in data.get("scratch", {}).values():
        scratch["replicated"] = wished
    try:
        kernelgen.plan(kernelgen.loads(json.dumps(data)))
    except KernelgenError as error:
        for finding in error.diagnostics:
            data["scratch"][finding.pointer[1]].pop("replicated")
    return Kernel(data, kernel.sizes)


@st.composite
def dots(draw: Draw) -> Kernel:
    """Matrix products: both operands either way round, perhaps in a batch, k tiled or whole."""
    new = _Builder(draw)
    batch = new.leading()
    m, n = new.axis("m", tiled=True), new.axis("n", tiled=draw(st.booleans()))
    k = new.axis("k", tiled=draw(st.booleans()))
    types = new.pick((("float32",), ("bfloat16",), FLOATS, ("int8",)))
    new.input("x", (*batch, m, k), types)
    new.input("y", (*draw(st.sampled_from([batch, ()])), k, n), types)
    integer = types == ("int8",)
    result = _Block("acc", (*batch, m, n))
    if new.axes[k]:
        new.reduction = [k]
        new.scratch["acc"] = {
            "axes": [*batch, m, n],
            "dtype": "int32" if integer else "float32",
        }
        new.init.append("acc = 0")
        new.step.append("acc += dot(x, y, k)")
        phase = new.finish
    else:
        new.step.append("acc = dot(x, y, k)")
        phase = new.step
    blocks = [result]
    if draw(st.booleans()):
        blocks.append(new.input("bias", (n,), FLOATS))
    phase.append(f"o = {new.using(blocks)}")
    new.output("o", (*batch, m, n), FLOATS)
    return new.kernel()


@st.composite
def scans(draw: Draw) -> Kernel:
    """Running sums and recurrences that hand their state from tile to tile."""
    new = _Builder(draw)
    front = (*new.leading(), new.axis("m", tiled=draw(st.booleans())))
    t = new.axis("t", tiled=True)
    new.reduction = [t]
    axes = (*front, t)
    x = new.input("x", axes, FLOATS)
    new.scratch["state"] = {"axes": list(front), "dtype": "float32"}
    new.init.append(f"state = {new.pick(('0', '1.5'))}")
    if draw(st.booleans()):
        new.step.append(f"run = state + cumsum({new.using([x], 1)}, t)")
    else:
        a = new.input("a", axes, FLOATS)
        new.step.append(f"run = linear_scan(sigmoid({a.name}), {new.using([x], 1)}, t, state)")
    new.step.append("state = last(run, t)")
    new.step.append(f"o = {new.using([_Block('run', axes)], 1)}")
    new.output("o", axes)
    return new.kernel()


@st.composite
def _some(draw: Draw, axes: Sequence[str]) -> tuple[str, ...]:
    """Some of the axes, among them one that is not walked position by position."""
    kept = draw(st.sets(st.sampled_from([a for a in axes if a != "b"]), min_size=1))
    return tuple(axis for axis in axes if axis in kept or (axis == "b" and draw(st.booleans())))


kernels: st.SearchStrategy[Kernel] = st.one_of(
    elementwise_chains(), whole_reductions(), tiled_reductions(), dots(), scans()
)

ragged: st.SearchStrategy[Kernel] = st.builds(as_they_may_be, ragged_reductions(), st.booleans())


# Broken specs

# fmt: off
WORDS = (
    "a", "b", "k", "m", "n", "x", "o", "acc", "axes", "tile", "grid", "reduction", "inputs",
    "outputs", "scratch", "body", "init", "step", "finish", "dtype", "memory_space", "VMEM",
    "SMEM", "ANY", "float32", "bfloat16", "int8", "float16", "int64", "bool", "v4", "v5e", "name",
    "doc", "cases", "reference", "lambda", "class", "__import__", "jax", "jnp", "pl", "interpret",
    "block_m", "a_ref", "print", "exp", "dot", "size",
)
TOKENS = (
    "=", "+=", "-=", "*=", "+", "-", "*", "/", "//", "%", "**", "(", ")", "[", "]", ",", "<", "<=",
    "==", "!=", "and", "or", "not", ".", ":", ";", "0", "1", "2.5", "1e9", "-inf", "inf", "1e400",
    "99999999999999999999", "\n", "\t", "\x00", "é", "\u2028", '"', "'", "#", "@", "!", "&", "|",
    "^", "~", "{", "}",
)
# fmt: on


def garbage_lines() -> st.SearchStrategy[str]:
    """Text that is rarely a statement."""
    parts = st.lists(st.sampled_from((*WORDS, *TOKENS, *sorted(OPERATIONS))), max_size=12)
    return st.one_of(parts.map(" ".join), parts.map("".join), st.text(max_size=40))


def values() -> st.SearchStrategy[Json]:
    """Any JSON value: often one that makes sense somewhere else."""
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from((0, 1, -1, 7, 8, 100, 128, 4096, INT32_MAX, 2**31, 2**64, 0.5, 1e308)),
        st.sampled_from(WORDS),
        garbage_lines(),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
        ),
        max_leaves=6,
    )


def _places(data: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = []
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += _places(value, (*path, key))
    return found


@st.composite
def mutations(draw: Draw, data: Json) -> Json:
    """The data with one to three edits: something removed, renamed, replaced or added."""
    data = _copied(data)
    for _ in range(draw(st.integers(1, 3))):
        places = _places(data)
        if not places:
            break
        *parents, key = draw(st.sampled_from(places))
        holder = data
        for parent in parents:
            holder = holder[parent]
        _edit(draw, holder, key)
    return data


def _copied(data: Json) -> Json:
    if isinstance(data, dict):
        return {key: _copied(value) for key, value in data.items()}
    return [_copied(value) for value in data] if isinstance(data, list) else data


def _edit(draw: Draw, holder: Any, key: Any) -> None:
    edit = draw(st.sampled_from(("delete", "rename", "replace", "replace", "line", "swap")))
    if edit == "delete":
        del holder[key]
    elif edit == "rename" and isinstance(holder, dict):
        holder[draw(st.one_of(st.sampled_from(WORDS), st.text(max_size=8)))] = holder.pop(key)
    elif edit == "line":
        holder[key] = draw(garbage_lines())
    elif edit == "swap":
        other = draw(
            st.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder)))
        )
        holder[key], holder[other] = holder[other], holder[key]
    else:
        holder[key] = draw(values())
