"""How well a reader answers questions on given passages: exact match and token F1, as SQuAD defines them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.metrics.answers import F1, ExactMatch
from vitalfew.tasks.metrics.base import Answer, Case
from vitalfew.tasks.trainers.articles import Asked, Material
from vitalfew.tasks.trainers.examples import hard_passages


@dataclass(frozen=True, slots=True)
class Quality:
    """`exact_match` and `f1` in percent."""

    questions: int
    contexts: int
    exact_match: float
    f1: float
    prompt_tokens: float
    """Mean over the questions."""

    @property
    def scores(self) -> tuple[float, float]:
        return self.exact_match, self.f1


def sample(questions: Sequence[Asked], size: int, seed: int) -> list[Asked]:
    return list(questions) if size >= len(questions) else random.Random(seed).sample(list(questions), size)


def measure(
    reader: Generator, material: Material, contexts: int, tick: Callable[[int, int], None] = lambda rows, tokens: None
) -> Quality:
    """Ask the material's questions with `contexts` passages: the gold passage, then the passages without the answer
    that BM25 ranks highest among all of them."""
    hard = hard_passages(material) if contexts > 1 else [[] for _ in material.questions]
    prompts = [
        Prompt("", asked.question, tuple(material.passages[n].text for n in (asked.passage, *others[: contexts - 1])))
        for asked, others in zip(material.questions, hard, strict=True)
    ]
    completions = reader.generate(prompts, tick=tick)
    cases = [
        Case(
            question=asked.question,
            answers=asked.answers,
            gold_passages=(),
            supporting_facts=(),
            answer=Answer(
                completion.text,
                completion.prompt_tokens,
                completion.completion_tokens,
                completion.seconds,
                completion.error,
            ),
        )
        for asked, completion in zip(material.questions, completions, strict=True)
    ]
    figures = {**ExactMatch(ExactMatch.Options()).score(cases), **F1(F1.Options()).score(cases)}
    means = {name: 100 * sum(value or 0.0 for value in values) / len(cases) for name, values in figures.items()}
    tokens = sum(completion.prompt_tokens for completion in completions) / len(cases)
    return Quality(len(cases), contexts, round(means["exact_match"], 2), round(means["f1"], 2), round(tokens, 1))
