"""The grid, the blocks, and how each operand is seen by the kernel."""

from __future__ import annotations

from kernelgen.diagnostics import Diagnostic, listing
from kernelgen.language.program import Program
from kernelgen.planner.ir import Layout
from kernelgen.planner.layout import Layouts
from kernelgen.planner.model import Axis, Operand, Role
from kernelgen.planner.names import unused
from kernelgen.spec import KernelSpec
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
    findings = [*_tiles_and_grid(spec), *_reduction_order(spec), *_outputs_and_grid(spec)]
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
            f'write "grid": [{", ".join(f"{chr(34)}{axis}{chr(34)}" for axis in legal)}]',
            ("grid",),
        )
    ]


def legal_grid(spec: KernelSpec) -> tuple[str, ...]:
    """The grid with its reduction axes innermost, otherwise in the order of the spec."""
    parallel = [axis for axis in spec.grid if axis not in spec.reduction]
    return (*parallel, *(axis for axis in spec.grid if axis in spec.reduction))


def _outputs_and_grid(spec: KernelSpec) -> list[Diagnostic]:
    findings = []
    for name, output in spec.outputs.items():
        missing = [
            axis for axis in spec.grid if axis not in spec.reduction and axis not in output.axes
        ]
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


def plan_axes(spec: KernelSpec, program: Program) -> dict[str, Axis]:
    """Every axis with its role and the names that stand for it in the kernel."""
    taken = {*spec.axes, *declared(spec), spec.name, *_locals(program)}
    axes = {}
    for name, axis in spec.axes.items():
        role: Role = "whole" if axis.tile is None else "parallel"
        if name in spec.reduction:
            role = "arbitrary"
        grid = spec.grid.index(name) if name in spec.grid else None
        step, left = unused(f"{name}_i", taken), unused(f"{name}_left", taken)
        axes[name] = Axis(name, axis.tile, role, grid, step, left)
    return axes


def _locals(program: Program) -> set[str]:
    return {statement.target for _, phase in program.phases() for statement in phase}


def plan_operands(spec: KernelSpec, program: Program, axes: dict[str, Axis]) -> dict[str, Operand]:
    """Every operand with its layout in the kernel and its view in the wrapper."""
    squeezed = frozenset(name for name, axis in axes.items() if axis.squeezed)
    in_vmem = {
        name: tuple(operand.axes)
        for name, operand in declared(spec).items()
        if operand.memory_space == "VMEM"
    }
    layouts = Layouts(in_vmem, squeezed).solve(program)
    operands = {}
    for section, members in sections(spec).items():
        kind = section.removesuffix("s") if section != "scratch" else section
        for name, operand in members.items():
            layout = layouts.get(name, ())
            view: Layout = (*(axis for axis in operand.axes if axis in squeezed), *layout)
            if operand.memory_space == "SMEM":
                view = _smem_view(tuple(operand.axes), kind)
            operands[name] = Operand(
                name,
                kind,  # type: ignore[arg-type]
                tuple(operand.axes),
                operand.dtype,
                operand.memory_space,
                layout,
                view,
                tuple(axis for axis in spec.grid if axis in operand.axes),
            )
    return operands


def _smem_view(axes: tuple[str, ...], kind: str) -> Layout:
    """Scalar prefetch delivers arrays of rank 1 and more; SMEM blocks have rank 2."""
    if axes:
        return axes
    return (None,) if kind == "input" else (None, None)
