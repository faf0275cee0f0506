"""What a generated module does at every step, counted: its Python runs with numbers, not traced.

Index maps and conditions are evaluated for every step of the grid in order; the work of a step is
counted and left out. Copies are noted when they are started and when they are waited for.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernelgen.spec import KernelSpec
from kernelgen.verify import cases, modules


@dataclass
class Counts:
    """What one call did.

    Attributes:
        steps: Steps of the grid.
        worked: Steps that ran the body.
        parts: The first sub-block and one past the last of every block that a bound cuts.
        fetched: For each array, in the order of the call: how often its block changed.
        started: Copies that were started.
        in_flight: How many copies to VMEM were on their way whenever a block was read.
    """

    steps: int = 0
    worked: int = 0
    parts: list[tuple[int, int]] = field(default_factory=list)
    fetched: list[int] = field(default_factory=list)
    started: int = 0
    in_flight: list[int] = field(default_factory=list)
    pending: int = 0


class Instead:
    """A module with some of its names replaced."""

    def __init__(self, module: Any, **names: Any) -> None:
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class Ref:
    """Memory that holds zeros whatever is written to it; buffers tell when they are read."""

    def __init__(self, shape: tuple[int, ...], read: Callable[[], None] | None = None) -> None:
        self.shape, self.dtype, self.ndim, self.read = shape, np.dtype("float32"), len(shape), read

    @property
    def at(self) -> Ref:
        return _At(self)

    def __getitem__(self, index: Any) -> Any:
        if self.read is not None:
            self.read()
        return np.zeros(self.shape, np.float32)

    def __setitem__(self, index: Any, value: Any) -> None:
        pass


class _At(Ref):
    def __init__(self, ref: Ref) -> None:
        self.ref = ref

    def __getitem__(self, index: Any) -> Any:
        part = self.ref.shape[1:] if not isinstance(index, tuple) else self.ref.shape
        return Ref(part, self.ref.read)


def count(
    spec: KernelSpec, text: str, arrays: Mapping[str, Any], tiles: Mapping[str, int]
) -> Counts:
    """Walk one call of a generated module."""
    counts = Counts()
    module = modules.load(text, spec.name)
    now: list[int] = []

    def when(condition: Any) -> Callable[[Callable[[], None]], None]:
        def decide(run: Callable[[], None]) -> None:
            if bool(condition):
                if run.__name__ == "_step" or "step" in run.__code__.co_freevars:
                    counts.worked += 1
                elif run.__name__ == "_parts":
                    counts.worked += 1
                    run()
                elif run.__name__ not in ("_init", "_finish", "_clear"):
                    run()

        return decide

    def copy(source: Any, target: Any, semaphore: Any) -> Any:
        def start() -> None:
            counts.started += 1
            counts.pending += 1

        def wait() -> None:
            counts.pending -= 1

        return SimpleNamespace(start=start, wait=wait)

    def loop(first: Any, end: Any, run: Callable[[int, Any], Any], state: Any) -> Any:
        if run.__name__ == "sub_step":
            counts.parts.append((int(first), int(end)))
            return state
        for i in range(int(first), int(end)):
            state = run(i, state)
        return state

    def pallas_call(kernel: Any, **keys: Any) -> Callable[..., Any]:
        outer = keys.get("grid_spec") or SimpleNamespace(num_scalar_prefetch=0, **keys)

        def call(*operands: Any) -> Any:
            scalars = operands[: outer.num_scalar_prefetch]
            shapes = keys["out_shape"]
            outs = shapes if isinstance(shapes, tuple | list) else (shapes,)
            out_specs = outer.out_specs
            out_specs = out_specs if isinstance(out_specs, tuple | list) else (out_specs,)
            held = operands[len(scalars) :]
            specs = [*outer.in_specs, *out_specs]
            refs = [_ref(s, a) for s, a in zip(specs, [*held, *outs], strict=True)]
            scratch = [
                Ref(tuple(getattr(s, "shape", ())), lambda: counts.in_flight.append(counts.pending))
                for s in outer.scratch_shapes
            ]
            last: list[Any] = [None] * len(specs)
            counts.fetched = [0] * len(specs)
            walked = [range(int(size)) for size in outer.grid]
            for at in itertools.product(*walked):
                now[:] = at
                counts.steps += 1
                for i, each in enumerate(specs):
                    if each.index_map is not None:
                        block = tuple(int(x) for x in each.index_map(*at, *scalars))
                        counts.fetched[i] += block != last[i]
                        last[i] = block
                kernel(*scalars, *refs, *scratch)
            results = [np.zeros(out.shape, np.float32) for out in outs]
            return results if isinstance(shapes, tuple | list) else results[0]

        def num_programs(dim: int) -> int:
            return int(outer.grid[dim])

        module.pl.num_programs = num_programs
        return call

    names: dict[str, Any] = vars(module)
    names["pl"] = Instead(
        pl, when=when, pallas_call=pallas_call, program_id=lambda dim: now[dim], BlockSpec=_Block
    )
    names["pltpu"] = Instead(
        pltpu,
        make_async_copy=copy,
        PrefetchScalarGridSpec=SimpleNamespace,
    )
    names["lax"] = Instead(lax, fori_loop=loop, rem=lambda x, y: x % y, div=lambda x, y: x // y)
    run = inspect.unwrap(modules.function(module, spec))
    run(*(arrays[name] for name in spec.inputs), **cases.block_arguments(spec, tiles))
    return counts


class _Block:
    def __init__(self, shape: Any = None, index_map: Any = None, memory_space: Any = None) -> None:
        self.shape, self.index_map, self.memory_space = shape, index_map, memory_space


def _ref(block: _Block, array: Any) -> Ref:
    if block.shape is None:
        return Ref(tuple(array.shape))
    return Ref(tuple(size for size in block.shape if size is not None))
