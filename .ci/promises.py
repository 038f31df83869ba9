"""Check the promises of docs/explanation/trust.md: every test it names exists and, where reports are named, ran.

python .ci/promises.py                 every named file and function is there
python .ci/promises.py REPORT.xml...   and passed in one of these runs (pytest --junitxml)
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "trust.md"
NAMED = re.compile(r"`((?:tests/)?[\w/]*test_\w+\.py)?((?:::\w+)?)`")


def named() -> Iterator[tuple[Path, str]]:
    """Yield every file that the page names, with a function of it or ''. A bare `test_x.py` or `::test_y` goes by the
    file that was named before it on the line."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        file = None
        for path, function in NAMED.findall(line):
            if path:
                file = Path(path) if path.startswith("tests/") or file is None else file.with_name(path)
            if file and (path or function):
                yield file, function.removeprefix("::")


def missing(file: Path, function: str) -> bool:
    path = ROOT / file
    return not path.is_file() or (f"def {function}(" not in path.read_text(encoding="utf-8") and function != "")


def passed(reports: list[str]) -> dict[str, set[str]]:
    """Return the functions that passed, with any parameters, by module."""
    done: dict[str, set[str]] = {}
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            if not {child.tag for child in case} & {"skipped", "failure", "error"}:
                # The class of a test in a class follows the module's name.
                done.setdefault(case.get("classname", ""), set()).add(case.get("name", "").partition("[")[0])
    return done


def main(reports: list[str]) -> int:
    """Return 1, and print a line for each, where a named test is missing or did not pass."""
    tests = sorted({*named()})
    faults = [
        f"{file}::{function}".removesuffix("::") + " is not there"
        for file, function in tests
        if missing(file, function)
    ]
    if reports and not faults:
        done = passed(reports)
        for file, function in tests:
            functions = done.get(".".join(file.with_suffix("").parts), set())
            if not (function in functions if function else functions):
                faults.append(f"{file}::{function}".removesuffix("::") + f" did not pass in {', '.join(reports)}")
    print(*(f"docs/explanation/trust.md: {fault}" for fault in faults), sep="\n", end="\n" if faults else "")
    print(
        f"docs/explanation/trust.md names {len(tests)} tests: "
        + (f"{len(faults)} faults" if faults else "all there" + (", all passed" if reports else ""))
    )
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
