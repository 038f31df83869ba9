"""check: a finished evaluation against a baseline, a file that keeps an earlier one's scores question by question.

A baseline is small enough to be kept beside the code whose changes it guards: for every method the scores of single
questions, what they were measured on (fingerprints of questions and corpus) and with (settings, versions of metrics).
It needs no store. The fingerprint of a corpus is that of its passages' ids, which come from their texts alone: the same
texts are the same corpus, on whichever machine and in whichever order they were read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import BaseModel, ConfigDict, TypeAdapter

from vitalfew.configs.loading import few, flat
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, Manifest, fingerprint
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.names import STRICT, Moment, validated
from vitalfew.storage.runs import read_runs
from vitalfew.tasks.metrics.base import SCALE, Direction
from vitalfew.tasks.reports.comparison import NamedRun
from vitalfew.tasks.reports.runs import LATEST, EvaluatedMethod, NoReport, QuestionScores, read_manifest
from vitalfew.tasks.reports.statistics.gates import GateDecision, GatedMetric, decide

_OF_THE_CORPUS = {"load", "ask", "encode_questions"}
"""Stages whose settings show in the fingerprints, or again in another stage's."""
IMPLEMENTATION = "model or version"
_SHOWN = 5
"""Questions of a metric that became worse and are shown, at most."""


class _Record(BaseModel):
    model_config = ConfigDict(**STRICT, frozen=True)


class SearchedCorpus(_Record):
    """The passages that a method searched: the fingerprint of their ids, and how many there are."""

    fingerprint: str
    passages: int


class ScoredMetric(_Record):
    """A metric's declaration (`Column`), and its `values` by question, None where a question gave no ground for it.
    `version`: of what computed it."""

    heading: str
    unit: str
    direction: Direction | None
    version: str
    values: list[float | None]


class BaselineMethod(_Record):
    """A method of an evaluation. `settings`: by path ("retrieve.top_k"), those of its stages and of its index, with
    their `fingerprint`; `corpus`: None where it searched nothing; `without_gold`: questions whose gold passages are not
    all in it, by id."""

    fingerprint: str
    settings: dict[str, Any]
    corpus: SearchedCorpus | None
    without_gold: list[int]
    metrics: dict[str, ScoredMetric]


class Baseline(_Record):
    """An evaluation question by question. `questions`: their ids, ascending: hashes of the question's text, its
    gold answers and what it names as gold. `questions_fingerprint`: of all of them."""

    experiment: str
    run_id: str
    written: Moment
    code_version: str
    questions_fingerprint: str
    questions: list[int]
    methods: dict[str, BaselineMethod]
    version: Literal[1] = 1
    """Raise it when what is in the file changes."""

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        return np.array(self.questions, np.int64)


_BASELINE = TypeAdapter(Baseline)


@dataclass(frozen=True)
class WorsenedQuestion:
    """A question whose value of a metric became worse."""

    metric: str
    question: str
    before: float
    after: float


@dataclass(frozen=True)
class Checked:
    """A method of a run, as it is `now`, against a baseline at `place`. `decision`: by metric, and over all;
    `questions`: that were compared.

    `only_before`, `only_now`: questions that one side alone asked; `without_gold`: those of both whose gold passages
    are in one of two corpora alone. All are left out. `changed`: settings with their value before and now, None where
    there was none. `worsened`: some questions that became worse, the worst of every metric first.
    """

    now: "MeasuredMethod"
    baseline: Baseline
    place: Path
    decision: GateDecision
    questions: int
    only_before: int
    only_now: int
    without_gold: int
    same_corpus: bool
    changed: Mapping[str, tuple[Any, Any]]
    worsened: Sequence[WorsenedQuestion]


def write_baseline(store: Path, name: str, method: str | None, path: Path) -> Baseline:
    """Write the scores of an evaluation's methods, or of one, to a file. Raises NoReport, NotWritten."""
    named = _finished(store, name, method)
    sides = MeasuredMethod.every(store, named.run)
    wanted = [named.method] if named.method else named.names
    ids = sides[wanted[0]].scores.ids
    baseline = Baseline(
        experiment=named.run.name,
        run_id=named.run.run_id,
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        code_version=version("vitalfew"),
        questions_fingerprint=_hashed(ids),
        questions=ids.tolist(),
        methods={each: sides[each].as_baseline() for each in wanted},
    )
    files.write_json(path, baseline.model_dump())
    return baseline


def read_baseline(path: Path) -> Baseline:
    """Raises NoReport where there is none, and DamagedRecord, also for one of another version."""
    try:
        return files.read_record(path, lambda value: validated(_BASELINE, value))
    except FileNotFoundError:
        raise NoReport(f"there is no baseline {path}; write one with: vitalfew check RUN --write {path}") from None
    except DamagedRecord as error:
        raise DamagedRecord(f"{error}. {_anew(path)}") from None


def _anew(path: Path | str) -> str:
    return f"Write it anew: vitalfew check RUN --write {path}"


def check(
    store: Path, name: str, method: str | None, path: Path, margins: Mapping[str, float], common: bool = False
) -> Checked:
    """Decide whether a method of a run is no worse than in the baseline at `path`, by the metrics that have a margin.

    `method`: may be left out where the run has one; `common`: compare the questions of both where these or the corpora
    differ. Raises NoReport where nothing can be compared, with the reason and the remedy; DamagedRecord; ValueError for
    a margin below 0 or without a value.
    """
    baseline, named = read_baseline(path), _finished(store, name, method)
    chosen = _chosen(named)
    if chosen not in baseline.methods:
        known = few(chosen, [*baseline.methods], "")
        raise NoReport(f"{path} has no method {chosen!r}; it has: {known}. {_anew(path)}")
    before, now = baseline.methods[chosen], MeasuredMethod.every(store, named.run)[chosen]
    same_corpus = before.corpus == now.corpus
    ids = np.intersect1d(baseline.ids, now.scores.ids, assume_unique=True)
    if not common:
        _refuse_others(path, baseline, before, now, len(ids))
    if not len(ids):
        raise NoReport(
            f"{path} and run {named.run.run_id} have no question in common, so nothing can be paired: ask the questions"
            f" that it has (questions.dataset, .where, .sample, .seed). {_anew(path)}"
        )
    kept = np.isin(ids, before.without_gold) == np.isin(ids, now.without_gold)
    shared, without_gold = ids[kept], int((~kept).sum())
    if not len(shared):
        raise NoReport(f"all {len(ids):,} common questions have their gold passages in one of the two corpora alone")
    values = {metric: np.array(each.values, np.float64) for metric, each in before.metrics.items()}  # None is NaN
    earlier = QuestionScores(baseline.ids, values)
    gated = {
        metric: _gated(path, metric, margin, before, now, (earlier.of(metric, shared), now.scores.of(metric, shared)))
        for metric, margin in margins.items()
    }
    return Checked(
        now=now,
        baseline=baseline,
        place=path,
        decision=decide(gated),
        questions=len(shared),
        only_before=len(baseline.questions) - len(ids),
        only_now=len(now.scores.ids) - len(ids),
        without_gold=without_gold,
        same_corpus=same_corpus,
        changed=_changed(before.settings, now.settings),
        worsened=[each for name, own in gated.items() for _, each in worsened(now, shared, name, own, _SHOWN)],
    )


def _finished(store: Path, name: str, method: str | None) -> NamedRun:
    """The run of this id or experiment. Raises NoReport where a later one of the experiment is not finished: it is the
    one that is meant."""
    named = NamedRun(store, f"{name}:{method}" if method else name)
    run = named.run
    if not run.run_id.startswith(name):
        later = [each for each in read_runs(store) if each.flow == "evaluate" and each.started > run.started]
        if found := next((each for each in later if name in (each.name, LATEST)), None):
            reason = f" ({found.error})" if found.error else ""
            raise NoReport(
                f"the latest run of {found.name}, {found.run_id}, is {found.state}{reason}: run the same `vitalfew "
                f"evaluate` to finish it, or name the one before, {run.run_id}"
            )
    return named


def _chosen(named: NamedRun) -> str:
    """The method that is meant. Raises NoReport."""
    if not named.method and len(named.names) > 1:
        known = few("", named.names, "")
        raise NoReport(f"run {named.run.run_id} has several methods; name one as {named.run.name}:METHOD: {known}")
    return named.method or named.names[0]


def _refuse_others(path: Path, baseline: Baseline, before: BaselineMethod, now: "MeasuredMethod", shared: int) -> None:
    """Raises NoReport where the two searched different corpora, or were asked different questions."""
    if before.corpus != now.corpus:
        said = [
            f"{corpus.passages:,} passages ({corpus.fingerprint})" if corpus else "none"
            for corpus in (before.corpus, now.corpus)
        ]
        raise NoReport(
            f"another corpus is searched than in {path}: it has {said[0]}, this run {said[1]}. {_anew(path)}, or "
            "compare the questions whose gold passages are in both with --common"
        )
    earlier, later = len(baseline.questions), len(now.scores.ids)
    if not earlier == later == shared:
        raise NoReport(
            f"other questions are asked than in {path}: it has {earlier:,}, this run {later:,}, and {shared:,} are in "
            f"both. {_anew(path)}, or compare those in both with --common"
        )


def _gated(
    path: Path,
    metric: str,
    margin: float,
    before: BaselineMethod,
    now: "MeasuredMethod",
    values: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
) -> GatedMetric:
    """A metric that can be decided on. Raises NoReport, ValueError."""
    if metric in now.columns and metric not in now.metrics:
        raise NoReport(_no_values(path, metric, values, now))
    if metric not in now.metrics:
        raise NoReport(f"no metric {metric!r} in run {now.run.run_id}; it has: {few(metric, [*now.metrics], '')}")
    if metric not in before.metrics:
        raise NoReport(f"{path} has no metric {metric!r}; it has: {few(metric, [*before.metrics], '')}. {_anew(path)}")
    declared, known = now.metrics[metric], before.metrics[metric]
    if declared.version != known.version:
        raise NoReport(
            f"{metric} was computed by version {known.version} for {path}, and by version {declared.version} in this "
            f"run: the two cannot be compared. {_anew(path)}"
        )
    if declared.direction == "neither":
        raise NoReport(f"{metric} is neither better high nor low, so it cannot become worse: gate another metric")
    gated = paired(declared, values, margin)
    if gated.is_share and margin >= 1:
        raise ValueError(f"{metric} goes from 0 to 1: a margin of {margin:g} accepts any loss (2 % are 0.02)")
    if np.isnan(values).any(axis=0).all():
        raise NoReport(_no_values(path, metric, values, now))
    return gated


def paired(
    declared: ScoredMetric, values: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]], margin: float
) -> GatedMetric:
    """A metric to decide on. `values`: both before and after, float64 (n,), NaN for a question without one; the metric
    has a better direction."""
    both = np.concatenate(values)
    is_share = declared.unit == SCALE and bool(np.all((both >= 0) & (both <= 1) | np.isnan(both)))
    return GatedMetric(*values, margin, "lower" if declared.direction == "lower" else "higher", is_share)


def _no_values(path: Path, metric: str, values: Sequence[npt.NDArray[np.float64]], now: "MeasuredMethod") -> str:
    before, after = (int((~np.isnan(side)).sum()) for side in values)
    needs = " and ".join(now.columns[metric].needs) or "single questions"
    return (
        f"no question has a value of {metric} on both sides: of {len(values[0]):,} it has {before:,} in {path} and "
        f"{after:,} in this run. It needs {needs}, and a metric of all answers together has no value of a question"
    )


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = sorted(before.keys() | now.keys())
    return {name: (before.get(name), now.get(name)) for name in names if before.get(name) != now.get(name)}


def worsened(
    now: "MeasuredMethod", ids: npt.NDArray[np.int64], name: str, metric: GatedMetric, most: int
) -> Iterator[tuple[int, WorsenedQuestion]]:
    """The questions that lost most of a metric, worst first, with their ids; equals in the order of these."""
    texts = dict(zip(now.asked["question_id"], now.asked["text"], strict=True))
    before, after = np.asarray(metric.current), np.asarray(metric.candidate)
    loss = np.nan_to_num((before - after) * (1 if metric.direction == "higher" else -1))
    for place in np.argsort(-loss, kind="stable")[:most]:
        if loss[place] > 0:
            question = int(ids[place])
            yield question, WorsenedQuestion(name, texts[question], float(before[place]), float(after[place]))


class MeasuredMethod(EvaluatedMethod):
    """A method as a run of this store has it, with all that a check and a gate compare."""

    @cached_property
    def asked(self) -> pl.DataFrame:
        return self.rows("asked")

    @property
    def corpus(self) -> SearchedCorpus | None:
        """The corpus that was searched; None where it searched nothing."""
        return self._searched[0]

    @property
    def without_gold(self) -> list[int]:
        """The questions whose gold passages are not all in the corpus, by id."""
        return self._searched[1]

    @cached_property
    def _searched(self) -> tuple[SearchedCorpus | None, list[int]]:
        """The corpus, and the questions without gold; the ids of its passages are not kept."""
        if "hits" not in self.tables:
            return None, []
        searched = self.manifests("hits")[0].inputs["passages"]
        passages = read_manifest(self.store, searched).read(self.store, "passages", ["passage_id"])
        ids = np.sort(passages["passage_id"].to_numpy())
        every = np.unique(self.asked["gold_passages"].explode().drop_nulls().to_numpy())
        gone = {*np.setdiff1d(every, ids, assume_unique=True).tolist()}
        rows = self.asked.select("question_id", "gold_passages", "gold_places").iter_rows()
        lost = sorted(own for own, gold, places in rows if (not gone.isdisjoint(gold) if gold else places))
        return SearchedCorpus(fingerprint=_hashed(ids), passages=len(ids)), lost

    @cached_property
    def settings(self) -> dict[str, Any]:
        return _settings(self.store, self.manifests("scores")[0])

    @cached_property
    def metrics(self) -> dict[str, ScoredMetric]:
        [scored, *_] = self.manifests("scores")
        declared = ((column["name"], method) for method in scored.method.values() for column in method["columns"])
        versions = {name: _version(scored, method) for name, method in declared}
        found = {}
        for name, values in self.scores.values.items():
            column = self.columns[name]
            found[name] = ScoredMetric(
                heading=column.heading,
                unit=column.unit,
                direction=column.direction,
                version=versions.get(name, ""),
                values=[None if np.isnan(value) else float(value) for value in values],
            )
        return found

    def as_baseline(self) -> BaselineMethod:
        return BaselineMethod(
            fingerprint=fingerprint(settings=self.settings),
            settings=self.settings,
            corpus=self.corpus,
            without_gold=self.without_gold,
            metrics=self.metrics,
        )


def _version(scored: Manifest, metric: Mapping[str, Any]) -> str:
    """The versions that computed a metric: of the stage, of the metric, and its model's fingerprint if it has one."""
    model = [fingerprint(model=metric["model"])[:8]] if "model" in metric else []
    return ".".join([scored.version, str(metric["version"]), *model])


def _settings(store: Path, scored: Manifest) -> dict[str, Any]:
    """The settings of all stages that scores were made by, and fingerprints of the methods and models that they name;
    without those of artifacts that were removed since."""
    settings: dict[str, Any] = {}
    due, seen = [scored], {scored.artifact}
    while due:
        manifest = due.pop()
        if manifest.stage not in _OF_THE_CORPUS:
            settings |= flat(manifest.config, f"{manifest.stage}.")
            settings[f"{manifest.stage} ({IMPLEMENTATION})"] = fingerprint(
                method=manifest.method, version=manifest.version
            )
        for name in sorted({*manifest.inputs.values()} - seen):
            seen.add(name)
            if made := Artifact(store, *name.split("/")).recorded_manifest():
                due.append(made)
    return dict(sorted(settings.items()))


def _hashed(ids: npt.NDArray[np.int64]) -> str:
    return blake2b(np.ascontiguousarray(ids, np.dtype("<i8")).tobytes(), digest_size=8).hexdigest()
