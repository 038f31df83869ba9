"""generate: question and evidence → candidates; and readings, the output of an extractive reader for a question and a
context. Answers and readings of earlier runs, of other methods and other budgets, are not computed again."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.configs.evaluation import CHOOSES_PROMPTS, GenerateConfig
from vitalfew.configs.section import NOT_IN_FINGERPRINT
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact, fingerprint
from vitalfew.storage.costs import Reused
from vitalfew.storage.ids import content_id
from vitalfew.storage.manifests import Manifest
from vitalfew.tasks.generators import prompts
from vitalfew.tasks.generators.base import CUT, REFUSED, Generator, Prompt, Rating
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.readings import Memory
from vitalfew.tasks.registry import kept
from vitalfew.tasks.splitters.tokens import count_tokens
from vitalfew.tasks.stage import Progress, ReusingStage, ShardResult, Stage

OF_PREFILL = ("prefill_tokens", "init_seconds", "prefill_seconds")
"""Columns of what was read, which another prompt with the same answer may have had more or less of."""
RECEIVED = "received"
STEPS = (*OF_PREFILL, "kv_tokens", "copy_seconds", "decode_seconds")


class NoAnswers(ValueError):
    """Every answer of a method is an error; the message has the words of the most frequent one."""


Given = tuple[str, float | None]
"""The text of a context, and its score if it has one that the generator asks for."""


class Due(NamedTuple):
    """A candidate that is still to be generated. `ranks`: those of its prompt's contexts in `evidence`."""

    question_id: int
    candidate: int
    ranks: list[int]
    prompt: Prompt
    key: int
    """`prompt_id`: of the prompt and of all else that its answer depends on."""

    def columns(self) -> dict[str, Any]:
        """The columns of its row that do not depend on the answer."""
        return {"question_id": self.question_id, "candidate": self.candidate, "contexts": self.ranks}


class Generate(ReusingStage):
    """Stage `generate` over `asked`, with the contexts of `evidence` if there is retrieval."""

    name: ClassVar[str] = "generate"
    table: ClassVar[str] = "candidates"
    over: ClassVar[str] = "asked"
    section: ClassVar[str] = "generate"
    role: ClassVar[str | None] = "generator"
    version: ClassVar[str] = "3"  # since 3, with thought_tokens, cached_tokens and left_out

    def __init__(self, store: Path, asked: Artifact, evidence: Artifact | None, config: GenerateConfig) -> None:
        """Raises UnknownName, ConfigError, EngineUnavailable."""
        generator: Generator = kept(config, self.name)
        self.template = prompts.source(config.prompt or generator.prompt)
        super().__init__(store, {"asked": asked} | ({"evidence": evidence} if evidence else {}), config)

    config: GenerateConfig
    method: Generator

    def method_identity(self) -> dict[str, Any]:
        return {"generator": self.method.identity(), "prompt": self.template}

    def total_rows(self) -> int:
        rows = self.inputs["asked"].completed().rows["asked"]
        per_context = self.config.per_context and "evidence" in self.inputs
        return max(rows, self.inputs["evidence"].completed().rows["evidence"]) if per_context else rows

    def work(self, shard: int, progress: Progress) -> ShardResult:
        due, computed = self.due(shard)
        due = self._with_ratings(due)
        # A failed answer is not reused, and rather one that was generated than one that was reused.
        ids = [candidate.key for candidate in due]
        known = self.known(self.table, "prompt_id", ids, where="error = ''", order="reused, place")
        new: dict[int, Prompt] = {}
        for candidate in due:
            if candidate.key not in known:
                new.setdefault(candidate.key, candidate.prompt)
        progress(len(due) - len(new), 0)
        with self.remembering() as memory:
            completions = self.method.generate([*new.values()], progress)
        answered = dict(zip(new, completions, strict=True))
        rows = [
            self._new(candidate, answered[candidate.key])
            if candidate.key in new
            else self._reused(candidate, known[candidate.key])
            for candidate in due
        ]
        share, whole = _share_read(memory), sum(completion.computed for completion in completions)
        tokens = computed + round(share * whole)
        reused = self._took(known.values()) + memory.took((1 - share) * whole)
        notes = {"reused": len(due) - len(new), **_told_apart(rows), **memory.notes()}
        received = {RECEIVED: self._received(rows, answered)} if self.method.elsewhere else {}  # it changes the rows
        tables = {self.table: pa.Table.from_pylist(rows, schemas.CANDIDATES), **received, **memory.tables()}
        questions = len({candidate.question_id for candidate in due})
        cached = sum(row["cached_tokens"] for row in rows if not row["reused"])
        return ShardResult(questions, tables, tokens=tokens, notes=notes, cached=cached, reused=reused)

    def _received(self, rows: Sequence[dict[str, Any]], answered: Mapping[int, Completion]) -> pa.Table:
        """Return what came with answers that were given elsewhere, now or earlier; gives the rows their contexts."""
        known = self.known(RECEIVED, "prompt_id", [row["prompt_id"] for row in rows if row["reused"]])
        received = []
        for row in rows:
            key = row["prompt_id"]
            own = known[key] if row["reused"] else _came_with(answered[key])
            row["contexts"] = [*range(1, len(own["contexts"]) + 1)]
            received.append(own | {name: row[name] for name in ("question_id", "candidate", "prompt_id")})
        return pa.Table.from_pylist(received, schemas.RECEIVED)

    def check(self, manifest: Manifest) -> None:
        """Raises NoAnswers where every answer is an error. Its shards are then not done: the same command asks
        again."""
        errors = manifest.note("errors")
        if not errors or errors < manifest.rows[self.table]:
            return
        reasons = Counter(
            error
            for record in manifest.shards
            for error in self.artifact.read(record.shard, columns=["error"])["error"].to_pylist()
        )
        self.artifact.add_costs(self.name, self.model_name, manifest.shards)
        for record in manifest.shards:
            files.remove(self.artifact.marker(record.shard))
        [(words, count)] = reasons.most_common(1)
        raise NoAnswers(
            f"{self.name}: none of {errors:,} requests to {self.model_name} has an answer: {words.rstrip('.')} "
            f"({count:,} times). The same command asks again"
        )

    def _took(self, answers: Iterable[dict[str, Any]]) -> Reused:
        """The cost of the answers of earlier runs: their seconds, at the processors that their shards kept busy. Those
        of a server overlap, and count at most one second on the clock."""
        took, of_files = Reused(), defaultdict[int, list[dict[str, Any]]](list)
        for answer in answers:
            of_files[answer["place"]].append(answer)
        for place, own in of_files.items():
            base = self.bases(self.table)[place]
            busy = max(base.took.wall_seconds, pc.sum(base.read(["seconds"])["seconds"]).as_py() or 0.0)
            share = sum(row["seconds"] for row in own) / busy if busy else 0.0
            tokens = sum((row["prefill_tokens"] or row["prompt_tokens"]) + row["completion_tokens"] for row in own)
            took += Reused(tokens, share * base.took.wall_seconds, share * base.took.cpu_seconds)
        return took

    def _new(self, candidate: Due, completion: Completion) -> dict[str, Any]:
        """The columns of an answer that was generated. What decided it may be known only now."""
        ratings: tuple[Rating, ...] = getattr(completion, "ratings", ())
        key = self._key(replace(candidate.prompt, remembered=ratings)) if ratings else candidate.key
        own = {"prompt_id": key, "ratings": self._rows(candidate, ratings), "reused": False}
        return candidate.columns() | _columns(completion) | own

    def _reused(self, candidate: Due, known: dict[str, Any]) -> dict[str, Any]:
        """The columns of an answer that an earlier prompt got; its contexts may have been others, of which the same
        were kept."""
        own: dict[str, Any] = {"prompt_id": candidate.key, "reused": True}
        if ratings := self.method.rated(candidate.prompt):
            own |= {"ratings": self._rows(candidate, ratings)} | dict.fromkeys(OF_PREFILL)
        return known | candidate.columns() | own

    def _rows(self, candidate: Due, ratings: Iterable[Rating]) -> list[dict[str, Any]]:
        ids = self._rating_ids(candidate.prompt)
        return [
            asdict(rating) | {"rank": candidate.ranks[rating.rank - 1], "rating_id": ids[rating.rank - 1]}
            for rating in ratings
        ]

    def _with_ratings(self, due: list[Due]) -> list[Due]:
        """With what earlier runs say of the contexts, and then perhaps another key."""
        if not (self._rates and getattr(self.config, "reuse_ratings", False)):
            return due
        ids = [self._rating_ids(candidate.prompt) for candidate in due]
        of_ratings = "(SELECT unnest(ratings, recursive := true), place FROM earlier)"
        rows = self.known(self.table, "rating_id", [each for some in ids for each in some], rows=of_ratings)
        known = {key: Rating(*(row[name] for name in Rating.__slots__)) for key, row in rows.items()}
        rated = []
        for candidate, some in zip(due, ids, strict=True):
            remembered = tuple(known.get(each) for each in some)
            prompt = replace(candidate.prompt, remembered=remembered if any(remembered) else ())
            rated.append(candidate._replace(prompt=prompt, key=self._key(prompt)))
        return rated

    @cached_property
    def _rates(self) -> str:
        """The fingerprint of what a rating depends on besides question and context; "": the generator rates nothing."""
        ratings = self.planned["generator"].get("ratings")
        return fingerprint(ratings=ratings) if ratings else ""

    def _rating_ids(self, prompt: Prompt) -> list[int]:
        return [content_id(self._rates, prompt.question, context) for context in prompt.contexts]

    def _key(self, prompt: Prompt) -> int:
        """The id of a prompt, whose contexts count as far as they decide the answer; where that is not known before
        they are rated, all of them."""
        parts = self.method.decisive(prompt)
        everything = (prompt.text, prompt.question, *prompt.contexts)
        return content_id(self._answers, *(everything if parts is None else parts))

    @cached_property
    def _answers(self) -> str:
        """The fingerprint of everything that an answer depends on besides the prompt."""
        unasked, fields = {NOT_IN_FINGERPRINT, CHOOSES_PROMPTS}, type(self.config).model_fields
        left_out = {name for name, field in fields.items() if unasked.intersection(field.metadata)}
        config = self.config.model_dump(mode="json")
        kept = {name: value for name, value in config.items() if name not in left_out}
        return fingerprint(config=kept, generator=self.planned["generator"])

    def due(self, shard: int) -> tuple[list[Due], int]:
        """All candidates of a shard with their prompts, and the tokens that it took to determine them."""
        asked = self.inputs["asked"].read(shard, columns=["question_id", "text", "source_id"]).to_pylist()
        contexts = self._contexts(shard)
        bare, computed = self.method.without_contexts([self._prompt(row["text"], []) for row in asked])
        due = []
        for row, without in zip(asked, bare, strict=True):
            key = row["question_id"]
            given = [] if without else contexts[key]
            ranks = range(1, len(given) + 1)
            sets = [[rank] for rank in ranks] if self.config.per_context and given else [[*ranks]]
            for number, ranks_of in enumerate(sets):
                prompt = self._prompt(row["text"], [given[rank - 1] for rank in ranks_of], row["source_id"])
                due.append(Due(key, number, ranks_of, prompt, self._key(prompt)))
        return due, computed

    def _prompt(self, question: str, given: Sequence[Given], name: str = "") -> Prompt:
        contexts = tuple(text for text, _ in given)
        scores = tuple(score for _, score in given if score is not None and isfinite(score))
        text = prompts.render(self.template, question, contexts)
        return Prompt(text, question, contexts, scores=scores if len(scores) == len(contexts) else (), name=name)

    def _contexts(self, shard: int) -> Mapping[int, list[Given]]:
        """The contexts by question, best first."""
        contexts = defaultdict[int, list[Given]](list)
        columns = ["question_id", "text", *(["score"] if self.method.needs_scores else [])]
        for row in (
            self.inputs["evidence"].read(shard, columns=columns).to_pylist() if "evidence" in self.inputs else []
        ):
            contexts[row["question_id"]].append((row["text"], row.get("score")))
        return contexts


def _came_with(answer: Completion) -> dict[str, Any]:
    """The columns of `received` that do not depend on the question. An assumed answer came with nothing."""
    contexts, unknown = getattr(answer, "contexts", None), getattr(answer, "unknown", ())
    measured = ("prompt_tokens", "completion_tokens", "seconds")
    return {
        "with_contexts": contexts is not None,
        "contexts": list(contexts or ()),
        "usd": getattr(answer, "usd", None),
        **{name: None if name in unknown else getattr(answer, name) for name in measured},
    }


class Received(Stage):
    """Stage `received` over `candidates` that were given elsewhere: their contexts, as `evidence` that later stages
    read."""

    name: ClassVar[str] = "received"
    table: ClassVar[str] = "evidence"
    section: ClassVar[str] = "generate"

    def __init__(self, candidates: Artifact, config: GenerateConfig) -> None:
        super().__init__(candidates.store, {"candidates": candidates}, config)

    def config_identity(self) -> dict[str, Any]:
        return {}

    def method_identity(self) -> dict[str, Any]:
        return {}

    def work(self, shard: int, progress: Progress) -> ShardResult:
        received = self.inputs["candidates"].read(shard, RECEIVED).to_pylist()
        progress(len(received), 0)
        rows = [
            {"question_id": row["question_id"], "rank": rank, "text": text, "tokens": count_tokens(text), "origin": []}
            for row in received
            for rank, text in enumerate(row["contexts"], start=1)
        ]
        return ShardResult(len(received), {self.table: pa.Table.from_pylist(rows, schemas.EVIDENCE)})


def _told_apart(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many answers are errors, were cut by the limit of tokens, and were refused, as notes for the manifest."""
    reasons = Counter(row["finish_reason"] for row in rows)
    errors = sum(bool(row["error"]) for row in rows)
    return {"errors": errors, CUT: reasons["length"], REFUSED: reasons["refusal"] + reasons["content_filter"]}


def _share_read(memory: Memory) -> float:
    """The share of the tokens that were read now, not for earlier work: 1 for a generator without readings."""
    now, before = (sum(own.tokens for own in some.values()) for some in (memory.new, memory.recalled))
    return now / (now + before) if before else 1.0


def _columns(completion: Completion) -> dict[str, Any]:
    names = ("text", "prompt_tokens", "completion_tokens", "logprob", "seconds", "finish_reason", "error")
    own = ("thought_tokens", "left_out", *STEPS)
    tokens = completion.probabilities.items()
    probabilities = [{"token": token, "probability": probability} for token, probability in tokens]
    return {name: getattr(completion, name, None) for name in (*names, *own)} | {
        "probabilities": probabilities,
        "cached_tokens": getattr(completion, "cached_tokens", 0),
    }
