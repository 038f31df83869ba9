"""Costs of the stages and indexes of an evaluation, from the ledger: the account that `vitalfew costs` shows, too.

The ledger holds what every run paid, for shards that were lost and done again as well. A stage that several methods
share was paid once: what the methods took, each shared stage once, is what the run and earlier runs paid together.

An index is known by the artifacts that the run's hits were found in: its name may stand for others by now.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vitalfew.configs.evaluation import Method
from vitalfew.configs.schema import EncodeConfig
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.costs import read_ledger
from vitalfew.storage.runs import Run
from vitalfew.tasks.reports.contents import IndexResult, Paid, StageCost
from vitalfew.tasks.reports.runs import read_manifest


def ledger_of(store: Path, manifest: Manifest) -> list[dict[str, Any]]:
    """A row per shard and run that worked on it; what the artifact says of its own shards where the ledger is lost."""
    own = [record for record in [manifest.preparation, *manifest.shards] if record]
    return _ledger(store, manifest.artifact) or [{**vars(record.cost), "run_id": record.run_id} for record in own]


def _ledger(store: Path, artifact: str) -> list[dict[str, Any]]:
    return read_ledger(Artifact(store, *artifact.split("/")).ledger)


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
    """Of all artifacts that the run made or used for a method, in their order: also of one whose table a later stage
    wrote anew."""
    made = [*dict.fromkeys([*run.fingerprints, *run.methods[method].values()])]
    manifests: dict[str, Manifest] = {}
    due = [*run.methods[method].values()]
    while due:
        if (name := due.pop()) not in manifests:
            manifests[name] = read_manifest(store, name)
            due += [read for read in manifests[name].inputs.values() if read in made]
    return [manifests[name] for name in made if name in manifests]


def _cost(store: Path, run: Run, manifests: Sequence[Manifest], shared: bool) -> StageCost:
    """Of one stage; of several seeds the mean."""
    rows = [row for manifest in manifests for row in ledger_of(store, manifest)]
    seeds, first = len(manifests), manifests[0]
    return StageCost(
        stage=first.stage,
        rows=first.rows[first.artifact.partition("/")[0]],
        tokens=sum(row["tokens"] for row in rows) // seeds,
        wall_seconds=sum(row["wall_seconds"] for row in rows) / seeds,
        cpu_seconds=sum(row["cpu_seconds"] for row in rows) / seeds,
        usd=sum(row["usd"] for row in rows) / seeds,
        peak_memory_bytes=max(row["peak_memory_bytes"] for row in rows),
        reused=all(row["run_id"] != run.run_id for row in rows),
        shared=shared,
        batches=len(first.shards),
    )


def paid(store: Path, run: Run) -> Paid:
    """What the run paid for its artifacts, and what earlier ones had paid for them."""
    rows = [row for artifact in run.fingerprints for row in _ledger(store, artifact)]
    own = [row for row in rows if row["run_id"] == run.run_id]
    earlier = [row for row in rows if row["run_id"] != run.run_id]
    return Paid(
        usd=sum(row["usd"] for row in own),
        cpu_seconds=sum(row["cpu_seconds"] for row in own),
        earlier_usd=sum(row["usd"] for row in earlier),
        earlier_cpu_seconds=sum(row["cpu_seconds"] for row in earlier),
        earlier_stages=tuple(dict.fromkeys(row["stage"] for row in earlier)),
    )


SHOWN = ("encoder", "context", "units", "text")
OF_QUESTIONS = ("asked", "question_vectors")
"""What a method's hits were found by, and not in."""


def index_results(store: Path, run: Run, methods: Sequence[Method]) -> tuple[IndexResult, ...]:
    """Of every index that a method searches. Raises NoReport where a part of one was removed since."""
    searching = [method for method in methods if method.retrieve]
    used: dict[str, list[str]] = {}
    for method in searching:
        used.setdefault(str(method.index), []).append(method.name)
    return tuple(_result(store, name, _searched(store, run, by[0]), tuple(by)) for name, by in used.items())


def context_mode(store: Path, run: Run, method: Method) -> str | None:
    """How the context vectors were made that a method weighs its sentences by; None where it weighs none. The paper of
    ParetoRAG has `exact` alone, so that a reader has to know."""
    retrieve = method.retrieve
    if not retrieve or retrieve.retriever != "core_context" or getattr(retrieve, "alpha", 0.0) == 1.0:
        return None
    return EncodeConfig.recorded(_searched(store, run, method.name)["vectors"].config).context


def models(store: Path, run: Run, methods: Sequence[Method]) -> tuple[str, ...]:
    """The encoders and generators that took part, every one once."""
    searching = [method for method in methods if method.retrieve]
    encoders = [_searched(store, run, method.name)["vectors"].config for method in searching]
    named = [_named("encoder", settings["encoder"], settings.get("model")) for settings in encoders]
    generators = [method.generate for method in methods if method.generate]
    named += [_named("generator", section.generator, getattr(section, "model", None)) for section in generators]
    return tuple(dict.fromkeys(named))


def _named(role: str, name: str, model: str | None) -> str:
    return f"{role} {name}{f' ({Path(model).name or model})' if model else ''}"


def _searched(store: Path, run: Run, method: str) -> dict[str, Manifest]:
    """The manifests of the index that a method's hits were found in, by role."""
    inputs = read_manifest(store, run.methods[method]["hits"]).inputs
    return {role: read_manifest(store, name) for role, name in inputs.items() if role not in OF_QUESTIONS}


def _result(store: Path, name: str, manifests: dict[str, Manifest], used_by: tuple[str, ...]) -> IndexResult:
    paid = [row for manifest in manifests.values() for row in ledger_of(store, manifest)]
    return IndexResult(
        name=name,
        settings=_settings(manifests),
        passages=_rows(manifests, "passages"),
        sentences=_rows(manifests, "sentences"),
        tokens=sum(row["tokens"] for row in paid),
        wall_seconds=sum(row["wall_seconds"] for row in paid),
        cpu_seconds=sum(row["cpu_seconds"] for row in paid),
        usd=sum(row["usd"] for row in paid),
        peak_memory_bytes=max(row["peak_memory_bytes"] for row in paid),
        disk_bytes=sum(file.bytes for manifest in manifests.values() for file in manifest.files()),
        copied=sum(record.notes.get("reused", 0) for record in manifests["vectors"].shards),
        used_by=used_by,
    )


def _rows(manifests: dict[str, Manifest], table: str) -> int:
    return manifests[table].rows[table] if table in manifests else 0


def _settings(manifests: dict[str, Manifest]) -> str:
    splitter = [f"splitter={manifests['sentences'].config['splitter']}"] if "sentences" in manifests else []
    recorded = EncodeConfig.recorded(manifests["vectors"].config)
    encoding = [f"{key}={_text(getattr(recorded, key))}" for key in SHOWN]
    return ", ".join([*splitter, *encoding, f"type={manifests['faiss'].config['type']}"])


def _text(value: Any) -> str:
    return " and ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
