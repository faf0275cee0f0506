"""One tiny kernel for every operation of the table: its oracle and its compiler test are the same.

A new row of the table is covered as soon as it exists: a test fails until it has a body here.
"""

from __future__ import annotations

from typing import Any

from kernelgen.language.operations import OPERATIONS, Operation, comparison, logical, real

INTEGERS = ("int32", "int8")

TILED = 128
WHOLE = 40

_SPECIAL = {
    "where": "o = where(x > y, x, y)",
    "clip": "o = clip(x, -1, y)",
    "power": "o = x ** 3 + 0 * y",
    "logical_and": "o = where(x > 0 and y > 0, x, y)",
    "logical_or": "o = where(x > 0 or y > 0, x, y)",
    "logical_not": "o = where(not x > 0, x, y)",
    "any": "o = where(any(x > 2, n), 1.0, 0.0) + 0 * y",
    "all": "o = where(all(x > -2, n), 1.0, 0.0) + 0 * y",
    "argmax": "o = argmax(x, n) + 0 * y",
    "argmin": "o = argmin(x, n) + 0 * y",
    "dot": "o = dot(x, z, n)",
    "linear_scan": "o = linear_scan(x, y, n, 0)",
    "roll": "o = roll(x, 3, n) + 0 * y",
    "last": "o = last(x, n) + 0 * y",
    "cumsum": "o = cumsum(x, n) + 0 * y",
}


def body(operation: Operation) -> str:
    """A statement that uses an operation on blocks ``x`` and ``y`` with axes m and n."""
    if operation.name in _SPECIAL:
        return _SPECIAL[operation.name]
    if operation.kind == "reduction":
        return f"o = {operation.name}(x, n) + 0 * y"
    if operation.name == "negative":
        return "o = -x + 0 * y"
    if operation.infix and operation.typing is comparison:
        return f"o = where(x {operation.infix} y, x, y)"
    if operation.infix:
        return f"o = x {operation.infix} y"
    values = ("x", "y")[: operation.arity]
    spare = "" if operation.arity > 1 else " + 0 * y"
    return f"o = {operation.name}({', '.join(values)}){spare}"


def dtypes(operation: Operation) -> tuple[str, ...]:
    """Element types of the operands that are worth a kernel each."""
    if operation.name == "dot":
        return ("float32", "bfloat16", "int8")
    if operation.name in ("roll", "last", "linear_scan") or operation.typing is logical:
        return ("float32",)
    return ("float32", "bfloat16", "int32")


def spec(operation: Operation, dtype: str) -> dict[str, Any]:
    """A kernel of one statement, with an axis m in tiles and an axis n as a whole."""
    statement = body(operation)
    inputs: dict[str, Any] = {"x": {"axes": ["m", "n"], "dtype": dtype}}
    axes: dict[str, Any] = {"m": {"tile": TILED}, "n": {}}
    second = "z" if "z" in statement else "y"
    inputs[second] = {"axes": ["m", "n"], "dtype": dtype}
    outputs = ["m", "n"]
    if operation.name == "dot":
        axes["p"] = {}
        inputs["z"] = {"axes": ["n", "p"], "dtype": dtype}
        outputs = ["m", "p"]
    integer = dtype in INTEGERS and operation.typing is not real
    return {
        "kernelgen": 1,
        "name": f"only_{operation.name}",
        "doc": f"One {operation.name}.",
        "axes": axes,
        "grid": ["m"],
        "inputs": inputs,
        "outputs": {"o": {"axes": outputs, "dtype": "int32" if integer else "float32"}},
        "body": {"step": statement},
        **({"targets": ["v5e", "v5p", "v6e", "tpu7x"]} if dtype == "int8" else {}),
    }


SIZES = {"m": TILED + 9, "n": WHOLE, "p": 24}

KERNELS = {
    f"{name}-{dtype}": (operation, dtype)
    for name, operation in OPERATIONS.items()
    for dtype in dtypes(operation)
}
