"""How likely the reader finds a gold answer in a text: log P(the text has the answer) + log P(its span | the text).

DPR's decomposition (arXiv 2004.04906, section 6.1), of a single context. With several contexts the first factor is a
softmax over them; of one alone it would always be 1, and so it is the logistic function of the same logit, as the
reader was trained. Every place of every gold answer counts.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from tokenizers import Encoding

from vitalfew.tasks.generators.reader import MAX_ANSWER, Reader
from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.small.reader import span_scores
from vitalfew.tasks.models.small.windows import MAX_QUESTION, Window, encoded, padded, special, windows

NONE = float("-inf")


class Told(NamedTuple):
    """A question, a text, and the question's gold answers."""

    question: str
    text: str
    answers: tuple[str, ...]


@torch.inference_mode()
def log_likelihoods(
    reader: Reader, told: Sequence[Told], tick: Callable[[int], None] = lambda tokens: None
) -> list[float]:
    """Natural logarithms; −inf where no answer stands in the text. `tick`: called with the tokens of a batch."""
    model = reader.model
    encodings = encoded(reader.tokenizer, [text for one in told for text in one[:2]]) if told else {}
    rows: list[tuple[Window, int]] = []
    gold: list[list[tuple[int, int]]] = []
    for number, one in enumerate(told):
        question, text = encodings[one.question], encodings[one.text]
        gold.append([span for place in occurrences(one.text, one.answers) if (span := _tokens(text, place))])
        if len(question.ids) <= MAX_QUESTION and gold[-1]:
            rows += [(window, number) for window in windows(reader.tokenizer, question, text)]
    rows.sort(key=lambda row: (row[0].ids, row[0].start, row[1]))
    best = [NONE] * len(told)
    for batch in batches([len(window.ids) for window, _ in rows], reader.batch_tokens):
        some = [rows[place] for place in batch]
        inputs = padded([window for window, _ in some], special(reader.tokenizer, "[PAD]"), reader.device)
        start, end, answerable = model(inputs)
        scores = span_scores(start, end, MAX_ANSWER)
        totals = torch.nn.functional.logsigmoid(answerable) - scores.logsumexp(-1)
        for row, (window, number) in enumerate(some):
            places = [
                window.position(first) * MAX_ANSWER + last - first
                for first, last in gold[number]
                if window.start <= first and last < window.stop and last - first < MAX_ANSWER
            ]
            if places:
                best[number] = max(best[number], float(scores[row, places].logsumexp(-1) + totals[row]))
        tick(sum(len(window.ids) for window, _ in some))
    return best


def occurrences(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """Where a gold answer stands, as whole words, whatever the case: character ranges."""
    known = sorted({answer for answer in answers if answer.strip()}, key=lambda answer: (-len(answer), answer))
    if not known:
        return []
    pattern = "|".join(rf"(?<!\w){re.escape(answer.strip())}(?!\w)" for answer in known)
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]


def _tokens(text: Encoding, place: tuple[int, int]) -> tuple[int, int] | None:
    first, last = text.char_to_token(place[0]), text.char_to_token(place[1] - 1)
    return None if first is None or last is None else (first, last)
