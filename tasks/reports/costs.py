"""Costs of the stages and indexes of an evaluation, from the ledger: the account that `vitalfew costs` shows, too.

The ledger holds what every run paid, for shards that were lost or cancelled and done again as well, and what reused
answers, readings and vectors had taken when they were computed: both together are the cost without cache. A stage that
several methods share was paid once: the costs of the methods, every shared stage once, are what the run and earlier
runs paid together.

Loading models is in no stage's and no index's costs, because it falls to whichever method is first. What the run paid
holds it, as a figure of its own.

An index is known by the artifacts in which the run searched: its name may stand for others by now.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from vitalfew.configs.evaluation import Method
from vitalfew.configs.schema import EncodeConfig
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.costs import LOADING, read_ledger
from vitalfew.storage.runs import Run
from vitalfew.tasks.reports.contents import IndexResult, Paid, StageCost
from vitalfew.tasks.reports.runs import read_manifest

_LEDGER = {
    "run_id": pl.String,
    "stage": pl.String,
    "tokens": pl.Int64,
    "wall_seconds": pl.Float64,
    "cpu_seconds": pl.Float64,
    "usd": pl.Float64,
    "peak_memory_bytes": pl.Int64,
    "finished": pl.Boolean,
    "reused_wall_seconds": pl.Float64,
    "reused_cpu_seconds": pl.Float64,
    "reused_usd": pl.Float64,
}


def ledger_of(store: Path, *manifests: Manifest) -> pl.DataFrame:
    """A row per shard and run that worked on it; where the ledger is lost, as the artifact records its shards."""
    rows = []
    for manifest in manifests:
        own = [record for record in [manifest.preparation, *manifest.shards] if record]
        recorded = [{**vars(record.cost), "stage": manifest.stage, "run_id": record.run_id} for record in own]
        rows += _ledger(store, manifest.artifact) or recorded
    return pl.DataFrame(rows, _LEDGER)


def _ledger(store: Path, artifact: str) -> list[dict[str, Any]]:
    return read_ledger(Artifact(store, *artifact.split("/")).ledger)


def _work(ledger: pl.DataFrame) -> pl.DataFrame:
    """The ledger without the loading of models, which falls to whichever method is first."""
    return ledger.filter(pl.col("stage") != LOADING)


def _totals(ledger: pl.DataFrame) -> dict[str, Any]:
    """The sums of a ledger, its peak of memory, and as `whole_…` the cost of its work without cache: with what was
    reused, without what was cancelled and done again."""
    done = pl.col("finished").fill_null(True)
    sums = ledger.select(
        pl.col("tokens", "wall_seconds", "cpu_seconds", "usd").sum(),
        pl.col("peak_memory_bytes").max(),
        **{
            f"whole_{name.removeprefix('wall_')}": (pl.col(name) + pl.col(f"reused_{name}").fill_null(0.0))
            .filter(done)
            .sum()
            for name in ("wall_seconds", "cpu_seconds", "usd")
        },
    )
    return sums.row(0, named=True)


def stage_costs(store: Path, run: Run, methods: Mapping[str, Sequence[str]]) -> dict[str, tuple[StageCost, ...]]:
    """For every row of a report, by its name, what its methods took, stage by stage. Raises NoReport."""
    listed: set[str] = set()
    costs = {}
    for row, names in methods.items():
        stages: dict[str, dict[str, Manifest]] = {}
        for name in names:
            for manifest in _manifests(store, run, name):
                stages.setdefault(manifest.stage, {})[manifest.artifact] = manifest
        costs[row] = tuple(_cost(store, run, [*of.values()], of.keys() <= listed) for of in stages.values())
        listed.update(*stages.values())
    return costs


def _manifests(store: Path, run: Run, method: str) -> list[Manifest]:
    """The manifests of all artifacts that the run made or used for a method, in their order, also of one whose table a
    later stage wrote anew."""
    made = [*dict.fromkeys([*run.fingerprints, *run.methods[method].values()])]
    manifests: dict[str, Manifest] = {}
    due = [*run.methods[method].values()]
    while due:
        if (name := due.pop()) not in manifests:
            manifests[name] = read_manifest(store, name)
            due += [read for read in manifests[name].inputs.values() if read in made]
    return [manifests[name] for name in made if name in manifests]


def _cost(store: Path, run: Run, manifests: Sequence[Manifest], shared: bool) -> StageCost:
    """The cost of one stage; the mean over seeds where there are several."""
    ledger, seeds, first = _work(ledger_of(store, *manifests)), len(manifests), manifests[0]
    totals = _totals(ledger)
    now = float(ledger.filter(pl.col("run_id") == run.run_id)["usd"].sum())
    return StageCost(
        stage=first.stage,
        rows=first.rows[first.artifact.partition("/")[0]],
        tokens=totals["tokens"] // seeds,
        **{name: totals[name] / seeds for name in ("wall_seconds", "cpu_seconds", "usd", "whole_seconds", "whole_usd")},
        paid_usd=0.0 if shared else now / seeds,
        peak_memory_bytes=totals["peak_memory_bytes"],
        reused=run.run_id not in ledger["run_id"],
        shared=shared,
        batches=len(first.shards),
    )


def paid(store: Path, run: Run) -> Paid:
    """The costs of the run's artifacts: what it paid, and what it reused. That is what the artifacts of earlier runs
    would cost without cache, and what the answers, readings and vectors had taken that its shards took
    over."""
    ledger = pl.DataFrame([row for artifact in run.fingerprints for row in _ledger(store, artifact)], _LEDGER)
    is_own = pl.col("run_id") == run.run_id
    own, earlier = _totals(ledger.filter(is_own)), _totals(_work(ledger.filter(~is_own)))
    loading = _totals(ledger.filter(is_own & (pl.col("stage") == LOADING)))
    recalled = ledger.filter(is_own & pl.col("finished").fill_null(True) & (pl.col("reused_usd") > 0))
    usd, cpu = (float(recalled[name].sum()) for name in ("reused_usd", "reused_cpu_seconds"))
    stages = dict.fromkeys([*_work(ledger.filter(~is_own))["stage"], *recalled["stage"]])
    return Paid(
        own["usd"],
        own["cpu_seconds"],
        earlier["whole_usd"] + usd,
        earlier["whole_cpu_seconds"] + cpu,
        tuple(stages),
        loading["usd"],
    )


SHOWN = ("encoder", "context", "units", "text")
OF_QUESTIONS = ("asked", "question_vectors")
"""Inputs of hits that are not part of the index."""


def index_results(store: Path, run: Run, methods: Sequence[Method]) -> tuple[IndexResult, ...]:
    """The indexes that methods search. Raises NoReport where a part of one was removed since."""
    used: dict[str, list[str]] = {}
    for method in methods:
        if method.retrieve:
            used.setdefault(str(method.index), []).append(method.name)
    return tuple(_index(store, name, _searched(store, run, by[0]), by) for name, by in used.items())


def _index(store: Path, name: str, manifests: dict[str, Manifest], used_by: Sequence[str]) -> IndexResult:
    recorded = EncodeConfig.model_validate(manifests["vectors"].config)
    settings = {key: getattr(recorded, key) for key in SHOWN} | {
        "type": manifests["faiss"].config["type"] if "faiss" in manifests else "encoded later"
    }
    if "sentences" in manifests:
        settings = {"splitter": manifests["sentences"].config["splitter"], **settings}
    texts = {
        key: " and ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
        for key, value in settings.items()
    }
    rows = {table: manifests[table].rows[table] if table in manifests else 0 for table in ("passages", "sentences")}
    totals = _totals(_work(ledger_of(store, *manifests.values())))
    return IndexResult(
        name=name,
        settings=", ".join(f"{key}={text}" for key, text in texts.items()),
        **rows,
        **{name: value for name, value in totals.items() if not name.startswith("whole_")},
        disk_bytes=sum(file.bytes for manifest in manifests.values() for file in manifest.files()),
        copied=manifests["vectors"].note("reused"),
        used_by=tuple(used_by),
    )


def context_mode(store: Path, run: Run, method: Method) -> str | None:
    """How the context vectors were made that a method weighs its sentences by; None where it weighs none. The paper of
    ParetoRAG has `exact` alone, so that a reader has to know."""
    retrieve = method.retrieve
    if not retrieve or retrieve.retriever != "core_context" or getattr(retrieve, "alpha", 0.0) == 1.0:
        return None
    return EncodeConfig.model_validate(_searched(store, run, method.name)["vectors"].config).context


def models(store: Path, run: Run, methods: Sequence[Method]) -> tuple[str, ...]:
    """The encoders and generators that took part, without repetition."""
    encoders = [_searched(store, run, method.name)["vectors"].config for method in methods if method.retrieve]
    named = [f"encoder {_with_model(settings['encoder'], settings.get('model'))}" for settings in encoders]
    named += [f"generator {name}" for method in methods if (name := generator_name(method))]
    return tuple(dict.fromkeys(named))


def generator_name(method: Method) -> str | None:
    """The generator with its model: "chat (smollm2)"; None for a method that does not answer."""
    section = method.generate
    return _with_model(section.generator, getattr(section, "model", None)) if section else None


def _with_model(name: str, model: str | None) -> str:
    return f"{name} ({Path(model).name or model})" if model else name


def _searched(store: Path, run: Run, method: str) -> dict[str, Manifest]:
    """The manifests of the index that a method searched, by role."""
    inputs = read_manifest(store, run.methods[method]["hits"]).inputs
    return {role: read_manifest(store, name) for role, name in inputs.items() if role not in OF_QUESTIONS}
