"""Prompts: Jinja templates of configs/prompts/, or a file of the user's own, over a question and its contexts."""

from functools import lru_cache
from pathlib import Path

import jinja2
from jinja2 import meta
from jinja2.sandbox import SandboxedEnvironment

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.registry import UnknownName

FOLDER = Path(__file__).parents[2] / "configs" / "prompts"
VARIABLES = {"question", "contexts"}
_ENVIRONMENT = SandboxedEnvironment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.jinja"))


def source(name: str) -> str:
    """The text of a template: a name of configs/prompts, or a file. Raises UnknownName, and ConfigError where it is no
    template, does not ask the question or has a variable that is not known."""
    path = FOLDER / f"{name}.jinja"
    if not path.exists() and (Path(name).suffix or "/" in name):
        path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
        used = meta.find_undeclared_variables(_ENVIRONMENT.parse(text))
    except FileNotFoundError:
        raise UnknownName("prompt", name, names()) from None
    except (OSError, UnicodeDecodeError, jinja2.TemplateSyntaxError) as error:
        raise ConfigError(f"prompt {path}: {error}") from error
    if unknown := used - VARIABLES:
        raise ConfigError(
            f"prompt {path}: unknown variable {', '.join(sorted(unknown))}; known: {', '.join(sorted(VARIABLES))}"
        )
    if "question" not in used:  # a mistake, or a file that the author of an experiment would like a server to be sent
        raise ConfigError(f"prompt {path} does not use the question; write {{{{ question }}}} where it goes")
    return text


def render(template: str, question: str, contexts: tuple[str, ...]) -> str:
    """Contexts and questions are data: what looks like a template in them is not read as one."""
    return _compiled(template).render(question=question, contexts=contexts).strip()


@lru_cache(16)
def _compiled(template: str) -> jinja2.Template:
    return _ENVIRONMENT.from_string(template)
