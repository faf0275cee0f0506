"""What the TPU refuses, found before anything is rendered.

The rules and their numbers were measured with libtpu's ahead-of-time compiler.
"""

from __future__ import annotations

from kernelgen.diagnostics import Diagnostic, Pointer, listing, nearest
from kernelgen.language.dtypes import DTYPES, REFUSED
from kernelgen.language.program import Apply, Assignment, Program, walk
from kernelgen.planner.ir import REPLICATED
from kernelgen.planner.model import Operand
from kernelgen.planner.schedule import sections
from kernelgen.planner.targets import LANES, SUBLANES, TARGETS
from kernelgen.spec import Input, KernelSpec, Output

SMEM_DTYPES = ("int32", "float32")


def check_dtypes(spec: KernelSpec) -> list[Diagnostic]:
    """Element types that no TPU kernel can hold."""
    findings = []
    for section, operands in sections(spec).items():
        for name, operand in operands.items():
            if operand.dtype in REFUSED:
                findings.append(
                    Diagnostic(
                        "KG404",
                        f"{name} is {operand.dtype}, which TPU kernels cannot load",
                        f"use {REFUSED[operand.dtype]}",
                        (section, name, "dtype"),
                    )
                )
    return findings


def check_memory_spaces(spec: KernelSpec) -> list[Diagnostic]:
    """Vectors in SMEM, scalars in VMEM, and what SMEM cannot hold."""
    findings = []
    for section, operands in sections(spec).items():
        for name, operand in operands.items():
            where: Pointer = (section, name)
            if operand.memory_space == "SMEM":
                findings.extend(_check_smem(spec, section, name))
            elif operand.memory_space == "ANY" and section == "scratch":
                findings.append(
                    Diagnostic(
                        "KG410",
                        f"scratch buffer {name} is in ANY: there is no array to copy it from",
                        'place it in "VMEM"',
                        (*where, "memory_space"),
                    )
                )
            elif not operand.axes:
                findings.append(
                    Diagnostic(
                        "KG409",
                        f"{name} has no axes: it is a scalar, in {operand.memory_space}",
                        'write "memory_space": "SMEM"',
                        (*where, "axes"),
                    )
                )
    return findings


def check_aliases(spec: KernelSpec) -> list[Diagnostic]:
    """Outputs that take the place of an input: both are one array, in the same blocks."""
    findings = []
    taken: dict[str, str] = {}
    for name, output in spec.outputs.items():
        if output.alias is None:
            continue
        pointer: Pointer = ("outputs", name, "alias")
        source = spec.inputs.get(output.alias)
        if source is None:
            hint = nearest(output.alias, spec.inputs)
            findings.append(Diagnostic("KG412", f"no input {output.alias}", hint, pointer))
        elif output.alias in taken:
            message = f"{output.alias} is updated by {taken[output.alias]} already"
            findings.append(Diagnostic("KG412", message, "", pointer))
        elif any(spec.axes[axis].start or spec.axes[axis].stop for axis in output.axes):
            message = f"{name} is updated in whole blocks, but an axis of it has bounds"
            instead = "choose the blocks to update by an index"
            findings.append(Diagnostic("KG412", message, instead, pointer))
        else:
            findings += _check_same(output, source, name, pointer)
        taken.setdefault(output.alias, name)
    return findings


def _check_same(output: Output, source: Input, name: str, pointer: Pointer) -> list[Diagnostic]:
    for what in ("axes", "dtype", "index"):
        if getattr(output, what) != getattr(source, what) and not (
            what == "index" and not source.index
        ):
            message = f"{name} and {output.alias} differ in {what}"
            instead = f"give both the same {what}"
            return [Diagnostic("KG412", message, instead, pointer)]
    return []


def _check_smem(spec: KernelSpec, section: str, name: str) -> list[Diagnostic]:
    operand = sections(spec)[section][name]
    findings = []
    if operand.dtype not in SMEM_DTYPES:
        findings.append(
            Diagnostic(
                "KG411",
                f"{name} is {operand.dtype} in SMEM, which holds 32-bit words",
                "use int32 or float32",
                (section, name, "dtype"),
            )
        )
    if section != "inputs" and operand.axes:
        findings.append(
            Diagnostic(
                "KG406",
                f"{name} is a vector along {operand.axes[0]}, in SMEM",
                'write "memory_space": "VMEM"',
                (section, name, "memory_space"),
            )
        )
    return findings


def check_accumulators(spec: KernelSpec, program: Program) -> list[Diagnostic]:
    """Scratch that carries a value from step to step in fewer than 32 bits."""
    findings = []
    for name, operand in spec.scratch.items():
        dtype = DTYPES.get(operand.dtype)
        if name in program.carried and dtype is not None and dtype.narrow:
            wide = "float32" if dtype.kind == "float" else "int32"
            findings.append(
                Diagnostic(
                    "KG403",
                    f"{name} accumulates in {operand.dtype}",
                    f"use {wide} and cast once, when the output is written",
                    ("scratch", name, "dtype"),
                )
            )
    return findings


def check_blocks(spec: KernelSpec, operands: dict[str, Operand]) -> list[Diagnostic]:
    """Blocks whose last two dimensions are neither tiles of the hardware nor whole."""
    findings: list[Diagnostic] = []
    for operand in operands.values():
        if operand.memory_space == "SMEM" or not operand.layout:
            continue
        findings.extend(_check_squeezed(spec, operand))
        for position, unit, what in ((-1, LANES, "lanes"), (-2, SUBLANES, "sublanes")):
            axis = operand.layout[position]
            if axis is None or axis == REPLICATED:
                continue
            tile = spec.axes[axis].tile
            if tile is None or tile % unit == 0:
                continue
            findings.append(
                Diagnostic(
                    "KG401",
                    f"axis {axis} lies along the {what} of {operand.name}"
                    f"[{', '.join(operand.axes)}]: tile {tile} is no multiple of {unit}",
                    f"use {_neighbours(tile, unit)}, or no tile to take the whole axis",
                    ("axes", axis, "tile"),
                )
            )
    return _once(findings)


def _check_squeezed(spec: KernelSpec, operand: Operand) -> list[Diagnostic]:
    """Axes of tile 1 lie in front of all others, so that the tile rule never sees them."""
    declared = sections(spec)[operand.kind if operand.kind == "scratch" else f"{operand.kind}s"]
    index = getattr(declared[operand.name], "index", {})
    squeezed = [axis for axis in operand.axes if spec.axes[axis].tile == 1 or axis in index]
    rest = [axis for axis in operand.axes if axis not in squeezed]
    if tuple(operand.axes) == (*squeezed, *rest):
        return []
    behind = next(
        axis
        for i, axis in enumerate(operand.axes)
        if axis in squeezed and any(a in rest for a in operand.axes[:i])
    )
    i = operand.axes.index(behind)
    section = operand.kind if operand.kind == "scratch" else f"{operand.kind}s"
    return [
        Diagnostic(
            "KG402",
            f"axis {behind} of {operand.name}[{', '.join(operand.axes)}] has tile 1 "
            f"but stands behind {listing([a for a in operand.axes[:i] if a in rest])}",
            f"order the axes [{', '.join([*squeezed, *rest])}], or give {behind} a larger tile",
            (section, operand.name, "axes", i),
        )
    ]


def _neighbours(tile: int, unit: int) -> str:
    below, above = tile // unit * unit, -(-tile // unit) * unit
    return f"{below} or {above}" if below else f"{above}"


def _once(findings: list[Diagnostic]) -> list[Diagnostic]:
    """One finding a tile: the strictest of those that several operands make."""
    kept: dict[Pointer, Diagnostic] = {}
    for finding in findings:
        known = kept.get(finding.pointer)
        if known is None or ("lanes" in finding.message and "sublanes" in known.message):
            kept[finding.pointer] = finding
    return list(kept.values())


def check_dots(program: Program, targets: tuple[str, ...]) -> list[Diagnostic]:
    """Element types that the matrix unit of a target does not multiply."""
    findings = []
    for _, statements in program.phases():
        for statement in statements:
            for part in walk(statement.value):
                if isinstance(part, Apply) and part.operation.kind == "contraction":
                    findings.extend(_check_dot(part, statement, targets))
    return findings


def _check_dot(dot: Apply, statement: Assignment, targets: tuple[str, ...]) -> list[Diagnostic]:
    dtypes = {arg.type.dtype for arg in dot.args} - {"float32", "bfloat16"}
    lacking = [name for name in targets if dtypes - TARGETS[name].dot_dtypes]
    if not lacking:
        return []
    others = [name for name in targets if name not in lacking]
    return [
        Diagnostic(
            "KG405",
            f"the matrix unit of {listing(lacking)} does not multiply {listing(sorted(dtypes))}",
            "cast the operands to bfloat16"
            + (f', or write "targets": {_json(others)}' if others else ""),
            statement.pointer,
            dot.span,
        )
    ]


def _json(names: list[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
