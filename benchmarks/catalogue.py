"""What rendering and checking whole catalogues costs, and how long the results are.

Times are of this process alone, after its start-up. Exits with 1 when a figure is missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from figures import report  # noqa: E402

import kernelgen  # noqa: E402

COPIES = 1_000
ROUNDS = 3
LINES = {"matmul": 75, "flash_attention": 120}

PEAK = """
import resource, sys
from kernelgen import cli, startup
startup.quicken()
assert cli.run({arguments}) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = [
            per_kernel(folder),
            peak_memory(folder, "specs/matmul.json"),
            peak_memory(folder, "specs"),
            *many(folder),
            *(lines(folder, *row) for row in LINES.items()),
        ]
    return int(not all(results))


def per_kernel(folder: Path) -> bool:
    # Imports and the compilation of templates belong to start-up.
    kernelgen.write([ROOT / "specs/matmul.json"], folder / "warm")
    times = []
    for i in range(ROUNDS):
        started = time.process_time()
        written = kernelgen.write([ROOT / "specs"], folder / f"generated{i or ''}")
        times.append(time.process_time() - started)
    # Processor time, and the quickest round: what else the machine does only ever adds.
    figure = min(times) / len(written) * 1e3
    name = f"render {len(written)} kernels"
    return report(name, f"{figure:.1f} ms a kernel", "< 40 ms", figure < 40)


def peak_memory(folder: Path, what: str) -> bool:
    arguments = ["render", str(ROOT / what), "-o", str(folder / what.replace("/", "_"))]
    process = subprocess.run(
        [sys.executable, "-c", PEAK.format(arguments=arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    # Kilobytes on Linux, bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    figure = int(process.stderr.split()[-1]) * unit / 1e6
    return report(f"peak memory of render {what}", f"{figure:.0f} MB", "< 100 MB", figure < 100)


def many(folder: Path) -> list[bool]:
    originals = [json.loads(p.read_text()) for p in sorted((ROOT / "specs").glob("*.json"))]
    (folder / "many").mkdir()
    for i in range(COPIES):
        data = dict(originals[i % len(originals)])
        data["name"] = f"{data['name']}_{i}"
        (folder / f"many/{data['name']}.json").write_text(json.dumps(data))
    started = time.perf_counter()
    kernelgen.write([folder / "many"], folder / "many_out")
    rendering = time.perf_counter() - started
    started = time.perf_counter()
    verdicts = kernelgen.check([folder / "many"], folder / "many_out")
    checking = time.perf_counter() - started
    assert all(verdict.state == "current" for verdict in verdicts)
    factor = rendering / checking
    times = f"{factor:.0f} x ({rendering:.1f} s / {checking:.2f} s)"
    return [
        report(f"check of {COPIES:,} specs, faster than rendering", times, ">= 10 x", factor >= 10),
        report(f"check of {COPIES:,} specs", f"{checking:.2f} s", "< 2 s", checking < 2),
    ]


def lines(folder: Path, name: str, limit: int) -> bool:
    figure = len((folder / f"generated/{name}.py").read_text().splitlines())
    return report(f"lines of {name}.py", str(figure), f"<= {limit}", figure <= limit)


if __name__ == "__main__":
    sys.exit(main())
