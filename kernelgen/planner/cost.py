"""The work of one call, for the cost estimate at the call of ``pallas_call``."""

from __future__ import annotations

from kernelgen.language.program import Apply, Groups, Program, is_static, walk
from kernelgen.planner.model import Cost

Terms = dict[tuple[str, ...], int]


def cost(program: Program, order: tuple[str, ...]) -> Cost:
    """Operations over whole arrays, by the axes they run over.

    Terms over fewer axes than another term has are left out: they do not matter for scheduling,
    and a reviewer reads the estimate.
    """
    flops: Terms = {}
    transcendentals: Terms = {}
    for _, statements in program.phases():
        for statement in statements:
            parts = [part for part in walk(statement.value) if isinstance(part, Apply)]
            for part in parts:
                _count(part, order, flops, transcendentals)
            if statement.operator:
                _add(flops, statement.value.type.axes, order, 1)
    for groups in program.domain.groups.values():
        flops, transcendentals = (
            _side_by_side(terms, groups) for terms in (flops, transcendentals)
        )
    return Cost(_dominant(flops), _dominant(transcendentals))


def _side_by_side(terms: Terms, groups: Groups) -> Terms:
    """Work over groups that lie side by side along an axis: each position is in one of them."""
    found: Terms = {}
    for axes, count in terms.items():
        kept = tuple(axis for axis in axes if axis != groups.group or groups.axis not in axes)
        found[kept] = found.get(kept, 0) + count
    return found


def _count(part: Apply, order: tuple[str, ...], flops: Terms, transcendentals: Terms) -> None:
    if is_static(part):
        return
    kind = part.operation.kind
    axes: set[str] = set(part.type.axes)
    for arg in part.args:
        axes.update(arg.type.axes)
    if part.operation.transcendental:
        _add(transcendentals, axes, order, 1)
    elif kind not in ("shift", "select"):
        _add(flops, axes, order, 2 if kind in ("contraction", "scan") else 1)


def _add(
    terms: Terms, axes: set[str] | tuple[str, ...], order: tuple[str, ...], count: int
) -> None:
    key = tuple(axis for axis in order if axis in axes)
    terms[key] = terms.get(key, 0) + count


def _dominant(terms: Terms) -> tuple[tuple[int, tuple[str, ...]], ...]:
    kept = [
        (count, axes)
        for axes, count in terms.items()
        if not any(set(axes) < set(other) for other in terms)
    ]
    return tuple(sorted(kept, key=lambda term: (-len(term[1]), term[1])))
