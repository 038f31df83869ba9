"""Check that what users read is plain English: errors, reports, `--help`, forms, pages. Part of `make lint`.

    python .ci/words.py            fail where a rule of words.yaml is broken more often than its ceiling allows
    python .ci/words.py --show     list every place where a rule is broken, docstrings included
    python .ci/words.py --lower    write lower ceilings, after an improvement

A ceiling never rises. Messages and pages are at zero, or near it; docstrings follow, folder by folder.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
RULES = Path(__file__).with_suffix(".yaml")
FOLDERS = ("configs", "flows", "storage", "tasks")
PAGES = ("*.md", "docs/**/*.md", "tasks/models/weights/**/*.md", "tasks/reports/shown/*.jinja")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
CODE = re.compile(r"`[^`\n]*`|^(?:    |\t)\S.*|^```.*?^```|\]\([^)]*\)|\{[%{#].*?[%}#]\}", re.MULTILINE | re.DOTALL)
"""Parts of a page that are no prose: code, addresses, a template's instructions."""


class Text(NamedTuple):
    """A text and its place. `group`: the key of its ceilings, such as `messages` or `docstrings in storage`."""

    group: str
    place: str
    text: str


class Breach(NamedTuple):
    """A place where a rule is broken."""

    group: str
    rule: str
    place: str
    excerpt: str


def texts() -> Iterator[Text]:
    """Every text of the product that a person reads."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from _of_module(folder, path)
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            yield from _of_page(path)


def _of_module(folder: str, path: Path) -> Iterator[Text]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name, docstrings = path.relative_to(ROOT).as_posix(), set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and (text := _text(statement.value)):
                    docstrings.add(statement.value)
                    shown = _is_command(node) and statement is node.body[0]
                    group = "messages" if shown else f"docstrings in {folder}"
                    yield Text(group, f"{name}:{statement.lineno}", text)
    yield from (Text("messages", f"{name}:{line}", text) for line, text in _messages(tree, docstrings))


def _is_command(node: ast.AST) -> bool:
    """Return whether a function's docstring is the help of a command."""
    decorators = getattr(node, "decorator_list", [])
    return any(re.search(r"\.(command|callback)\b", ast.unparse(decorator)) for decorator in decorators)


def _messages(node: ast.AST, docstrings: set[ast.expr]) -> Iterator[tuple[int, str]]:
    """The strings of several words that are not docstrings, each whole: `f"{a} b" + c` is one."""
    if isinstance(node, ast.expr):
        if node in docstrings:
            return
        text = _text(node)
        if text is not None:
            if len(text.split()) > 2 and not re.match(r"\s*(SELECT|WITH|CREATE|INSERT|COPY|SET|FROM)\b", text):
                yield node.lineno, text
            return
    for child in ast.iter_child_nodes(node):
        yield from _messages(child, docstrings)


def _text(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "…" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            texts = _text(left), _text(right)
            return None if texts == (None, None) else "".join(text or "…" for text in texts)
    return None


def _of_page(path: Path) -> Iterator[Text]:
    """Its sentences, without code."""
    prose = CODE.sub(lambda found: "…" + "\n" * found[0].count("\n"), path.read_text(encoding="utf-8"))
    for number, line in enumerate(prose.splitlines(), 1):
        for cell in line.split("|"):
            yield Text("pages", f"{path.relative_to(ROOT)}:{number}", cell.strip(" *#->…"))


def breaches(rules: dict[str, dict[str, str]]) -> Iterator[Breach]:
    """Every place where a text breaks a rule."""
    patterns = {name: re.compile(rule["pattern"], re.MULTILINE) for name, rule in rules.items()}
    for text in texts():
        for name, pattern in patterns.items():
            for found in pattern.finditer(text.text):
                excerpt = text.text[max(0, found.start() - 40) : found.end() + 60]
                yield Breach(text.group, name, text.place, " ".join(excerpt.split()))


def main() -> int:
    """Return the exit status: 1 where a ceiling is passed, or could be lower."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--show", nargs="?", const="", metavar="GROUP", help="list the places, of one group alone if named"
    )
    parser.add_argument("--lower", action="store_true", help="write lower ceilings into words.yaml")
    options = parser.parse_args()
    written = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    rules, ceilings = written["rules"], written["ceilings"]
    found = list(breaches(rules))
    if options.show is not None:
        for breach in found:
            if breach.group.startswith(options.show):
                print(f"{breach.place}: {breach.rule}: {breach.excerpt}")
        return 0
    counts = Counter((breach.group, breach.rule) for breach in found)
    if options.lower:
        _write(written, counts)
        return 0
    groups = {group for group, _ in counts} | {*ceilings}
    return sum(_judge(rules, found, ceilings, counts, (group, rule)) for group in sorted(groups) for rule in rules) > 0


def _judge(
    rules: dict[str, dict[str, str]],
    found: list[Breach],
    ceilings: dict[str, dict[str, int]],
    counts: Counter[tuple[str, str]],
    key: tuple[str, str],
) -> bool:
    """Return whether there is something to do, and print it."""
    group, rule = key
    ceiling = ceilings.get(group, {}).get(rule, 0)
    if counts[key] > ceiling:
        print(f"{group}: {rule} stands {counts[key]} times, at most {ceiling} are allowed. {rules[rule]['instead']}")
        for breach in found:
            if (breach.group, breach.rule) == key:
                print(f"    {breach.place}: {breach.excerpt}")
    elif counts[key] < ceiling:
        print(f"{group}: {rule} stands {counts[key]} times, {ceiling} are allowed: python .ci/words.py --lower")
    return counts[key] != ceiling


def _write(written: dict[str, dict[str, dict[str, int]]], counts: Counter[tuple[str, str]]) -> None:
    """Write the counts as ceilings, none of which rises; a group that has none yet gets them."""
    known = written["ceilings"]
    lower: dict[str, dict[str, int]] = {}
    for (group, rule), count in sorted(counts.items()):
        lower.setdefault(group, {})[rule] = min(count, known[group].get(rule, 0)) if group in known else count
    text = RULES.read_text(encoding="utf-8")
    head = text[: text.index("ceilings:")]
    RULES.write_text(head + yaml.safe_dump({"ceilings": lower}, sort_keys=True), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
