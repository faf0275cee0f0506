"""The grid, the blocks, and how each operand is seen by the kernel."""

from __future__ import annotations

import json

from kernelgen.diagnostics import Diagnostic, listing
from kernelgen.language.program import Program, Read, Value, walk
from kernelgen.planner.bounds import extremes, replaced
from kernelgen.planner.ir import Expr, Layout, Literal, Step, plain
from kernelgen.planner.layout import Layouts
from kernelgen.planner.model import Axis, Operand, Role
from kernelgen.planner.names import declared_names, unused
from kernelgen.planner.replicated import laid_out
from kernelgen.spec import Input, KernelSpec, MemorySpace, Output
from kernelgen.spec import Operand as SpecOperand


def sections(spec: KernelSpec) -> dict[str, dict[str, SpecOperand]]:
    """Operands of a spec by the section that declares them."""
    return {
        "inputs": dict(spec.inputs),
        "outputs": dict(spec.outputs),
        "scratch": dict(spec.scratch),
    }


def declared(spec: KernelSpec) -> dict[str, SpecOperand]:
    """Every operand of a spec by name, in order."""
    return {name: operand for part in sections(spec).values() for name, operand in part.items()}


def check_grid(spec: KernelSpec) -> list[Diagnostic]:
    """Findings about the grid: which axes it walks, and in what order."""
    findings = [*_tiles_and_grid(spec), *_reduction_order(spec)]
    if not any(axis.tile for axis in spec.axes.values()):
        findings.append(
            Diagnostic(
                "KG306",
                "no axis has a tile: whole arrays would have to fit in VMEM",
                "give at least one axis a tile and list it in grid",
                ("axes",),
                on_key=True,
            )
        )
    return findings


def _tiles_and_grid(spec: KernelSpec) -> list[Diagnostic]:
    findings = []
    for i, name in enumerate(spec.grid):
        if spec.axes[name].tile is None:
            findings.append(
                Diagnostic(
                    "KG301",
                    f"grid axis {name} has no tile",
                    f"give {name} a tile, or take it out of grid",
                    ("grid", i),
                )
            )
    for name, axis in spec.axes.items():
        if axis.tile is not None and name not in spec.grid:
            findings.append(
                Diagnostic(
                    "KG302",
                    f"axis {name} has tile {axis.tile} but is not in grid",
                    f"add {name} to grid, or remove its tile",
                    ("axes", name, "tile"),
                )
            )
    for i, name in enumerate(spec.reduction):
        if name not in spec.grid:
            findings.append(
                Diagnostic(
                    "KG304",
                    f"reduction axis {name} is not in grid",
                    f"add {name} to grid with a tile; whole axes are reduced without being listed",
                    ("reduction", i),
                )
            )
    return findings


def _reduction_order(spec: KernelSpec) -> list[Diagnostic]:
    legal = legal_grid(spec)
    if tuple(spec.grid) == legal:
        return []
    first = next(axis for axis in spec.grid if axis in spec.reduction)
    after = [axis for axis in spec.grid[spec.grid.index(first) :] if axis not in spec.reduction]
    return [
        Diagnostic(
            "KG305",
            f"reduction axis {first} stands outside of {listing(after)} in grid",
            as_written(legal),
            ("grid",),
        )
    ]


def as_written(grid: tuple[str, ...]) -> str:
    """The clause of a finding that tells which grid to write."""
    return f'write "grid": {json.dumps(grid)}'


def legal_grid(spec: KernelSpec) -> tuple[str, ...]:
    """The grid with its reduction axes innermost, otherwise in the order of the spec."""
    parallel = [axis for axis in spec.grid if axis not in spec.reduction]
    return (*parallel, *(axis for axis in spec.grid if axis in spec.reduction))


def check_outputs(spec: KernelSpec, program: Program) -> list[Diagnostic]:
    """Findings about outputs whose blocks several parallel steps would write."""
    findings = []
    for name in spec.outputs:
        held = program.domain.held(name)
        missing = [axis for axis in spec.grid if axis not in spec.reduction and axis not in held]
        if missing:
            findings.append(
                Diagnostic(
                    "KG303",
                    f"output {name} does not carry grid axis {missing[0]}: "
                    f"each of its steps would write the same block",
                    f"add {missing[0]} to reduction, or to the axes of {name}",
                    ("outputs", name, "axes"),
                )
            )
    return findings


_NAMES = ("i", "left", "skip", "start", "stop", "step")


def plan_axes(spec: KernelSpec, program: Program, grid: tuple[str, ...]) -> dict[str, Axis]:
    """Every axis with its role and the names that stand for it in the kernel.

    ``grid`` holds the axes that are not looped over inside the kernel.
    """
    taken = declared_names(spec, program)
    axes = {}
    dimensions = [axis for axis in grid if axis not in merged(program)]
    revisited: tuple[str, ...] = _revisited(spec)
    listed = {
        axis
        for name in spec.outputs
        for value in program.domain.indices.get(name, {}).values()
        for axis in value.type.axes
    }
    if listed:  # two of its steps may name one block: the later one is to win
        revisited = spec.grid[min(spec.grid.index(axis) for axis in listed) :]
    if program.domain.groups:
        first = next(iter(program.domain.groups.values())).group
        revisited = spec.grid[spec.grid.index(first) :]
    for name, axis in spec.axes.items():
        role: Role = "whole" if axis.tile is None else "parallel"
        if name in spec.reduction or name in revisited:
            role = "arbitrary"
        place = dimensions.index(name) if name in dimensions else None
        own = [unused(f"{name}_{part}", taken) for part in _NAMES]
        axes[name] = Axis(name, axis.tile, role, place, *own)
    return axes


def merged(program: Program) -> set[str]:
    """Axes that the grid walks in one dimension with the groups that they are cut into."""
    return {groups.axis for groups in program.domain.groups.values()}


def skips_outputs(spec: KernelSpec) -> bool:
    """Whether steps out of bounds write nothing at all."""
    return all(output.outside == "unspecified" for output in spec.outputs.values())


def bounded(spec: KernelSpec) -> list[str]:
    """The grid axes with bounds that are walked in any order."""
    axes = [name for name in spec.grid if name not in spec.reduction]
    return [name for name in axes if spec.axes[name].start or spec.axes[name].stop]


def _revisited(spec: KernelSpec) -> tuple[str, ...]:
    """Axes along which steps out of bounds name a block that another step has written."""
    if not skips_outputs(spec) or not bounded(spec):
        return ()
    return spec.grid[spec.grid.index(bounded(spec)[0]) :]


def plan_operands(
    spec: KernelSpec,
    program: Program,
    axes: dict[str, Axis],
    blocks: dict[str, Expr],
    copies: frozenset[str],
) -> dict[str, Operand]:
    """Every operand with its layout in the kernel and its view in the wrapper.

    ``blocks`` says which block of an axis inputs name, ``copies`` which operands the kernel copies.
    """
    squeezed = frozenset(name for name, axis in axes.items() if axis.squeezed)
    seen = {name: tuple(operand.axes) for name, operand in spec.scratch.items()}
    seen |= program.domain.seen
    spaces = _memory_spaces(spec, program)
    in_vmem = {
        name: seen[name] for name, space in spaces.items() if space == "VMEM" or name in copies
    }
    layouts = Layouts(in_vmem, squeezed).solve(program)
    for name, scratch in spec.scratch.items():
        if scratch.replicated and name in layouts:
            layouts[name] = laid_out(layouts[name])
    views = {
        name: _view(name, operand, program, squeezed, layouts.get(name, ()))
        for name, operand in declared(spec).items()
    }
    for name, output in spec.outputs.items():
        if output.alias is not None:
            views[output.alias] = views[name]
    operands = {}
    for section, members in sections(spec).items():
        kind = section.removesuffix("s") if section != "scratch" else section
        for name, operand in members.items():
            index = program.domain.indices.get(name, {})
            walked = blocks if _follows_bounds(spec, operand) and name not in copies else {}
            operands[name] = Operand(
                name,
                kind,  # type: ignore[arg-type]
                tuple(operand.axes),
                seen[name],
                operand.dtype,
                "ANY" if name in copies else spaces[name],
                layouts.get(name, ()),
                views[name],
                tuple(_block(axis, axes, index, walked) for axis in views[name]),
                tuple(axis for axis in spec.grid if axis in seen[name]),
                operand.alias if isinstance(operand, Output) else None,
            )
    return operands


def _memory_spaces(spec: KernelSpec, program: Program) -> dict[str, MemorySpace]:
    """Where operands live; what an output updates without reading it stays where it is."""
    spaces: dict[str, MemorySpace] = {n: o.memory_space for n, o in declared(spec).items()}
    read = {
        part.name
        for _, statements in program.phases()
        for statement in statements
        for part in walk(statement.value)
        if isinstance(part, Read)
    }
    for output in spec.outputs.values():
        if output.alias is not None and output.alias not in read:
            spaces[output.alias] = "ANY"
    return spaces


def _view(
    name: str, operand: SpecOperand, program: Program, squeezed: frozenset[str], layout: Layout
) -> Layout:
    """The dimensions of an operand's array as ``pallas_call`` takes it."""
    if operand.memory_space == "SMEM":
        return _smem_view(tuple(operand.axes), isinstance(operand, Input))
    index = program.domain.indices.get(name, {})
    outer = (axis for axis in operand.axes if axis in squeezed or axis in index)
    return (*outer, *plain(layout))


def _follows_bounds(spec: KernelSpec, operand: SpecOperand) -> bool:
    """Whether steps out of bounds name a block in bounds, because nothing is written to theirs.

    One output that needs zeros there has all of them written.
    """
    return not isinstance(operand, Output) or skips_outputs(spec)


def _block(
    axis: str | None, axes: dict[str, Axis], index: dict[str, Value], blocks: dict[str, Expr]
) -> Expr:
    """The block along one dimension of a view that a step names."""
    if axis in index:
        return replaced(extremes(index[axis], axes).low, blocks)
    if axis is None or axes[axis].tile is None:
        return Literal(0)
    return replaced(Step(axis), blocks)


def _smem_view(axes: tuple[str, ...], is_input: bool) -> Layout:
    """Scalar prefetch delivers arrays of rank 1 and more; SMEM blocks have rank 2."""
    if axes:
        return axes
    return (None,) if is_input else (None, None)
