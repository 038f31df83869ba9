"""Resolve every pin for the Pythons that the tests do not run on, with pip's dry run: nothing is installed.

pip evaluates environment markers for the Python that runs it, whatever `--python-version` says. So its report is walked
again with the markers of the Python that is meant: whatever that one would ask for must be in the report, at a version
that fits, and pinned.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYTHONS: dict[str, tuple[str, ...]] = {"3.12": (), "3.13": ("whenever",)}
"""Each with the packages that only its own markers ask for."""
PIP = (sys.executable, "-m", "pip", "--quiet", "--quiet")
CONSTRAINTS = Path("constraints.txt")
SOURCES = ("rouge-score",)
"""Published as source alone, and pip takes only wheels for another Python: their wheels are built first."""
CUDA = ("cuda-", "nvidia-", "triton")
"""What PyPI's torch for Linux brings; torch itself pins it."""


def main() -> None:
    """Exit with one line for each requirement that cannot be met."""
    pins = {canonicalize_name(line.split("==")[0]): line for line in CONSTRAINTS.read_text().split() if "==" in line}
    with tempfile.TemporaryDirectory() as folder:
        wheels = [pins[name] for name in SOURCES]
        subprocess.run([*PIP, "wheel", "--no-deps", "--wheel-dir", folder, ".", *wheels], check=True)
        with ThreadPoolExecutor() as pool:
            reports = list(pool.map(lambda python: _resolve(python, Path(folder)), PYTHONS))
    faults: list[str] = []
    for python, report in zip(PYTHONS, reports, strict=True):
        faults += [f"Python {python}: {fault}" for fault in _faults(python, report, set(pins))]
        print(f"Python {python}: {len(report)} packages")
    sys.exit("\n".join(faults) or None)


def _resolve(python: str, folder: Path) -> dict[str, dict]:
    """Return the metadata of everything that pip would install, by name."""
    (wheel,) = folder.glob("vitalfew-*.whl")
    report = folder / f"{python}.json"
    target = ("--python-version", python, "--only-binary=:all:", "--target", str(folder / python))
    command = [*PIP, "install", "--dry-run", *target, "--find-links", str(folder), "--report", str(report)]
    subprocess.run([*command, "--constraint", str(CONSTRAINTS), f"{wheel}[dev]", *PYTHONS[python]], check=True)
    metadata = [package["metadata"] for package in json.loads(report.read_text())["install"]]
    return {canonicalize_name(package["name"]): package for package in metadata}


def _faults(python: str, report: dict[str, dict], pins: set[str]) -> Iterator[str]:
    """Walk the requirements from vitalfew[dev] on, with the markers of `python`."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    seen, todo = set(), [("vitalfew", extra) for extra in ("", "dev")]
    for name, extra in todo:
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for requirement in map(Requirement, report[name].get("requires_dist", ())):
            if requirement.marker and not requirement.marker.evaluate(environment | {"extra": extra}):
                continue
            wanted = canonicalize_name(requirement.name)
            if wanted not in report or not requirement.specifier.contains(report[wanted]["version"], prereleases=True):
                yield f"{name} asks for {requirement}, and pip did not find it"
                continue
            todo += [(wanted, extra) for extra in ("", *requirement.extras)]
    for name in sorted({name for name, _ in seen} - pins - {"vitalfew"}):
        if not name.startswith(CUDA):
            yield f"{name} is not pinned in {CONSTRAINTS}"


if __name__ == "__main__":
    main()
