"""What the kernels are compared with: jnp as XLA compiles it, and the kernels that come with jax.

Each is the source of a program. Masks and bounds of splash attention are read from SMEM, which the
compiler's simulation takes for 0; here they follow from the position in the grid instead, with
the same blocks skipped and fetched.
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
