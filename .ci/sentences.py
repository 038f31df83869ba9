"""Count the sentences of more than 25 words in what users read; list them with --list, or above BUDGET, and fail.

Read are README.md, the pages of docs/ but for the generated reference, and every text in the product's code but
docstrings of what is no command: messages, descriptions of settings, help, pages. A few of these texts are prompts,
which only models read.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT, LONGEST, BUDGET = Path(__file__).parents[1], 25, 25
"""The budget only goes down: lower it where you mend a sentence."""
PAGES = ("README.md", "docs/*.md", "docs/reference/glossary.md")
PAGES += tuple(f"docs/{folder}/*.md" for folder in ("tutorials", "how_to", "explanation", "results"))
FOLDERS = ("flows", "tasks", "storage", "configs", "vitalfew/library", "vitalfew/pages")
NO_PROSE = re.compile(r"^ *```.*?^ *```|^(?:    |#+ ).*?$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
FIGURES = re.compile(r"\([-+−\d.,; %×]*(?:to [-+−\d.,; %×]*)?\)")
"""An interval, or a number of questions: no words of a sentence."""
PART = re.compile(r"<br>|\n\s*\n|\n {4}(?=\w)|\n\s*(?:[-*]|\d+\.) |\|")
"""Paragraphs, the columns of a table (storage/schemas.py), the entries of a list, and cells."""
END = re.compile(r"(?<=[.!?])[*_)\"]*\s+")
PROSE = re.compile(r"[,.;:](\s|$)")
PROGRAM = re.compile(r"\b(SELECT|FROM|WITH) |[\w)%] }|=> |</|\(\?")


def long_ones(text: str) -> Iterator[str]:
    """Yield them; what stands in `backticks` is one word, and figures in brackets are none."""
    for part in PART.split(FIGURES.sub("", CODE.sub(lambda found: found[0].replace(" ", "_"), text))):
        yield from (" ".join(one.split()) for one in END.split(part) if len(one.split()) > LONGEST)


def literals(node: ast.AST) -> Iterator[str]:
    """The texts in a module, an f-string as one, with … for its values; of docstrings those of commands."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):  # a docstring
        if isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(by) for by in node.decorator_list):
            yield ast.get_docstring(node) or ""
        for child in ast.iter_child_nodes(node):
            yield from literals(child)


def main() -> int:
    found = set()
    for path in (path for name in PAGES for path in ROOT.glob(name)):
        text = NO_PROSE.sub("\n\n", LINK.sub(r"\1", path.read_text("utf-8")))
        found |= {(path, sentence) for sentence in long_ones(text)}
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        texts = [text for text in literals(ast.parse(path.read_text("utf-8"))) if not PROGRAM.search(text)]
        found |= {(path, one) for text in texts for one in long_ones(text) if PROSE.search(one)}
    if len(found) > BUDGET or "--list" in sys.argv:
        print(*sorted(f"{path.relative_to(ROOT)}: {sentence}" for path, sentence in found), sep="\n")
    print(f"{len(found)} sentences have more than {LONGEST} words; {BUDGET} are allowed")
    return len(found) > BUDGET


if __name__ == "__main__":
    sys.exit(main())
