"""`Explorer`: the questions of a finished evaluation, one at a time or by who is right; what is asked for is read."""

from functools import cached_property, lru_cache
from pathlib import Path

import polars as pl

from vitalfew.configs.evaluation import Evaluate
from vitalfew.library.explored import RIGHT, QuestionFilter, scored
from vitalfew.library.story import Story, read_story
from vitalfew.storage import files
from vitalfew.storage.runs import Run
from vitalfew.tasks.metrics.base import SCALE, Column
from vitalfew.tasks.registry import METHODS, summary
from vitalfew.tasks.reports.contents import INDEX_SECONDS, INDEX_USD, PAID_USD, STAGE_SECONDS, STAGE_USD, undeclared
from vitalfew.tasks.reports.runs import SUMMARIES, EvaluatedMethod, NoReport, groups, read_summaries
from vitalfew.tasks.reports.shown.columns import primary_metric

PAIRS = 4
"""Pairs of methods of which an explorer keeps the values of a metric: some 4 MB for 10^5 questions."""


class Explorer:
    """The questions, answers and contexts of a finished evaluation."""

    def __init__(self, store: Path, run: Run) -> None:
        """`run`: it is complete."""
        self.store, self.run = store, run
        self._scored = lru_cache(PAIRS)(lambda names, metric: scored([*map(self.method, names)], metric))

    @property
    def parameters(self) -> Evaluate:
        """The settings of the evaluation."""
        return Evaluate.model_validate(self.run.config)

    @cached_property
    def methods(self) -> dict[str, EvaluatedMethod]:
        """By the name of its row in the report, in the report's order: methods that differ in their seed are one."""
        return EvaluatedMethod.every(self.store, self.run)

    @property
    def baseline(self) -> str:
        """The method that others are compared with; the first where there are several, or none is named."""
        for group in groups(self.parameters.methods):
            if any(map(self.parameters.is_baseline, group.methods)):
                return group.name
        return next(iter(self.methods))

    @cached_property
    def metrics(self) -> dict[str, Column]:
        """The declarations of all metrics of single questions, by name. Raises NoReport where scores were removed."""
        found: dict[str, Column] = {}
        for side in self.methods.values():
            summaries = read_summaries(self.store, side.manifests("scores")[0]).items()
            found |= {name: own.column for name, own in summaries if own.value is not None and name not in found}
        return found

    @property
    def primary(self) -> str | None:
        """The metric that the evaluation is about."""
        return primary_metric([*self.metrics.values()], self.parameters.primary)

    def judging(self, detail: bool = False) -> dict[str, str]:
        """The metrics that say who is right, from 0 to 1, with their headings; `detail`: also those that a report shows
        in detail alone."""
        return {
            name: column.heading
            for name, column in self.metrics.items()
            if column.unit == SCALE and column.direction == "higher" and (detail or not column.detail)
        }

    def meaning(self, metric: str) -> str:
        """The sentence that says how a metric is defined, with this evaluation's settings; '' for one that is not
        registered by this name."""
        name = metric.partition("@")[0]
        if name not in METHODS["metric"]:
            return ""
        said = summary("metric", name)
        for key, value in self.parameters.score:
            said = said if value is None else said.replace(f"`score.{key}`", str(value))
        return said

    def sources(self) -> list[str]:
        """The data sets of the questions."""
        side = next(iter(self.methods.values()))
        return side.rows("asked", ["source"])["source"].cast(pl.String).unique().sort().to_list()

    def method(self, name: str) -> EvaluatedMethod:
        """Raises NoReport, with the names that there are."""
        if name not in self.methods:
            raise NoReport(f"run {self.run.run_id} has no method {name!r}; it has: {', '.join(self.methods)}")
        return self.methods[name]

    def questions(
        self,
        method: str | None = None,
        other: str | None = None,
        *,
        metric: str | None = None,
        right: bool | None = None,
        other_right: bool | None = None,
        changed: bool = False,
        source: str = "",
        containing: str = "",
    ) -> QuestionFilter:
        """The questions that fit: `explorer.questions("naive RAG", "ParetoRAG", right=True, other_right=False)`.

        `method`: default the baseline; `other`: a second one; `metric`: default the primary one; `right`,
        `other_right`: that the metric is at least `RIGHT`, or less; `changed`: the values differ; `source`: a data set;
        `containing`: a part of the question's text. Raises NoReport for an unknown method or metric.
        """
        names = (method or self.baseline, *([other] if other else []))
        wanted = metric or self.primary
        if wanted not in self.metrics:
            raise NoReport(f"run {self.run.run_id} has no metric {wanted!r}; it has: {', '.join(self.metrics)}")
        sides, values = tuple(map(self.method, names)), self._scored(names, wanted)
        return QuestionFilter(sides, wanted, values, right, other_right, changed, source, containing)

    def outcomes(self, metric: str | None = None) -> pl.DataFrame:
        """A row per method but the baseline: method, lost (questions that the baseline answers right and the method
        wrong), won (the reverse)."""
        wanted = metric or self.primary or ""
        baseline = self.method(self.baseline)
        of_baseline, is_right, was_right = baseline.values(wanted), pl.col("value") >= RIGHT, pl.col("before") >= RIGHT
        rows = []
        for name, side in self.methods.items():
            both = side.values(wanted).join(of_baseline.rename({"value": "before"}), "question_id")
            if side is not baseline and len(both):
                counts = both.select(lost=(was_right & ~is_right).sum(), won=(~was_right & is_right).sum())
                rows.append((name, *counts.row(0)))
        return pl.DataFrame(rows, {"method": pl.String, "lost": pl.Int64, "won": pl.Int64}, orient="row")

    @cached_property
    def figures(self) -> pl.DataFrame:
        """A row per method and metric, as in the report: method, metric, heading, unit, detail, value with its 95 %
        interval low to high, difference to the baseline with its interval, p, p_holm, questions and others.

        It is read from the report; without one, every interval is computed. Raises NoReport.
        """
        from vitalfew.tasks.report import read_report
        from vitalfew.tasks.reports.shown.tables import long_table

        written = self.store / "reports" / self.run.run_id / SUMMARIES
        if files.exists(written):
            table = pl.DataFrame(files.read_table(written))
        else:
            table = long_table(read_report(self.store, self.run))
        own = {column.name: column for column in (STAGE_SECONDS, STAGE_USD, PAID_USD, INDEX_SECONDS, INDEX_USD)}
        declared = {name: self.metrics.get(name) or own.get(name) or undeclared(name) for name in table["metric"]}
        columns = [(name, column.heading, column.unit, column.detail) for name, column in declared.items()]
        schema = {"metric": pl.String, "heading": pl.String, "unit": pl.String, "detail": pl.Boolean}
        return table.join(pl.DataFrame(columns, schema, orient="row"), "metric", "left", maintain_order="left")

    @cached_property
    def title(self) -> str:
        """The question that the evaluation asks, with the names of its indexes."""
        from vitalfew.tasks.reports.advice import title

        indexes = dict.fromkeys(own["index"] for own in self.run.config["methods"] if own.get("index"))
        return title([*indexes], self.metrics.get(self.primary or ""))

    def question(self, question: int) -> Story:
        """All of one question: what every method retrieved, kept and answered. Raises NoReport for one that was not
        asked."""
        judged = self.primary if self.primary in self.judging(detail=True) else None
        return read_story([*self.methods.values()], [*self.metrics], judged, question)

    def __repr__(self) -> str:
        return f"Explorer(run {self.run.run_id}, {len(self.methods)} methods)"


class Comparison:
    """Two evaluations, or two methods of one, on the questions that both asked."""

    def __init__(self, store: Path, first: str, second: str) -> None:
        """Raises NoReport where there is nothing to compare, with the reason."""
        from vitalfew.tasks.reports.comparison import named_sides

        self.store = store
        self.sides = named_sides(store, first, second)

    @property
    def labels(self) -> list[tuple[str, str]]:
        """The names of both methods, by pair."""
        from vitalfew.tasks.reports.comparison import labels

        return [labels(*sides) for sides in self.sides]

    def metrics(self, pair: int = 0) -> dict[str, Column]:
        """The declarations of the metrics that both methods have, by name."""
        one, other = self.sides[pair]
        return {name: column for name, column in one.columns.items() if name in other.columns}

    @property
    def primary(self) -> str | None:
        """The metric that the first run is about, if both have it."""
        return primary_metric([*self.metrics().values()], self.sides[0][0].parameters.primary)

    @cached_property
    def differences(self) -> pl.DataFrame:
        """A row per pair of methods and metric: pair (its place), method, other, metric, heading, unit, direction,
        detail, value, other_value, difference (other minus method) with its 95 % interval low to high, p, p_holm,
        questions, higher and lower (questions on which the other has a higher or lower value).

        Raises NoReport where they share no question.
        """
        from vitalfew.tasks.reports.comparison import compared

        rows = []
        for place, pair in enumerate(compared(self.sides)):
            for metric, found in pair.differences.items():
                column = pair.a.columns[metric]
                rows.append({
                    "pair": place,
                    "method": pair.labels[0], "other": pair.labels[1], "metric": metric, "heading": column.heading,
                    "unit": column.unit, "direction": column.direction, "detail": column.detail,
                    "value": pair.mean(pair.a, metric), "other_value": pair.mean(pair.b, metric),
                    "difference": found.mean_difference, "low": found.low, "high": found.high, "p": found.p,
                    "p_holm": found.p_holm, "questions": found.questions, "higher": found.better, "lower": found.worse,
                })  # fmt: skip
        return pl.DataFrame(rows, infer_schema_length=None)

    def questions(self, pair: int = 0, metric: str | None = None, changed: bool = True) -> QuestionFilter:
        """The shared questions of a pair; `changed`: those whose values of the metric differ. Raises NoReport."""
        metrics = self.metrics(pair)
        wanted = metric or self.primary or next(iter(metrics), "")
        if wanted not in metrics:
            raise NoReport(f"no metric {wanted!r} in both runs; there are: {', '.join(metrics) or 'none'}")
        sides = self.sides[pair]
        return QuestionFilter(sides, wanted, scored(sides, wanted), changed=changed)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(map(' / '.join, self.labels))})"
