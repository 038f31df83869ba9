"""`reader`: an extractive reader on all-MiniLM-L6-v2, embedded, so that an answer costs no download.

Every context is read with the question, and the answer is the best span over all of them, as in DPR (Karpukhin et al.,
2020, arXiv 2004.04906, section 6.1): P(context) · P(span | context). P(context) is a softmax of the contexts'
answerability logits; P(span | context) ∝ exp(start + end) over spans of at most `MAX_ANSWER` tokens (DPR takes start
and end as independent, and chooses the context before the span). A long context is read in overlapping windows, every
one a separate context. Without a context there is no answer.

With `retrieval_weight`, P(context) is the softmax of answerability + weight · s, where s is the context's retrieval
score. DPR's reader ignores how well a passage was retrieved; of many contexts it may take a span of one that only looks
right. With s the logarithm of a probability (refiner `spans` gives ln P(passage)), or a score that is that plus a
constant of the question, this is P(context) ∝ P(context | retrieval)^weight · exp(answerability): the constant cancels
in the softmax, so that neither the choice nor `logprob` depends on it. A cosine has another scale than a logarithm, and
so another weight. Of a question with a context without a score (a model wrote it from several hits), and of one with a
single context, nothing changes.

The rendered prompt plays no part. A pair of question and context is read once (`readings`): another alpha, or a longer
list, leads a question to many of the same contexts. An answer's seconds count what its pairs took when they were read.
Trained by `vitalfew train reader`.

`log_likelihoods` says how likely the reader finds a gold answer in a text: log P(the text has the answer) + log P(its
span | the text), the same decomposition of a single context. With several contexts the first factor is a softmax over
them; of one alone it would always be 1, and so it is the logistic function of the same logit, as the reader was
trained. Every place of every gold answer counts.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field
from tokenizers import Encoding

from vitalfew.configs.options import Batching
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.models.batches import read_parts
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable, failed
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.loading import clock
from vitalfew.tasks.models.readings import LEAST, Reading, finite, recalled
from vitalfew.tasks.models.small.tuned import TunedMethod
from vitalfew.tasks.models.small.windows import MAX_QUESTION, PairWindow, encoded, padded, special, windows
from vitalfew.tasks.models.ticks import Tick, Watched, no_tick

if TYPE_CHECKING:
    from torch import Tensor

NONE = float("-inf")
MAX_ANSWER = 30
Pair = tuple[str, str]
"""A question and a context."""


BestSpan = tuple[int, int, float, float]
"""The best span of a window: its first and last token in the context, and natural logarithms: the window's
answerability (a logit) and the span's probability within the window."""


class Reader(TunedMethod, Generator):
    """An extractive reader on all-MiniLM-L6-v2, embedded: the best span over all contexts; no download."""

    class Options(Generator.Options, Batching):
        model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None, description="Directory that `vitalfew train` wrote; default: the bundled reader."
        )
        max_tokens: int = Field(
            MAX_ANSWER, ge=1, description=f"Maximum number of tokens in an answer, up to {MAX_ANSWER}."
        )
        max_input_tokens: int | None = Field(
            None,
            ge=1,
            description="Maximum number of tokens in a prompt, question and contexts together; a longer prompt "
            "becomes an error row.",
        )
        # None for 0: without a weight it is the method of the default.
        retrieval_weight: Annotated[float | None, AfterValidator(lambda weight: weight or None)] = Field(
            None,
            ge=0,
            allow_inf_nan=False,
            description="Weight of the contexts' retrieval scores beside the reader's: about 0.25 to 2 for refiner "
            "spans, 5 to 80 for cosines. It changes nothing where a model wrote the contexts: these have no scores. "
            "Default: 0, the reader's scores alone.",
        )

    version: ClassVar[str] = "2"
    recipe: ClassVar[str] = "reader"

    def __init__(self, options: Options) -> None:
        self.options = options
        try:
            super().__init__(options.model, options, "generate")
        except (FileNotFoundError, UnsupportedModel) as error:
            raise EngineUnavailable(f"reader: {error}") from error
        self.max_answer = min(MAX_ANSWER, options.max_tokens)
        self.weight = options.retrieval_weight or 0.0
        self.needs_scores = self.weight > 0

    def decisive(self, prompt: Prompt) -> tuple[str, ...] | None:
        return prompt.text, prompt.question, *prompt.contexts, *map(repr, prompt.scores)

    def network(self) -> type[Any]:
        from vitalfew.tasks.models.small.reader import ReaderModel

        return ReaderModel

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        began = clock()
        texts = [text for prompt in prompts for text in (prompt.question, *prompt.contexts)]
        encodings = encoded(self.tokenizer, texts) if texts else {}
        counts = [sum(len(encodings[text].ids) for text in (prompt.question, *prompt.contexts)) for prompt in prompts]
        errors = [
            self._error(len(encodings[prompt.question].ids), count)
            for prompt, count in zip(prompts, counts, strict=True)
        ]
        fine = [prompt for prompt, error in zip(prompts, errors, strict=True) if not error]
        pairs = [*dict.fromkeys((prompt.question, context) for prompt in fine for context in prompt.contexts)]
        watched, new = Watched(tick, len(prompts), len(pairs)), list[Pair]()

        def read(due: Sequence[Pair]) -> list[Reading]:
            new.extend(due)
            return self._readings(due, encodings, watched)

        # Remembered across methods and runs.
        readings = recalled({**self.identity(), "of": "span", "max_answer": self.max_answer}, pairs, read, watched)
        watched.finish()
        found = dict(zip(pairs, readings, strict=True))
        answers = [
            failed(error, count) if error else self._answer(prompt, found, encodings, count)
            for prompt, error, count in zip(prompts, errors, counts, strict=True)
        ]
        return _timed(answers, max(0.0, clock() - began - sum(found[pair].seconds for pair in new)))

    def _readings(self, pairs: Sequence[Pair], encodings: dict[str, Encoding], tick: Tick) -> list[Reading]:
        """The best spans of every pair's windows."""
        parts = [windows(self.tokenizer, encodings[question], encodings[context]) for question, context in pairs]
        read = read_parts(parts, tuple, self.batch_tokens, tick, self._best, self.at_once)
        return [
            # A score that is not a number becomes the lowest.
            Reading(
                finite(np.array([span for _, span in own], np.float32).reshape(-1), LEAST),
                sum(len(window.ids) for window, _ in own),
            )
            for own in read
        ]

    def _answer(
        self, prompt: Prompt, readings: Mapping[Pair, Reading], encodings: dict[str, Encoding], tokens: int
    ) -> Completion:
        """The best span over all windows of all contexts of a prompt; the first of equals."""
        import torch

        read = [(context, readings[prompt.question, context]) for context in prompt.contexts]
        priors = [self.weight * score for score in prompt.scores] or [0.0] * len(read)
        spans = [
            (context, int(first), int(last), prior + answerable, logprob)
            for (context, reading), prior in zip(read, priors, strict=True)
            for first, last, answerable, logprob in reading.values.reshape(-1, 4).tolist()
        ]
        if not spans:
            return Completion("", tokens, 0, 0.0)
        total = torch.tensor([chance for *_, chance, _ in spans], dtype=torch.float64).logsumexp(0).item()
        context, first, last, chance, logprob = max(spans, key=lambda span: span[3] + span[4])
        offsets = encodings[context].offsets
        text = context[offsets[first][0] : offsets[last][1]].strip()
        seconds = sum(reading.seconds for _, reading in read)
        return Completion(text, tokens, last - first + 1, seconds, chance - total + logprob)

    def _error(self, question: int, tokens: int) -> str:
        """`question`, `tokens`: the lengths of the question and of the prompt."""
        if question > MAX_QUESTION:
            return f"the question has {question} tokens, the reader takes at most {MAX_QUESTION}"
        limit = self.options.max_input_tokens
        return f"the prompt has {tokens} tokens, max_input_tokens is {limit}" if limit and tokens > limit else ""

    def _best(self, rows: Sequence[PairWindow]) -> list[BestSpan]:
        """The best span of every window of a batch."""
        import torch

        padding = special(self.tokenizer, "[PAD]")
        with torch.inference_mode():
            start, end, answerable = self.model(padded(rows, padding, self.device))
            best = best_spans(start, end, self.max_answer)
        return [
            (window.token(first), window.token(last), logit, logprob)
            for window, first, last, logprob, logit in zip(rows, *best, answerable.tolist(), strict=True)
        ]


def best_spans(start: "Tensor", end: "Tensor", longest: int) -> tuple[list[int], list[int], list[float]]:
    """First and last position and log-probability of every row's best span of at most `longest` tokens.

    `start`, `end`: logits float32 (n, length), −inf where no answer may be.
    """
    from vitalfew.tasks.models.small.reader import span_scores

    scores = span_scores(start, end, longest)
    best, where = scores.max(-1)
    first = where // longest
    return first.tolist(), (first + where % longest).tolist(), (best - scores.logsumexp(-1)).tolist()


def _timed(answers: list[Completion], seconds: float) -> list[Completion]:
    """Add to the seconds of every answer its share, by tokens, of the time besides the reading."""
    read = [0 if answer.error else answer.prompt_tokens for answer in answers]
    total = sum(read) or 1
    return [
        dataclasses.replace(answer, seconds=answer.seconds + seconds * tokens / total)
        for answer, tokens in zip(answers, read, strict=True)
    ]


class Told(NamedTuple):
    """A question, a text, and the question's gold answers."""

    question: str
    text: str
    answers: tuple[str, ...]


def log_likelihoods(reader: Reader, told: Sequence[Told], tick: Tick = no_tick) -> list[float]:
    """Return natural logarithms; −inf where no answer is in the text."""
    import torch

    from vitalfew.tasks.models.small.reader import span_scores

    encodings = encoded(reader.tokenizer, [text for one in told for text in one[:2]]) if told else {}
    gold: list[list[tuple[int, int]]] = []
    requests: list[list[tuple[PairWindow, int]]] = []
    for number, one in enumerate(told):
        question, text = encodings[one.question], encodings[one.text]
        gold.append([span for place in occurrences(one.text, one.answers) if (span := _tokens(text, place))])
        is_due = len(question.ids) <= MAX_QUESTION and gold[-1]
        own = windows(reader.tokenizer, question, text) if is_due else []
        requests.append([(window, number) for window in own])

    @torch.inference_mode()
    def read(rows: Sequence[tuple[PairWindow, int]]) -> list[float]:
        inputs = padded([window for window, _ in rows], special(reader.tokenizer, "[PAD]"), reader.device)
        start, end, answerable = reader.model(inputs)
        scores = span_scores(start, end, MAX_ANSWER)
        totals = torch.nn.functional.logsigmoid(answerable) - scores.logsumexp(-1)
        found = []
        for row, (window, number) in enumerate(rows):
            places = [
                window.position(first) * MAX_ANSWER + last - first
                for first, last in gold[number]
                if window.start <= first and last < window.stop and last - first < MAX_ANSWER
            ]
            found.append(float(scores[row, places].logsumexp(-1) + totals[row]) if places else NONE)
        return found

    found = read_parts(requests, lambda part: part[0], reader.batch_tokens, tick, read)
    return [max((likelihood for _, likelihood in own), default=NONE) for own in found]


def occurrences(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """Find the gold answers in a text, as whole words, in any case; return character ranges."""
    known = sorted({answer for answer in answers if answer.strip()}, key=lambda answer: (-len(answer), answer))
    if not known:
        return []
    pattern = "|".join(rf"(?<!\w){re.escape(answer.strip())}(?!\w)" for answer in known)
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]


def _tokens(text: Encoding, place: tuple[int, int]) -> tuple[int, int] | None:
    first, last = text.char_to_token(place[0]), text.char_to_token(place[1] - 1)
    return None if first is None or last is None else (first, last)
