"""The grammar of a body: one statement a line, an expression over names, numbers and calls.

::

    statement  = NAME ("=" | "+=" | "-=" | "*=") expression
    expression = disjunction
    disjunction = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation   = "not" negation | comparison
    comparison = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
    sum        = term { ("+" | "-") term }
    term       = sign { ("*" | "/" | "//" | "%") sign }
    sign       = "-" sign | power
    power      = atom [ "**" sign ]
    atom       = NUMBER | NAME | call | element | "(" expression ")"
    call       = NAME "(" arguments ")"
    element    = NAME "[" arguments "]"

The grammar is closed: there are no attributes, strings, keywords or lambdas, so that a spec
cannot carry Python into a generated module.
"""

from __future__ import annotations

import re

from kernelgen.diagnostics import Diagnostic, KernelgenError, Pointer
from kernelgen.records import record

Span = tuple[int, int]

MAX_LENGTH = 4000
"""Characters in one statement: bodies are read by people."""

MAX_DEPTH = 60
"""Nesting of one expression; keeps recursion far below Python's own limit."""

MAX_DIGITS = 40
"""Characters in one number: more than any float64 or int64 needs."""


@record
class Number:
    """A literal; an ``int`` when it is written without point and exponent."""

    value: int | float
    span: Span


@record
class Name:
    """A bare name: operand, scratch buffer, local, axis, dtype or constant."""

    name: str
    span: Span


@record
class Call:
    """An operation applied to arguments; operators are calls of their table names."""

    function: str
    args: tuple[Expression, ...]
    span: Span
    name_span: Span


@record
class Subscript:
    """``name[i, j]``: a scalar read from an SMEM operand."""

    name: str
    indices: tuple[Expression, ...]
    span: Span
    name_span: Span


Expression = Number | Name | Call | Subscript


@record
class Statement:
    """``target = value``, or ``target += value`` with ``operator`` naming the operation."""

    target: str
    operator: str
    value: Expression
    target_span: Span
    pointer: Pointer


_TOKEN = re.compile(
    r"(?P<space>[ \t]+)"
    r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<symbol>\*\*|//|<=|>=|==|!=|\+=|-=|\*=|[-+*/%<>=(),\[\]])"
)

_COMPARISONS = {
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
}
_SUMS = {"+": "add", "-": "subtract"}
_TERMS = {"*": "multiply", "/": "divide", "//": "floor_divide", "%": "mod"}
_ASSIGNMENTS = {"=": "", "+=": "add", "-=": "subtract", "*=": "multiply"}
_SPELLINGS = {
    "&": "write and",
    "|": "write or",
    "!": "write not",
    "^": "write **",
    "~": "write not",
}


@record
class _Token:
    kind: str
    text: str
    span: Span


def parse_statement(text: str, pointer: Pointer) -> Statement:
    """Parse one statement of a body.

    Args:
        text: The statement, one line.
        pointer: Where it stands in the JSON document.

    Raises:
        KernelgenError: KG201 with the place of the first character that does not fit.
    """
    return _Parser(text, pointer).statement()


def parse_expression(text: str, pointer: Pointer) -> Expression:
    """Parse an expression that stands alone: a bound, an index or a size.

    Args:
        text: The expression, one line.
        pointer: Where it stands in the JSON document.

    Raises:
        KernelgenError: KG201 with the place of the first character that does not fit.
    """
    return _Parser(text, pointer).alone()


class _Parser:
    """Recursive descent over the tokens of one statement."""

    def __init__(self, text: str, pointer: Pointer) -> None:
        self.pointer = pointer
        self.depth = 0
        self.position = 0
        if len(text) > MAX_LENGTH:
            raise self.error(
                f"statement of {len(text)} characters", (0, 1), f"split it: at most {MAX_LENGTH}"
            )
        self.tokens = self.tokenize(text)

    def error(self, message: str, span: Span, instead: str = "") -> KernelgenError:
        return KernelgenError([Diagnostic("KG201", message, instead, self.pointer, span)])

    def tokenize(self, text: str) -> list[_Token]:
        tokens = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                hint = _SPELLINGS.get(text[at], "")
                raise self.error(f"unexpected character {text[at]!a}", (at, at + 1), hint)
            if match.lastgroup == "number" and match.end() - at > MAX_DIGITS:
                raise self.error("number too long", match.span(), f"at most {MAX_DIGITS} digits")
            if match.lastgroup != "space":
                tokens.append(_Token(str(match.lastgroup), match.group(), match.span()))
            at = match.end()
        tokens.append(_Token("end", "", (len(text), len(text) + 1)))
        return tokens

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def advance(self) -> _Token:
        token = self.token
        self.position += 1
        return token

    def expect(self, text: str, context: str) -> _Token:
        if self.token.text != text or self.token.kind == "end":
            raise self.error(f"{self.found()} where {text!r} should {context}", self.token.span)
        return self.advance()

    def found(self) -> str:
        return "end of statement" if self.token.kind == "end" else repr(self.token.text)

    def statement(self) -> Statement:
        target = self.token
        if target.kind != "name":
            raise self.error(
                f"{self.found()} where a name should be assigned",
                target.span,
                "write name = expression",
            )
        self.advance()
        operator = self.token
        if operator.text not in _ASSIGNMENTS:
            raise self.error(
                f"{self.found()} where an assignment should stand",
                operator.span,
                "write name = expression, or +=, -=, *=",
            )
        self.advance()
        value = self.alone()
        return Statement(target.text, _ASSIGNMENTS[operator.text], value, target.span, self.pointer)

    def alone(self) -> Expression:
        """An expression with nothing behind it."""
        value = self.expression()
        if self.token.kind != "end":
            raise self.error(f"unexpected {self.found()} after the expression", self.token.span)
        return value

    def expression(self) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(
                "expression nested too deeply", self.token.span, "name the inner parts as locals"
            )
        value = self.left_associative({"or": "logical_or"}, self.conjunction)
        self.depth -= 1
        return value

    def conjunction(self) -> Expression:
        return self.left_associative({"and": "logical_and"}, self.negation)

    def negation(self) -> Expression:
        if self.token.text == "not":
            return self.prefix("logical_not", self.negation)
        return self.comparison()

    def comparison(self) -> Expression:
        left = self.sum()
        if self.token.text not in _COMPARISONS:
            return left
        operator = self.advance()
        value = self.binary(_COMPARISONS[operator.text], operator, left, self.sum())
        if self.token.text in _COMPARISONS:
            raise self.error(
                "comparisons do not chain", self.token.span, "join two comparisons with and"
            )
        return value

    def sum(self) -> Expression:
        return self.left_associative(_SUMS, self.term)

    def term(self) -> Expression:
        return self.left_associative(_TERMS, self.sign)

    def sign(self) -> Expression:
        if self.token.text == "-":
            return self.prefix("negative", self.sign)
        return self.power()

    def power(self) -> Expression:
        base = self.atom()
        if self.token.text != "**":
            return base
        operator = self.advance()
        return self.binary("power", operator, base, self.sign())

    def prefix(self, function: str, parse: object) -> Expression:
        operator = self.advance()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error("expression nested too deeply", operator.span)
        operand: Expression = parse()  # type: ignore[operator]
        self.depth -= 1
        return Call(function, (operand,), (operator.span[0], operand.span[1]), operator.span)

    def left_associative(self, operators: dict[str, str], parse: object) -> Expression:
        left: Expression = parse()  # type: ignore[operator]
        while self.token.text in operators and self.token.kind != "end":
            operator = self.advance()
            right: Expression = parse()  # type: ignore[operator]
            left = self.binary(operators[operator.text], operator, left, right)
        return left

    def binary(
        self, function: str, operator: _Token, left: Expression, right: Expression
    ) -> Expression:
        return Call(function, (left, right), (left.span[0], right.span[1]), operator.span)

    def atom(self) -> Expression:
        token = self.advance()
        if token.kind == "number":
            return Number(_number(token.text), token.span)
        if token.kind == "name" and token.text not in {"and", "or", "not"}:
            return self.after_name(token)
        if token.text == "(":
            value = self.expression()
            self.expect(")", "close the parenthesis")
            return value
        self.position -= 1
        raise self.error(f"{self.found()} where a value should stand", token.span)

    def after_name(self, name: _Token) -> Expression:
        if self.token.text == "(":
            args = self.arguments("(", ")")
            span = (name.span[0], self.tokens[self.position - 1].span[1])
            return Call(name.text, args, span, name.span)
        if self.token.text == "[":
            args = self.arguments("[", "]")
            span = (name.span[0], self.tokens[self.position - 1].span[1])
            return Subscript(name.text, args, span, name.span)
        return Name(name.text, name.span)

    def arguments(self, opening: str, closing: str) -> tuple[Expression, ...]:
        self.expect(opening, "open the arguments")
        args: list[Expression] = []
        while self.token.text != closing:
            args.append(self.expression())
            if self.token.text != closing:
                self.expect(",", "separate two arguments")
        self.expect(closing, "close the arguments")
        return tuple(args)


def _number(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)


def names_in(expression: Expression) -> set[str]:
    """Every name that an expression mentions, operations apart."""
    match expression:
        case Name(name=name):
            return {name}
        case Call(args=args):
            return set().union(*(names_in(arg) for arg in args))
        case Subscript(name=name, indices=indices):
            return {name}.union(*(names_in(index) for index in indices))
        case _:
            return set()
