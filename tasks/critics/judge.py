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
from typing import Any, ClassVar

from configs.evaluation import CritiqueConfig, GenerateConfig
from configs.loading import ConfigError
from tasks.critics.base import Critique, Judged, Tick, no_tick, uncritical
from tasks.generators.base import Generation, Generator, Probe, Prompt
from tasks.generators.openai import OpenAI
from tasks.generators.transformers import Transformers
from tasks.generators.vllm import Vllm
from tasks.models.language_model import LocalModel

GENERATORS: dict[str, type[Generator]] = {"transformers": Transformers, "vllm": Vllm, "openai": OpenAI}
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
    """Any instruct model (critique.model, run by critique.generator) asked three questions: the answers' probabilities.

    Raises ConfigError, GeneratorUnavailable where there is no such model, or one that lacks an answer's token.
    """

    version: ClassVar[str] = "1"

    def __init__(self, config: CritiqueConfig) -> None:
        if config.model is None:
            raise ConfigError("critic 'judge' needs a model: --set critique.model=NAME (Hugging Face) or a directory")
        if config.generator not in GENERATORS:
            known = ", ".join(GENERATORS)
            raise ConfigError(f"critique.generator={config.generator}: a judge needs token probabilities: {known}")
        self.generator: Generator = GENERATORS[config.generator](
            GenerateConfig(
                generator=config.generator,
                **config.model_dump(
                    include={"model", "device", "precision", "batch_tokens", "base_url", "concurrency"}
                ),
                temperature=0.0,
                max_tokens=1,
            )
        )
        self.uses_gpu = self.generator.uses_gpu
        self.workers = self.generator.workers
        self.tokens = self._tokens()

    def identity(self) -> dict[str, Any]:
        return {
            "class": type(self).__name__,
            "version": self.version,
            "asking": ASKING,
            "generator": self.generator.identity(),
        }

    def _tokens(self) -> dict[str, tuple[str, ...]]:
        """The tokens that each answer may be given as. A model writes a word with a blank before it, or without."""
        answers = (*YES_NO, *GRADES)
        local = getattr(self.generator, "local", None)
        if not isinstance(local, LocalModel):
            return {answer: (answer,) for answer in answers}
        vocabulary = local.tokenizer.get_vocab()
        found = {
            answer: tuple(form for form in (answer, f"▁{answer}", f"Ġ{answer}") if form in vocabulary)
            for answer in answers
        }
        if missing := [answer for answer, forms in found.items() if not forms]:
            raise ConfigError(
                f"critic 'judge': the vocabulary of {local.directory} lacks the token {missing[0]!r}; "
                "take another model"
            )
        return found

    def critique(self, batch: Sequence[Judged], tick: Tick = no_tick) -> list[Critique]:
        scores: list[dict[str, float]] = [{} for _ in batch]
        errors = [""] * len(batch)
        for name, values in VALUES.items():
            due = [row for row, each in enumerate(batch) if name == "isuse" or each.context]
            prompts = [_prompt(name, batch[row]) for row in due]
            probe = Probe(tuple(form for answer in values for form in self.tokens[answer]))
            counted = tick if name == "isuse" else _tokens_alone(tick)
            for row, generation in zip(due, self.generator.generate(prompts, probe, counted), strict=True):
                score, error = self._score(generation, values)
                scores[row][name] = score
                errors[row] = errors[row] or (f"{name}: {error}" if error else "")
        return [
            uncritical(error) if error else Critique(each.get("isrel", 0.0), each.get("issup", 0.0), each["isuse"])
            for each, error in zip(scores, errors, strict=True)
        ]

    def _score(self, generation: Generation, values: Mapping[str, float]) -> tuple[float, str]:
        """The expected value of the answer, or why there is none."""
        if generation.error:
            return 0.0, generation.error
        given = {
            answer: sum(generation.probabilities.get(form, 0.0) for form in self.tokens[answer]) for answer in values
        }
        total = sum(given.values())
        if not total > 0:
            return 0.0, f"none of {', '.join(values)} is among the tokens that the model may answer with"
        return min(1.0, sum(value * given[answer] for answer, value in values.items()) / total), ""


def _prompt(name: str, judged: Judged) -> Prompt:
    known = {field.name: getattr(judged, field.name) for field in dataclasses.fields(judged)}
    return Prompt(ASKING[name].format(**known), judged.question, (judged.context,) if judged.context else ())


def _tokens_alone(tick: Tick) -> Tick:
    """A candidate counts as judged with the last of its questions."""
    return lambda candidates, tokens: tick(0, tokens)
