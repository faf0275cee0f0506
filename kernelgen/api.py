"""Everything that the command line does, as Python calls. Nothing here prints or exits.

>>> import kernelgen
>>> spec = kernelgen.load("specs/matmul.json")                      # doctest: +SKIP
>>> print(kernelgen.render(kernelgen.plan(spec)))                   # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import emit, names, project, source
from .diagnostics import Diagnostic, KernelgenError
from .emit import Job, Verdict, Written
from .header import header_for

if TYPE_CHECKING:
    from .planner.model import Plan
    from .source import Source
    from .spec import KernelSpec
    from .verify.suite import Report

# The later stages are imported where they are called: check needs none of them when nothing has
# changed, and validate needs no formatter and no template engine.

StrPath = str | os.PathLike[str]


def load(path: StrPath) -> KernelSpec:
    """Read and validate a spec file; ``-`` reads standard input.

    Args:
        path: The file.

    Returns:
        The spec.

    Raises:
        KernelgenError: With every finding, each with its position.
    """
    return _validate(source.read(path))


def loads(text: str | bytes, path: str = source.STDIN) -> KernelSpec:
    """Validate the text of a spec.

    Args:
        text: The JSON document.
        path: The name it has in messages and in the header of a rendering.

    Returns:
        The spec.

    Raises:
        KernelgenError: With every finding, each with its position.
    """
    return _validate(source.parse(text, path))


def _validate(document: Source) -> KernelSpec:
    from .spec.validation import validate

    return validate(document)


def plan(spec: KernelSpec, targets: Sequence[str] | None = None) -> Plan:
    """Check the body of a spec and schedule it.

    Args:
        spec: The spec.
        targets: The TPU generations that it has to be legal on; those of the spec if not given.

    Returns:
        The plan.

    Raises:
        KernelgenError: With every finding, each with its position.
    """
    from .planner import build

    try:
        return build(spec, None if targets is None else tuple(targets))
    except KernelgenError as error:
        raise spec.locate(error) from None


def plans(paths: Iterable[StrPath], targets: Sequence[str] | None = None) -> list[Plan]:
    """Load and plan several specs.

    Args:
        paths: Spec files, or folders of them.
        targets: The TPU generations to plan for; those of each spec if not given.

    Returns:
        The plans.

    Raises:
        KernelgenError: With the findings of all files.
        ProjectError: A path does not exist, or a folder holds no spec.
    """
    made: list[Plan] = []
    findings: list[Diagnostic] = []
    for path in project.spec_files(paths):
        try:
            made.append(plan(load(path), targets))
        except KernelgenError as error:
            findings += error.diagnostics
    if findings:
        raise KernelgenError(findings)
    return made


def render(plan: Plan, templates: StrPath | None = None) -> str:
    """Print a plan as a Python module.

    Args:
        plan: The plan.
        templates: A folder of templates that replace kernelgen's own, one by one.

    Returns:
        The text of the module, with its header.

    Raises:
        KernelgenError: A template of the user's own is broken.
    """
    folder = _folder(templates)
    body = _body(plan, folder)
    return header_for(plan.spec.source, body, folder).text() + body


def _body(plan: Plan, templates: Path | None) -> str:
    from .renderer import body

    if templates is None:
        return body(plan)
    from jinja2 import TemplateError

    try:
        return body(plan, templates)
    except (TemplateError, ValueError) as error:
        # A ValueError is black's: what the templates print is no Python.
        message = " ".join(str(error).split()) or type(error).__name__
        file = getattr(error, "filename", None) or str(templates)
        line = getattr(error, "lineno", None) or 0
        finding = Diagnostic("KG605", message, path=file, line=line, column=min(line, 1))
        raise KernelgenError([finding]) from error


def _folder(templates: StrPath | None) -> Path | None:
    return None if templates is None else Path(templates)


def validate(paths: Iterable[StrPath], targets: Sequence[str] | None = None) -> list[Diagnostic]:
    """Check specs up to and including their plans, writing nothing.

    Args:
        paths: Spec files, or folders of them.
        targets: The TPU generations to check for; those of each spec if not given.

    Returns:
        The findings of all files; empty when everything is legal.

    Raises:
        ProjectError: A path does not exist, or a folder holds no spec.
    """
    try:
        plans(paths, targets)
    except KernelgenError as error:
        return list(error.diagnostics)
    return []


def write(
    paths: Iterable[StrPath],
    output: StrPath = project.OUTPUT,
    *,
    force: bool = False,
    templates: StrPath | None = None,
) -> list[Written]:
    """Render specs into a folder: all of them, or none.

    Args:
        paths: Spec files, or folders of them.
        output: The folder to write to.
        force: Overwrite files that were edited by hand or that kernelgen did not write.
        templates: A folder of templates that replace kernelgen's own, one by one.

    Returns:
        What happened to each file. A file that is current is not touched.

    Raises:
        KernelgenError: With the findings of all specs; nothing was written.
        ProjectError: A path does not exist, or a folder holds no spec.
    """
    jobs = _valid(*_jobs(paths, output, templates))
    return emit.write(jobs, force=force)


def check(
    paths: Iterable[StrPath] = (project.SPECS,),
    output: StrPath = project.OUTPUT,
    *,
    templates: StrPath | None = None,
) -> list[Verdict]:
    """Compare generated files with their specs, writing nothing.

    Args:
        paths: Spec files, or folders of them. Orphans are looked for only with a folder.
        output: The folder with the generated files.
        templates: A folder of templates that replace kernelgen's own, one by one.

    Returns:
        A verdict for each file; ``invalid`` ones carry the findings about their specs.

    Raises:
        ProjectError: A path does not exist, or a folder holds no spec.
    """
    paths = list(paths)
    jobs, invalid = _jobs(paths, output, templates)
    verdicts = [job.verdict for job in jobs] + invalid
    if project.has_folder(paths):
        spared = [verdict.origin for verdict in invalid]
        verdicts += emit.orphans(Path(output), jobs, spared)
    return verdicts


def diff(
    paths: Iterable[StrPath] = (project.SPECS,),
    output: StrPath = project.OUTPUT,
    *,
    templates: StrPath | None = None,
) -> str:
    """What rendering would change, as a unified diff; orphans are shown as removed.

    Args:
        paths: Spec files, or folders of them.
        output: The folder with the generated files.
        templates: A folder of templates that replace kernelgen's own, one by one.

    Returns:
        The diff; empty when there is none.

    Raises:
        KernelgenError: With the findings of all specs.
        ProjectError: A path does not exist, or a folder holds no spec.
    """
    paths = list(paths)
    jobs = _valid(*_jobs(paths, output, templates))
    parts = [emit.difference(job) for job in jobs]
    if project.has_folder(paths):
        parts += [emit.removal(v.path) for v in emit.orphans(Path(output), jobs, ())]
    return "".join(parts)


def _jobs(
    paths: Iterable[StrPath], output: StrPath, templates: StrPath | None
) -> tuple[list[Job], list[Verdict]]:
    """The jobs of one run, rendered as far as they have to be, and the specs that have none."""
    jobs: dict[Path, Job] = {}
    invalid = []
    for path in project.spec_files(paths):
        try:
            job = _job(path, Path(output), _folder(templates))
            emit.claim(jobs, job)
        except KernelgenError as error:
            verdict = Verdict(path, "invalid", origin=path, diagnostics=error.diagnostics)
            invalid.append(verdict)
    return list(jobs.values()), invalid


def _job(path: str, output: Path, templates: Path | None) -> Job:
    document = source.read(path)
    name = document.data.get("name")
    if not isinstance(name, str) or names.problem(name):
        name = _validate(document).name
    job = Job(document, output / f"{name}.py", partial(_rendered, document, templates), templates)
    if job.verdict.state != "current":
        # What has to be rendered is rendered now: its findings belong to this run.
        _ = job.text
    return job


def _rendered(document: Source, templates: Path | None) -> str:
    return _body(plan(_validate(document)), templates)


def _valid(jobs: list[Job], invalid: list[Verdict]) -> list[Job]:
    if invalid:
        raise KernelgenError(d for verdict in invalid for d in verdict.diagnostics)
    return jobs


def verify(spec: KernelSpec) -> Report:
    """Render a spec and compare its module, interpreted on the CPU, with what its body means.

    Args:
        spec: The spec.

    Returns:
        How many runs were made, and what went wrong.

    Raises:
        KernelgenError: The spec does not render.
        ImportError: jax or numpy is not installed; the extra ``test`` brings both.
    """
    from .verify.suite import verify

    return verify(spec)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of kernel specs, as plain data."""
    from .spec.schema import json_schema

    return json_schema()
