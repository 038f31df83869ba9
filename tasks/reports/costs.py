"""What the stages of an evaluation took, as the ledger has it: the account that `vitalfew costs` shows, too.

It holds what every run paid, for shards that were lost and done again as well. A stage that several methods share was
paid once: what the methods took, each shared stage once, is what the run and earlier runs paid together.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.costs import read_ledger
from vitalfew.storage.manifests import Manifest
from vitalfew.storage.runs import Run
from vitalfew.tasks.reports.contents import Paid, StageCost
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
