"""The command line: arguments in, calls of :mod:`kernelgen.api`, text and exit codes out.

Exit codes: 0 clean, 1 findings, 2 usage or internal errors. Results go to standard output and
messages to standard error, so that results can be piped.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

import click

from ._version import __version__
from .project import OUTPUT, SPECS, ProjectError
from .startup import quicken

if TYPE_CHECKING:
    from .diagnostics import Diagnostic
    from .emit import Verdict

PATHS = click.argument("paths", nargs=-1, metavar="[SPEC | FOLDER | -]...")
FOLDER = click.option(
    "-o",
    "--output",
    default=OUTPUT,
    show_default=True,
    metavar="DIR",
    help="The folder with the generated modules.",
)
TEMPLATES = click.option(
    "--templates",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="A folder of templates that replace kernelgen's own, one by one.",
)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 92},
    epilog="Start with: kernelgen new my_kernel --from matmul",
)
@click.version_option(__version__, "--version", message="kernelgen %(version)s")
def commands() -> None:
    """Render JSON kernel specs into readable JAX Pallas TPU modules.

    Exit codes: 0 clean, 1 findings, 2 usage or internal errors.
    """


@commands.command()
@PATHS
@click.option(
    "-o",
    "--output",
    default=OUTPUT,
    show_default=True,
    metavar="DIR",
    help="The folder to write to; - prints the modules.",
)
@click.option("--force", is_flag=True, help="Overwrite files that were edited by hand.")
@TEMPLATES
def render(paths: tuple[str, ...], output: str, force: bool, templates: str | None) -> int:
    """Render specs into modules: all of them, or none.

    Files that would not change are not touched, and files that were edited by hand are not
    overwritten.

    \b
    Examples:
      kernelgen render specs/matmul.json
      kernelgen render specs -o kernels
      kernelgen render - -o - < specs/matmul.json
    """
    from . import api

    paths = _required(paths)
    if output == "-":
        _print("".join(api.render(plan, templates) for plan in api.plans(paths)))
        return 0
    written = api.write(paths, output, force=force, templates=templates)
    for file in written:
        if file.action != "unchanged":
            click.echo(f"{file.action:<9} {click.format_filename(file.path)}")
    _note(_counts([file.action for file in written]))
    return 0


@commands.command()
@PATHS
@FOLDER
@TEMPLATES
def check(paths: tuple[str, ...], output: str, templates: str | None) -> int:
    """Compare generated modules with their specs; write nothing.

    Verdicts: current, stale, hand-edited, missing, orphan (its spec is gone; only where a folder
    is checked), foreign (kernelgen did not write it), invalid (its spec has findings).

    \b
    Examples:
      kernelgen check
      kernelgen check specs -o kernels
    """
    from . import api

    paths = _or_default(paths)
    verdicts = api.check(paths, output, templates=templates)
    for verdict in verdicts:
        reason = f"  ({verdict.reason})" if verdict.reason else ""
        click.echo(f"{verdict.state:<12} {click.format_filename(verdict.path)}{reason}")
    _findings([d for verdict in verdicts for d in verdict.diagnostics])
    _note(_counts([verdict.state for verdict in verdicts]))
    _advise(verdicts, paths, output)
    return int(any(verdict.state != "current" for verdict in verdicts))


@commands.command()
@PATHS
def verify(paths: tuple[str, ...]) -> int:
    """Compare kernels with what their bodies mean, interpreted on this CPU.

    Each spec is rendered in memory and run at its cases and at sizes around its tiles, in both of
    jax's interpreters, against a float64 evaluation of its body and against its reference. It
    needs jax: pip install 'kernelgen[test]'. That a kernel is right here does not say that a TPU
    compiles it.

    \b
    Examples:
      kernelgen verify specs/matmul.json
      kernelgen verify specs
    """
    from . import api, project

    files = project.spec_files(_required(paths))
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        import jax  # noqa: F401
        import numpy  # noqa: F401
    except ImportError as error:
        raise click.ClickException(
            f"verify needs {error.name}: pip install 'kernelgen[test]'"
        ) from None
    from .verify.modules import XLA_FLAGS

    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)  # read when jax first computes something
    failed = 0
    for path in files:
        report = api.verify(api.load(path))
        for line in report.failures:
            click.echo(line)
        failed += bool(report.failures)
        verdict = f"{len(report.failures)} failures in" if report.failures else "right in"
        _note(f"{report.kernel}: {verdict} {report.runs} checks")
    return int(failed > 0)


@commands.command()
@PATHS
@FOLDER
@TEMPLATES
def diff(paths: tuple[str, ...], output: str, templates: str | None) -> int:
    """Show what rendering would change, as a unified diff; exit 1 if there is anything.

    \b
    Examples:
      kernelgen diff
      kernelgen diff specs/matmul.json
    """
    from . import api

    text = api.diff(_or_default(paths), output, templates=templates)
    _print(text)
    return int(bool(text))


@commands.command()
@PATHS
@click.option(
    "--target",
    "targets",
    metavar="LIST",
    help="TPU generations to check for, as v5e,v6e; those of each spec if not given.",
)
def validate(paths: tuple[str, ...], targets: str | None) -> int:
    """Check specs and their plans; write nothing.

    \b
    Examples:
      kernelgen validate specs
      kernelgen validate specs/matmul.json --target v5e,v6e
    """
    from . import api

    paths = _or_default(paths)
    findings = api.validate(paths, _targets(targets))
    _findings(findings)
    _note(_plural(len(set(findings)), "finding"))
    return int(bool(findings))


@commands.command()
@PATHS
@click.option("--target", "targets", metavar="LIST", help="TPU generations to show, as v5e,v6e.")
def show(paths: tuple[str, ...], targets: str | None) -> int:
    """Show the plan of specs: grid, blocks, index maps, residency and memory.

    \b
    Examples:
      kernelgen show specs/matmul.json
    """
    from . import api
    from .show import table

    plans = api.plans(_required(paths), _targets(targets))
    _print("\n".join(table(plan) for plan in plans))
    return 0


@commands.command()
def schema() -> int:
    """Print the JSON Schema of kernel specs, for editors.

    \b
    Examples:
      kernelgen schema > schemas/kernel.schema.json
    """
    from .spec.schema import text

    _print(text())
    return 0


@commands.command()
@click.argument("name")
@click.option("--from", "kind", required=True, metavar="KIND", help="What to start from.")
@click.option("-o", "--output", metavar="FILE", help="The new file.  [default: specs/NAME.json]")
def new(name: str, kind: str, output: str | None) -> int:
    """Start a spec from a small working one; never overwrites a file.

    KIND is one of elementwise, rowwise, reduction, matmul, scan and attention.

    \b
    Examples:
      kernelgen new my_matmul --from matmul
      kernelgen new my_norm --from rowwise -o kernels/my_norm.json
    """
    from . import api, names
    from .diagnostics import KernelgenError, nearest, quoted
    from .new import kinds, skeleton

    reason = names.problem(name)
    if reason:
        raise click.UsageError(f"the name {quoted(name)} {reason}")
    if kind not in kinds():
        raise click.UsageError(f"unknown kind {quoted(kind)}; {nearest(kind, kinds())}")
    try:
        api.loads(skeleton(name, kind))
    except KernelgenError:
        raise click.UsageError(
            f"the name {quoted(name)} stands for something else in a {kind} spec"
        ) from None
    path = output or os.path.join(SPECS, f"{name}.json")
    if path == "-":
        _print(skeleton(name, kind))
    else:
        _create(path, skeleton(name, kind, path))
        click.echo(f"created   {click.format_filename(path)}")
    return 0


def _create(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise ProjectError(f"{path} exists already") from None
    except OSError as error:
        raise ProjectError(f"cannot write {path}: {error.strerror}") from None


def _required(paths: tuple[str, ...]) -> tuple[str, ...]:
    if not paths:
        raise click.UsageError("name a spec, a folder of specs, or - for standard input")
    return paths


def _or_default(paths: tuple[str, ...]) -> tuple[str, ...]:
    return paths or (SPECS,)


def _targets(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    from .diagnostics import nearest, quoted
    from .spec import TARGETS

    targets = tuple(part.strip() for part in text.split(","))
    for target in targets:
        if target not in TARGETS:
            raise click.UsageError(f"unknown target {quoted(target)}; {nearest(target, TARGETS)}")
    return targets


def _print(text: str) -> None:
    """Write a result as it is: UTF-8 and ``\\n``, whatever the platform and the locale."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def _findings(diagnostics: Sequence[Diagnostic], *, err: bool = False) -> None:
    if diagnostics:
        from .report import texts

        click.echo(texts(diagnostics), nl=False, err=err)


def _note(text: str) -> None:
    click.echo(text, err=True)


def _counts(words: Sequence[str]) -> str:
    counts = {word: words.count(word) for word in dict.fromkeys(words)}
    return ", ".join(f"{count} {word}" for word, count in counts.items()) or "nothing to do"


def _plural(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def _advise(verdicts: Sequence[Verdict], paths: Sequence[str], output: str) -> None:
    """Name the command that mends what rendering can mend."""
    states = {verdict.state for verdict in verdicts}
    if states & {"stale", "missing"}:
        import shlex

        folder = [] if output == OUTPUT else ["-o", output]
        _note(f"mend with: {shlex.join(['kernelgen', 'render', *paths, *folder])}")
    if "orphan" in states:
        _note("an orphan's spec is gone: delete the file, or bring the spec back")


def main() -> NoReturn:
    """Run the command line of this process, and end the process."""
    quicken()
    for stream in (sys.stdout, sys.stderr):
        # Messages may quote anything; the terminal may not be able to show it.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Turned into an exception, so that temporary files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    # Everything is written; taking the interpreter apart would take longer than some commands.
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the command line inside a program.

    Args:
        arguments: The arguments after the program's name.

    Returns:
        The exit code.
    """
    from .diagnostics import KernelgenError

    try:
        code: int = commands.main(list(arguments), "kernelgen", standalone_mode=False)
        sys.stdout.flush()
        return code or 0
    except click.ClickException as error:
        error.show()
        return 2
    except ProjectError as error:
        _note(f"error: {error}")
        return 2
    except KernelgenError as error:
        _findings(error.diagnostics, err=True)
        _note(_plural(len(set(error.diagnostics)), "finding"))
        return 1
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        # The reader has gone; the interpreter must not try to flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _internal(error)


def _internal(error: Exception) -> int:
    if os.environ.get("KERNELGEN_TRACEBACK"):
        raise error
    text = " ".join(f"{type(error).__name__}: {error}".split())
    _note(f"internal error: {text} (KERNELGEN_TRACEBACK=1 shows the traceback)")
    return 2
