"""`Store`: a directory, or a prefix of a bucket, with indexes, evaluations and everything that they left."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from vitalfew.configs.loading import build
from vitalfew.configs.paths import store_place
from vitalfew.configs.schema import Execution, IndexCorpus
from vitalfew.library.index import Index
from vitalfew.library.questions import QuestionSet, dataset_of
from vitalfew.storage import decisions, generations, version
from vitalfew.storage.decisions import By, Decision
from vitalfew.storage.runs import WRITING, find_index, index_names, read_runs

if TYPE_CHECKING:
    from datetime import date

    import polars as pl

    from vitalfew.library.askable import Askable
    from vitalfew.library.corpus_files import CorpusFile
    from vitalfew.library.explorer import Comparison, Explorer
    from vitalfew.library.generation import IndexGeneration
    from vitalfew.library.overview import Overview
    from vitalfew.library.query import Query
    from vitalfew.library.rag import Rag
    from vitalfew.library.report import Report
    from vitalfew.tasks.reports.contents import Labelled
    from vitalfew.tasks.reports.reviewed import ImportedReviews
    from vitalfew.tasks.reports.reviewing import ReviewSession


INDEXES = """
SELECT i."index" AS name, passages, sentences, encoder, context, type, g.generation, made_at, bytes,
  latest.generation AS latest, latest.verdict, i.datasets
FROM indexes i
LEFT JOIN (FROM generations WHERE current) g ON g.name = i."index"
LEFT JOIN (SELECT name, max(generation) AS generation, arg_max(verdict, generation) AS verdict FROM generations
  GROUP BY name) latest ON latest.name = i."index"
WHERE i.current ORDER BY i."index"
"""


GATES = "SELECT * EXCLUDE (name) FROM gates WHERE name = {index} ORDER BY generation, method, metric"
TIMELINE = """
WITH compared AS (
  SELECT generation, against, candidate, current, metric FROM gates WHERE name = {index} AND metric IS NOT NULL
  QUALIFY row_number() OVER (PARTITION BY generation ORDER BY method, metric) = 1),
seen AS (FROM (
  SELECT generation, candidate AS value, metric FROM compared UNION ALL SELECT against, current, metric FROM compared)
  SELECT generation, any_value(value) AS value, any_value(metric) AS metric GROUP BY generation),
counted AS (
  SELECT fingerprint AS corpus, count(*) AS passages,
    count(DISTINCT coalesce(nullif(regexp_replace(regexp_replace(source_id, '[#&]part=\\d+$', ''),
      '#(page=\\d+|[\\w-]+)$', ''), ''), nullif(title, ''), passage_id::VARCHAR)) AS documents FROM all_passages
  WHERE fingerprint IN (SELECT corpus FROM generations WHERE name = {index}) GROUP BY ALL)
SELECT g.*, documents, passages, metric, value FROM generations AS g LEFT JOIN counted USING (corpus)
LEFT JOIN seen USING (generation) WHERE g.name = {index} ORDER BY generation
"""
REASONS = """
SELECT reason, stage, count(*) AS rows, arg_min(detail, "offset") AS example
FROM rejects WHERE "index" = {index} GROUP BY ALL ORDER BY rows DESC, reason
"""
REJECTS = """
SELECT stage, source, "offset", reason, detail FROM rejects
WHERE "index" = {index} AND reason = coalesce({reason}, reason)
ORDER BY source, "offset", stage LIMIT {limit} OFFSET {offset}
"""
COSTS = """
SELECT stage, model, count(*) AS shards, sum(rows)::BIGINT AS rows, sum(tokens)::BIGINT AS tokens,
  sum(wall_seconds) AS wall_seconds, sum(cpu_seconds) AS cpu_seconds, sum(gpu_seconds) AS gpu_seconds, sum(usd) AS usd
FROM costs WHERE fingerprint IN (
  SELECT split_part(unnest(fingerprints), '/', 2) FROM indexes WHERE "index" = {index} AND current)
GROUP BY ALL ORDER BY min(started)
"""


Settings = Mapping[str, Any]
logger = logging.getLogger("vitalfew")


class RunOptions(TypedDict, total=False):
    """`max_usd`: USD that may be paid for requests to servers; `until_cap`: begin although the estimate is above it,
    and stop at the cap."""

    workers: int | None
    runner: Literal["auto", "ray", "serial"] | None
    max_usd: float | None
    until_cap: bool


class Store:
    """The place of all artifacts: `Store("store")`, or `Store("s3://BUCKET/PREFIX")`.

    `progress`: show bars while work is done, on a terminal or in a notebook.
    """

    def __init__(self, place: str | Path = "store", *, progress: bool = True) -> None:
        """Raises ValueError for a place that no store can have, and OtherVersion for a store of another version."""
        self.place = store_place(place)
        version.check(self.place)
        self.progress = progress

    def index(self, name: str, *datasets: str, settings: Settings | None = None, **run: Unpack[RunOptions]) -> Index:
        """Open an index; with data sets, index them first, as `vitalfew index` does.

        `datasets`: FORMAT:PATH?option=value, as `vitalfew datasets` lists them; finished work is not repeated, and a
        run that was killed resumes. `settings`: {"encode": {"context": "late"}}, as --set. Raises IndexNotFound,
        ConfigError, InputError, CapReached.
        """
        if datasets:
            given = self._given(run, datasets=datasets, name=name)
            self._execute(build(IndexCorpus, dict(settings or {}), given))
            self._publish(name)
        return Index(self.place, name)

    def indexes(self) -> list[str]:
        """The names of all indexes."""
        return index_names(self.place)

    def history(self, name: str) -> "pl.DataFrame":
        """The generations of an index: rows of the table `generations`, oldest first. Raises IndexNotFound."""
        return self._of_index(name, "SELECT * FROM generations WHERE name = {index} ORDER BY generation")

    def describe(self) -> "pl.DataFrame":
        """A row per index, as a search finds it now: name, passages, sentences, encoder, context, type, generation,
        made_at (UTC), bytes, datasets; `latest`: its newest generation, and `verdict`: what a gate said of that one."""
        return self.sql(INDEXES)

    def timeline(self, name: str) -> "pl.DataFrame":
        """The generations of an index, oldest first: the columns of `history`, with `documents` and `passages` (null
        once `store gc` has removed them), and the `value` of the first `metric` that its gate compares. Raises
        IndexNotFound."""
        return self._of_index(name, TIMELINE)

    def generation(self, name: str, number: int | None = None) -> "IndexGeneration":
        """A generation of an index, by default the latest, with what speaks for it and against it. Raises
        IndexNotFound, CannotPromote where there is no such generation, DamagedRecord."""
        from vitalfew.library.generation import IndexGeneration

        return IndexGeneration(self.place, name, number)

    def overview(self) -> "Overview":
        """What is served, what waits for a person, which runs of the last days failed, and what the last 24 hours cost.
        It takes less than a second however many runs there are."""
        from vitalfew.library.overview import overview

        return overview(self.place)

    def gates(self, name: str) -> "pl.DataFrame":
        """How an index's generations were judged: rows of the table `gates`, a row per generation, method and metric,
        with the paired difference and its 95 % interval. Raises IndexNotFound."""
        return self._of_index(name, GATES)

    def reject_reasons(self, name: str) -> "pl.DataFrame":
        """Why input rows of an index were not used: reason, stage, rows and an example, the most frequent first. Raises
        IndexNotFound."""
        return self._of_index(name, REASONS)

    def rejects(self, name: str, reason: str | None = None, *, limit: int = 1000, offset: int = 0) -> "pl.DataFrame":
        """Input rows of an index that were not used, for a reason or for any: stage, source, offset (line or record,
        from 1), reason, detail; at most `limit` rows from `offset`. Raises IndexNotFound."""
        from vitalfew.storage.catalog.views import quoted

        only = "NULL" if reason is None else quoted(reason)
        return self._of_index(name, REJECTS, reason=only, limit=int(limit), offset=int(offset))

    def index_costs(self, name: str) -> "pl.DataFrame":
        """The costs of making an index as it is now: a row per stage and model with shards, rows, tokens (of the
        model), wall_seconds, cpu_seconds, gpu_seconds and usd. Raises IndexNotFound."""
        return self._of_index(name, COSTS)

    def _of_index(self, name: str, query: str, **values: Any) -> "pl.DataFrame":
        """The rows of a query that has `{index}` where the name of an index belongs, and so other values in SQL."""
        from vitalfew.storage.catalog.views import quoted

        find_index(self.place, name)
        return self.sql(query.format(index=quoted(name), **values))

    def export_vectors(
        self, index: str, path: str | Path, unit: Literal["passage", "sentence"] | None = None, alpha: float = 1.0
    ) -> dict[str, Any]:
        """Write the vectors of the generation that searches use as Parquet, as `vitalfew export vectors` does. Returns
        index, generation, unit, rows, dimension and encoder. Raises IndexNotFound, NothingToExport."""
        from vitalfew.storage.indexes.publishing import export_vectors

        return export_vectors(self.place, index, Path(path), unit, alpha)

    def corpora(self, folder: str | Path | None = None) -> "pl.DataFrame":
        """A row per corpus, which is a file of settings that a schedule keeps up to date: name, datasets, cron,
        timezone, its gate (margins, questions, experiment, approve), file, and the error of one that cannot be read.

        `folder`: directory of your corpora, default `corpora` beside the store. Raises ConfigError if it is missing.
        """
        import polars as pl

        from vitalfew.flows.pipelines import named

        own = Path(folder) if folder is not None else None
        read, bad = named.read_corpora(self.place, own)
        names = ("name", "datasets", "cron", "timezone", "gate", "margins", "questions", "experiment", "approve")
        shape: dict[str, Any] = dict.fromkeys((*names, "file", "error"), pl.String)
        shape |= {"datasets": pl.List(pl.String), "gate": pl.Boolean}
        rows: list[dict[str, Any]] = []
        for name, file in named.corpora(self.place, own).items():
            row: dict[str, Any] = {"name": name, "file": str(file), "error": bad.get(name, "")}
            if corpus := read.get(name):
                row |= {"datasets": [*corpus.datasets], "cron": corpus.cron, "timezone": corpus.timezone}
                row["gate"] = corpus.gate is not None
                if gate := corpus.gate:
                    row |= {"questions": gate.questions, "experiment": gate.experiment, "approve": gate.approve}
                    row["margins"] = ", ".join(f"{metric}: {margin:g}" for metric, margin in gate.margins.items())
            rows.append(row)
        return pl.DataFrame(rows, schema=shape).sort("name")

    def extend_corpus(
        self, name: str, settings: Settings, folder: str | Path | None = None, *, write: bool = True
    ) -> "CorpusFile":
        """Add settings that a corpus's file lacks as lines at its end: a gate, {"gate": {"margins":
        {"passage_recall@10": 0.02}}}, or a schedule, {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}.

        The file is checked as a whole before it is replaced. A corpus that came with the product is copied to `folder`
        (as of `corpora`) first. With `write=False`, only returns what would be written. Raises UnknownName; ConfigError
        where the file has such a setting or the whole is no corpus; OSError, with the lines, where it is not writable.
        """
        from vitalfew.library.corpus_files import extend

        return extend(self.place, name, settings, Path(folder) if folder is not None else None, write)

    def corpus_changes(self, name: str, folder: str | Path | None = None) -> "pl.DataFrame":
        """The changes that re-encoding a corpus would bring to the index of its name: a row per setting (data sets,
        splitter, encoder, context, type, bm25) that differs, with its value in the `index` and in the `corpus`; no
        row where there is no such index. Raises UnknownName, ConfigError."""
        import polars as pl

        from vitalfew.library.corpus_files import changes

        rows = changes(self.place, name, Path(folder) if folder is not None else None)
        return pl.DataFrame(rows, schema=dict.fromkeys(("setting", "index", "corpus"), pl.String), orient="row")

    def promote(
        self,
        name: str,
        generation: int | None = None,
        folder: str | Path | None = None,
        *,
        note: str = "",
        by: By = "library",
    ) -> Index:
        """Point an index at another generation, by default the latest, and open it; nothing is encoded.

        `folder`: directory of your corpora, as of `corpora`, whose `on_promote` runs; `note`: your reason, kept with
        the decision; `by`: where you decide. Raises IndexNotFound, CannotPromote, DamagedRecord.
        """
        generations.promote(self.place, name, generation, note=note, by=by)
        self._publish(name, folder)
        return Index(self.place, name)

    def rollback(self, name: str, folder: str | Path | None = None, *, note: str = "", by: By = "library") -> Index:
        """Point an index at the generation that was current before, and open it. Arguments, errors: of `promote`."""
        generations.rollback(self.place, name, note, by)
        self._publish(name, folder)
        return Index(self.place, name)

    def _publish(self, name: str, folder: str | Path | None = None) -> None:
        """Run what a corpus wants after a promotion, and log how it went."""
        from vitalfew.flows.pipelines.on_promote import run_on_promote

        if said := run_on_promote(self.place, name, Path(folder) if folder is not None else None):
            logger.warning(said)

    def decline(self, name: str, generation: int, *, note: str = "", by: By = "library") -> None:
        """Decline a generation: no gate promotes it any more, nor another build of the same. Raises as `promote`."""
        generations.decline(self.place, name, generation, note, by)

    def decisions(self, name: str | None = None) -> list[Decision]:
        """What was decided about the generations of an index, by default of all, the oldest first. Raises
        DamagedRecord."""
        return decisions.of(self.place, name)

    def write_questions(
        self,
        index: str,
        *,
        n: int | None = None,
        writer: str | None = None,
        name: str | None = None,
        workers: int | None = None,
        runner: Literal["auto", "ray", "serial"] | None = None,
        max_usd: float | None = None,
        until_cap: bool = False,
        **settings: Any,
    ) -> QuestionSet:
        """Write questions from the passages of an index, with their answers and where these stand, as `vitalfew
        questions write` does; finished work is not repeated.

        `n`: default 200; `writer`: default cloze, which needs no language model and measures retrieval, not answers;
        `name`: of the set, default the index's. `settings`: those of the writer, `write_questions("handbook",
        writer="llm", engine="openai", model="NAME")`. `max_usd`, `until_cap`: as of `evaluate`. Raises IndexNotFound,
        UnknownName, ConfigError, InputError where no question could be written, CapReached.
        """
        from vitalfew.configs.writing import WriteQuestions
        from vitalfew.tasks.datasets.written import written

        run = RunOptions(workers=workers, runner=runner, max_usd=max_usd, until_cap=until_cap)
        given = self._given(run, index=index, name=name)
        own = {key: value for key, value in (("n", n), ("writer", writer)) if value is not None}
        parameters = build(WriteQuestions, given, {"write": {**settings, **own}})
        outcome = self._execute(parameters)
        return QuestionSet(outcome.run.name, written(self.place, outcome.run.name))

    def question_sets(self) -> list[str]:
        """The sets of questions that were written in this store, as `questions` takes them: written:NAME."""
        done = (run for run in read_runs(self.place) if run.flow == WRITING and run.state == "completed")
        return sorted({f"written:{run.name}" for run in done})

    def evaluate(
        self,
        experiment: str,
        index: str | None = None,
        questions: Any = None,
        settings: Settings | None = None,
        **run: Unpack[RunOptions],
    ) -> "Report":
        """Answer questions with several methods, and compare their quality, tokens, time and costs.

        `experiment`: a name of `vitalfew experiments`, or FILE.yaml. `questions`: a data set (FORMAT:PATH,
        written:NAME), a `QuestionSet`, a Polars or pandas frame with columns `question` and `answers`, or a list of
        questions or of such rows; default: those of the index. `settings`: {"questions": {"sample": 100}, "choose":
        None}, as --set. Raises UnknownName, ConfigError, InputError, IndexNotFound,
        IndexMismatch, NoReport, CapReached.
        """
        from vitalfew.configs.loading import merged
        from vitalfew.flows.pipelines.experiments import evaluation, find
        from vitalfew.library.report import Report

        name, written = find(experiment, self.place)
        given = self._given(run, index=index)
        if questions is not None:
            given["questions"] = {"dataset": dataset_of(questions)}
        parameters = evaluation(name, written, merged(dict(settings or {}), given))
        return Report(self.place, self._execute(parameters).report.report)

    def score(
        self,
        *results: str | Path,
        name: str = "score",
        questions: Any = None,
        columns: Mapping[str, str] | None = None,
        settings: Settings | None = None,
        **run: Unpack[RunOptions],
    ) -> "Report":
        """Score answers that other systems gave, from files of results, and compare the systems with the first one, on
        the questions that all files have, as `vitalfew score` does. No index is needed.

        `results`: JSON lines, JSON, CSV or Parquet; `vitalfew datasets recorded` names their columns. `questions`: with
        the gold answers, as of `evaluate`, in place of the files' own; `columns`: the names of columns that are
        not recognised, {"answer": "completion.text"}; `settings`: {"judge": {…}}. Raises InputError, ConfigError.
        """
        from vitalfew.configs.loading import merged
        from vitalfew.flows.pipelines.experiments import evaluation
        from vitalfew.flows.pipelines.scoring import scoring
        from vitalfew.library.report import Report

        named = ",".join(f"{key}={value}" for key, value in (columns or {}).items())
        experiment = scoring(results, dataset_of(questions) if questions is not None else None, named or None)
        given = {"runner": "serial", **self._given(run)}
        parameters = evaluation(name, experiment, merged(dict(settings or {}), given))
        return Report(self.place, self._execute(parameters).report.report)

    def report(self, run: str = "latest") -> "Report":
        """A finished evaluation, by a run's id or a prefix of it, or by its experiment's name. Raises NoReport."""
        from vitalfew.library.report import Report
        from vitalfew.tasks.report import read_report
        from vitalfew.tasks.reports.runs import find_run

        return Report(self.place, read_report(self.place, find_run(self.place, run)))

    def review(
        self, run: str = "latest", *, reviewer: str, methods: Sequence[str] = (), one: bool = False
    ) -> "ReviewSession":
        """A session in which a person reviews an evaluation's answers, as in `vitalfew review`: `current` is what to
        show, `press("1")` keeps a verdict and shows the next, `progress` says how many are left.

        `run`: as of `report`; `methods`: two to compare, by default the best one and the baseline; with `one`, which
        asks of single answers whether they are right, those to review, by default all. It continues where the reviewer
        stopped. Raises NoReport, and ValueError for a reviewer that is no name.
        """
        from vitalfew.tasks.reports.reviewing import ReviewSession

        return ReviewSession(self.place, run, reviewer, methods, one)

    def reviews(self, run: str = "latest") -> "pl.DataFrame":
        """People's verdicts on an evaluation's answers: the columns of the table `reviews`, as `review export` writes
        them. Raises NoReport."""
        from vitalfew.tasks.reports.reviewed import reviews_table

        return reviews_table(self.place, run)

    def import_reviews(self, path: str | Path, *, replace: bool = False) -> "ImportedReviews":
        """Keep the reviews of a CSV file, as `vitalfew review import` does; how many are new, and how many were known.

        `replace`: a new verdict takes the place of the reviewer's earlier one. Raises InputError, which names the line.
        """
        from vitalfew.tasks.reports.reviewed import import_reviews

        return import_reviews(self.place, Path(path), replace)

    def labels(self, run: str = "latest") -> "Labelled | None":
        """Right answers by the judge alone, by people alone and by both, with 95 % intervals; which of two methods
        people prefer; how far they agree. None where neither has said anything. Raises NoReport."""
        from vitalfew.configs.evaluation import Evaluate
        from vitalfew.tasks.reports.labelled import labelled
        from vitalfew.tasks.reports.runs import find_run

        found = find_run(self.place, run)
        return labelled(self.place, found, Evaluate.model_validate(found.config))

    def explore(self, run: str = "latest") -> "Explorer":
        """The questions of a finished evaluation: who is right, and all of one question. Raises as `report`, which
        takes longer: it computes every interval."""
        from vitalfew.library.explorer import Explorer
        from vitalfew.tasks.reports.runs import find_run

        return Explorer(self.place, find_run(self.place, run))

    def compare(self, first: str, second: str) -> "Comparison":
        """Two evaluations (RUN or EXPERIMENT), or two methods (RUN:METHOD), on the questions that both asked: paired
        differences with their intervals, and the questions that changed. Raises NoReport."""
        from vitalfew.library.explorer import Comparison

        return Comparison(self.place, first, second)

    def runs(self) -> "pl.DataFrame":
        """A row per run, the newest first: run_id, flow, name, state (running, completed, failed, cancelled,
        interrupted, unreadable), started, ended (UTC), methods, questions (null where none were asked), error.

        Raises FileNotFoundError where there is no store.
        """
        return self.sql(
            "WITH counted AS (SELECT fingerprint, count(*) AS questions FROM asked GROUP BY ALL), of_run AS ("
            "SELECT m.run_id, count(DISTINCT m.method) AS methods, max(c.questions) AS questions FROM methods AS m "
            "LEFT JOIN counted AS c ON m.table_name = 'asked' AND c.fingerprint = m.fingerprint GROUP BY ALL) "
            "SELECT r.run_id, r.flow, r.name, r.state, r.started, r.ended, o.methods, o.questions, "
            "CASE WHEN r.state = 'cancelled' THEN '' ELSE r.error END AS error "
            "FROM runs AS r LEFT JOIN of_run AS o USING (run_id) ORDER BY r.started DESC, r.run_id"
        )

    def rag(
        self,
        method: str,
        index: str | None = None,
        generator: str | None = None,
        model: str | None = None,
        settings: Settings | None = None,
        max_usd: float | None = None,
    ) -> "Rag":
        """A method that answers questions: EXPERIMENT:METHOD, with the settings that its last evaluation in this store
        chose; where it was not evaluated, with those of the experiment.

        `generator`, `model`: another model answers. `max_usd`: USD that all answers together may cost in requests to
        servers. Raises NoPrice, UnknownName, ConfigError, IndexNotFound, IndexMismatch.
        """
        from vitalfew.library.rag import Rag

        return Rag(self.place, method, index, generator, model, settings, max_usd)

    def methods(self) -> "list[Askable]":
        """The methods that `rag` takes in this store: those of its evaluations, the latest first, and those of the
        experiments `start_answers` and `quickstart`. No model is loaded."""
        from vitalfew.library.askable import askable

        return askable(self.place)

    def sql(self, query: str, timeout: float = 600) -> "pl.DataFrame":
        """The rows of one statement that only reads, on all artifacts (`vitalfew tables`). `timeout`: seconds.

        Raises QueryError, FileNotFoundError.
        """
        return self.query(query, timeout).frame()

    def query(self, query: str, timeout: float = 600) -> "Query":
        """One statement that only reads, to be run by `frame` or `write`, and cancelled by another thread."""
        from vitalfew.library.query import Query

        return Query(self.place, query, timeout)

    def tables(self) -> "pl.DataFrame":
        """Everything that `sql` can ask: a row per table, per column of it and per macro. Raises FileNotFoundError.

        `kind`: table, column or macro; `name`: of the table or macro; `column`, `type`, `unit`: of a column; `about`:
        what it means; `call`, `example`: of a macro, in SQL.
        """
        import polars as pl

        from vitalfew.storage.catalog.database import connect
        from vitalfew.storage.catalog.macros import MACROS
        from vitalfew.storage.catalog.views import documented
        from vitalfew.storage.catalog.views import rows as documented_tables

        rows = list[tuple[str | None, ...]]()
        with connect(self.place) as connection:
            asked = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
            types = {(table, column): kind for table, column, kind in connection.sql(asked).fetchall()}
            for table, about in documented_tables(connection).items():
                rows.append(("table", table, None, None, None, about, None, None))
                for column, info in documented(connection, table).items():
                    kind = types.get((table, column))
                    rows.append(("column", table, column, kind, info.unit or None, info.about, None, None))
        for macro in MACROS:
            rows.append(("macro", macro.name, None, None, None, macro.about, macro.signature, macro.example))
        names = ("kind", "name", "column", "type", "unit", "about", "call", "example")
        return pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row")

    def costs(self, since: "date | None" = None, until: "date | None" = None) -> "pl.DataFrame":
        """Costs of work by day (UTC), run, method, stage and model: rows of the macro `spending_by_method`, and the
        `name` of the run's index or experiment and its `flow`. `since`, `until`: the first and the last day. Raises
        FileNotFoundError.
        """
        import polars as pl

        rows = self.sql(
            "SELECT s.*, r.name, r.flow FROM spending_by_method() AS s LEFT JOIN runs AS r USING (run_id) ORDER BY ALL"
        )
        if since:
            rows = rows.filter(pl.col("day") >= since)
        return rows.filter(pl.col("day") <= until) if until else rows

    def _given(self, run: RunOptions, **own: Any) -> dict[str, Any]:
        """The settings of a run that were given."""
        every = {"store": self.place, **run, "until_cap": run.get("until_cap") or None, **own}
        return {key: value for key, value in every.items() if value is not None}

    def _execute(self, parameters: Execution) -> Any:
        from vitalfew.flows.dispatch import execute
        from vitalfew.flows.pipelines.run import showing

        with showing(self.progress):
            return execute(parameters)

    def __repr__(self) -> str:
        return f"Store({str(self.place)!r})"


def sql(query: str, store: str | Path = "store", timeout: float = 600) -> "pl.DataFrame":
    """`Store(store).sql(query)`."""
    return Store(store).sql(query, timeout)
