"""The spec stage: models, rules about names, and the JSON Schema."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import kernelgen
from kernelgen import names, source
from kernelgen.diagnostics import Diagnostic, KernelgenError
from kernelgen.rules import RULES
from kernelgen.spec import models, schema

ROOT = Path(__file__).parent.parent
SPECS = sorted((ROOT / "specs").glob("*.json")) + sorted((ROOT / "templates/new").glob("*.json"))

MATMUL: dict[str, Any] = {
    "kernelgen": 1,
    "name": "matmul",
    "doc": "o[m, n] = sum over k of a[m, k] * b[k, n]",
    "axes": {"m": {"tile": 512}, "n": {"tile": 512}, "k": {"tile": 512}},
    "grid": ["m", "n", "k"],
    "reduction": ["k"],
    "inputs": {
        "a": {"axes": ["m", "k"], "dtype": "bfloat16"},
        "b": {"axes": ["k", "n"], "dtype": "bfloat16"},
    },
    "outputs": {"o": {"axes": ["m", "n"], "dtype": "bfloat16"}},
    "scratch": {"acc": {"axes": ["m", "n"], "dtype": "float32"}},
    "body": {"init": "acc = 0", "step": "acc += dot(a, b, k)", "finish": ["o = acc"]},
    "cases": [{"m": 512, "n": 512, "k": 0}],
}
ABSENT = object()


def changed(**changes: Any) -> dict[str, Any]:
    """The matmul with keys replaced; ``a__b=x`` replaces a nested one, ABSENT removes it."""
    data = copy.deepcopy(MATMUL)
    for path, value in changes.items():
        *parents, key = path.split("__")
        target = data
        for parent in parents:
            target = target[parent]
        if value is ABSENT:
            del target[key]
        else:
            target[key] = value
    return data


def findings(data: dict[str, Any]) -> list[Diagnostic]:
    with pytest.raises(KernelgenError) as caught:
        kernelgen.loads(json.dumps(data, indent=1), "specs/x.json")
    return list(caught.value.diagnostics)


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_the_catalogue_is_valid(path: Path) -> None:
    loaded = kernelgen.load(path)
    assert loaded.source.path == str(path)


def test_phases_become_tuples_and_defaults_are_filled() -> None:
    loaded = kernelgen.loads(json.dumps(MATMUL))
    assert loaded.body.init == ("acc = 0",)
    assert loaded.body.finish == ("o = acc",)
    assert loaded.inputs["a"].memory_space == "VMEM"
    assert loaded.targets == ("v4", "v5e", "v5p", "v6e", "tpu7x")
    assert loaded.reference == ()
    with pytest.raises(ValidationError):
        loaded.name = "other"


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "missing key": ({"doc": ABSENT}, "KG101", '"doc"'),
    "missing nested key": ({"body__step": ABSENT}, "KG101", '"step"'),
    "unknown key": ({"axis": {}}, "KG102", "did you mean axes?"),
    "unknown nested key": ({"axes__m": {"tiles": 8}}, "KG102", "did you mean tile?"),
    "unknown phase": ({"body__steps": "x"}, "KG102", "did you mean step?"),
    "string for an integer": ({"axes__m__tile": "512"}, "KG103", "must be an integer"),
    "float for an integer": ({"axes__m__tile": 512.0}, "KG103", "must be an integer"),
    "boolean for an integer": ({"axes__m__tile": True}, "KG103", "must be an integer"),
    "string for a list": ({"grid": "m"}, "KG103", "must be a list"),
    "list for an object": ({"axes": []}, "KG103", "must be an object"),
    "number for an operand": ({"inputs__a": 3}, "KG103", "must be an object"),
    "number for a phase": ({"body__init": 3}, "KG103", "a string or a list of strings"),
    "number in a phase": ({"body__init": ["acc = 0", 3]}, "KG103", "item 2"),
    "number for a text": ({"doc": 3}, "KG103", "must be a string"),
    "number for a dtype": ({"inputs__a__dtype": 3}, "KG103", "must be a string"),
    "null": ({"reference": None}, "KG103", "leave the key out"),
    "null for a tile": ({"axes__m__tile": None}, "KG103", "leave the key out"),
    "null for a section": ({"scratch": None}, "KG103", "leave the key out"),
    "true for the version": ({"kernelgen": True}, "KG103", 'write "kernelgen": 1'),
    "float for the version": ({"kernelgen": 1.0}, "KG103", 'write "kernelgen": 1'),
    "path as a name": ({"name": "../x"}, "KG104", "for example x"),
    "capital letters": ({"name": "MatMul"}, "KG104", "for example matmul"),
    "look-alike letters": ({"name": "m\u0430tmul"}, "KG104", "ASCII"),
    "full-width letters": ({"name": "\uff4datmul"}, "KG104", "ASCII"),
    "newline in a name": ({"name": "x\nimport os"}, "KG104", "ASCII"),
    "trailing newline in a name": ({"name": "x\n"}, "KG104", "ASCII"),
    "empty name": ({"name": ""}, "KG104", "ASCII"),
    "template in a name": ({"name": "{{ x }}"}, "KG104", "ASCII"),
    "long name": ({"name": "x" * 41}, "KG104", "longer than 40"),
    "keyword": ({"name": "lambda"}, "KG104", "keyword"),
    "soft keyword": ({"name": "match"}, "KG104", "keyword"),
    "builtin": ({"name": "sum"}, "KG104", "builtin"),
    "module's own name": ({"name": "pl"}, "KG104", "uses itself"),
    "dunder": ({"name": "__init__"}, "KG104", "ASCII"),
    "reference's name": ({"scratch__x_ref": MATMUL["scratch"]["acc"]}, "KG104", "_ref"),
    "tile's name": ({"name": "block_m"}, "KG104", "block_"),
    "kernel named like an axis": ({"name": "m"}, "KG105", "already the name of the kernel"),
    "output named like an input": (
        {"outputs__a": {"axes": ["m", "n"], "dtype": "float32"}},
        "KG105",
        "already the name of an input",
    ),
    "unknown dtype": ({"inputs__a__dtype": "float23"}, "KG106", "did you mean float32?"),
    "abbreviated dtype": ({"inputs__a__dtype": "bf16"}, "KG106", "did you mean bfloat16?"),
    "unknown memory space": ({"inputs__a__memory_space": "vmem"}, "KG106", "did you mean VMEM?"),
    "unknown target": ({"targets": ["v5"]}, "KG106", "did you mean v5"),
    "unknown axis of an operand": ({"inputs__a__axes": ["m", "kk"]}, "KG107", "did you mean k?"),
    "unknown axis in the grid": ({"grid": ["m", "n", "q"]}, "KG107", "known: k, m and n"),
    "unknown reduction axis": ({"reduction": ["q"]}, "KG107", "known"),
    "unknown axis in a case": ({"cases": [{"m": 1, "n": 1, "k": 1, "q": 1}]}, "KG107", '"q"'),
    "axis twice in an operand": ({"inputs__a__axes": ["m", "k", "k"]}, "KG108", '"k"'),
    "axis twice in the grid": ({"grid": ["m", "m"]}, "KG108", '"m"'),
    "target twice": ({"targets": ["v4", "v4"]}, "KG108", '"v4"'),
    "unused axis": ({"axes__q": {}, "cases": []}, "KG109", '"q"'),
    "tile 0": ({"axes__m__tile": 0}, "KG110", "at least 1"),
    "tile past 32 bits": ({"axes__m__tile": 2**31}, "KG110", "32 bits"),
    "tile past 64 bits": ({"axes__m__tile": 2**63}, "KG110", "32 bits"),
    "negative size": ({"cases": [{"m": -1, "n": 1, "k": 1}]}, "KG110", "at least 0"),
    "empty text": ({"doc": ""}, "KG110", "empty"),
    "blank text": ({"doc": " \n"}, "KG110", "blank"),
    "no outputs": ({"outputs": {}}, "KG110", "empty"),
    "no step": ({"body__step": []}, "KG110", "empty"),
    "no targets": ({"targets": []}, "KG110", "empty"),
    "axis without a size": (
        {"axes__q": {"tile": 8}, "outputs__o__axes": ["m", "n", "q"], "cases": []},
        "KG111",
        "no input",
    ),
    "incomplete case": ({"cases": [{"m": 1}]}, "KG112", "n and k"),
    "right-to-left override": ({"doc": "a \u202e b"}, "KG113", "U+202E"),
    "zero-width space in a body": ({"body__init": ["acc\u200b = 0"]}, "KG113", "U+200B"),
    "escape character": ({"doc": "\x1b[31m"}, "KG113", "U+001B"),
    "future version": ({"kernelgen": 2}, "KG114", "version 1, not 2"),
}


@pytest.mark.parametrize(("changes", "code", "words"), REFUSED.values(), ids=REFUSED)
def test_is_refused_with_a_code_and_a_remedy(
    changes: dict[str, Any], code: str, words: str
) -> None:
    found = [d for d in findings(changed(**changes)) if d.code == code]
    assert len(found) == 1
    assert words in f"{found[0].message} {found[0].instead}"
    assert found[0].line > 0
    assert found[0].path == "specs/x.json"


def test_every_rule_about_the_spec_is_shown_to_fire() -> None:
    shown = {code for _, code, _ in REFUSED.values()}
    verifier = {"KG115"}
    assert shown == {code for code in RULES if code.startswith("KG1")} - verifier


def test_a_refused_spec_shows_only_its_own_findings() -> None:
    for changes, code, _ in REFUSED.values():
        assert {d.code for d in findings(changed(**changes))} == {code}, changes


def test_all_findings_come_together() -> None:
    data = changed(name="sum", grid=["m", "q"], axes__m__tile=0, inputs__a__dtype="f32", extra=1)
    assert {d.code for d in findings(data)} == {"KG102", "KG104", "KG106", "KG107", "KG110"}


def test_findings_point_at_the_key_or_the_value() -> None:
    unknown, dtype = findings(changed(axes__m={"tiles": 8}, inputs__a__dtype="f32"))
    assert unknown.excerpt[unknown.column - 1 :][: unknown.width] == '"tiles"'
    assert dtype.excerpt[dtype.column - 1 :][: dtype.width] == '"f32"'


def test_hostile_specs_give_a_bounded_number_of_findings() -> None:
    wrong = {f"a{i}": {"axes": ["z" * 40] * 40, "dtype": "float99"} for i in range(900)}
    found = findings(changed(inputs=wrong))
    assert len(found) <= 200


def test_supported_and_refused_dtypes_are_distinguished() -> None:
    for dtype in ("float16", "float64", "int64", "uint8"):
        kernelgen.loads(json.dumps(changed(inputs__a__dtype=dtype)))
    enum = schema.json_schema()["$defs"]["Input"]["properties"]["dtype"]["enum"]
    assert tuple(enum) == models.SUPPORTED_DTYPES


def test_a_spec_locates_the_findings_of_later_stages() -> None:
    loaded = kernelgen.loads(json.dumps(changed(body__step=["x = a", "acc += dott(a, b, k)"])))
    pointer = loaded.body.pointer("step", 1)
    error = KernelgenError([Diagnostic("KG203", "unknown function", pointer=pointer, span=(7, 11))])
    (found,) = loaded.locate(error).diagnostics
    assert found.excerpt[found.column - 1 :][: found.width] == "dott"


def test_a_spec_built_in_python_has_a_source_too() -> None:
    built = models.KernelSpec.model_validate(MATMUL)
    assert source.parse(built.source.text).data == built.source.data
    assert kernelgen.loads(built.source.text).axes == built.axes


@pytest.mark.parametrize("name", ["x", "matmul_2", "q8", "index", "size", "d", "x" * 40])
def test_plain_names_are_legal(name: str) -> None:
    assert names.problem(name) == ""


@pytest.mark.parametrize("name", ["Sum", "x_ref", "block_", "../../X y", "_", "", "é", "1x", "pl"])
def test_a_proposed_name_is_legal(name: str) -> None:
    proposal = names.alternative(name).removeprefix("for example ")
    assert not proposal or names.problem(proposal) == ""


def test_the_committed_schema_is_current() -> None:
    committed = (ROOT / "schemas/kernel.schema.json").read_text(encoding="utf-8")
    assert committed == schema.text(), "run: kernelgen schema > schemas/kernel.schema.json"


def test_the_schema_explains_every_key_and_allows_no_other() -> None:
    made = schema.json_schema()
    for definition in (made, *made["$defs"].values()):
        assert definition["additionalProperties"] is False
        assert all(value.get("description") for value in definition["properties"].values())
        assert "null" not in json.dumps(definition["properties"])
