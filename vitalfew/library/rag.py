"""`Rag`: a configured method that answers questions."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vitalfew.configs.loading import merged
from vitalfew.flows.pipelines.answering import Answering, RagAnswer, RagPassage, configured
from vitalfew.tasks.models.causal.engines.budget import Budget


class Rag:
    """A method that answers as its evaluation did: with the same settings, models, prompts and index.

    Models are loaded by the first question. Calls from several threads take turns.
    """

    def __init__(
        self,
        store: Path,
        method: str,
        index: str | None = None,
        generator: str | None = None,
        model: str | None = None,
        settings: Mapping[str, Any] | None = None,
        max_usd: float | None = None,
    ) -> None:
        """`max_usd`: USD that all answers together may cost in requests to servers. Raises NoPrice,
        UnknownName, ConfigError, IndexNotFound, IndexMismatch, and the errors of a missing model."""
        generate = {key: own for key, own in (("generator", generator), ("model", model)) if own is not None}
        whole = merged(settings or {}, {"generate": generate} if generate else {})
        self.configured = configured(store, method, index, whole)
        self._answering = Answering(store, self.configured, None if max_usd is None else Budget(max_usd))

    @property
    def name(self) -> str:
        """The method's name, as EXPERIMENT:METHOD."""
        return f"{self.configured.experiment}:{self.configured.method.name}"

    @property
    def run(self) -> str:
        """The evaluation of this store whose settings these are; empty: it was not evaluated with them."""
        return self.configured.run

    @property
    def fingerprint(self) -> str:
        """Identifies settings, models, prompts and index: an evaluation's method with the same one answers the same."""
        return self._answering.fingerprint

    def warm(self) -> None:
        """Load every model now."""
        self._answering.warm()

    @property
    def alpha(self) -> float | None:
        """The weight of a sentence itself against its context; None where the retriever has none."""
        return getattr(self.configured.method.retrieve, "alpha", None)

    @property
    def max_tokens(self) -> int | None:
        """Words and punctuation marks of all contexts together, at most; None where they have no such limit."""
        return self.configured.method.refine.max_tokens if self.configured.method.retrieve else None

    def answer(self, question: str, *, alpha: float | None = None, max_tokens: int | None = None) -> RagAnswer:
        """Answer a question. `alpha`, `max_tokens`: for this question alone; None: as the method has them.

        `RagAnswer.fingerprint` is then that of the settings it was answered with. Raises InputError for a question that
        is empty or too long, CapReached where `max_usd` leaves too little, ConfigError for a method without alpha.
        """
        return self._with(alpha, max_tokens).answer([question])[0]

    def answers(
        self, questions: Sequence[str], *, alpha: float | None = None, max_tokens: int | None = None
    ) -> list[RagAnswer]:
        """Answer questions together, in their order, which takes less time than one by one."""
        return self._with(alpha, max_tokens).answer(questions)

    async def aanswer(self, question: str, *, alpha: float | None = None, max_tokens: int | None = None) -> RagAnswer:
        """`answer` in a thread, for an event loop."""
        return await asyncio.to_thread(self.answer, question, alpha=alpha, max_tokens=max_tokens)

    def passages(self, answer: RagAnswer) -> list[RagPassage]:
        """The passages that were retrieved for an answer of this method, the best hit's first: their whole texts, with
        the spans that were kept."""
        return self._answering.passages_of(answer)

    def _with(self, alpha: float | None, max_tokens: int | None) -> Answering:
        settings: dict[str, dict[str, Any]] = {}
        if alpha is not None:
            settings["retrieve"] = {"alpha": alpha}
        if max_tokens is not None:
            settings["refine"] = {"max_tokens": max_tokens}
        return self._answering.varied(settings) if settings else self._answering

    def __repr__(self) -> str:
        return f"Rag({self.name!r}, fingerprint {self.fingerprint})"
