"""`judge`: any instruct model is asked three questions, and the probabilities of its answer tokens are the scores.

Whether the context is of use and whether it supports the answer are yes or no: the score is p(yes) / (p(yes) + p(no)).
How useful the answer is, is a grade from 1 to 5: the score is the expected grade, (grade − 1) / 4. All at the first
position of the model's answer, so one token is generated for each question, and nothing is drawn. The three scores are
those of Self-RAG (Asai et al., 2023, arXiv 2310.11511, table 1); that a model which was not trained for it gives them
is this project's own variant, for comparison with `reflection`.

A candidate without a context is asked about its usefulness alone: nothing is relevant or supports it (0).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from vitalfew.configs.evaluation import CritiqueConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching, Server
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.critics.base import Candidate, Judgement, uncritical
from vitalfew.tasks.models.causal.engines.base import Completion, Engine, Probe
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.registry import make_engine

YES_NO = {"Yes": 1.0, "No": 0.0}
GRADES = {str(grade): (grade - 1) / 4 for grade in range(1, 6)}
VALUES: dict[str, Mapping[str, float]] = {"isrel": YES_NO, "issup": YES_NO, "isuse": GRADES}
"""By score, what each answer is worth."""
ASKING = {
    "isrel": (
        "Here are a question and a text.\n\nQuestion: {question}\n\nText: {context}\n\n"
        "Does the text contain information that helps to answer the question? Reply with one word, Yes or No.\nReply:"
    ),
    "issup": (
        "Here are a text, a question and an answer to it.\n\nText: {context}\n\nQuestion: {question}\n\n"
        "Answer: {answer}\n\nDoes the text state or imply that this answer is right? Reply with one word, Yes or No."
        "\nReply:"
    ),
    "isuse": (
        "Here are a question and an answer to it.\n\nQuestion: {question}\n\nAnswer: {answer}\n\n"
        "How well does the answer serve whoever asked, from 1 (not at all) to 5 (completely)? Reply with one digit."
        "\nReply:"
    ),
}


class Judge:
    """Answer probabilities of an instruct model (critique.model, critique.engine) that is asked three questions."""

    example: ClassVar[tuple[str, ...]] = ("critique.model=HuggingFaceTB/SmolLM2-1.7B-Instruct",)

    class Options(CritiqueConfig, Batching, Server):
        model_config = ConfigDict(extra="forbid")

        engine: Annotated[str, NOT_IN_FINGERPRINT] = Field(
            "transformers",
            description="Engine that runs the model: transformers, vllm or openai (with log probabilities).",
        )
        model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None, description="Instruct model: a directory, or its name on the server or the hub."
        )

    version: ClassVar[str] = "1"

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, EngineUnavailable where there is no such model, or one that lacks an answer's token."""
        if options.model is None:
            raise ConfigError("critic 'judge' needs a model: --set critique.model=NAME (Hugging Face) or a directory")
        self.engine: Engine = make_engine(options.engine, options, "critique", temperature=0.0, max_tokens=1)
        self.uses_gpu = self.engine.uses_gpu
        self.workers = self.engine.workers
        self.tokens = self._tokens(options.model)

    def identity(self) -> dict[str, Any]:
        return {
            "class": type(self).__name__,
            "version": self.version,
            "asking": ASKING,
            "engine": self.engine.identity(),
        }

    def _tokens(self, model: str) -> dict[str, tuple[str, ...]]:
        """The tokens that each answer may be given as. A model writes a word with a blank before it, or without."""
        answers = (*YES_NO, *GRADES)
        vocabulary = self.engine.vocabulary
        if vocabulary is None:
            return {answer: (answer,) for answer in answers}
        forms = {
            answer: tuple(form for form in (answer, f"▁{answer}", f"Ġ{answer}") if form in vocabulary)
            for answer in answers
        }
        if missing := [answer for answer in answers if not forms[answer]]:
            raise ConfigError(
                f"critic 'judge': the vocabulary of {model} lacks the token {missing[0]!r}; use another model"
            )
        return forms

    def critique(self, batch: Sequence[Candidate], tick: Tick = no_tick) -> list[Judgement]:
        scores: list[dict[str, float]] = [{} for _ in batch]
        errors = [""] * len(batch)
        for aspect, values in VALUES.items():
            due = [row for row, candidate in enumerate(batch) if aspect == "isuse" or candidate.context]
            prompts = [_prompt(aspect, batch[row]) for row in due]
            probe = Probe(tuple(form for answer in values for form in self.tokens[answer]))
            counted = tick if aspect == "isuse" else _tokens_alone(tick)
            for row, completion in zip(due, self.engine.complete(prompts, probe, counted), strict=True):
                score, error = self._score(completion, values)
                scores[row][aspect] = score
                errors[row] = errors[row] or (f"{aspect}: {error}" if error else "")
        return [
            uncritical(error) if error else Judgement(own.get("isrel", 0.0), own.get("issup", 0.0), own["isuse"])
            for own, error in zip(scores, errors, strict=True)
        ]

    def _score(self, completion: Completion, values: Mapping[str, float]) -> tuple[float, str]:
        """The expected value of the answer, or why there is none."""
        if completion.error:
            return 0.0, completion.error
        given = {
            answer: sum(completion.probabilities.get(form, 0.0) for form in self.tokens[answer]) for answer in values
        }
        total = sum(given.values())
        if not total > 0:
            return 0.0, f"the model gives no probability to any of {', '.join(values)}"
        return min(1.0, sum(value * given[answer] for answer, value in values.items()) / total), ""


def _prompt(aspect: str, candidate: Candidate) -> str:
    known = {field.name: getattr(candidate, field.name) for field in dataclasses.fields(candidate)}
    return ASKING[aspect].format(**known)


def _tokens_alone(tick: Tick) -> Tick:
    """A candidate counts as judged with the last of its questions."""
    return lambda candidates, tokens: tick(0, tokens)
