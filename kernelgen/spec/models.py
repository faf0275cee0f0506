"""The second stage: the models of a kernel spec.

The models fix keys, types and defaults; :mod:`~kernelgen.spec.checks` adds what concerns names, and
:mod:`~kernelgen.spec.errors` turns what Pydantic reports into findings. Descriptions become the
hover text of editors, through the JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, Strict

from kernelgen.diagnostics import KernelgenError, Pointer
from kernelgen.source import Source

SIZE_LIMIT = 2**31 - 1
"""Sizes and positions are 32-bit on a TPU."""

SupportedDType = Literal[
    "float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int32", "int8", "int4", "bool"
]
DType = Literal[
    "float32",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int32",
    "int8",
    "int4",
    "bool",
    # Known so that the planner can say what is wrong with each of them.
    "float16",
    "float64",
    "int64",
    "int16",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "complex64",
]
MemorySpace = Literal["VMEM", "SMEM", "ANY"]
Outside = Literal["zero", "unspecified"]
Sums = Literal["vector", "dot"]
Target = Literal["v4", "v5e", "v5p", "v6e", "tpu7x"]

SUPPORTED_DTYPES: tuple[str, ...] = get_args(SupportedDType)
MEMORY_SPACES: tuple[str, ...] = get_args(MemorySpace)
OUTSIDE: tuple[str, ...] = get_args(Outside)
TARGETS: tuple[Target, ...] = get_args(Target)


def _lines(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], Strict(False)]
Lines = Annotated[tuple[str, ...], Strict(False), BeforeValidator(_lines)]


class _Model(BaseModel):
    # Nested models are built once, as parts of KernelSpec; that keeps start-up short.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class Axis(_Model):
    """A named dimension; the key is its name."""

    tile: int | None = Field(
        default=None,
        ge=1,
        le=SIZE_LIMIT,
        description="Positions of this axis in one block. Without a tile, a block holds all of it.",
        examples=[8, 128, 512],
    )
    start: str | None = Field(
        default=None,
        description=(
            "The first position that is computed: an integer expression over outer axes, "
            "size(...) and SMEM scalars, with min, max, +, -, * and //."
        ),
        examples=["q - 1023", "offsets[e]"],
    )
    stop: str | None = Field(
        default=None,
        description="One past the last position that is computed; an expression as in start.",
        examples=["lengths[b]", "min(q + 1, lengths[b])"],
    )
    subtile: int | None = Field(
        default=None,
        ge=1,
        le=SIZE_LIMIT,
        description=(
            "Positions in a sub-block. A step computes a block that a bound cuts sub-block by "
            "sub-block, and only those that hold positions in bounds."
        ),
        examples=[128, 512],
    )
    sums: Sums = Field(
        default="vector",
        description=(
            "What computes sums along this axis in a step: the vector unit, or a dot with ones, "
            "joined to one with the same left operand. A dot sums bfloat16 exactly as well."
        ),
    )
    size: str | None = Field(
        default=None,
        description="The extent of the axis, where it follows from other axes.",
        examples=["size(e) + 1"],
    )


class Operand(_Model):
    """An array: the names of its axes, its dtype and where its blocks live."""

    axes: Names = Field(
        description="The axes of the array, outermost first.", examples=[["m", "k"]]
    )
    dtype: DType = Field(description="The dtype of the elements, as jax names it.")
    memory_space: MemorySpace = Field(
        default="VMEM",
        description=(
            "VMEM: the grid pipeline stages blocks. SMEM: scalars, readable by index maps and "
            "bounds. ANY: not placed, the kernel copies tiles itself."
        ),
    )


Index = dict[str, str]
Buffers = Annotated[int, Field(ge=2, le=3)]
_BUFFERS = (
    "How many blocks of an operand that the kernel copies itself are in VMEM at once: with 2, one "
    "copy is under way while a step computes, with 3 two. 2 by default."
)
Limit = Annotated[int | str, Field(examples=[0, "size(s)"])]


class Input(Operand):
    """An array that the kernel reads; the key is its name in the body."""

    index: Index = Field(
        default={},
        description=(
            "Axes of which the block is chosen by an integer expression over tile-1 axes, "
            "size(...) and SMEM scalars; positions outside the array are clamped."
        ),
        examples=[{"page": "table[b, s]"}, {"g": "h * size(g) // size(h)"}],
    )
    buffers: Buffers | None = Field(default=None, description=_BUFFERS)
    range: Annotated[tuple[Limit, Limit], Strict(False)] | None = Field(
        default=None,
        description=(
            "The least and the greatest value of an integer input, as numbers or as expressions "
            "of sizes. It documents the operand and tells the verifier what to draw."
        ),
        examples=[[0, "size(s)"]],
    )


class Output(Operand):
    """An array that the kernel writes; the key is its name in the body."""

    index: Index = Field(
        default={}, description="Axes of which the block is chosen, as in an input."
    )
    buffers: Buffers | None = Field(default=None, description=_BUFFERS)
    alias: str | None = Field(
        default=None,
        description=(
            "The input whose buffer this output is: it is updated in place, and blocks that the "
            "grid does not visit keep what the input holds."
        ),
        examples=["cache"],
    )
    outside: Outside = Field(
        default="zero",
        description=(
            "What positions outside the bounds of the output's axes hold: 0, or nothing to rely "
            "on, which saves writing them."
        ),
    )


class Scratch(Operand):
    """A buffer that lives across grid steps; the key is its name in the body."""

    replicated: bool = Field(
        default=False,
        description=(
            "Keep a statistic of each row in all 128 lanes, where it meets the rows' elements "
            "without being broadcast at every step."
        ),
    )


class Body(_Model):
    """What is computed: assignments over the current tiles, in up to three phases."""

    init: Lines = Field(
        default=(),
        description="Runs at the first step along the reduction axes.",
        examples=["acc = 0"],
    )
    step: Lines = Field(
        min_length=1,
        description="Runs for every step inside the bounds.",
        examples=["acc += dot(a, b, k)", ["scale = rsqrt(mean(x * x, d) + 1e-6)", "o = x * scale"]],
    )
    finish: Lines = Field(
        default=(),
        description="Runs at the last step along the reduction axes.",
        examples=["o = acc"],
    )

    @staticmethod
    def pointer(phase: str, index: int) -> Pointer:
        """Where the assignment ``index`` of ``phase`` stands in the document.

        A phase written as one string has index 0; the source stage points at the string.
        """
        return ("body", phase, index)


class KernelSpec(_Model):
    """A kernel: what it computes over named axes, and how it is scheduled on a TPU."""

    schema_: str | None = Field(
        default=None, alias="$schema", description="The JSON Schema that editors check against."
    )
    kernelgen: Literal[1] = Field(description="The version of the spec format: 1.")
    name: str = Field(description="The name of the generated module and of its function.")
    doc: str = Field(
        min_length=1,
        description="What the kernel computes, as a formula; opens the module's docstring.",
        examples=["o[m, n] = sum over k of a[m, k] * b[k, n]"],
    )
    axes: dict[str, Axis] = Field(description="Every axis by its name.")
    grid: Names = Field(
        default=(), description="The axes that the grid walks tile by tile, outermost first."
    )
    reduction: Names = Field(
        default=(),
        description="The grid axes along which state is carried from step to step.",
    )
    inputs: dict[str, Input] = Field(
        description="The arrays that the kernel reads, in the order of the function's arguments."
    )
    outputs: dict[str, Output] = Field(
        min_length=1,
        description="The arrays that the kernel writes, in the order of the function's results.",
    )
    scratch: dict[str, Scratch] = Field(
        default={}, description="Buffers that live across grid steps, such as accumulators."
    )
    body: Body = Field(description="What is computed.")
    reference: Lines = Field(
        default=(),
        description="An independent jnp program for the same result; verification compares it.",
        examples=["a @ b"],
    )
    cases: Annotated[
        tuple[dict[str, Annotated[int, Field(ge=0, le=SIZE_LIMIT)]], ...], Strict(False)
    ] = Field(
        default=(),
        description="Sizes to verify the kernel with: for each case, a size for every axis.",
        examples=[[{"m": 200, "n": 300, "k": 700}]],
    )
    targets: Annotated[tuple[Target, ...], Strict(False)] = Field(
        default=TARGETS,
        min_length=1,
        description="The TPU generations that the kernel has to be legal on.",
    )

    _source: Source | None = PrivateAttr(default=None)

    @property
    def source(self) -> Source:
        """The text that the spec was read from; made up for one that was built in Python."""
        if self._source is None:
            text = self.model_dump_json(by_alias=True, exclude_defaults=True, indent=2)
            data = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            self._source = Source("<python>", text, data)
        return self._source

    def locate(self, error: KernelgenError) -> KernelgenError:
        """Say where in the file the findings of a later stage are.

        Args:
            error: What the stage raised.

        Returns:
            The same findings, each with path, line and column.
        """
        locate = self.source.locate
        return KernelgenError(d if d.line else locate(d) for d in error.diagnostics)


SECTIONS: Mapping[str, type[_Model]] = {
    "axes": Axis,
    "inputs": Input,
    "outputs": Output,
    "scratch": Scratch,
}
"""The keys whose values are objects of named things."""

OPERANDS = ("inputs", "outputs", "scratch")


def model_at(pointer: Pointer) -> type[BaseModel]:
    """The model of the object at ``pointer``."""
    if len(pointer) == 2 and pointer[0] in SECTIONS:
        return SECTIONS[str(pointer[0])]
    return Body if pointer == ("body",) else KernelSpec
