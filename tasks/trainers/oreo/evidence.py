"""The quality of the texts that a policy writes, by what a generator answers from them."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from vitalfew.tasks.generators import prompts
from vitalfew.tasks.generators.base import ByEngine, Generator, Prompt
from vitalfew.tasks.metrics.answers import F1, has_answer, is_right, normalise
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.small.policy import Policy, greedy
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.splitters.tokens import count_tokens
from vitalfew.tasks.trainers.oreo.collector import OreoExample, named, words

SHORT = 8
"""Words: a text of fewer may be no more than the answer."""
TOGETHER = 16
"""Questions whose texts are written together."""

_template = cache(prompts.source)


def answers(generator: Generator, asked: Sequence[tuple[str, str]]) -> list[Completion]:
    """A generator's answers to (question, evidence text). An empty text counts as no context.

    A language model is asked for short answers, because the reward compares words with those of short gold answers."""
    template = _template(Generator.prompt if isinstance(generator, ByEngine) else generator.prompt)
    given = []
    for question, text in asked:
        contexts = (text,) if text.strip() else ()
        given.append(Prompt(prompts.render(template, question, contexts), question, contexts))
    return generator.generate(given)


def answer_f1(text: str, gold: Sequence[str]) -> float:
    """ROUGE-1 of an answer, as F-measure over SQuAD's words, the best over the gold ones."""
    score, given = F1(F1.Options()), normalise(text)
    return max((score.match(text, given, normalise(one)) for one in gold), default=0.0)


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
    asked = sorted(rows, key=lambda row: (row.size, row.question_id))  # of similar length in a batch
    texts: list[str] = []
    for start in range(0, len(asked), TOGETHER):
        some = asked[start : start + TOGETHER]
        sources = policy.read([row.question for row in some], [row.texts for row in some])
        with torch.inference_mode():
            drawn = greedy(policy, policy.encode(sources), limit)
        texts += [policy.write(source, one.actions).text for source, one in zip(sources, drawn, strict=True)]
        tick(len(some), sum(source.tokens for source in sources))
    replies = answers(generator, [(row.question, text) for row, text in zip(asked, texts, strict=True)])
    whole = [Prompt("\n".join(row.texts), row.question, tuple(row.texts)) for row in asked if full]
    from_all = generator.generate(whole) if whole else []
    pairs = [*zip(asked, texts, strict=True)]
    tokens = sum(map(count_tokens, texts))
    shown = sum(count_tokens(text) for row in asked for text in row.texts)
    told = [(reply.text, row.answers) for row, reply in zip(asked, replies, strict=True)]
    right = [is_right(reply.text, row.answers) for row, reply in zip(asked, from_all, strict=False)]

    def mean(values: Sequence[float]) -> float:
        return round(sum(values) / max(1, len(asked)), 4)

    return {
        "questions": len(asked),
        "kept": mean([has_answer(text, row.answers) for row, text in pairs]),
        "tokens": mean([tokens]),
        "share": round(tokens / max(1, shown), 4),
        "short": mean([len(text.split()) < SHORT for text in texts]),
        "grounded": mean([not (words(text) | named(text)) - words(" ".join(row.texts)) for row, text in pairs]),
        "f1": mean([answer_f1(*one) for one in told]),
        "right": mean([is_right(*one) for one in told]),
        "full_right": mean(right) if whole else None,
    }
