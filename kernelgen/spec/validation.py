"""From a document to a spec, or to every finding about its shape."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from kernelgen.diagnostics import Diagnostic, KernelgenError
from kernelgen.source import Source
from kernelgen.spec import checks, errors
from kernelgen.spec.models import KernelSpec


def validate(source: Source) -> KernelSpec:
    """Check a document against the models and the rules about names.

    Args:
        source: The document.

    Returns:
        The spec, which remembers its source.

    Raises:
        KernelgenError: With every finding, each with its position.
    """
    spec, found = _build(source.data)
    findings = found + checks.findings(source.data, complete=spec is not None)
    if spec is not None:
        findings += _reference(spec)
    if findings or spec is None:
        unique = {(d.code, d.pointer, d.message): d for d in reversed(findings)}
        raise KernelgenError(source.locate(d) for d in reversed(unique.values()))
    spec._source = source
    return spec


def _reference(spec: KernelSpec) -> list[Diagnostic]:
    """Findings about the text of the independent reference, which is parsed but not run."""
    if not spec.reference:
        return []
    from kernelgen.spec.reference import parse

    try:
        parse(spec.reference, tuple(spec.inputs))
    except KernelgenError as error:
        return list(error.diagnostics)
    return []


def _build(data: dict[str, Any]) -> tuple[KernelSpec | None, list[Any]]:
    try:
        return KernelSpec.model_validate(data), []
    except ValidationError as error:
        return None, errors.translate(error)
