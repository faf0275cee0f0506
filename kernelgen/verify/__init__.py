"""Proof without a TPU: oracles, inputs, interpreters and the ahead-of-time compiler.

Nothing that renders, validates or checks imports this package: it needs NumPy and jax.
"""
