"""What a user can set, as Pydantic models: the command line, YAML files and Prefect's forms all fill these in."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator, model_validator

from vitalfew.configs.paths import store_setting
from vitalfew.configs.section import NOT_IN_FINGERPRINT, Config, Section

Unit = Literal["sentence", "passage"]
ContextMode = Literal["exact", "passage", "pooled", "late"]
Text = Literal["titled", "unit"]
Layout = Literal["dual", "fused"]
IndexType = Literal["flat", "sq8", "sqfp16", "hnsw", "ivf_flat", "ivf_sq8", "ivf_pq"]
RunnerName = Literal["ray", "serial"]
FUSED_ALPHA = 0.8
USUAL_CONTEXT: ContextMode = "late"
"""The context mode where none is named, if encoder and splitter allow it (tasks/encode.py says what is taken else)."""


class LoadConfig(Config):
    """How source rows become passages and questions."""

    shard_passages: int | None = Field(
        None,
        ge=1,
        description="Passages in a shard, at most; memory follows it. Default: 4,096; beyond 16 million passages a "
        "4,096th of the corpus, but 32,768 at most.",
    )
    max_chars: int = Field(
        200_000, ge=1, description="A longer passage, question or list of answers goes to `rejects` (characters)."
    )
    max_name_chars: int = Field(
        10_000, ge=1, description="A row with a longer title or source id goes to `rejects` (characters)."
    )
    max_items: int = Field(
        10_000, ge=1, description="A question with more answers, gold passages or supporting facts goes to `rejects`."
    )


class SplitConfig(Section):
    """How passages become sentences, or what else is to be retrieved in their place."""

    kind: ClassVar[str] = "splitter"

    splitter: str = Field("punkt", description="A splitter of `vitalfew methods`, or module:Class.")


class EncodeConfig(Section):
    """How units become vectors."""

    kind: ClassVar[str] = "encoder"
    formerly: ClassVar[dict[str, Any]] = {"text": "unit"}

    encoder: str = Field("minilm", description="An encoder of `vitalfew methods`, or module:Class.")
    context: ContextMode | None = Field(
        None,
        description="Where a sentence's context vector comes from: exact (the paper: the passage's other sentences, "
        "encoded together), passage (the passage's own vector), pooled (the mean of its sentences' vectors), late (the "
        "passage's vector, from one forward pass that gives its sentences' vectors too). Default: late where the "
        "encoder pools by the mean and sentences are cut from passages, else passage.",
    )
    units: tuple[Unit, ...] = Field(
        ("sentence", "passage"), min_length=1, description="What can be retrieved: sentences (ParetoRAG), passages."
    )
    text: Annotated[Text, NOT_IN_FINGERPRINT] = Field(
        "titled",
        description="titled: a sentence or passage is encoded, and indexed for BM25, with its passage's title before "
        "it, if that has one; unit: alone.",
    )
    reuse: Annotated[bool, NOT_IN_FINGERPRINT] = Field(
        True,
        description="Copy the vectors that an earlier index of this encoder holds; false: encode all, to measure the "
        "cost.",
    )

    @field_validator("units")
    @classmethod
    def _in_one_order(cls, units: tuple[Unit, ...]) -> tuple[Unit, ...]:
        return tuple(unit for unit in get_args(Unit) if unit in units)


class IndexConfig(Section):
    """How vectors become a searchable index."""

    kind: ClassVar[str] = "index"
    named_by: ClassVar[str] = "type"

    type: IndexType = Field("flat", description="An index type of `vitalfew methods`; flat is exact.")
    layout: Layout = Field(
        "dual", description="dual: core and context apart, any alpha; fused: one alpha, half the size."
    )
    alpha: float | None = Field(
        None, ge=0, le=1, description="fused: weight of the core vector, 0.8 by default; a dual index has none."
    )
    shard_mb: int = Field(256, ge=1, description="Size of a FAISS shard, about (MiB).")

    def idle(self) -> dict[str, str]:
        if self.layout == "fused":
            return {}
        return {"alpha": "a dual index answers every alpha, see retrieve.alpha; leave it out, or index.layout=fused"}

    @model_validator(mode="before")
    @classmethod
    def _fused_at(cls, given: Any) -> Any:
        fused = isinstance(given, dict) and given.get("layout") == "fused" and given.get("alpha") is None
        return {**given, "alpha": FUSED_ALPHA} if fused else given


class BM25Config(Config):
    """Keyword search (BM25) over the same units."""

    enabled: bool = Field(False, description="Build it, for the retrievers bm25 and hybrid.")
    k1: float = Field(0.9, ge=0, description="How much a word's repetition counts.")
    b: float = Field(0.4, ge=0, le=1, description="How much a long unit is discounted.")


class Place(Config):
    """Where a flow runs, and with how much of the machine. Nothing here changes a result."""

    store: Annotated[Path, BeforeValidator(store_setting)] = Field(
        Path("store"), description="Where all artifacts are: a directory, or a prefix of a bucket (s3://BUCKET/PREFIX)."
    )
    workers: int | None = Field(None, ge=1, description="Parallel workers; default: one per CPU core.")
    num_gpus: float | None = Field(
        None,
        gt=0,
        le=1,
        title="GPUs per worker",
        description="Share of a GPU for each worker that encodes: with 0.25, four share one; default: 1 on GPUs.",
    )


class Execution(Place):
    """Where and how a flow runs."""

    runner: RunnerName = Field("ray", description="ray: Prefect and Ray; serial: this process alone.")


class IndexCorpus(Execution):
    """Parameters of the flow `index_corpus`."""

    datasets: tuple[str, ...] = Field(min_length=1, description="FORMAT:PATH?option=value; together one corpus.")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="The name that `search --index` takes.")
    load: LoadConfig = LoadConfig()
    split: SerializeAsAny[SplitConfig] = SplitConfig()
    encode: SerializeAsAny[EncodeConfig] = EncodeConfig()
    index: SerializeAsAny[IndexConfig] = IndexConfig()
    bm25: BM25Config = BM25Config()


class RetrieveConfig(Section):
    """How questions find units."""

    kind: ClassVar[str] = "retriever"

    retriever: str = Field("core_context", description="A retriever of `vitalfew methods`, or module:Class.")
    top_k: int = Field(10, ge=1, description="Units retrieved per question.")


class Search(Config):
    """Settings of the command `search`."""

    retrieve: SerializeAsAny[RetrieveConfig] = RetrieveConfig()
