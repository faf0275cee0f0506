"""How quickly the command line starts.

Each figure is measured against importing the libraries alone, in the same run and interleaved, so
that a busy machine slows both. Exits with 1 when a figure is missed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import report

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 15
IMPORTS = "import click, pydantic, jinja2, black"
# What the installed console script does.
KERNELGEN = (sys.executable, "-c", "from kernelgen.cli import main; main()")
HEAVY = ("pydantic", "black", "jinja2", "jax", "numpy", "importlib.metadata", "asyncio")


def environment(folder: Path) -> dict[str, str]:
    """An installed kernelgen has its bytecode; here every module gets it in the first run."""
    cache = {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | cache


def seconds(command: list[str], folder: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment(folder), check=True, capture_output=True)
    return time.perf_counter() - started


def cold_render(folder: Path) -> float:
    shutil.rmtree(folder / "generated", ignore_errors=True)
    return seconds([*KERNELGEN, "render", "specs/matmul.json"], folder)


def modules(arguments: list[str], folder: Path) -> set[str]:
    """The heavy modules that a command imports."""
    code = (
        f"import sys\nfrom kernelgen import cli, startup\nstartup.quicken()\ncli.run({arguments})\n"
        f"print('heavy', *(m for m in {HEAVY} if m in sys.modules), file=sys.stderr)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
    )
    return set(process.stderr.strip().split("\n")[-1].split()[1:])


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "specs", folder / "specs")
        results = [ratio(folder), *(imports(folder, *row) for row in NEEDED), help_time(folder)]
    return int(not all(results))


def ratio(folder: Path) -> bool:
    libraries, renders = [], []
    seconds([sys.executable, "-c", IMPORTS], folder)
    cold_render(folder)
    for _ in range(ROUNDS):
        libraries.append(seconds([sys.executable, "-c", IMPORTS], folder))
        renders.append(cold_render(folder))
    # The median of pairs: neither a hiccup nor a lucky run decides.
    figure = statistics.median(r / b for r, b in zip(renders, libraries, strict=True))
    slow, fast = (statistics.median(times) * 1e3 for times in (renders, libraries))
    shown = f"{figure:.2f} ({slow:.0f} ms / {fast:.0f} ms)"
    return report("cold render of matmul / imports", shown, "<= 1.5", figure <= 1.5)


NEEDED = (
    (["check", "specs/matmul.json"], {"pydantic", "black", "jinja2"}),
    (["render", "specs/matmul.json"], {"pydantic", "black", "jinja2"}),
    (["validate", "specs"], {"black", "jinja2"}),
    (["show", "specs/matmul.json"], {"black", "jinja2"}),
    (["schema"], {"black", "jinja2"}),
)


def imports(folder: Path, arguments: list[str], unneeded: set[str]) -> bool:
    found = modules(arguments, folder)
    unneeded = unneeded | {"jax", "numpy"}
    name = f"imports of an unchanged {' '.join(arguments)}"
    limit = f"none of {', '.join(sorted(unneeded))}"
    return report(name, ", ".join(sorted(found)) or "none", limit, not found & unneeded)


def help_time(folder: Path) -> bool:
    figure = statistics.median(seconds([*KERNELGEN, "--help"], folder) for _ in range(ROUNDS))
    return report("kernelgen --help", f"{figure * 1e3:.0f} ms", "<= 250 ms", figure <= 0.25)


if __name__ == "__main__":
    sys.exit(main())
