"""The answers of a run's methods, with the contexts that they were written from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.indexes.units import Passages
from vitalfew.storage.reviews import Review, read_reviews
from vitalfew.storage.runs import Run, read_runs
from vitalfew.tasks.reports.runs import EvaluatedMethod


def answering(run: Run) -> list[str]:
    """The methods of a run that answer, in its order."""
    return [name for name, tables in run.methods.items() if "candidates" in tables]


def same_text(text: str) -> str:
    """Return a text that is the same for answers that nobody would judge differently: without case, surplus white space
    the punctuation at its end and quotation marks. It keeps apart what a metric's normalisation does not: 5 and -5, .5
    and 5, 3.14 and 314."""
    return " ".join(text.lower().split()).lstrip("\"' ").rstrip(" .,;:!?\"'")


def reviews_of(store: Path, run: Run) -> list[Review]:
    """The reviews of a run's answers, and those that other runs have of the same answers: an evaluation that was made
    again, or got a judge since, has the labels of the first."""
    reviews = read_reviews(store, run.run_id)
    known = {review.subject for review in reviews}
    reviewed = {path.parent.name for path in files.find(store, "reviews/*/*.parquet")} - {run.run_id}
    for other in reversed(read_runs(store) if reviewed else []):
        if other.run_id not in reviewed:
            continue
        names = _same_answers(other, run)
        for review in read_reviews(store, other.run_id):
            if review.method in names and (review.other is None or review.other in names):
                second = names[review.other] if review.other else None
                moved = replace(review, run_id=run.run_id, method=names[review.method], other=second)
                reviews += [moved] if moved.subject not in known else []
                known.add(moved.subject)
    return reviews


def _same_answers(other: Run, run: Run) -> dict[str, str]:
    """By method of another run, the one of this run that has the same answers."""

    def artifacts(of: Run, name: str) -> tuple[str | None, str | None]:
        return of.methods[name].get("candidates"), of.methods[name].get("answers")

    here = {artifacts(run, name): name for name in reversed(answering(run))}
    there = {name: here.get(artifacts(other, name)) for name in answering(other)}
    same = {name for name in there if name in run.methods and artifacts(run, name) == artifacts(other, name)}
    return {name: name if name in same else found for name, found in there.items() if found}


@dataclass(frozen=True, slots=True)
class KeptPassage:
    """A passage, and its spans (code points, half-open) that a context consists of."""

    title: str
    text: str
    kept: tuple[tuple[int, int], ...]


class MethodAnswers(EvaluatedMethod):
    """A method's answers, of several seeds those of the first. Raises NoReport where an artifact was removed since."""

    @cached_property
    def texts(self) -> dict[int, str]:
        """By question, without those that failed; of a set of answers the first."""
        answers = self.answers().filter(pl.col("error") == "")
        return dict(answers.select("question_id", "text").iter_rows())

    def contexts(self, question: int) -> list[str]:
        """The contexts of an answer's prompt, in their order."""
        return [row["text"] for row in self._rows(question)]

    def passages(self, question: int) -> list[list[KeptPassage]]:
        """For every one of `contexts` the passages that it comes from: none where a model rewrote it, or where the
        index was removed since."""
        return [self._kept(row["origin"]) for row in self._rows(question)]

    def _rows(self, question: int) -> list[dict[str, Any]]:
        evidence = {row["rank"]: row for row in self.rows_of("evidence", [question]).iter_rows(named=True)}
        chosen = self.rows_of("answers", [question])
        number = chosen.row(by_predicate=pl.col("rank") == 1, named=True)["candidate"] if chosen.height else 0
        candidates = self.rows_of("candidates", [question])
        ranks = candidates.row(by_predicate=pl.col("candidate") == number, named=True)["contexts"]
        return [evidence[rank] for rank in ranks] if evidence else []

    def _kept(self, origin: Sequence[Mapping[str, int]]) -> list[KeptPassage]:
        spans: dict[int, list[tuple[int, int]]] = {}
        for each in origin:
            spans.setdefault(each["passage_id"], []).append((each["start"], each["end"]))
        found = ((self._searched.find(number), kept) for number, kept in spans.items()) if self._searched else ()
        return [KeptPassage(row["title"], row["text"], tuple(kept)) for row, kept in found if row]

    @cached_property
    def _searched(self) -> Passages | None:
        """The passages of the index; None where the method searches none, or it was removed since."""
        hits = self.tables.get("hits", ("",))[0]
        searched = self._artifact(hits).recorded_manifest() if hits else None
        passages = self._artifact(searched.inputs["passages"]) if searched else None
        return Passages(passages) if passages and passages.recorded_manifest() else None

    def _artifact(self, name: str) -> Artifact:
        return Artifact(self.store, *name.split("/"))

    def verdicts(self, name: str) -> dict[int, float]:
        """The judge's verdicts `name` (correct, supported), by question; none where no judge was asked."""
        if "verdicts" not in self.tables:
            return {}
        return dict(self.rows("verdicts", ["question_id", name]).drop_nulls(name).iter_rows())
