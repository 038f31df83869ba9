"""`Store`: a directory, or a prefix of a bucket, with indexes, evaluations and everything that they left."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vitalfew.configs.loading import build
from vitalfew.configs.paths import store_place
from vitalfew.configs.schema import Execution, IndexCorpus
from vitalfew.library.index import Index
from vitalfew.library.questions import QuestionSet, dataset_of
from vitalfew.storage import generations
from vitalfew.storage.runs import find_index, index_names

if TYPE_CHECKING:
    import polars as pl

    from vitalfew.library.askable import Askable
    from vitalfew.library.rag import Rag
    from vitalfew.library.report import Report

Runner = Literal["auto", "ray", "serial"]
Settings = Mapping[str, Any]


class Store:
    """The place of all artifacts: `Store("store")`, or `Store("s3://BUCKET/PREFIX")`.

    `progress`: show bars while work is done, on a terminal or in a notebook.
    """

    def __init__(self, place: str | Path = "store", *, progress: bool = True) -> None:
        """Raises ValueError for a place that no store can have."""
        self.place = store_place(place)
        self.progress = progress

    def index(
        self,
        name: str,
        *datasets: str,
        settings: Settings | None = None,
        workers: int | None = None,
        runner: Runner | None = None,
        max_usd: float | None = None,
        until_cap: bool = False,
    ) -> Index:
        """Open an index; with data sets, index them first, as `vitalfew index` does.

        `datasets`: FORMAT:PATH?option=value, as `vitalfew datasets` lists them; finished work is not repeated, and a
        run that was killed goes on. `settings`: {"encode": {"context": "late"}}, as --set. `max_usd`, `until_cap`: as
        of `evaluate`. Raises IndexNotFound, ConfigError, InputError, CapReached.
        """
        if datasets:
            given = _given(datasets=datasets, name=name, store=self.place, workers=workers, runner=runner)
            given |= _given(max_usd=max_usd, until_cap=until_cap or None)
            self._execute(build(IndexCorpus, dict(settings or {}), given), _index_flow)
        return Index(self.place, name)

    def indexes(self) -> list[str]:
        """The names of all indexes."""
        return index_names(self.place)

    def history(self, name: str) -> "pl.DataFrame":
        """The generations of an index: rows of the table `generations`, oldest first. Raises IndexNotFound."""
        import polars as pl

        find_index(self.place, name)
        own = pl.col("name") == name
        return self.sql("SELECT * FROM generations ORDER BY generation").filter(own)

    def promote(self, name: str, generation: int | None = None) -> Index:
        """Let an index's name stand for another generation, by default the latest, and open it; nothing is encoded.

        Raises IndexNotFound, CannotPromote, DamagedRecord.
        """
        generations.promote(self.place, name, generation)
        return Index(self.place, name)

    def rollback(self, name: str) -> Index:
        """Let an index's name stand for the generation that was current before, and open it. Raises as `promote`."""
        generations.rollback(self.place, name)
        return Index(self.place, name)

    def write_questions(
        self,
        index: str,
        *,
        n: int | None = None,
        writer: str | None = None,
        name: str | None = None,
        workers: int | None = None,
        runner: Runner | None = None,
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

        given = _given(store=self.place, index=index, name=name, workers=workers, runner=runner)
        given |= _given(max_usd=max_usd, until_cap=until_cap or None)
        parameters = build(WriteQuestions, given, {"write": {**settings, **_given(n=n, writer=writer)}})
        outcome = self._execute(parameters, _writing_flow)
        return QuestionSet(outcome.run.name, written(self.place, outcome.run.name))

    def evaluate(
        self,
        experiment: str,
        index: str | None = None,
        questions: Any = None,
        settings: Settings | None = None,
        workers: int | None = None,
        runner: Runner | None = None,
        max_usd: float | None = None,
        until_cap: bool = False,
    ) -> "Report":
        """Answer questions with several methods, and compare their quality, tokens, time and costs.

        `experiment`: a name of `vitalfew experiments`, or FILE.yaml. `questions`: a data set (FORMAT:PATH,
        written:NAME), a `QuestionSet`, a Polars or pandas frame with columns `question` and `answers`, or a list of
        questions or of such rows; default: those of the index. `settings`: {"questions": {"sample": 100}, "choose":
        None}, as --set. `max_usd`: USD that may be paid for requests to servers; `until_cap`: begin although the quote
        is above it. Raises UnknownName, ConfigError, InputError, IndexNotFound, IndexMismatch, NoReport, CapReached.
        """
        from vitalfew.configs.loading import merged
        from vitalfew.flows.pipelines.experiments import evaluation, find
        from vitalfew.library.report import Report

        name, written = find(experiment, self.place)
        given = _given(store=self.place, workers=workers, runner=runner, index=index)
        given |= _given(max_usd=max_usd, until_cap=until_cap or None)
        if questions is not None:
            given["questions"] = {"dataset": dataset_of(questions)}
        parameters = evaluation(name, written, merged(dict(settings or {}), given))
        return Report(self.place, self._execute(parameters, _evaluation_flow).report.report)

    def report(self, run: str = "latest") -> "Report":
        """A finished evaluation, by a run's id or a prefix of it, or by its experiment's name. Raises NoReport."""
        from vitalfew.library.report import Report
        from vitalfew.tasks.report import read_report
        from vitalfew.tasks.reports.runs import find_run

        return Report(self.place, read_report(self.place, find_run(self.place, run)))

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
        import polars as pl

        from vitalfew.storage.catalog.database import limited

        with limited(self.place, query, timeout) as rows:
            return pl.DataFrame(rows.to_arrow_table())

    def _execute(self, parameters: Execution, flow: Callable[[], Callable[[Any], Any]]) -> Any:
        from vitalfew.flows.pipelines.run import showing
        from vitalfew.flows.start import execute

        with showing(self.progress):
            return execute(parameters, flow)

    def __repr__(self) -> str:
        return f"Store({str(self.place)!r})"


def sql(query: str, store: str | Path = "store", timeout: float = 600) -> "pl.DataFrame":
    """`Store(store).sql(query)`."""
    return Store(store).sql(query, timeout)


def _given(**options: Any) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


def _index_flow() -> Callable[[IndexCorpus], Any]:
    """The flow that makes an index, which takes seconds to import."""
    from vitalfew.flows.index_corpus import index_corpus

    return index_corpus


def _evaluation_flow() -> Callable[[Any], Any]:
    from vitalfew.flows.evaluate import evaluate

    return evaluate


def _writing_flow() -> Callable[[Any], Any]:
    from vitalfew.flows.evaluate import write_questions

    return write_questions
