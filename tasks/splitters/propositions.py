"""`propositions`: a sequence-to-sequence model writes the facts of a passage, one fact in every unit.

Dense X Retrieval (Chen et al. 2023, arXiv 2312.06648, section 2): a proposition is a minimal, self-contained statement,
and the unit of retrieval. Its vector is the proposition's own: search with alpha=1. The preset's name, the input
("Title: … Section: … Content: …", the section left empty), the JSON list that comes out, and the limit of 512 tokens
written are those of the authors' README (github.com/chentong0/factoid-wiki).

The authors' passages have 100 words. Here a passage that is too long for max_input_tokens (512, our own choice) is
halved at the end of a word until its parts fit, so no text is left out. If the list breaks off or is no JSON, the
propositions that can be separated are kept (`incomplete` in the manifest); the authors' example drops the list. A
passage without propositions stays whole.

The published checkpoint was not available during development: tests use tiny models of its architecture.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import ConfigDict

from vitalfew.configs.options import Rewriting
from vitalfew.configs.schema import SplitConfig
from vitalfew.tasks.models.causal.rewriter import Rewriter
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.splitters.base import Rewritten, StoredPassage
from vitalfew.tasks.splitters.tokens import count_words, first

_BETWEEN = re.compile(r'(?<!\\)"\s*,\s*"')


class Propositions:
    """A sequence-to-sequence model writes self-contained facts as the units of retrieval (Dense X)."""

    class Options(Rewriting, SplitConfig):
        model_config = ConfigDict(extra="forbid")

    rewrites: ClassVar[bool] = True
    version: ClassVar[str] = "1"
    presets: ClassVar[Mapping[str, str]] = {"dense-x": "chentong00/propositionizer-wiki-flan-t5-large"}

    def __init__(self, options: Options) -> None:
        """Raises EngineUnavailable where the model is not on this machine or has another architecture."""
        self.rewriter = Rewriter(
            options.model_copy(update={"model": options.model or "dense-x"}),
            "split",
            method="propositions",
            presets=self.presets,
            max_new_tokens=512,
            max_input_tokens=512,
        )
        self.uses_gpu = self.rewriter.uses_gpu
        self.workers = self.rewriter.workers

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version, "model": self.rewriter.identity()}

    def rewrite(self, passages: Sequence[StoredPassage], tick: Tick = no_tick) -> Rewritten:
        pieces = [(row, piece) for row, passage in enumerate(passages) for piece in self._inputs(passage)]
        done = reported = 0

        def forward(texts: int, tokens: int) -> None:
            nonlocal done, reported
            done += texts
            more = done * len(passages) // len(pieces) - reported
            reported += more
            tick(more, tokens)

        completions = self.rewriter.rewrite([piece for _, piece in pieces], forward)
        units: list[list[str]] = [[] for _ in passages]
        incomplete = set()
        for (row, _), completion in zip(pieces, completions, strict=True):
            propositions, whole = parse(completion.text)
            units[row] += propositions
            if not whole:
                incomplete.add(row)
        tokens = sum(completion.prompt_tokens + completion.completion_tokens for completion in completions)
        return Rewritten(units, tokens, {"incomplete": len(incomplete)})

    def _inputs(self, passage: StoredPassage) -> list[str]:
        """The model's inputs for a passage: one, or several if the passage is too long."""
        title = passage.title if self.rewriter.fits(_frame(passage.title, "")) else ""
        return [_frame(title, piece) for piece in self._pieces(title, passage.text)]

    def _pieces(self, title: str, text: str) -> list[str]:
        if len(text) < 2 or self.rewriter.fits(_frame(title, text)):
            return [text]
        half = first(text, count_words(text) // 2, None) or text[: len(text) // 2]
        return self._pieces(title, half) + self._pieces(title, text[len(half) :])


def _frame(title: str, text: str) -> str:
    return f"Title: {title}. Section: . Content: {text}"


def parse(output: str) -> tuple[list[str], bool]:
    """The propositions in a model's output, and whether the whole output is a JSON list of strings.

    If it is not, the quotation marks and commas separate the propositions; one that breaks off is left out.
    """
    try:
        listed = json.loads(output, strict=False)
    except (json.JSONDecodeError, RecursionError):
        pass
    else:
        if isinstance(listed, list) and all(isinstance(proposition, str) for proposition in listed):
            return listed, True
    opening, mark, body = output.partition('["')
    if not mark or opening.strip():
        return [], False
    body, closed, _ = body.partition('"]')
    parts = _BETWEEN.split(body)
    return [_unescaped(part) for part in (parts if closed else parts[:-1])], False


def _unescaped(part: str) -> str:
    try:
        return str(json.loads(f'"{part}"', strict=False))
    except json.JSONDecodeError:
        return part
