"""What differs between servers that speak OpenAI's chat completions: the parameters they take, and how they say so.

A server that refuses a parameter (400 or 422) names it: OpenAI in `error.param`, Mistral, vLLM and others with FastAPI
in a `loc`, the rest in words; OpenRouter hands on what the server behind it said, as JSON in a string. So it is looked
for in the whole body, by the names of the parameters that were sent. It is left out of the next request, and once the
server answers, that is remembered for the server and the model, as long as the process lives, and said. The limit of an
answer is never left out: it has another name (`LIMITS`, or one that the server gives).
"""

import json
import logging
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

logger = logging.getLogger("vitalfew")

LIMITS = ("max_tokens", "max_completion_tokens")
"""Names of the limit of an answer. OpenAI's reasoning models refuse the first, most other servers know it alone."""
_OF_LIMIT = re.compile(r"\b(?:max_\w*tokens\w*|n(?:um)?_predict)\b")
_TOO_MANY = re.compile(r"context|too (?:large|long|many)|exceed|at (?:most|least)|maximum|greater|less than", re.I)
"""A limit that is refused for what it says, not for its name."""
_PLACES = frozenset(["param", "loc", "field"])
"""Keys whose values name a parameter."""
_ECHOES = frozenset(["input", "body", "request", "prompt", "url"])
"""Keys whose values are parts of the request."""
_ALIASES = {
    "logprobs": r"(?:response|top)?[_ -]?log[_ -]?probs?|logprobabilities",
    "response_format": r"response[_ -]?format|json[_ -]?schema|schema|structured[_ -]outputs?",
}
"""By other words than its name."""


@dataclass(frozen=True)
class Dialect:
    """How a server is asked for a model's answers. `limit`: its name of the limit; `left_out`: refused parameters."""

    limit: str = LIMITS[0]
    left_out: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    """Names of the limit that were refused."""

    def after(self, said: str, sent: Collection[str], needed: Collection[str] = ()) -> "Dialect | None":
        """How to ask again after a refusal with this body; None if it is not about a parameter that can do without.

        `sent`: the names of the parameters of the request; `needed`: those that it cannot do without."""
        places, words = _parts(said)
        name = refused(places, words, sent)
        if name != self.limit:
            return replace(self, left_out=(*self.left_out, name)) if name and name not in needed else None
        tried = (*self.tried, name)
        others = [other for other in (*_OF_LIMIT.findall(words), *LIMITS) if other not in tried]
        return replace(self, limit=others[0], tried=tried) if others and not _TOO_MANY.search(words) else None


_learnt: dict[tuple[str, str], Dialect] = {}
_lock = Lock()


def known(server: str, model: str) -> Dialect:
    """Return what this process has learnt of a server's model."""
    return _learnt.get((server, model), Dialect())


def learn(server: str, model: str, dialect: Dialect) -> None:
    """Remember what a server answered to, and say which parameters it was asked without, each once."""
    with _lock:
        before = known(server, model)
        new = [name for name in dialect.left_out if name not in before.left_out]
        _learnt[server, model] = replace(dialect, left_out=(*before.left_out, *new))
    if new:
        told = "%s refuses for %s: %s. The parameter is left out; the server's default applies"
        logger.warning(told, server, model, ", ".join(new))


def refused(places: Iterable[str], words: str, sent: Collection[str]) -> str:
    """The parameter among those that were sent which a refusal names, or ''. `places`: the names that it gives as
    such; where there are any, its `words` are not searched: they may quote the prompt."""
    given = [place for place in places if place not in ("", "None", "body")]
    for place in given:
        for name in sent:
            if place == name or place.startswith(f"{name}."):
                return name
    if given:
        return ""
    found = [(match.start(), name) for name in sent if (match := _pattern(name).search(words))]
    # "temperature and top_p cannot both be specified": the second has the value that it would have anyway.
    choose = max if re.search(r"\bboth\b", words) else min
    return choose(found)[1] if found else ""


def said(body: str) -> str:
    """The words of an error in one line, without what they echo of the request."""
    places, words = _parts(body)
    return " ".join(" ".join((*places, words)).split())


def _pattern(name: str) -> re.Pattern[str]:
    words = _ALIASES.get(name) or re.escape(name).replace("_", "[_ -]?")
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{words})(?![A-Za-z0-9_])", re.IGNORECASE)


def _parts(said: str) -> tuple[list[str], str]:
    """Return what a body names as parameters, and all of its words besides what it echoes of the request."""
    places: list[str] = []
    words: list[str] = []
    due: list[tuple[str, Any]] = [("", said)]
    while due:
        key, value = due.pop()
        if isinstance(value, dict):
            due += [(name, each) for name, each in reversed(value.items()) if name not in _ECHOES]
        elif isinstance(value, list):
            due += [(key, each) for each in reversed(value)]
        elif isinstance(value, str):
            inner = None
            with suppress(ValueError, RecursionError):
                inner = json.loads(value)
            if isinstance(inner, dict | list):
                due.append((key, inner))
            else:
                (places if key in _PLACES else words).append(value)
    return places, "\n".join(words)
