"""How benchmarks print a figure, its limit, and whether it is kept."""

from __future__ import annotations


def report(name: str, figure: str, limit: str, reached: bool) -> bool:
    """Print one figure.

    Args:
        name: What was measured.
        figure: The result, with its unit.
        limit: What it has to keep to.
        reached: Whether it does.

    Returns:
        ``reached``.
    """
    print(f"{'pass' if reached else 'FAIL'}  {name:<46} {figure:<30} {limit}", flush=True)
    return reached
