"""The last stage: the file that a rendering becomes, and how it compares with what is there.

Nothing is written before everything is known. Files are written to temporary names beside their
targets and then moved into place, so that a reader, or a kill, finds each file old or new.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Literal

from .diagnostics import Diagnostic, KernelgenError, listing, quoted
from .header import Header, Module, body_digest, header_for, origin, take_apart
from .records import record
from .source import Source

State = Literal["current", "stale", "hand-edited", "missing", "orphan", "foreign", "invalid"]


@record
class Verdict:
    """How one generated file stands.

    Attributes:
        path: The file; the spec where the spec is invalid.
        state: ``current``; ``stale`` (rendering would change it); ``hand-edited``; ``missing``;
            ``orphan`` (its spec is gone); ``foreign`` (kernelgen did not write it); ``invalid``
            (its spec has findings).
        reason: What changed, in words.
        origin: The spec that it belongs to.
        diagnostics: The findings about an invalid spec.
    """

    path: str
    state: State
    reason: str = ""
    origin: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()


@record
class Written:
    """What happened to one file: ``created``, ``updated`` or ``unchanged``."""

    path: str
    action: Literal["created", "updated", "unchanged"]


@dataclass(frozen=True)
class Job:
    """One spec and the file that it is rendered into.

    Attributes:
        source: The spec.
        target: The file.
        render: Renders the text below the header; called at most once, and only when needed.
        templates: The folder of the user's own templates.
    """

    source: Source
    target: Path
    render: Callable[[], str]
    templates: Path | None = None

    @cached_property
    def body(self) -> str:
        """The text below the header."""
        return self.render()

    @cached_property
    def text(self) -> str:
        """The whole module."""
        return header_for(self.source, self.body, self.templates).text() + self.body

    @cached_property
    def existing(self) -> Module | None:
        """The file that is there now."""
        try:
            return take_apart(self.target.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return Module(False, None, "")

    @cached_property
    def verdict(self) -> Verdict:
        """How the file compares with what rendering would write."""
        state, reason = self._compare()
        return Verdict(os.fspath(self.target), state, reason, origin(self.source.path))

    def _compare(self) -> tuple[State, str]:
        existing = self.existing
        if existing is None:
            return "missing", ""
        if not existing.ours:
            return "foreign", "kernelgen did not write it"
        if existing.header is None or not existing.intact:
            return "hand-edited", ""
        wanted = header_for(self.source, templates=self.templates)
        changes = list(_changes(existing.header, wanted))
        same_origin = existing.header.origin == wanted.origin
        # Rendering decides last: whatever changed, a file with the right text stays as it is.
        if not changes or (same_origin and body_digest(self.body) == existing.header.body):
            return "current", ""
        return "stale", listing(changes)


def _changes(old: Header, new: Header) -> Iterator[str]:
    if old.origin != new.origin:
        yield f"the spec moved from {old.origin}"
    if old.spec != new.spec:
        yield "the spec changed"
    if old.version != new.version:
        yield f"kernelgen changed from {old.version} to {new.version}"
    elif old.generator != new.generator:
        yield "the templates or kernelgen's code changed"


def claim(jobs: dict[Path, Job], job: Job) -> None:
    """Add ``job`` to the jobs of a run.

    Args:
        jobs: The jobs so far, by their targets.
        job: The next one.

    Raises:
        KernelgenError: Another spec has the same name, and so the same target.
    """
    first = jobs.setdefault(job.target, job)
    if first is not job:
        message = f"{quoted(job.target.stem)} is also the name of {first.source.path}"
        finding = Diagnostic("KG601", message, pointer=("name",))
        raise KernelgenError([job.source.locate(finding)])


def orphans(output: Path, jobs: Iterable[Job], spared: Iterable[str]) -> list[Verdict]:
    """Generated files in ``output`` that no spec stands for.

    Args:
        output: The folder.
        jobs: The specs there are.
        spared: Specs that could not be read, whose files may be any.

    Returns:
        A verdict for each orphan, sorted.
    """
    targets = {job.target.name for job in jobs}
    unknown = {origin(path) for path in spared}
    verdicts = []
    for path in sorted(output.glob("*.py")):
        module = take_apart(path.read_bytes()) if path.is_file() else None
        if module is None or not module.ours or path.name in targets:
            continue
        made_from = module.header.origin if module.header else ""
        if made_from not in unknown:
            reason = f"no spec {made_from} renders to it" if made_from else ""
            verdicts.append(Verdict(os.fspath(path), "orphan", reason, made_from))
    return verdicts


def difference(job: Job) -> str:
    """The unified diff from the file that is there to what rendering would write."""
    if job.verdict.state == "current":
        return ""
    path = job.target.as_posix()
    old = "/dev/null" if job.existing is None else f"a/{path}"
    return _diff(_read(job.target), job.text, old, f"b/{path}")


def removal(path: str) -> str:
    """The unified diff that removes a file."""
    return _diff(_read(Path(path)), "", f"a/{Path(path).as_posix()}", "/dev/null")


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError:
        return ""


def _diff(before: str, after: str, old: str, new: str) -> str:
    from difflib import unified_diff

    lines = unified_diff(StringIO(before).readlines(), StringIO(after).readlines(), old, new)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def write(jobs: Iterable[Job], *, force: bool = False) -> list[Written]:
    """Write what has changed: all of it, or nothing.

    Args:
        jobs: What to render. Each is rendered before the first file is written.
        force: Overwrite files that were edited by hand or that kernelgen did not write.

    Returns:
        What happened to each file. A file whose text would not change is not touched.

    Raises:
        KernelgenError: A file must not be overwritten, or cannot be written.
    """
    jobs = list(jobs)
    refused = [] if force else [d for job in jobs for d in _refusal(job)]
    if refused:
        raise KernelgenError(refused)
    changed = {job.target: job.text for job in jobs if job.verdict.state != "current"}
    _write_all(changed)
    return [Written(os.fspath(job.target), _action(job)) for job in jobs]


def _action(job: Job) -> Literal["created", "updated", "unchanged"]:
    if job.verdict.state == "current":
        return "unchanged"
    return "created" if job.verdict.state == "missing" else "updated"


def _refusal(job: Job) -> Iterator[Diagnostic]:
    path = os.fspath(job.target)
    if job.verdict.state == "hand-edited":
        hint = "edit the spec; --force renders over the edit"
        yield Diagnostic("KG602", "the file was edited by hand", hint, path=path)
    elif job.verdict.state == "foreign":
        hint = "rename the kernel, or -o another folder; --force overwrites the file"
        yield Diagnostic("KG603", "kernelgen did not write this file", hint, path=path)


def _write_all(texts: Mapping[Path, str]) -> None:
    staged: dict[Path, Path] = {}
    current = Path()
    try:
        for current, text in texts.items():
            if current.is_symlink():
                raise OSError(0, "it is a symbolic link")
            current.parent.mkdir(parents=True, exist_ok=True)
            staged[current] = _temporary(current)
            _fill(staged[current], text.encode("utf-8"), current)
        replaced: dict[Path, bytes | None] = {}
        try:
            for current, temporary in staged.items():
                replaced[current] = current.read_bytes() if current.exists() else None
                os.replace(temporary, current)
        except BaseException:
            _restore(replaced)
            raise
    except OSError as error:
        message = f"cannot write: {(error.strerror or str(error)).lower()}"
        raise KernelgenError([Diagnostic("KG604", message, path=os.fspath(current))]) from error
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


def _temporary(target: Path) -> Path:
    # Hidden and not *.py: what a killed run leaves behind is no module, and no orphan.
    return target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")


def _fill(path: Path, content: bytes, like: Path) -> None:
    """Create ``path`` with the permissions of ``like``, or the usual ones."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with open(handle, "wb") as file:
        file.write(content)
    with suppress(FileNotFoundError):
        path.chmod(like.stat().st_mode & 0o7777)


def _restore(replaced: Mapping[Path, bytes | None]) -> None:
    """Put back what was there; each file is still whole at every moment."""
    for target, content in replaced.items():
        with suppress(OSError):
            if content is None:
                target.unlink(missing_ok=True)
            else:
                temporary = _temporary(target)
                _fill(temporary, content, target)
                os.replace(temporary, target)
