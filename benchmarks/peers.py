"""What the kernels are compared with: jnp as XLA compiles it, and the kernels that come with jax.

Each is the source of a program. Masks and bounds of splash attention are read from SMEM, which the
compiler's simulation takes for 0; here they follow from the position in the grid instead, with
the same blocks skipped and fetched. The same goes for the groups and tiles of megablox, whose grid
has as many steps as the offsets need: they are known here, and unknown to the simulation.
"""

from __future__ import annotations

XLA = """
import jax.numpy as jnp

def mean(lengths, x):
    inside = jnp.arange(x.shape[1])[None, :, None] < lengths[:, None, None]
    total = jnp.sum(jnp.where(inside, x, 0), axis=1)
    return total / jnp.maximum(lengths, 1)[:, None]

def matmul(lengths, x, w):
    inside = jnp.arange(x.shape[1])[None, :, None] < lengths[:, None, None]
    product = jnp.dot(x, w, preferred_element_type=jnp.float32).astype(x.dtype)
    return jnp.where(inside, product, 0)
"""

FLASH = """
from jax.experimental.pallas.ops.tpu import flash_attention as fa

def attention(query, key, value, block_q, block_s, inner, causal):
    blocks = fa.BlockSizes(block_q=block_q, block_k_major=block_s, block_k=inner, block_b=1)
    return fa.flash_attention(
        query, key, value, causal=bool(causal), sm_scale=128**-0.5, block_sizes=blocks
    )
"""

SPLASH = """
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernel
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

def attention(query, key, value, block_q, block_s, inner, causal):
    heads, size = query.shape[1], query.shape[2]

    def steps(h, i, j, data_next, block_mask, mask_next, next_i=False):
        mask = None if mask_next is None else 0
        if not causal:
            return j, mask, True, True
        last = ((i + 1) * block_q - 1) >> (block_s.bit_length() - 1)
        inside = (j + 1) * block_s <= i * block_q + 1
        return jnp.minimum(j, last), mask, j * block_s < (i + 1) * block_q, inside

    kernel._next_nonzero = steps
    one = masks.CausalMask if causal else masks.FullMask
    call = kernel.make_splash_mha(
        masks.MultiHeadMask([one((size, size))] * heads),
        block_sizes=kernel.BlockSizes(
            block_q=block_q, block_kv=block_s, block_kv_compute=inner
        ),
        head_shards=1,
        q_seq_shards=1,
    )
    # The caller has to scale the queries; that is not counted.
    return call(query[0], key[0], value[0])
"""

# After a line that assigns OFFSETS.
MEGABLOX = """
import importlib
import types

import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

package = "jax.experimental.pallas.ops.tpu.megablox"
kernel = importlib.import_module(package + ".gmm")

class Chain:
    \"\"\"A sorted list in SMEM as selects over the position in it.\"\"\"

    def __init__(self, values):
        self.values = [int(value) for value in values]

    def __getitem__(self, at):
        chosen = self.values[-1]
        for i in reversed(range(len(self.values) - 1)):
            if self.values[i] != self.values[i + 1]:
                chosen = jnp.where(at <= i, self.values[i], chosen)
        return chosen

def gmm(x, w, block_m, block_n, block_k):
    offsets = np.array(OFFSETS)
    sizes = np.diff(offsets)
    first, last = offsets[:-1] // block_m, -(-offsets[1:] // block_m)
    tiles = np.where(sizes > 0, last - first, 0)
    m_tiles = [i for a, b in zip(first, first + tiles) for i in range(a, b)]
    groups = np.repeat(np.arange(len(sizes)), tiles)
    metadata = Chain(OFFSETS), Chain(groups), Chain(m_tiles)
    # The grid alone depends on how many there are.
    make = kernel.__dict__.setdefault("_make", kernel.make_group_metadata)
    kernel.make_group_metadata = lambda **keywords: (make(**keywords)[0], len(groups))

    def known(function, at):
        return lambda *refs: function(*refs[:at], metadata, (0,), *refs[at + 4 :])

    def spec(block):
        return pl.BlockSpec(block.block_shape, known(block.index_map, 3))

    def call(body, grid_spec, **keywords):
        lhs, rhs, _ = grid_spec.in_specs
        keywords["grid_spec"] = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=grid_spec.grid,
            in_specs=[spec(lhs), spec(rhs)],
            out_specs=spec(grid_spec.out_specs),
            scratch_shapes=grid_spec.scratch_shapes,
        )
        keywords["name"] = "gmm"
        inner = known(body, 0)
        pinned = lambda *refs: inner(*refs[:6], None, *refs[6:])
        made = pl.pallas_call(pinned, **keywords)
        return lambda metadata, offset, x, w, _: made(*metadata, offset, x, w)

    kernel.pl = types.SimpleNamespace(**{**vars(pl), "pallas_call": call})
    # What jax.jit keeps of other offsets is not for these.
    return kernel.gmm.__wrapped__(
        x,
        w,
        jnp.asarray(sizes, jnp.int32),
        preferred_element_type=x.dtype,
        tiling=(block_m, block_k, block_n),
    )
"""
