"""Index a corpus, as plain Python: load → split → encode → index, and terms → bm25 for keywords."""

import json
from collections.abc import Sequence
from pathlib import Path

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import IndexCorpus, Unit
from vitalfew.flows.pipelines.named import gate_of
from vitalfew.flows.pipelines.run import Plan
from vitalfew.storage import files, generations
from vitalfew.storage.artifacts import Artifact, Manifest, fingerprint
from vitalfew.storage.generations import Generation
from vitalfew.storage.runs import INDEXING, NamedIndex, Run
from vitalfew.tasks.datasets.base import InputError, Passage
from vitalfew.tasks.encode import Encode, EncodeLater
from vitalfew.tasks.index import Index
from vitalfew.tasks.index_keywords import IndexKeywords, Terms, Texts
from vitalfew.tasks.load import Load
from vitalfew.tasks.registry import completed
from vitalfew.tasks.split import Rewrite, split_stage
from vitalfew.tasks.stage import Stage


class IndexPlan(Plan):
    """The stages of the index `parameters.name`. The constructor raises the errors that a user has to correct.

    `gate`: what the result has to pass before the name points at it; `generation`: the result, once it is finished."""

    flow = INDEXING
    parameters: IndexCorpus
    generation: Generation | None = None

    def __init__(self, parameters: IndexCorpus) -> None:
        parameters = completed(parameters)
        stages = index_stages(parameters)
        encode = next(stage for stage in stages if isinstance(stage, Encode))
        # With what was left open (the context mode) as that stage settled it.
        parameters = parameters.model_copy(update={"encode": encode.config})
        super().__init__(parameters, parameters.name, stages)
        self.gate = gate_of(parameters.store, parameters.name)

    @property
    def load(self) -> Load:
        """The stage that reads the sources."""
        return next(stage for stage in self.stages if isinstance(stage, Load))

    def room(self) -> None:
        from vitalfew.flows.pipelines.estimate import check_room  # a finished run needs no estimate

        check_room(self)

    def over(self, passages: Sequence[Passage], folder: Path) -> "IndexPlan":
        """The same work over a few passages, with its own store in that new folder."""
        source = folder / "sample.jsonl"
        rows = [{"title": passage.title, "text": passage.text} for passage in passages]
        files.write_text(source, "".join(json.dumps(row) + "\n" for row in rows))
        settings = self.parameters.model_dump(mode="json")
        settings |= {"datasets": [f"jsonl:{source}"], "store": folder / "store"}
        settings["load"]["shard_passages"] = None
        return IndexPlan(IndexCorpus.model_validate(settings))

    def check(self, stage: Stage, manifest: Manifest) -> None:
        """Raises InputError."""
        if stage.name == "load" and not manifest.rows["passages"]:
            raise InputError(f"{', '.join(self.parameters.datasets)}: there are no passages to index, only questions")
        asks_corpus = self.gate and self.gate.approve == "never" and not self.gate.questions
        if stage.name == "load" and asks_corpus and not manifest.rows["questions"]:
            raise InputError(
                f"the data sets of {self.name} have no questions, so its gate has none to ask. Set gate.questions: "
                "FORMAT:PATH in its corpus's file"
            )
        if stage.name == "split" and manifest.note("whole") == manifest.rows_in:
            raise InputError(_nothing_rewritten(self.parameters))

    def save(self, run: Run) -> None:
        artifacts = {stage.table: stage.artifact.name for stage in self.stages}
        built = NamedIndex(self.name, run.run_id, artifacts, self.parameters.model_dump(mode="json"))
        gated_by = self.gate.model_dump(mode="json", exclude_unset=True) if self.gate else None
        self.generation = generations.record(self.store, built, self.settings(), not self.gate, gated_by)

    def settings(self) -> str:
        """A fingerprint of all that determines the index besides its corpus: settings, methods, weights."""
        own = {
            stage.name: [stage.config_identity(), None if isinstance(stage, Load) else stage.planned]
            for stage in self.stages
        }
        return fingerprint(**own)


def index_stages(parameters: IndexCorpus) -> list[Stage]:
    """load → split → encode → index; without split if only whole passages are retrieved; terms → bm25 for keyword
    search. The settings must be complete (`vitalfew.tasks.registry.completed`).

    Fingerprints follow from settings and inputs alone, so all are known before anything runs.
    """
    store = parameters.store.absolute()  # a worker may have another working directory
    load = Load(store, parameters.datasets, parameters.load)
    if "sentence" in parameters.encode.units:
        split = split_stage(store, load.artifact, parameters.split)
        encode = _encode(store, split.artifact, parameters, load.artifact, isinstance(split, Rewrite))
        stages: list[Stage] = [load, split, encode, *_vector_stages(parameters, split.artifact, encode)]
        return stages + _keyword_stages(parameters, {"sentence": split.artifact, "passage": load.artifact})
    encode = _encode(store, load.artifact, parameters, load.artifact)
    stages = [load, encode, *_vector_stages(parameters, load.artifact, encode)]
    return stages + _keyword_stages(parameters, {"passage": load.artifact})


def _vector_stages(parameters: IndexCorpus, units: Artifact, encode: Encode) -> list[Stage]:
    """index, where there are vectors. Raises ConfigError."""
    if not isinstance(encode, EncodeLater):
        return [Index(parameters.store.absolute(), units, encode.artifact, parameters.index)]
    if not parameters.bm25.enabled:
        raise ConfigError("encode.vectors=later finds passages by keywords: use --set bm25.enabled=true")
    return []


def _keyword_stages(parameters: IndexCorpus, tables: dict[Unit, Artifact]) -> list[Stage]:
    """terms → bm25 over the same units; none if keyword search is off."""
    if not parameters.bm25.enabled:
        return []
    store = parameters.store.absolute()
    texts = Texts(
        {unit: table for unit, table in tables.items() if unit in parameters.encode.units},
        tables["passage"] if parameters.encode.text == "titled" else None,
        parameters.bm25.stemmer,
    )
    terms = Terms(store, texts, parameters.bm25)
    return [terms, IndexKeywords(store, texts, terms.artifact, parameters.bm25)]


def _encode(
    store: Path, units: Artifact, parameters: IndexCorpus, passages: Artifact, rewritten: bool = False
) -> Encode:
    stage_of = EncodeLater if parameters.encode.vectors == "later" else Encode
    stage = stage_of(store, units, parameters.encode, passages, rewritten)
    if parameters.num_gpus is not None:
        if not stage.num_gpus:
            raise ConfigError(
                f"num_gpus={parameters.num_gpus:g}, but the encoder uses the CPU: this machine has no GPU. If the "
                "workers have GPUs, use --set encode.device=cuda"
            )
        stage.num_gpus = parameters.num_gpus
    return stage


def _nothing_rewritten(parameters: IndexCorpus) -> str:
    split = parameters.split
    given = [f"split.{key}={value}" for key, value in split.given().items() if key != split.field()]
    how = ", ".join(given) or "default model"
    return (
        f"splitter {split.splitter!r} made no propositions from any passage ({how}). Use a model that writes JSON "
        "lists of propositions, or a file with exactly the texts of these passages"
    )
