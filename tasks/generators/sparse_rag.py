"""Generators that rate the contexts and answer from those that they rate high enough: Sparse RAG and its variant.

`sparse_rag`: a causal model rates every context in the pass that reads it, and answers from the cache of those it
keeps (Zhu et al. 2024, arXiv 2405.16178, section 3.2).

The question comes first, and contexts do not see one another: a row has a question, a context and the control that
asks whether it is of use (models/causal/blocks.py). Keys and values of those that are kept are put into one cache,
and the control that asks for the answer follows.

One class with its baselines (table 3): `attention: full` and no threshold is RAG, `block` and none is PCW, `block` and
a threshold is Sparse RAG; `full` and a threshold is table 8's variant, whose prompt has the kept contexts alone, read
again. Where the paper is silent: the control stands after the kept contexts as if they had followed one another
(`answer_position`), the wording is ours (tasks/models/causal/controls.py), and at least one context is kept.

With blocks the order of the contexts changes nothing. `generate.prompt` plays no part. In bf16 the last bits depend on
what is read together: `precision=fp32` makes a difference rare, `batch_tokens=16` (every row alone) rules it out.

`rate_then_prompt`: a model rates every context in a separate request, and then answers a prompt of those it keeps. It
is the variant of Sparse RAG's table 8, whose answer has the kept contexts in one prompt, read again: for engines that
take no attention mask from a user, as vLLM, which computes the question that all requests begin with once. It is not
Sparse RAG, whose answer is written from the cache of contexts that have not seen one another (`sparse_rag`).

The score of a context is the probability of "yes" as the next token after the control that asks whether the context is
of use. What scores below a threshold is dropped. The paper says nothing of a question for which nothing is left: by
default its best context stays (`at_least: 0` is the literal rule).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field

from vitalfew.configs.evaluation import CHOOSES_PROMPTS
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching
from vitalfew.configs.section import NOT_IN_FINGERPRINT
from vitalfew.tasks.generators.base import Generator, Prompt, Rating, Stepwise, WithEngine
from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.causal.blocks import BlockModel, Continuation, Read, Row, require_blocks, roomy_cache, window
from vitalfew.tasks.models.causal.controls import Controls, Segmenter, Segments
from vitalfew.tasks.models.causal.engines.base import (
    Completion,
    EngineUnavailable,
    LocalOptions,
    Probe,
    failed,
    sampling_seed,
)
from vitalfew.tasks.models.causal.engines.memory import kept_batch, keys_to_keep
from vitalfew.tasks.models.causal.engines.transformers import Transformers, all_cores, shared
from vitalfew.tasks.models.causal.halving import in_halves
from vitalfew.tasks.models.causal.language_model import LocalModel
from vitalfew.tasks.models.causal.sampling import RowSampler
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.registry import make_engine


class RatingOptions(Controls):
    """How contexts are rated, and which are kept."""

    threshold: Annotated[float | None, CHOOSES_PROMPTS] = Field(
        0.15, ge=0, le=1, description="Lowest score of a context to keep; null: rate no context and keep all."
    )
    at_least: Annotated[int, CHOOSES_PROMPTS] = Field(
        1, ge=0, description="Minimum number of contexts to keep, the best ones; 0: perhaps none, as in the paper."
    )
    at_most: Annotated[int | None, CHOOSES_PROMPTS] = Field(
        None, ge=1, description="Maximum number of contexts to keep, the best ones; default: all above the threshold."
    )
    score: Literal["probability", "share"] = Field(
        "probability", description="Score of a context. probability: P(yes); share: P(yes) / (P(yes) + P(no))."
    )
    reuse_ratings: Annotated[bool, NOT_IN_FINGERPRINT] = Field(
        True, description="Reuse a rating if this model has already rated the context for this question."
    )

    def check(self, section: str) -> None:
        """Raises ConfigError."""
        if self.at_most is not None and self.at_most < self.at_least:
            raise ConfigError(
                f"{section}.at_most must be at least {section}.at_least, got {self.at_most} and {self.at_least}"
            )
        if self.at_most is not None and self.threshold is None:
            raise ConfigError(
                f"{section}.at_most needs ratings; --set {section}.threshold=0 rates all contexts and drops none"
            )

    def chosen(self, scores: Sequence[float], texts: Sequence[str]) -> list[int]:
        """Return the places of the kept contexts, in their order. `texts`: the contexts, which decide between equal
        scores, so that their order does not."""
        if self.threshold is None:
            return list(range(len(scores)))
        best = sorted(range(len(scores)), key=lambda place: (-scores[place], texts[place]))
        reaching = sum(score >= self.threshold for score in scores)
        return sorted(best[: min(max(reaching, self.at_least), self.at_most or len(best))])

    def scored(self, yes: float, no: float) -> float:
        """The score, of the probabilities of both words."""
        return yes / (yes + no) if self.score == "share" and yes + no > 0 else yes

    def ratings(self, prompt: Prompt, scores: Sequence[float], tokens: Sequence[int]) -> tuple[Rating, ...]:
        """Return the ratings of a prompt's contexts, by their scores and lengths; none without a threshold."""
        if self.threshold is None:
            return ()
        kept = self.chosen(scores, prompt.contexts)
        return tuple(
            Rating(place + 1, score, place in kept, length)
            for place, (score, length) in enumerate(zip(scores, tokens, strict=True))
        )

    def rated(self, prompt: Prompt) -> tuple[Rating, ...]:
        """Return the ratings of a prompt whose contexts are all remembered; none for any other."""
        known = [rating for rating in prompt.remembered if rating]
        if len(known) < len(prompt.contexts):
            return ()
        return self.ratings(prompt, [rating.score for rating in known], [rating.tokens for rating in known])

    def kept(self, prompt: Prompt) -> tuple[str, ...] | None:
        """Return the contexts that the answer is read from, best first; None until all are rated."""
        if self.threshold is None or not prompt.contexts:
            return prompt.contexts
        ratings = self.rated(prompt)
        return tuple(prompt.contexts[each.rank - 1] for each in ratings if each.kept) if ratings else None


class RatingGenerator(WithEngine):
    """Base of generators that rate contexts."""

    prompt: ClassVar[str] = "sparse_rag"
    batch_tokens: int = 0
    """Tokens that are read together, where a rating may depend on that."""

    def __init__(self, options: Any, engine: Any) -> None:
        super().__init__(options, engine)
        self.local: LocalModel = engine.local
        self.cut = Segmenter(self.local.tokenizer, options, self.local.given_template)

    def identity(self) -> dict[str, Any]:
        own = super().identity()
        if self.batch_tokens:
            own["engine"] |= {"batch_tokens": self.batch_tokens}
        controls = {name: getattr(self.options, name) for name in (*Controls.model_fields, "score")}
        return own | {"ratings": {**own, **controls}}

    def rated(self, prompt: Prompt) -> tuple[Rating, ...]:
        return self.options.rated(prompt)


@dataclass
class _Answering:
    """A prompt while it is answered. `scores` and `reads`: by a context's place; `kept`: places, in the order in which
    the answer's cache has them; `tokens`: that were read for it; `seconds`: by step, its share of what was computed
    together with others."""

    prompt: Prompt
    segments: Segments
    seconds: dict[str, float]
    scores: dict[int, float] = field(default_factory=dict)
    reads: dict[int, Read] = field(default_factory=dict)
    kept: list[int] = field(default_factory=list)
    tokens: int = 0
    error: str = ""
    written: Continuation | None = None

    @property
    def question(self) -> int:
        """Tokens of the prefix."""
        return len(self.segments.prefix)

    @property
    def lengths(self) -> list[int]:
        """Tokens of the contexts."""
        return [len(block) for block in self.segments.blocks]

    @property
    def held(self) -> int:
        """Tokens of the cache that the answer is written from."""
        return self.question + sum(self.lengths[place] for place in self.kept)


class SparseRag(RatingGenerator):
    """Sparse RAG: a causal model rates every context and answers from the cache of those it keeps; also RAG and PCW."""

    example: ClassVar[tuple[str, ...]] = ("generate.model=HuggingFaceTB/SmolLM2-135M-Instruct",)

    class Options(Generator.Options, Transformers.Options, RatingOptions):
        attention: Literal["block", "full"] = Field(
            "block",
            description="Attention of contexts. block: contexts do not see one another; full: the kept contexts form "
            "one prompt.",
        )
        answer_position: Literal["kept", "all", "longest"] = Field(
            "kept",
            description="Position of the answer. kept: as if only the kept contexts preceded it; all: as if all "
            "contexts did; longest: after the longest kept context (as in PCW).",
        )

    def __init__(self, options: Options) -> None:
        """Raises also EngineUnavailable for a model whose cache cannot be put together from blocks, and ConfigError for
        a yes or no of several tokens."""
        options.check("generate")
        engine = shared(options, "generate")
        require_blocks(engine.local.config, str(engine.local.directory))
        super().__init__(options, engine)
        # A CPU reads rows of some 2,000 tokens together the fastest, a GPU those of several questions.
        self.batch_tokens = options.batch_tokens or (65_536 if self.uses_gpu else 2048)

    def decisive(self, prompt: Prompt) -> tuple[str, ...] | None:
        kept = self.options.kept(prompt)
        if kept is None or self.options.attention == "full":
            return kept and (prompt.question, *kept)
        every = ("of", *sorted(prompt.contexts)) if self.options.answer_position == "all" else ()
        return prompt.question, *sorted(kept), *every

    @cached_property
    def model(self) -> BlockModel:
        return BlockModel(self.engine.model, self.engine.device, self.batch_tokens, self.engine.ends)

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        if prompts:
            _ = self.model  # loading it is in no answer's seconds, and a failure no fault of a prompt
        began = time.perf_counter()
        segments = [self.cut.segments(prompt.question, prompt.contexts) for prompt in prompts]
        init = (time.perf_counter() - began) / max(1, len(prompts))
        lengths = [self._length(each) for each in segments]
        keys = keys_to_keep(self.engine, [repr(prompt) for prompt in prompts])
        answers: dict[int, Completion] = {}

        def run(rows: Sequence[int]) -> list[Completion]:
            steps = {"init": init, "prefill": 0.0, "copy": 0.0, "decode": 0.0}
            return self._answered([_Answering(prompts[row], segments[row], {**steps}) for row in rows])

        for batch in batches(lengths, self.batch_tokens if self.uses_gpu else 1):
            own = [keys[row] for row in batch] if keys else []
            done = kept_batch(own, partial(in_halves, run, batch, lengths), Stepwise.restored)
            answers |= zip(batch, done, strict=True)
            tick(len(done), sum(answer.prompt_tokens + answer.completion_tokens for answer in done))
        return [answers[row] for row in range(len(prompts))]

    def _length(self, segments: Segments) -> int:
        """Tokens of a whole prompt."""
        return len(segments.prefix) + sum(map(len, segments.blocks)) + len(self.cut.generate)

    def _answered(self, readings: Sequence[_Answering]) -> list[Completion]:
        """Answer prompts that are read together."""
        with all_cores(), torch.inference_mode():
            for each in readings:
                each.error = self._too_long(each)
            self._rate([each for each in readings if not each.error])
            for each in readings:
                self._choose(each)
            due = [each for each in readings if not each.error]
            if self.options.attention == "block":
                self._read([(each, place) for each in due for place in each.kept if place not in each.reads], [])
            groups: dict[tuple[int, bool], list[_Answering]] = {}
            for each in due:  # whose caches are equally long, are answered together
                groups.setdefault((each.held, bool(each.reads and each.kept)), []).append(each)
            for group in groups.values():
                self._write(group)
        return [self._completion(each) for each in readings]

    def _too_long(self, reading: _Answering) -> str:
        """Return the reason why a prompt cannot be read: a row, or the whole prompt, is too long; or ""."""
        limit, whole = self.options.max_input_tokens, self._length(reading.segments)
        if limit and whole > limit:
            return f"the prompt has {whole} tokens, max_input_tokens is {limit}"
        longest = max(reading.lengths, default=0) + reading.question + len(self.cut.assess)
        if self.room and longest > self.room:
            return (
                f"the longest context has {longest} tokens with question and control, but the model reads at most "
                f"{self.room}. Set refine.max_words, or use an index of shorter units"
            )
        return ""

    @cached_property
    def room(self) -> int | None:
        """The tokens that the model has positions for, and sees."""
        _ = self.local.prompt_limit  # raises where max_tokens leaves no room
        limits = (self.local.positions, window(self.local.config))
        return min((limit for limit in limits if limit), default=None)

    def _rate(self, readings: Sequence[_Answering]) -> None:
        """Score all contexts whose scores are not remembered."""
        if self.options.threshold is None:
            return
        for each in readings:
            each.scores |= {place: known.score for place, known in enumerate(each.prompt.remembered) if known}
        due = [(each, place) for each in readings for place in range(len(each.lengths)) if place not in each.scores]
        self._read(due, self.cut.assess)
        for each, place in due:
            yes, no = each.reads[place].logprobs.exp().tolist()
            each.scores[place] = self.options.scored(yes, no)
            if self.options.attention == "full":
                del each.reads[place]

    def _read(self, due: Sequence[tuple[_Answering, int]], tail: Sequence[int]) -> None:
        """Read contexts after their questions. Their time is divided by tokens."""
        if not due:
            return
        began = time.perf_counter()
        rows = [Row(each.segments.prefix, each.segments.blocks[place], tail) for each, place in due]
        reads = self.model.read(rows, [self.cut.yes, self.cut.no])
        share = (time.perf_counter() - began) / sum(len(row.ids) for row in rows)
        for (each, place), row, read in zip(due, rows, reads, strict=True):
            each.reads[place] = read
            each.tokens += read.computed
            each.seconds["prefill"] += share * len(row.ids)

    def _choose(self, reading: _Answering) -> None:
        """Choose the kept contexts. Blocks are sorted, so that the order of the contexts changes nothing."""
        if reading.error:
            return
        texts = reading.prompt.contexts
        reading.kept = self.options.chosen([reading.scores.get(place, 0.0) for place in range(len(texts))], texts)
        if self.options.attention == "block":
            reading.kept.sort(key=texts.__getitem__)
        needed = self._position(reading) + len(self.cut.generate) + self.options.max_tokens
        if self.room and max(needed, reading.held) > self.room:
            reading.error = (
                f"{len(reading.kept)} kept contexts need {needed} tokens with question and answer, but the "
                f"model has room for {self.room}; set refine.top_k, generate.at_most or "
                "generate.answer_position=longest"
            )

    def _position(self, reading: _Answering) -> int:
        """Return the position of the control that asks for the answer."""
        lengths = reading.lengths
        kept = [lengths[place] for place in reading.kept]
        if self.options.attention == "full" or not kept:
            return reading.held
        beyond = {"kept": sum(kept), "all": sum(lengths), "longest": max(kept)}
        return reading.question + beyond[self.options.answer_position]

    def _write(self, group: Sequence[_Answering]) -> None:
        """Write the answers of readings with equally long caches, or of whole prompts without caches."""
        began = time.perf_counter()
        limit, control = self.options.max_tokens, self.cut.generate
        if group[0].reads and group[0].kept:
            sets = [[each.reads[place] for place in each.kept] for each in group]
            cache = self.model.joined(sets, [each.question for each in group], len(control) + limit)
            ids, positions = [control] * len(group), [self._position(each) for each in group]
        else:
            blocks = [[token for place in each.kept for token in each.segments.blocks[place]] for each in group]
            ids = [[*each.segments.prefix, *block, *control] for each, block in zip(group, blocks, strict=True)]
            cache, positions = roomy_cache(len(ids[0]) + limit), [0] * len(group)
        copied = (time.perf_counter() - began) / len(group)
        sampler = RowSampler(self.options.temperature, [self._seed(each) for each in group], self.engine.device, ())
        written = self.model.write(cache, torch.tensor(ids), positions, sampler, limit)
        for each, own, answer in zip(group, ids, written, strict=True):
            each.written = answer
            each.tokens += len(own)
            each.seconds["copy"] += copied
            each.seconds["prefill"] += answer.first_seconds / len(group)
            each.seconds["decode"] += answer.seconds / len(group)

    def _seed(self, reading: _Answering) -> int:
        """Return the seed of the kept contexts alone, as if there had been no others."""
        kept = [reading.prompt.contexts[place] for place in reading.kept]
        return sampling_seed(self.options.seed, self.cut.text(reading.prompt.question, kept))

    def _completion(self, reading: _Answering) -> Completion:
        tokens, seconds = self._length(reading.segments), sum(reading.seconds.values())
        written = reading.written
        if not written:
            return failed(reading.error, tokens, seconds)
        answer = self.local.completion(tokens, written.ids, seconds, written.logprob, self.engine.ends, {})
        if answer.error:
            return answer
        scores = [score for _, score in sorted(reading.scores.items())]
        steps: dict[str, Any] = {f"{step}_seconds": spent for step, spent in reading.seconds.items()}
        if any(reading.prompt.remembered):
            steps["prefill_seconds"] = None
        return Stepwise.of(
            answer,
            prefill_tokens=reading.tokens,
            kv_tokens=reading.held,
            ratings=self.options.ratings(reading.prompt, scores, reading.lengths),
            **steps,
        )


class RateThenPrompt(RatingGenerator):
    """A model rates contexts one by one and answers a prompt of those it keeps: Sparse RAG's variant in table 8."""

    example: ClassVar[tuple[str, ...]] = ("generate.model=HuggingFaceTB/SmolLM2-135M-Instruct",)

    class Options(Generator.Options, LocalOptions, Batching, RatingOptions):
        engine: Annotated[str, NOT_IN_FINGERPRINT] = Field(
            "vllm", description="Engine that runs the model: vllm or transformers."
        )

    def __init__(self, options: Options) -> None:
        options.check("generate")
        engine = make_engine(options.engine, options, "generate")
        local = getattr(engine, "local", None)
        if not isinstance(local, LocalModel) or local.is_seq2seq:
            raise EngineUnavailable(
                "generator 'rate_then_prompt' needs a causal model that runs on this machine, to look up its "
                "tokens; --set generate.engine=vllm (or transformers) and a causal generate.model"
            )
        super().__init__(options, engine)
        words = local.tokenizer.convert_ids_to_tokens([self.cut.yes, self.cut.no])
        self.words = Probe(tuple(words), alone=True)

    def decisive(self, prompt: Prompt) -> tuple[str, ...] | None:
        kept = self.options.kept(prompt)
        return None if kept is None else (prompt.question, *kept)

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        asked, errors = self._asked(prompts)
        ready = [prompt for prompt, error in zip(asked, errors, strict=True) if not error]
        texts = [self.cut.text(prompt.question, self.options.kept(prompt) or ()) for prompt in ready]
        # Of the steps no seconds are known: an engine reads many requests at once.
        answers = iter(
            Stepwise.of(answer, ratings=self.options.rated(prompt))
            for prompt, answer in zip(ready, self.engine.complete(texts, tick=tick), strict=True)
        )
        return [error or next(answers) for error in errors]

    def _asked(self, prompts: Sequence[Prompt]) -> tuple[list[Prompt], list[Completion | None]]:
        """Return the prompts with the ratings of all their contexts, and the failures of prompts that got none."""
        if self.options.threshold is None:
            return [*prompts], [None] * len(prompts)
        due = [
            (row, place)
            for row, prompt in enumerate(prompts)
            for place in range(len(prompt.contexts))
            if not (prompt.remembered and prompt.remembered[place])
        ]
        requests = [self.cut.rating_text(prompts[row].question, prompts[row].contexts[place]) for row, place in due]
        found: list[list[Rating | None]] = [[*prompt.remembered] or [None] * len(prompt.contexts) for prompt in prompts]
        errors: list[Completion | None] = [None] * len(prompts)
        for (row, place), answer in zip(due, self.engine.complete(requests, self.words), strict=True):
            if answer.error:
                errors[row] = failed(f"context {place + 1} could not be rated: {answer.error}", answer.prompt_tokens)
            yes, no = (answer.probabilities.get(word, 0.0) for word in self.words.tokens)
            tokens = len(self.cut.segments("", [prompts[row].contexts[place]]).blocks[0])
            found[row][place] = Rating(place + 1, self.options.scored(yes, no), False, tokens)
        return [replace(prompt, remembered=tuple(some)) for prompt, some in zip(prompts, found, strict=True)], errors
