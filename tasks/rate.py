"""rate: what is rated → a table of scores. Three stages: critique, label, appraise (tasks/raters/base.py); a fourth is
in judge.py. A fifth, likelihood, asks a language model for no judgement: it measures what a prompt does to the model.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from vitalfew.configs.evaluation import AppraiseConfig, CritiqueConfig, LabelConfig, LikelihoodConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.indexes.units import Passages
from vitalfew.tasks.encoders import titles
from vitalfew.tasks.generators import prompts
from vitalfew.tasks.generators.base import Generator
from vitalfew.tasks.models.readings import Values
from vitalfew.tasks.models.ticks import Counted
from vitalfew.tasks.raters.base import Judgement, RatedContext, Rater
from vitalfew.tasks.registry import kept
from vitalfew.tasks.selectors.fronts import geometric_mean, harmonic_mean
from vitalfew.tasks.stage import FurtherStage, MethodStage, Progress, ReusingStage, RowsLost, ShardResult

if TYPE_CHECKING:
    from vitalfew.tasks.models.causal.surprise import Surprise

Row = dict[str, Any]
Cases = list[tuple[Row, RatedContext | str]]
"""The key of every row, with its case, or why there is none."""


class Rate(MethodStage):
    """A stage that writes a row of scores for every case. All cases of a shard are rated in one batch.

    A case that cannot be rated, or whose rater gives a score outside of the scale, becomes a row with an error.
    """

    schema: ClassVar[pa.Schema]
    scores: ClassVar[tuple[str, ...]]
    """The scores that a judgement must have."""
    most: ClassVar[float]
    """The greatest value of a score; the least is 0."""
    method: Rater

    @abstractmethod
    def cases(self, shard: int) -> tuple[int, Cases]:
        """The number of rows read, and the cases."""

    def columns(self, judgement: Judgement) -> Row:
        """The columns of a row besides its key and its error."""
        return {} if judgement.error else {name: judgement[name] for name in self.scores}

    def work(self, shard: int, progress: Progress) -> ShardResult:
        return self.rated(*self.cases(shard), progress)

    def rated(self, rows_in: int, cases: Cases, progress: Progress) -> ShardResult:
        """The rows of some cases. `rows_in`: the number of rows read for them."""
        due = [case for _, case in cases if isinstance(case, RatedContext)]
        progress(rows_in - len(due), 0)
        tick = Counted(progress)
        rated = self.method.rate(due, tick)
        if len(rated) != len(due):
            raise RowsLost(f"{self.role} {self.model_name} gave {len(rated)} judgements for {len(due)} cases")
        judgements, rows = iter(rated), []
        for key, case in cases:
            judgement = Judgement(error=case) if isinstance(case, str) else self._checked(next(judgements))
            rows.append({**key, **self.columns(judgement), "error": judgement.error})
        notes = {"errors": sum(bool(row["error"]) for row in rows)}
        table = pa.Table.from_pylist(rows, self.schema)
        return ShardResult(rows_in, {self.table: table}, tokens=tick.tokens, notes=notes)

    def _checked(self, judgement: Judgement) -> Judgement:
        """The judgement, or an error if a score is missing or outside of the scale."""
        if judgement.error:
            return judgement
        scores = {name: float(value) for name, value in judgement.scores.items()}
        given = {**dict.fromkeys(self.scores, math.nan), **scores}
        outside = [f"{name} = {value:g}" for name, value in given.items() if not 0 <= value <= self.most]  # so is NaN
        if outside:
            return Judgement(error=f"the {self.role} gave {', '.join(outside)}; scores must be from 0 to {self.most:g}")
        return replace(judgement, scores=scores)

    def _questions(self, shard: int) -> dict[int, str]:
        """The texts of the shard's questions, by id."""
        asked = self.inputs["asked"].read(shard, columns=["question_id", "text"])
        return dict(zip(asked["question_id"].to_pylist(), asked["text"].to_pylist(), strict=True))


class Critique(Rate):
    """Stage `critique` over `candidates`, by one critic: is the context relevant, the answer supported and useful?"""

    name: ClassVar[str] = "critique"
    table: ClassVar[str] = "critiques"
    over: ClassVar[str] = "candidates"
    section: ClassVar[str] = "critique"
    role: ClassVar[str | None] = "critic"
    schema = schemas.CRITIQUES
    scores: ClassVar[tuple[str, ...]] = ("isrel", "issup", "isuse")
    most: ClassVar[float] = 1

    def __init__(
        self, store: Path, asked: Artifact, evidence: Artifact | None, candidates: Artifact, config: CritiqueConfig
    ) -> None:
        """Raises UnknownName, ConfigError, RaterUnavailable, EngineUnavailable."""
        inputs = {"asked": asked, "candidates": candidates} | ({"evidence": evidence} if evidence else {})
        super().__init__(store, inputs, config)

    def cases(self, shard: int) -> tuple[int, Cases]:
        candidates = self.inputs["candidates"].read(shard).to_pylist()
        questions, contexts = self._questions(shard), self.contexts(shard)
        cases: Cases = []
        for row in candidates:
            key = {"question_id": row["question_id"], "candidate": row["candidate"]}
            if row["error"]:
                cases.append((key, f"no answer: {row['error']}"))
                continue
            case = RatedContext(
                question=questions[row["question_id"]],
                context="\n\n".join(contexts[row["question_id"]][rank - 1] for rank in row["contexts"]),
                answer=row["text"],
                probabilities={token["token"]: token["probability"] for token in row["probabilities"]},
            )
            cases.append((key, case))
        return len(candidates), cases

    def columns(self, judgement: Judgement) -> Row:
        if judgement.error:
            return {}
        isrel, issup, isuse = (np.array([judgement[name]]) for name in self.scores)
        means = {"utility_f1": harmonic_mean(isuse, issup), "geometric_mean": geometric_mean(isrel, issup, isuse)}
        return {**super().columns(judgement), **{name: mean.item() for name, mean in means.items()}}


class Label(Rate, FurtherStage):
    """Labels retrieved passages, by one labeller: is the passage relevant to the question?

    There is a row for every pair of question and passage: a passage with several retrieved units is labelled once. A
    labeller gives `rater`: 1 relevant, 0 not, or between; and perhaps `critic`, what another made of that, which counts
    then (Sparse RAG, arXiv 2405.16178, section 3).
    """

    name: ClassVar[str] = "label"
    table: ClassVar[str] = "labels"
    counts: ClassVar[str] = "hits"
    section: ClassVar[str] = "label"
    after: ClassVar[str] = "retrieve"
    reads: ClassVar[tuple[str, ...]] = ("asked", "hits", "passages")
    Options = LabelConfig
    role: ClassVar[str | None] = "labeller"
    shared: ClassVar[bool] = False  # its model makes room for the generator's
    schema = schemas.LABELS
    scores: ClassVar[tuple[str, ...]] = ("rater",)
    most: ClassVar[float] = 1

    def cases(self, shard: int) -> tuple[int, Cases]:
        hits = self.inputs["hits"].read(shard, columns=["question_id", "passage_id"])
        pairs = dict.fromkeys(zip(hits["question_id"].to_pylist(), hits["passage_id"].to_pylist(), strict=True))
        questions = {row["question_id"]: row for row in self.inputs["asked"].read(shard).to_pylist()}
        passages = Passages(self.inputs["passages"])
        cases: Cases = []
        for question_id, passage_id in pairs:
            question, passage = questions[question_id], passages.row(passage_id)
            facts = [fact for fact in question["supporting_facts"] if fact["passage_id"] == passage_id]
            gold_titles = dict.fromkeys(title for gold in question["gold_passages"] if (title := passages.title(gold)))
            case = RatedContext(
                question=question["text"],
                context=passage["text"],
                answers=tuple(question["answers"]),
                gold_passages=tuple(question["gold_passages"]),
                gold_titles=tuple(gold_titles),
                passage_id=passage_id,
                title=passage["title"],
                facts=tuple((fact["start"], fact["end"]) for fact in facts),
            )
            cases.append(({"question_id": question_id, "passage_id": passage_id}, case))
        return hits.num_rows, cases

    def columns(self, judgement: Judgement) -> Row:
        """A first score stays if there is no second one because of an error."""
        return {**judgement.scores, "label": judgement.label}


class Appraise(Rate, FurtherStage):
    """Grades contexts, by one appraiser: how faithful to the hits are they, and how complete?

    Hits are shown with their titles, contexts one below the other, as the prompt has them. Contexts that reach beyond
    their hits (refine.text=window, passage) are set beside the hits alone, and seem to add what stands around them. A
    question without contexts is an error row.
    """

    name: ClassVar[str] = "appraise"
    table: ClassVar[str] = "appraisals"
    section: ClassVar[str] = "appraise"
    after: ClassVar[str] = "refine"
    reads: ClassVar[tuple[str, ...]] = ("asked", "hits", "evidence")
    Options = AppraiseConfig
    role: ClassVar[str | None] = "appraiser"
    shared: ClassVar[bool] = False  # as of `Label`
    schema = schemas.APPRAISALS
    scores: ClassVar[tuple[str, ...]] = ("faithfulness", "completeness")
    most: ClassVar[float] = 10

    def cases(self, shard: int) -> tuple[int, Cases]:
        questions = self._questions(shard)
        hits = _texts(self.inputs["hits"].read(shard, columns=["question_id", "title", "text"]))
        contexts = _texts(self.inputs["evidence"].read(shard, columns=["question_id", "text"]))
        cases: Cases = [
            (
                {"question_id": key},
                RatedContext(question=text, context="\n".join(contexts[key]), hits=tuple(hits[key]))
                if key in contexts
                else "there is no context to appraise",
            )
            for key, text in questions.items()
        ]
        return len(questions), cases

    def columns(self, judgement: Judgement) -> Row:
        return {**super().columns(judgement), "explanation": judgement.explanation}


def _texts(rows: pa.Table) -> dict[int, list[str]]:
    """The texts of every question in their order, with their titles where they have one."""
    found: dict[int, list[str]] = {}
    for row in rows.to_pylist():
        found.setdefault(row["question_id"], []).append(titles.lead(row.get("title", "")) + row["text"].strip())
    return found


NO_GOLD = "the question has no gold answer"


class Likelihood(ReusingStage, FurtherStage):
    """How probable a causal language model finds the gold answer after a method's prompt.

    A method is measured by the answer that it lets a model find, not by what a model says: the natural logarithm of the
    probability of the question's first gold answer, in one pass, after the very prompt that generator `transformers`
    would be given: the contexts as they are shown, in the model's chat template. It says something of every question,
    also where few answers are right, and the model may be one that no method knows.

    The first gold answer alone: every further one would be another pass over the whole prompt. Without contexts the
    prompt is the one for no retrieval. To a model without a chat template a prompt that ends in no blank gets one. A
    question without gold answers, and one whose prompt is too long for the model, is a row without a number. Passes of
    earlier runs, and of other methods with the same prompt, are not computed again.
    """

    name: ClassVar[str] = "likelihood"
    table: ClassVar[str] = "likelihoods"
    over: ClassVar[str] = "asked"
    section: ClassVar[str] = "likelihood"
    after: ClassVar[str] = "generate"
    reads: ClassVar[tuple[str, ...]] = ("asked",)
    also_reads: ClassVar[tuple[str, ...]] = ("evidence",)
    Options = LikelihoodConfig
    config: LikelihoodConfig
    method: "Surprise"

    def __init__(self, store: Path, inputs: Mapping[str, Artifact], config: LikelihoodConfig) -> None:
        """Raises ConfigError, EngineUnavailable, with the remedy."""
        self.template = prompts.source(config.prompt or Generator.prompt)
        super().__init__(store, inputs, config)

    @classmethod
    def is_due(cls, options: LikelihoodConfig) -> bool:
        return options != LikelihoodConfig()

    def _constructed(self, options: Any) -> "Surprise":
        from vitalfew.tasks.models.causal.surprise import Surprise  # imports PyTorch

        return kept(options, self.section, lambda own: Surprise(own.model, own, self.section))

    @property
    def model_name(self) -> str:
        return f"transformers:{self.config.model}"

    def method_identity(self) -> dict[str, Any]:
        return {"model": self.method.identity(), "prompt": self.template}

    def work(self, shard: int, progress: Progress) -> ShardResult:
        asked = self.inputs["asked"].read(shard, columns=["question_id", "text", "answers"]).to_pylist()
        golds = [next((answer for each in row["answers"] if (answer := each.strip())), "") for row in asked]
        contexts = self.contexts(shard)
        due = [
            (prompts.render(self.template, row["text"], tuple(contexts[row["question_id"]])), gold)
            for row, gold in zip(asked, golds, strict=True)
            if gold
        ]
        progress(len(asked) - len(due), 0)
        with self.remembering() as memory:
            found = iter(self.method.answers(due, progress))
        rows = [
            _row(row["question_id"], gold, next(found) if gold else NO_GOLD)
            for row, gold in zip(asked, golds, strict=True)
        ]
        notes = {"errors": sum(bool(row["error"]) for row in rows), **memory.notes()}
        tables = {self.table: pa.Table.from_pylist(rows, schemas.LIKELIHOODS), **memory.tables()}
        tokens = sum(own.tokens for own in memory.new.values())
        return ShardResult(len(asked), tables, tokens=tokens, notes=notes, reused=memory.took())


def _row(question: int, answer: str, read: Values | str) -> dict[str, Any]:
    """`read`: the surprise of the answer's tokens, or why it is not known."""
    row = {"question_id": question, "answer": answer}
    if isinstance(read, str):
        return {**row, "nats": None, "tokens": None, "error": read}
    return {**row, "nats": -float(read.sum(dtype=np.float64)), "tokens": len(read), "error": ""}
