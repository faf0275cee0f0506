"""How the element type of a result follows from those of its operands.

Arithmetic happens in 32 bits: narrow operands are widened, and stored values are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelgen.language.dtypes import DTYPES, promoted, widened

WEAK_INT = "weak int"
WEAK_FLOAT = "weak float"
WEAK = (WEAK_INT, WEAK_FLOAT)
"""Numbers known when a kernel is traced: literals and ``size``; they take the type they meet."""

Typing = Callable[[tuple[str, ...]], tuple[tuple[str, ...], str]]
"""From the operands' element types to those they are converted to, and the result's.

Raises TypeError with a message for the user when the operands do not fit.
"""


def _strong(dtypes: tuple[str, ...]) -> list[str]:
    return [dtype for dtype in dtypes if dtype not in WEAK]


def _no_bool(dtypes: tuple[str, ...]) -> None:
    if "bool" in dtypes:
        raise TypeError("a boolean is no number: choose with where(condition, a, b)")


def _common(dtypes: tuple[str, ...]) -> str:
    strong = _strong(dtypes)
    if not strong:
        return WEAK_FLOAT if WEAK_FLOAT in dtypes else WEAK_INT
    if WEAK_FLOAT in dtypes:
        strong.append("float32")
    return promoted(strong)


def _converted(dtypes: tuple[str, ...], to: str) -> tuple[str, ...]:
    """Weak numbers stay as they are: they take the other operand's type by themselves."""
    return tuple(dtype if dtype in WEAK else to for dtype in dtypes)


def arithmetic(dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Numbers to the common 32-bit type."""
    _no_bool(dtypes)
    common = _common(dtypes)
    return _converted(dtypes, common), common


def real(dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Numbers to float32."""
    _no_bool(dtypes)
    result = "float32" if _strong(dtypes) else WEAK_FLOAT
    return _converted(dtypes, "float32"), result


def comparison(dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Numbers to a boolean."""
    operands, _ = arithmetic(dtypes)
    return operands, "bool"


def logical(dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Booleans to a boolean."""
    if set(dtypes) != {"bool"}:
        raise TypeError("needs booleans: compare the value first, as in x > 0")
    return dtypes, "bool"


def conditional(dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """A boolean and two numbers to the numbers' common 32-bit type."""
    if dtypes[0] != "bool":
        raise TypeError("its first argument is a condition: compare, as in x > 0")
    if "bool" in dtypes[1:]:
        raise TypeError("it chooses between numbers: combine booleans with and, or, not")
    operands, result = arithmetic(dtypes[1:])
    return ("bool", *operands), result


def counting(dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """A number to its 32-bit type; a boolean counts as 0 or 1."""
    (dtype,) = dtypes
    result = "int32" if dtype == "bool" else widened(dtype)
    return (result,), result


def ordering(dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """A number to its 32-bit type."""
    _no_bool(dtypes)
    (dtype,) = dtypes
    return (widened(dtype),), widened(dtype)


def position(dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """A number to an int32 position."""
    return ordering(dtypes)[0], "int32"


def product(dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Two operands as stored to their 32-bit sum of products.

    The matrix unit multiplies narrow types as they are; two different float types would make it
    round the wider one, so the narrower is widened (exactly) first.
    """
    x, y = dtypes
    for dtype in dtypes:
        if dtype in ("bool", "int32", *WEAK):
            what = "a number" if dtype in WEAK else dtype
            raise TypeError(f"the matrix unit does not multiply {what}: cast it to float32")
    kinds = {DTYPES[x].kind, DTYPES[y].kind}
    if kinds == {"int"}:
        if x != y:
            raise TypeError(f"the matrix unit does not multiply {x} by {y}: cast one of them")
        return dtypes, "int32"
    if kinds == {"float", "int"}:
        if {x, y} == {"bfloat16", "int8"} or {x, y} == {"bfloat16", "int4"}:
            return ("bfloat16", "bfloat16"), "float32"
        return ("float32", "float32"), "float32"
    wider = x if DTYPES[x].bits >= DTYPES[y].bits else y
    if x != y and DTYPES[wider].bits == 8:
        wider = "bfloat16"
    return (wider, wider), "float32"


def widening(dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Any type to itself, at 32 bits."""
    operands = tuple(dtype if dtype in WEAK else widened(dtype) for dtype in dtypes)
    return operands, operands[0]
