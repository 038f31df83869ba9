"""Oreo's training examples, and the quality of the texts that a policy writes."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import torch

from vitalfew.tasks.generators import prompts
from vitalfew.tasks.generators.base import ByEngine, Generator, Prompt
from vitalfew.tasks.metrics.answers import F1, has_answer, is_right, normalise
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.small.copied import CopiedRun
from vitalfew.tasks.models.small.policy import Policy, PolicyOutput, greedy
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.splitters.tokens import count_tokens
from vitalfew.tasks.trainers.oreo.collector import Chunk, named, words

SHORT = 8
"""Words: a text of fewer may be no more than the answer."""
TOGETHER = 16
"""Questions whose texts are written together."""


@dataclass(frozen=True, slots=True)
class OreoExample:
    """A row of `oreo_examples`; `texts`: the chunks as they are shown."""

    question_id: int
    question: str
    answers: tuple[str, ...]
    texts: tuple[str, ...]
    target: str
    copied: tuple[CopiedRun, ...]
    split: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "OreoExample":
        chunks = [Chunk(one["passage_id"], 0, 0, one["title"], one["text"]) for one in row["chunks"]]
        return cls(
            row["question_id"],
            row["question"],
            tuple(row["answers"]),
            tuple(chunk.shown for chunk in chunks),
            row["target"],
            tuple(CopiedRun(**run) for run in row["copied"]),
            row["split"],
        )

    @property
    def size(self) -> int:
        """Characters that are read for it."""
        return sum(map(len, self.texts)) + len(self.question) * len(self.texts)


def examples(table: pa.Table) -> list[OreoExample]:
    return [OreoExample.of(row) for row in table.to_pylist()]


def sorted_batches(rows: Sequence[OreoExample], size: int, draw: random.Random) -> list[list[OreoExample]]:
    """Return batches of `size` examples in random order; the examples of a batch are of similar length."""
    mixed = draw.sample(rows, len(rows))
    steps = []
    for start in range(0, len(mixed), 32 * size):
        some = sorted(mixed[start : start + 32 * size], key=lambda row: (row.size, row.question_id))
        steps += [some[first : first + size] for first in range(0, len(some), size)]
    draw.shuffle(steps)
    return steps


_template = cache(prompts.source)


def answers(generator: Generator, asked: Sequence[tuple[str, str]]) -> list[Completion]:
    """Return a generator's answers to (question, evidence text). An empty text counts as no context.

    A language model is asked for short answers, because the reward compares words with those of short gold answers."""
    template = _template(Generator.prompt if isinstance(generator, ByEngine) else generator.prompt)
    given = []
    for question, text in asked:
        contexts = (text,) if text.strip() else ()
        given.append(Prompt(prompts.render(template, question, contexts), question, contexts))
    return generator.generate(given)


def answer_f1(text: str, gold: Sequence[str]) -> float:
    """Return ROUGE-1 of an answer, as F-measure over SQuAD's words, the best over the gold ones."""
    score, given = F1(F1.Options()), normalise(text)
    return max((score.match(text, given, normalise(one)) for one in gold), default=0.0)


def written(
    policy: Policy, rows: Sequence[OreoExample], limit: int, tick: Tick = no_tick
) -> Iterator[tuple[OreoExample, PolicyOutput]]:
    """Write the texts of examples greedily, in batches of similar length."""
    ordered = sorted(rows, key=lambda row: (row.size, row.question_id))
    for start in range(0, len(ordered), TOGETHER):
        some = ordered[start : start + TOGETHER]
        sources = policy.read([row.question for row in some], [row.texts for row in some])
        with torch.inference_mode():
            drawn = greedy(policy, policy.encode(sources), limit)
        for row, source, one in zip(some, sources, drawn, strict=True):
            yield row, policy.write(source, one.actions)
        tick(len(some), sum(source.tokens for source in sources))


def measure(
    policy: Policy,
    generator: Generator,
    rows: Sequence[OreoExample],
    limit: int,
    full: bool = False,
    tick: Tick = no_tick,
) -> dict[str, Any]:
    """Write texts greedily and let the generator answer from them; with `full`, also from the whole chunks.

    Returns means over the texts. `kept`: the share of texts with a gold answer; `tokens`: words and punctuation marks;
    `share`: their share of the whole chunks'; `short`: the share of texts under `SHORT` words; `grounded`: the share of
    texts whose words, names and numbers are all in the chunks; `f1`, `right`: the generator's answers from them;
    `full_right`: its answers from the whole chunks, or None.
    """
    pairs = [(row, text.text) for row, text in written(policy, rows, limit, tick=tick)]
    replies = answers(generator, [(row.question, text) for row, text in pairs])
    whole = None
    if full:
        asked = [Prompt("\n".join(row.texts), row.question, row.texts) for row, _ in pairs]
        whole = [reply.text for reply in generator.generate(asked)]
    count = max(1, len(pairs))

    def mean(values: Sequence[float]) -> float:
        return round(sum(values) / count, 4)

    tokens = [count_tokens(text) for _, text in pairs]
    shown = [sum(map(count_tokens, row.texts)) for row, _ in pairs]
    told = [(reply.text, row.answers) for (row, _), reply in zip(pairs, replies, strict=True)]
    right = [is_right(text, row.answers) for (row, _), text in zip(pairs, whole, strict=True)] if whole else None
    return {
        "questions": len(pairs),
        "kept": mean([has_answer(text, row.answers) for row, text in pairs]),
        "tokens": mean(tokens),
        "share": round(sum(tokens) / max(1, sum(shown)), 4),
        "short": mean([len(text.split()) < SHORT for _, text in pairs]),
        "grounded": mean([not (words(text) | named(text)) - words(" ".join(row.texts)) for row, text in pairs]),
        "f1": mean([answer_f1(*one) for one in told]),
        "right": mean([is_right(*one) for one in told]),
        "full_right": None if right is None else mean(right),
    }
