"""Prompts: Jinja templates of configs/prompts/, or a file of the user, over a question and its contexts.

Templates are shared, and come with a store's records: so only those are rendered whose length and time follow from the
question's and the contexts' (`templates.py`).
"""

from pathlib import Path

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.generators import templates
from vitalfew.tasks.registry import UnknownName

FOLDER = Path(__file__).parents[2] / "configs" / "prompts"
VARIABLES = {"question", "contexts"}
_SAMPLES = ((), ("One.",), ("One.", "Two."))


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.jinja"))


def source(name: str) -> str:
    """The text of a template: a name of configs/prompts, or a file. Raises UnknownName, and ConfigError where it is no
    template, does not ask the question, has a variable that is not known, or fails with 0, 1 or 2 contexts."""
    path = FOLDER / f"{name}.jinja"
    if not path.exists() and (Path(name).suffix or "/" in name):
        path = Path(name)
    text = _text(path, name)
    try:
        _check(path, templates.variables(text))
        for contexts in _SAMPLES:
            _rendered(f"prompt {path}", text, "Who?", contexts)
    except templates.Fault as fault:
        raise ConfigError(f"prompt {path}: {fault}") from None
    return text


def _text(path: Path, name: str) -> str:
    if not path.exists():
        raise UnknownName("prompt", name, names())
    if not path.is_file():
        raise ConfigError(f"prompt {path}: not a file")
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(templates.LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt {path}: {error}") from error


def _check(path: Path, used: set[str]) -> None:
    if unknown := used - VARIABLES:
        raise ConfigError(
            f"prompt {path}: unknown variable {', '.join(sorted(unknown))}; known: {', '.join(sorted(VARIABLES))}"
        )
    if "question" not in used:  # a mistake, or a file that the author of an experiment would like a server to be sent
        raise ConfigError(f"prompt {path} does not use the question; write {{{{ question }}}} where it goes")


def render(template: str, question: str, contexts: tuple[str, ...]) -> str:
    """Contexts and questions are data: what looks like a template in them is not read as one. Raises ConfigError."""
    return _rendered(f"prompt {template.strip()[:40]!r}…", template, question, contexts).strip()


def _rendered(named: str, template: str, question: str, contexts: tuple[str, ...]) -> str:
    try:
        return templates.render(template, question=question, contexts=contexts)
    except templates.Fault as fault:
        given = f"the question {question[:80]!r} and {len(contexts)} contexts"
        raise ConfigError(f"{named}: {fault}; rendered for {given}") from None
