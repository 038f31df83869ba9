"""Which stages a flow has, and in which order. Plain Python: neither Prefect nor Ray is needed to run these."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.loading import ConfigError
from configs.schema import IndexCorpus, Unit
from flows.pipelines.progress import StageProgress
from storage.artifacts import Artifact, Manifest
from storage.catalog import database as catalog
from storage.runs import NamedIndex, Run, recorded_run, save_index
from tasks.datasets.base import InputError
from tasks.encode import Encode
from tasks.index import Index
from tasks.index_keywords import BM25, Terms
from tasks.load import Load
from tasks.registry import completed
from tasks.split import Rewrite, split_stage
from tasks.stage import Stage

Execute = Callable[[Sequence[Stage], str], list[Manifest]]
"""Does stages of one kind for a run (its id), and returns the manifests: serially, or as a Prefect task on Ray."""


@dataclass(frozen=True)
class Outcome:
    """What a flow came to: the run, its manifests in order, and the stages of them that were already there."""

    run: Run
    manifests: list[Manifest]
    reused: set[str]


def index_stages(parameters: IndexCorpus) -> list[Stage]:
    """load → split → encode → index; without split where whole passages are all that is to be retrieved; terms → bm25
    where keywords are to be searched too.

    Fingerprints follow from settings and inputs alone, so that all are known before anything runs.
    """
    parameters = completed(parameters)
    store = parameters.store.absolute()  # a worker may have another working directory
    load = Load(store, parameters.datasets, parameters.load)
    if "sentence" in parameters.encode.units:
        split = split_stage(store, load.artifact, parameters.split)
        originals = load.artifact if isinstance(split, Rewrite) else None
        encode = _encode(store, split.artifact, parameters, originals)
        stages: list[Stage] = [load, split, encode, Index(store, split.artifact, encode.artifact, parameters.index)]
        return stages + _keyword_stages(parameters, {"sentence": split.artifact, "passage": load.artifact})
    encode = _encode(store, load.artifact, parameters)
    stages = [load, encode, Index(store, load.artifact, encode.artifact, parameters.index)]
    return stages + _keyword_stages(parameters, {"passage": load.artifact})


def _keyword_stages(parameters: IndexCorpus, tables: dict[Unit, Artifact]) -> list[Stage]:
    """terms → bm25, over the same units, where they are wanted."""
    if not parameters.bm25.enabled:
        return []
    store = parameters.store.absolute()
    texts = {unit: table for unit, table in tables.items() if unit in parameters.encode.units}
    terms = Terms(store, texts, parameters.bm25)
    return [terms, BM25(store, texts, terms.artifact, parameters.bm25)]


def _encode(store: Path, units: Artifact, parameters: IndexCorpus, originals: Artifact | None = None) -> Encode:
    stage = Encode(store, units, parameters.encode, originals)
    if parameters.num_gpus is not None:
        if not stage.num_gpus:
            raise ConfigError(
                f"num_gpus={parameters.num_gpus:g}, but the encoder computes on the CPU: no GPU is seen here. "
                "Where the workers have one, say --set encode.device=cuda"
            )
        stage.num_gpus = parameters.num_gpus
    return stage


def is_indexed(parameters: IndexCorpus) -> bool:
    """Whether every artifact is there already, so that no workers need to be started."""
    return all(stage.manifest() for stage in index_stages(parameters))


def index_corpus(parameters: IndexCorpus, execute: Execute) -> Outcome:
    """Make the index `parameters.name`. What is there already is not done again."""
    stages = index_stages(parameters)
    config = completed(parameters).model_dump(mode="json")
    names = [stage.artifact.name for stage in stages]
    try:
        with recorded_run(parameters.store, "index_corpus", parameters.name, config, names) as run:
            manifests = []
            reused = {stage.name for stage in stages if stage.manifest()}
            for stage in stages:
                manifests += execute([stage], run.run_id)
                if stage.name == "load" and not manifests[0].rows["passages"]:
                    raise InputError(f"{', '.join(parameters.datasets)}: questions only, no passage to index")
                if stage.name == "split" and manifests[-1].note("whole") == manifests[-1].rows_in:
                    raise InputError(_nothing_rewritten(parameters))
            artifacts = {stage.table: stage.artifact.name for stage in stages}
            save_index(parameters.store, NamedIndex(parameters.name, run.run_id, artifacts, config))
    finally:
        catalog.refresh(parameters.store)  # fails no run and hides no error
    return Outcome(run, manifests, reused)


def _nothing_rewritten(parameters: IndexCorpus) -> str:
    split = parameters.split
    given = [f"split.{key}={value}" for key, value in split.given().items() if key != split.field()]
    how = ", ".join(given) or "its own model"
    return (
        f"splitter {split.splitter!r} gave no unit for any passage ({how}): is that a model which writes JSON lists "
        "of propositions, or a file with the very texts of these passages?"
    )


def run_serially(stages: Sequence[Stage], run_id: str) -> list[Manifest]:
    """Do stages in this process alone, with the same result."""
    manifests = []
    for stage in stages:
        with stage.artifact.locked(), StageProgress(stage.name) as progress:
            manifests.append(stage.run(run_id, progress.add, progress.expect))
    return manifests
