"""Prompts: Jinja templates of configs/prompts/, or a file of the user, over a question and its contexts.

Templates are shared, and come with a store's records. So the length of a text, and the time that rendering takes,
must follow from the question and the contexts: templates have `if`, `for` and filters. Everything by which a few lines
run forever, or fill the memory, is refused when a template is read: loops within loops, macros, variables that double
(`set`), products, `range`, and filters or methods that repeat a text. So is a template that reads other files, or whose
text is not the same at every rendering.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.sandbox import SandboxedEnvironment

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.registry import UnknownName

FOLDER = Path(__file__).parents[2] / "configs" / "prompts"
VARIABLES = {"question", "contexts"}
_SAMPLES = ((), ("One.",), ("One.", "Two."))

LONGEST = 100_000
"""Characters of a template, at most."""
MOST = 10_000_000
"""Characters of a text that is rendered, at most."""

_NODES = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Name, nodes.Const, nodes.Keyword),
    *(nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Call, nodes.Filter, nodes.Test, nodes.CondExpr, nodes.Tuple),
    *(nodes.List, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Add, nodes.Sub),
    nodes.Concat,
)
_FILTERS = {
    "abs", "capitalize", "count", "d", "default", "e", "escape", "first", "float", "int", "join", "last", "length",
    "list", "lower", "max", "min", "reject", "replace", "reverse", "safe", "select", "sort", "string", "striptags",
    "sum", "title", "trim", "truncate", "unique", "upper", "wordcount",
}  # fmt: skip
_METHODS = {
    "capitalize", "changed", "cycle", "endswith", "find", "isdigit", "join", "lower", "lstrip", "removeprefix",
    "removesuffix", "replace", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "title", "upper",
}  # fmt: skip
_ENVIRONMENT = SandboxedEnvironment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_ENVIRONMENT.globals.clear()  # range, lipsum, namespace, …
_RAISED = (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""By a template whose values are not what it takes them for."""


class TemplateFault(ValueError):
    """A fault that a template's author must correct; the message names the line."""


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.jinja"))


def source(name: str) -> str:
    """Read a template: a name of configs/prompts, or a file. Raises UnknownName, and ConfigError for a file that
    is not a template, does not ask the question, has an unknown variable, or fails with 0, 1 or 2 contexts."""
    path = FOLDER / f"{name}.jinja"
    if not path.exists() and (Path(name).suffix or "/" in name):
        path = Path(name)
    text = _text(path, name)
    try:
        used = variables(text)
        if unknown := used - VARIABLES:
            listed, known = (", ".join(sorted(each)) for each in (unknown, VARIABLES))
            raise ConfigError(f"prompt {path}: unknown variable {listed}; known: {known}")
        if "question" not in used:  # a mistake, or a file that the author of an experiment wants to be sent to a server
            raise ConfigError(f"prompt {path} does not use the question; write {{{{ question }}}} where it goes")
        for contexts in _SAMPLES:
            _rendered(f"prompt {path}", text, "Who?", contexts)
    except TemplateFault as fault:
        raise ConfigError(f"prompt {path}: {fault}") from None
    return text


def _text(path: Path, name: str) -> str:
    if not path.exists():
        raise UnknownName("prompt", name, names())
    if not path.is_file():
        raise ConfigError(f"prompt {path}: not a file")
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt {path}: {error}") from error


def render(template: str, question: str, contexts: tuple[str, ...]) -> str:
    """Render a template. Contexts and questions are data: a template in them is plain text. Raises ConfigError."""
    return _rendered(f"prompt {template.strip()[:40]!r}…", template, question, contexts).strip()


def _rendered(named: str, template: str, question: str, contexts: tuple[str, ...]) -> str:
    try:
        return filled(template, question=question, contexts=contexts)
    except TemplateFault as fault:
        given = f"the question {question[:80]!r} and {len(contexts)} contexts"
        raise ConfigError(f"{named}: {fault}; rendered for {given}") from None


def variables(template: str) -> set[str]:
    """Return the names that a template looks up. Raises TemplateFault."""
    with _explained():
        return meta.find_undeclared_variables(_parsed(template))


def filled(template: str, **values: Any) -> str:
    """Fill in a template. Raises TemplateFault, also for more than MOST characters."""
    pieces, size = [], 0
    try:
        for piece in _compiled(template).generate(**values):
            pieces.append(piece)
            size += len(piece)
            if size > MOST:
                raise TemplateFault(f"its text has more than {MOST:,} characters")
    except _RAISED as error:
        raise error if isinstance(error, TemplateFault) else TemplateFault(f"line {_line(error)}: {error}") from error
    return "".join(pieces)


def _line(error: Exception) -> int | None:
    """Jinja puts a template's lines into the trace of an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == "<template>"), None)


@lru_cache(16)
def _compiled(template: str) -> jinja2.Template:
    with _explained():
        return _ENVIRONMENT.from_string(_parsed(template))


def _parsed(template: str) -> nodes.Template:
    if len(template) > LONGEST:
        raise TemplateFault(f"it has more than {LONGEST:,} characters; shorten it")
    tree = _ENVIRONMENT.parse(template)
    for line, what in _refused(tree):  # before Jinja computes what is constant in it
        raise TemplateFault(f"line {line}: a template cannot have {what}")
    return tree


@contextmanager
def _explained() -> Iterator[None]:
    """TemplateFaults that show when a template is read. Python's blocks and calls nest less deeply than Jinja's."""
    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        raise TemplateFault(f"line {error.lineno}: {error.message}") from None
    except (SyntaxError, RecursionError, MemoryError):
        raise TemplateFault("its blocks or expressions nest too deeply") from None


def _refused(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """Yield the line and description of every part that a template may not have."""
    for node in _walk(tree):
        if not isinstance(node, _NODES):
            yield node.lineno, f"{type(node).__name__.lower()}; it has if, for and filters"
        elif isinstance(node, nodes.For) and (node.recursive or node.find(nodes.For)):
            yield node.lineno, "a loop within a loop"
        elif isinstance(node, nodes.Filter) and node.name not in _FILTERS:
            yield node.lineno, f"the filter {node.name}; filters are {', '.join(sorted(_FILTERS))}"
        elif isinstance(node, nodes.Call) and _method(node) not in _METHODS:
            yield node.lineno, f"this call; methods that it may call are {', '.join(sorted(_METHODS))}"
        elif _joins(node) and any(_joins(other) for other in _walk(node) if other is not node):
            yield node.lineno, "a join within a join"
        elif _grows(node):
            yield node.lineno, "a replacement that is longer than what it replaces, or no text in quotes"


def _walk(node: nodes.Node) -> Iterator[nodes.Node]:
    left = [node]
    while left:
        yield (one := left.pop())
        left.extend(reversed([*one.iter_child_nodes()]))


def _method(node: nodes.Node) -> str | None:
    """The name of a filter, or of the method that is called."""
    if isinstance(node, nodes.Filter):
        return node.name
    called = node.node if isinstance(node, nodes.Call) else None
    return called.attr if isinstance(called, nodes.Getattr) else None


def _joins(node: nodes.Node) -> bool:
    return _method(node) == "join"


def _grows(node: nodes.Node) -> bool:
    if not isinstance(node, nodes.Filter | nodes.Call) or _method(node) != "replace":
        return False
    texts = [argument.value for argument in node.args if isinstance(argument, nodes.Const)]
    return len(texts) < 2 or not all(isinstance(text, str) for text in texts) or len(texts[1]) > len(texts[0])
