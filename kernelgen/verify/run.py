"""One kernel, one case, one interpreter: draw inputs, run, compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kernelgen.language import Program, check
from kernelgen.spec import KernelSpec
from kernelgen.verify import compare, inputs, modules, reference
from kernelgen.verify.cases import Case
from kernelgen.verify.compare import Mismatch
from kernelgen.verify.inputs import InputKind
from kernelgen.verify.modules import FaultError, Interpreter
from kernelgen.verify.values import Array, Bounded


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in one run.

    Attributes:
        kernel: The kernel's name.
        case: Sizes and tiles.
        kind: The kind of inputs.
        seed: The seed that they were drawn with.
        interpreter: How the kernel ran.
        message: What is wrong, in one line.
        mismatch: The worst element, where values are wrong.
    """

    kernel: str
    case: Case
    kind: InputKind
    seed: int
    interpreter: Interpreter
    message: str
    mismatch: Mismatch | None = None

    def __str__(self) -> str:
        sizes = ", ".join(f"{axis}={size}" for axis, size in self.case.sizes.items())
        tiles = ", ".join(f"{axis}={tile}" for axis, tile in self.case.tiles.items())
        tiled = f" in tiles {tiles}" if tiles else ""
        return (
            f"{self.kernel} ({self.interpreter}, {self.case.name}: {sizes}{tiled}; "
            f"{self.kind} inputs, seed {self.seed}): {self.message}"
        )


@dataclass(frozen=True, slots=True)
class Oracle:
    """Inputs, and what the body makes of them.

    Attributes:
        inputs: An array for every input.
        results: The outputs in float64, for each way in which casts may round; none does in the
            first.
        expected: For every output, what a kernel may give, for each way.
    """

    inputs: dict[str, Array]
    results: list[dict[str, Bounded]]
    expected: dict[str, tuple[Bounded, ...]]


@dataclass
class Verifier:
    """A kernel's function and its oracle; what the oracle said last is kept.

    Attributes:
        spec: The kernel.
        function: The generated function, or one with the same interface.
    """

    spec: KernelSpec
    function: Callable[..., Any]
    program: Program = field(init=False)
    _kept: tuple[str, Oracle] | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        self.program = check(self.spec)

    @classmethod
    def of_text(cls, spec: KernelSpec, text: str) -> Verifier:
        """A verifier of a generated module."""
        return cls(spec, modules.function(modules.load(text, spec.name), spec))

    def run(
        self, case: Case, interpreter: Interpreter, kind: InputKind = "random", seed: int = 0
    ) -> list[Failure]:
        """Run one case and compare.

        Args:
            case: Sizes and tiles.
            interpreter: How to run it.
            kind: The kind of inputs.
            seed: Of the inputs, and of the order of parallel steps.

        Returns:
            What went wrong; empty for a correct kernel.
        """

        def failure(message: str, mismatch: Mismatch | None = None) -> Failure:
            return Failure(self.spec.name, case, kind, seed, interpreter, message, mismatch)

        oracle = self.oracle(case, kind, seed)
        try:
            actual = self.call(case, interpreter, oracle.inputs, seed)
        except FaultError as error:
            return [failure(str(error))]
        except Exception as error:
            # A broken kernel raises whatever jax raises; that is the finding.
            return [failure(f"{type(error).__name__}: {_first_line(error)}")]
        found = compare.compare(oracle.expected, actual)
        return [failure(self._located(mismatch, case), mismatch) for mismatch in found]

    def call(
        self, case: Case, interpreter: Interpreter, arrays: dict[str, Array], seed: int = 0
    ) -> dict[str, Array]:
        """The outputs of the function; raises whatever it raises."""
        return modules.call(self.function, self.spec, arrays, case.tiles, interpreter, seed)

    def oracle(self, case: Case, kind: InputKind, seed: int = 0) -> Oracle:
        """The inputs of a run, and what its outputs have to be."""
        key = repr((case, kind, seed))
        if self._kept is None or self._kept[0] != key:
            arrays = inputs.draw(self.spec, case.sizes, kind, seed, case.tiles)
            results = reference.runs(self.spec, self.program, arrays, case.tiles)
            self._kept = (key, Oracle(arrays, results, reference.expected(results)))
        return self._kept[1]

    def _located(self, mismatch: Mismatch, case: Case) -> str:
        """The mismatch with the grid step that wrote its worst element."""
        axes = self.spec.outputs[mismatch.output].axes
        steps = []
        for axis, position in zip(axes, mismatch.index, strict=False):
            tile = case.tiles.get(axis) or self.spec.axes[axis].tile
            if tile and axis in self.spec.grid:
                steps.append(f"{axis} {position // tile}")
        return f"{mismatch.message} (step {', '.join(steps)})" if steps else mismatch.message


def _first_line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0]
