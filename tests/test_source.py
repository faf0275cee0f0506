"""The source stage: strict JSON, and where everything in it stands."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from kernelgen import limits, positions, source
from kernelgen.diagnostics import Diagnostic, KernelgenError

SPECS = sorted((Path(__file__).parent.parent / "specs").glob("*.json"))


def findings(text: str | bytes) -> list[Diagnostic]:
    with pytest.raises(KernelgenError) as caught:
        source.parse(text, "specs/x.json")
    return list(caught.value.diagnostics)


REFUSED = {
    "trailing comma in an object": ('{"a": 1,}', "KG003", 1, 8, 1),
    "trailing comma in a list": ('{"a": [1,\n ]}', "KG003", 1, 9, 1),
    "line comment": ('{\n  // why\n  "a": 1}', "KG003", 2, 3, 6),
    "block comment": ('{"a": /* x */ 1}', "KG003", 1, 7, 7),
    "hash comment": ('{"a": 1 # x\n}', "KG003", 1, 9, 3),
    "duplicate key": ('{"a": 1,\n "a": 2}', "KG004", 2, 2, 3),
    "duplicate key spelt with an escape": ('{"a": 1, "\\u0061": 2}', "KG004", 1, 10, 8),
    "NaN": ('{"a": NaN}', "KG005", 1, 7, 3),
    "Infinity": ('{"a": -Infinity}', "KG005", 1, 7, 9),
    "float too large": ('{"a": 1e999}', "KG005", 1, 7, 5),
    "single quotes": ("{'a': 1}", "KG003", 1, 2, 1),
    "bare key": ("{a: 1}", "KG003", 1, 2, 1),
    "missing colon": ('{"a" 1}', "KG003", 1, 6, 1),
    "missing comma": ('{"a": 1 "b": 2}', "KG003", 1, 9, 1),
    "missing value": ('{"a": }', "KG003", 1, 7, 1),
    "two commas": ('{"a": [1,,2]}', "KG003", 1, 10, 1),
    "Python's True": ('{"a": True}', "KG003", 1, 7, 4),
    "leading zero": ('{"a": 01}', "KG003", 1, 7, 2),
    "leading point": ('{"a": .5}', "KG003", 1, 7, 2),
    "plus sign": ('{"a": +1}', "KG003", 1, 7, 2),
    "hexadecimal": ('{"a": 0x10}', "KG003", 1, 7, 4),
    "unclosed object": ('{\n "a": {"b": 1}', "KG003", 1, 1, 1),
    "unclosed list": ('{"a": [1', "KG003", 1, 7, 1),
    "unclosed string": ('{"a": "x\n}', "KG003", 1, 7, 2),
    "raw tab in a string": ('{"a": "x\ty"}', "KG003", 1, 9, 1),
    "bad escape": ('{"a": "\\d"}', "KG003", 1, 8, 2),
    "short unicode escape": ('{"a": "\\u12"}', "KG003", 1, 8, 2),
    "text after the end": ('{"a": 1}\nx', "KG003", 2, 1, 1),
    "empty file": ("", "KG003", 1, 1, 1),
    "lone surrogate": ('{"a": "\\ud800"}', "KG002", 1, 8, 6),
    "lone surrogate in a key": ('{"\\udc00": 1}', "KG002", 1, 3, 6),
    "byte-order mark": ("\ufeff{}", "KG002", 1, 1, 1),
    "byte-order mark in bytes": (b"\xef\xbb\xbf{}", "KG002", 1, 1, 1),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "KG002", 1, 1, 1),
    "Latin-1": (b'{"a":\n "caf\xe9"}', "KG002", 2, 6, 1),
    "not an object": ("[1]", "KG103", 1, 1, 1),
}


@pytest.mark.parametrize(("text", "code", "line", "column", "width"), REFUSED.values(), ids=REFUSED)
def test_is_refused_at_its_place(
    text: str | bytes, code: str, line: int, column: int, width: int
) -> None:
    found = findings(text)
    assert [(d.code, d.line, d.column, d.width) for d in found] == [(code, line, column, width)]
    assert found[0].path == "specs/x.json"


def test_every_recoverable_mistake_is_reported_in_one_go() -> None:
    found = findings('{\n "a": NaN, // x\n "a": [1,],\n "b": "\\ud800",\n}')
    assert [(d.code, d.line) for d in found] == [
        ("KG005", 2),
        ("KG003", 2),
        ("KG004", 3),
        ("KG003", 3),
        ("KG002", 4),
        ("KG003", 4),
    ]


HOSTILE = {
    "nested 100,000 deep": "[" * 100_000,
    "nested 100,000 deep and closed": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "nested just too deep": '{"a":' + "[" * 32 + "]" * 32 + "}",
    "an integer of 100,000 digits": '{"a": ' + "9" * 100_000 + "}",
    "a float of 100,000 digits": '{"a": 0.' + "1" * 100_000 + "}",
    "a long string": '{"a": "' + "x" * 100_000 + '"}',
    "a long key": '{"' + "x" * 100_000 + '": 1}',
    "too many items": '{"a": [' + "1," * 2_000 + "1]}",
    "too many values": '{"a": [' + ("[" + "1," * 900 + "1],") * 50 + "1]}",
    "too large": '{"a": "' + "x" * 2_000_000 + '"}',
    "too many mistakes": '{"a": [' + "NaN," * 900 + "1]}",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_input_is_refused_quickly(text: str) -> None:
    started = time.perf_counter()
    found = findings(text)
    assert time.perf_counter() - started < 2
    assert {d.code for d in found} <= {"KG005", "KG006"}
    assert len(found) <= limits.MAX_FINDINGS


JUNK = [*'{}[]",:\\tu0-1.eE/*# ', "\n", "\t", "\x00"]


def parsed(text: str) -> tuple[object, list[Diagnostic]]:
    try:
        return source.parse(text).data, []
    except KernelgenError as error:
        return None, list(error.diagnostics)


def test_the_positioned_reader_accepts_what_the_fast_path_accepts() -> None:
    generator = random.Random(0)
    seeds = ['{"a": [1, -2.5e3, true, null], "b": {"c": "x\\n\\u00e9\\ud83d\\ude00"}}']
    seeds += [path.read_text(encoding="utf-8")[:400] for path in SPECS[:3]]
    for _ in range(3000):
        text = list(generator.choice(seeds))
        for _ in range(generator.randint(1, 3)):
            at = generator.randrange(len(text))
            text[at : at + generator.randint(0, 2)] = generator.choice(JUNK)
        document = "".join(text)
        accepted = not positions.Reader(document).read().findings
        data, found = parsed(document)
        assert all(d.line for d in found)
        if not found:
            assert accepted, document
            assert data == json.loads(document)
        elif found[0].code != "KG103":
            assert not accepted, document


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_value_of_a_spec_is_located(path: Path) -> None:
    document = source.read(path)

    def walk(value: object, pointer: tuple[str | int, ...]) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                shown = located(document, (*pointer, key), on_key=True)
                assert json.loads(shown) == key
                walk(inner, (*pointer, key))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                walk(inner, (*pointer, index))
        else:
            assert json.loads(located(document, pointer)) == value

    walk(document.data, ())


def located(
    document: source.Source,
    pointer: tuple[str | int, ...],
    span: tuple[int, int] | None = None,
    on_key: bool = False,
) -> str:
    d = document.locate(Diagnostic("KG200", "", pointer=pointer, span=span, on_key=on_key))
    assert d.excerpt == document.text.split("\n")[d.line - 1]
    return d.excerpt[d.column - 1 : d.column - 1 + d.width]


def test_a_span_is_located_through_escapes() -> None:
    document = source.parse('{"body": ["\\t\\u0041 + \\ud83d\\ude00x * \\"y\\""]}')
    value = document.data["body"][0]
    for part, raw in {"A": "\\u0041", "😀": "\\ud83d\\ude00", "x": "x", '"y"': '\\"y\\"'}.items():
        start = value.index(part)
        assert located(document, ("body", 0), (start, start + len(part))) == raw


def test_a_span_past_the_end_is_located_at_the_closing_quote() -> None:
    document = source.parse('{"step": "a +"}')
    assert located(document, ("step",), (3, 4)) == '"'


def test_a_string_stands_for_the_list_of_that_string() -> None:
    document = source.parse('{"body": {"step": "a + b"}}')
    assert located(document, ("body", "step", 0), (4, 5)) == "b"
    moved = document.locate(Diagnostic("KG200", "", pointer=("body", "step", 0)))
    assert moved.pointer == ("body", "step")


def test_what_is_missing_is_located_at_what_surrounds_it() -> None:
    document = source.parse('{\n "body": {}}')
    assert located(document, ("body", "step")) == '"body"'
    assert located(document, ("name",)) == "{"


DIGEST = '{"$schema": "x", "kernelgen": 1, "name": "f", "cases": [], "reference": "a"}'


@pytest.mark.parametrize(
    "text",
    [
        '{"kernelgen":1,"name":"f"}',
        '{\r\n\t"kernelgen": 1,\r\n\t"name": "\\u0066"}',
        '{"cases": [{"m": 1}], "kernelgen": 1, "name": "f"}',
    ],
)
def test_the_digest_ignores_what_does_not_affect_the_rendering(text: str) -> None:
    assert source.parse(text).digest() == source.parse(DIGEST).digest()


@pytest.mark.parametrize("text", ['{"kernelgen": 1, "name": "g"}', '{"name": "f", "kernelgen": 1}'])
def test_the_digest_notices_the_rest(text: str) -> None:
    assert source.parse(text).digest() != source.parse(DIGEST).digest()


def test_a_file_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path, Path("a\0b")):
        with pytest.raises(KernelgenError) as caught:
            source.read(path)
        assert [d.code for d in caught.value.diagnostics] == ["KG001"]


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(KernelgenError) as caught:
        source.read("/dev/zero")
    assert [d.code for d in caught.value.diagnostics] == ["KG006"]
