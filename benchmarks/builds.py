"""Builds of catalogue kernels for the estimates, and the bytes that they move.

A ragged kernel is compiled with its lengths written into the text, as a chain of selects over the
number of the sequence, and a grouped one with its offsets and segments: the compiler's simulation
follows selects, minima and products of grid positions, but takes what is read from SMEM, quotients
and remainders for 0. Quotients become shifts for the same reason, so that tiles have to be powers
of two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from estimates import ROOT, Argument

import kernelgen
from kernelgen.verify.values import numpy_dtype

SHIFTS = """

def _cdiv(a, b):
    return -(-a // b) if isinstance(a, int) else (a + (b - 1)) >> (b.bit_length() - 1)


def _div(a, b):
    return a >> (b.bit_length() - 1)
"""

VMEM_LIMIT = 100 * 2**20
"""Bytes that a build may use: the limit in a text is for the sizes that its plan assumes."""


def specification(name: str) -> dict[str, Any]:
    """A spec of the catalogue, to edit."""
    data: dict[str, Any] = json.loads((ROOT / f"specs/{name}.json").read_text())
    data.pop("$schema", None)
    return data


def unbounded(data: dict[str, Any]) -> dict[str, Any]:
    """The spec without the bounds of its axes: the kernel for a padded batch."""
    for axis in data["axes"].values():
        axis.pop("start", None)
        axis.pop("stop", None)
        axis.pop("subtile", None)
    data["inputs"].pop("lengths", None)
    # Only a verifier computes it, and it may name the lengths.
    data["reference"] = next(iter(data["inputs"]))
    return data


def tiled(data: dict[str, Any], tiles: Mapping[str, int]) -> dict[str, Any]:
    """The spec with other tiles."""
    for axis, tile in tiles.items():
        data["axes"][axis]["tile"] = tile
    return data


def whole(data: dict[str, Any], axis: str, step: str) -> dict[str, Any]:
    """The spec with a reduction in one step, so that nothing is accumulated."""
    data["axes"][axis].pop("tile")
    data["grid"].remove(axis)
    data.pop("reduction")
    data.pop("scratch")
    data["body"] = {"step": step}
    return data


def text(data: Mapping[str, Any], target: str) -> str:
    """The generated module."""
    spec = kernelgen.loads(json.dumps(data))
    return kernelgen.render(kernelgen.plan(spec, [target]))


def arguments(data: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[Argument, ...]:
    """Shapes and dtypes of a kernel's arrays."""
    return tuple(
        (tuple(sizes[axis] for axis in operand["axes"]), str(numpy_dtype(operand["dtype"])))
        for operand in data["inputs"].values()
    )


def frozen(module: str, lengths: Sequence[int] = (), limit: int = VMEM_LIMIT) -> str:
    """A module whose lengths and quotients the compiler's simulation can follow."""
    chain = str(lengths[-1]) if lengths else "0"
    for i, length in reversed(list(enumerate(lengths[:-1]))):
        chain = f"jnp.where(b_i == {i}, {length}, {chain})"
    module = module.replace("lengths_ref[b_i]", chain)
    module = module.replace("pl.cdiv(", "_cdiv(").replace("lax.div(", "_div(")
    module = re.sub(r"\n\s*vmem_limit_bytes=[^\n]*", "", module)
    params = f"CompilerParams(vmem_limit_bytes={limit}, "
    return module.replace("CompilerParams(", params) + SHIFTS


def segmented(
    data: Mapping[str, Any],
    target: str,
    sizes: Mapping[str, int],
    offsets: Sequence[int],
    limit: int,
) -> tuple[str, int]:
    """A module that is frozen for some offsets, and the bytes that it moves.

    Args:
        data: The spec of a kernel whose grid has a step for each segment.
        target: The TPU.
        sizes: The extents of its axes.
        offsets: Where the groups start and the last one ends.
        limit: Bytes of VMEM that the build may use.

    Returns:
        The text and the bytes.
    """
    import numpy as np

    from kernelgen.planner.traffic import segment_lists, traffic

    plan = kernelgen.plan(kernelgen.loads(json.dumps(data)), [target])
    segments = plan.segments
    assert segments is not None
    size, ends = sizes[segments.axis], np.asarray(offsets)
    block = min(plan.axes[segments.axis].tile or size, size)
    groups, blocks, count = segment_lists(ends, size, block, sizes[segments.group])
    lists = {
        segments.offsets: ends,
        segments.groups: groups,
        segments.blocks: blocks,
        segments.count: count,
    }

    def chain(found: re.Match[str]) -> str:
        values = [int(value) for value in lists[found[1]]]
        chosen = str(values[-1])
        for i, value in reversed(list(enumerate(values[:-1]))):
            if value != values[i + 1]:
                chosen = f"jnp.where({found[2]} <= {i}, {value}, {chosen})"
        return chosen

    # No index has brackets of its own.
    reads = rf"\b({'|'.join(lists)})_ref\[([^\[\]]+)\]"
    text = re.sub(reads, chain, frozen(kernelgen.render(plan), limit=limit))
    moves = traffic(plan, sizes, {segments.offsets: offsets})
    return text, sum(moves.bytes.values())


def moved(
    module: str,
    name: str,
    arrays: Sequence[Argument],
    lengths: Sequence[int] = (),
    **options: int,
) -> dict[str, int]:
    """Bytes between HBM and VMEM, in the blocks that the grid's pipeline moves.

    The index maps of the module are evaluated for every step of the grid; a block that a step
    names after the one before it did is neither fetched nor written again.

    Args:
        module: A generated module without operands in ANY.
        name: Its function.
        arrays: Shapes and dtypes of its arguments.
        lengths: The lengths of the sequences, for a ragged kernel.
        options: Other arguments of the function.

    Returns:
        The bytes in and out, for a result of the last argument's dtype.
    """
    import jax.numpy as jnp
    import numpy as np

    spec = pipeline(module, name, arrays, **options)
    grid = np.indices(spec.grid).reshape(len(spec.grid), -1).astype(np.int32)
    scalars = (jnp.asarray(lengths, jnp.int32),) if lengths else ()
    inputs = zip(spec.in_specs, arrays[len(scalars) :], strict=True)
    out = [(spec.out_specs, arrays[-1])]
    return {
        direction: sum(_blocks(block, dtype, grid, scalars) for block, (_, dtype) in operands)
        for direction, operands in (("in", inputs), ("out", out))
    }


def pipeline(module: str, name: str, arrays: Sequence[Argument], **options: int) -> Any:
    """The grid and the block specs of a module's call of Pallas."""
    import jax
    import numpy as np

    call: dict[str, Any] = {}
    structs: Any = [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape, dtype in arrays]
    function = _captured(module, call)[name]
    jax.eval_shape(lambda *arrays: function(*arrays, **options), *structs)
    return call.get("grid_spec") or call["spec"]


def _captured(module: str, call: dict[str, Any]) -> dict[str, Any]:
    """The names of a module whose call of Pallas is recorded instead of made."""
    import types

    import jax.numpy as jnp

    def capture(kernel: Any, **keywords: Any) -> Callable[..., Any]:
        fields = {key: keywords.get(key) for key in ("grid", "in_specs", "out_specs")}
        call.update(keywords, spec=types.SimpleNamespace(**fields))
        shape = keywords["out_shape"]
        return lambda *arrays: jnp.zeros(shape.shape, shape.dtype)

    names: dict[str, Any] = {"__name__": "captured", "_capture": capture}
    exec(module.replace("pl.pallas_call(", "_capture("), names)
    return names


def _blocks(block: Any, dtype: str, grid: Any, scalars: tuple[Any, ...]) -> int:
    import numpy as np

    indices = block.index_map(*grid, *scalars)
    at = np.stack([np.broadcast_to(np.asarray(i), grid.shape[1:]) for i in indices])
    fetched = 1 + int(np.any(at[:, 1:] != at[:, :-1], axis=0).sum())
    shape = (size or 1 for size in block.block_shape)
    return fetched * prod(shape) * int(np.dtype(dtype).itemsize)


def static(module: str, length: int | None = None) -> str:
    """A kernel that copies its blocks itself, with a known length and only its writes started.

    The compiler's simulation aborts at copies that are waited for in another iteration, and guesses
    how often a loop runs whose bound it does not know. Without the writes there would be no result.
    """
    if length is not None:
        module = re.sub(r"jnp\.minimum\(lengths_ref\[b_i\], \w+\)", str(length), module)
        divisor = f"jnp.float32({max(length, 1)})"
        module = module.replace("jnp.maximum(s_stop, 1).astype(jnp.float32)", divisor)
    waits = '    if action == "wait" or not write:' if "write=False" in module else "    if True:"
    start = f"{waits}\\n        return None"
    return re.sub(r"\n    for dim, \(i, size\) in ", rf"\n{start}\g<0>", module)
