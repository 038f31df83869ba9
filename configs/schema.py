"""Settings, as Pydantic models: the command line, YAML files and Prefect's forms fill them in."""

from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args
from zoneinfo import available_timezones

from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator, model_validator

from vitalfew.configs.paths import store_setting
from vitalfew.configs.section import NOT_IN_FINGERPRINT, Config, Section

Unit = Literal["sentence", "passage"]
ContextMode = Literal["exact", "passage", "pooled", "late"]
Text = Literal["titled", "unit"]
Layout = Literal["dual", "fused"]
IndexType = Literal["flat", "sq8", "sqfp16", "hnsw", "ivf_flat", "ivf_sq8", "ivf_pq"]
RunnerName = Literal["auto", "ray", "serial"]
Stemmer = Literal[
    "porter", "none", "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "english", "esperanto",
    "estonian", "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian",
    "lithuanian", "nepali", "norwegian", "persian", "polish", "portuguese", "romanian", "russian", "serbian", "sesotho",
    "spanish", "swedish", "tamil", "turkish", "yiddish"
]  # fmt: skip
"""Snowball's stemmers, or none."""
ALPHA = 0.8
"""The usual weight of a sentence's core vector against its context: the paper's."""
RETRIEVER = "spans"
"""The recommended retriever: `search`, the library's search and the adapters have it where none is named."""
METHOD = "start_answers:spans"
"""The recommended method, as EXPERIMENT:METHOD: `answer` and `mcp` have it where none is named."""
CANDIDATES = 100
"""Passages that keywords find for a question where the index has no vectors, and that the encoder compares."""
WEIGHT = 2.0
"""The weight of the encoder's score beside the first one, where hits are rescored (docs/results/rescore.md)."""
USUAL_CONTEXT: ContextMode = "late"
"""The context mode where none is named, if encoder and splitter allow it (tasks/encode.py says what is taken else)."""


class LoadConfig(Config):
    """How source rows become passages and questions."""

    shard_passages: int | None = Field(
        None,
        ge=1,
        description="Maximum passages per shard; memory use grows with it. Default: 2,048; above 8 million passages, "
        "1/4,096 of the corpus, but at most 32,768.",
    )
    max_chars: int = Field(
        200_000, ge=1, description="Maximum characters of a passage, question or list of answers; longer: `rejects`."
    )
    max_name_chars: int = Field(
        10_000, ge=1, description="Maximum characters of a title or source id; longer: `rejects`."
    )
    max_items: int = Field(
        10_000, ge=1, description="Maximum answers, gold passages or supporting facts of a question; more: `rejects`."
    )
    # These three are in the identity of the data sets that read documents.
    document_seconds: Annotated[float, NOT_IN_FINGERPRINT] = Field(
        10, gt=0, le=1e6, description="Maximum seconds in which a document of a folder is read; longer: `rejects`."
    )
    document_mb: Annotated[int, NOT_IN_FINGERPRINT] = Field(
        512, ge=1, le=1 << 20, description="Maximum MiB of memory in which a document is read; more: `rejects`."
    )
    document_text_mb: Annotated[int, NOT_IN_FINGERPRINT] = Field(
        64, ge=1, le=1 << 20, description="Maximum MiB of a document's text; more: `rejects`."
    )


class SplitConfig(Section):
    """How passages are split into sentences, or into other units to retrieve."""

    kind: ClassVar[str] = "splitter"

    splitter: str = Field("punkt", description="A splitter of `vitalfew methods`, or module:Class.")


class EncodeConfig(Section):
    """How units become vectors."""

    kind: ClassVar[str] = "encoder"

    encoder: str = Field("minilm", description="An encoder of `vitalfew methods`, or module:Class.")
    context: ContextMode | None = Field(
        None,
        description="Source of a sentence's context vector. exact, as in the paper: the passage's other sentences, "
        "encoded together. passage: the passage's vector. pooled: the mean of its sentence vectors. late: the "
        "passage's vector, from one forward pass that also gives the sentence vectors. Default: late if the encoder "
        "uses mean pooling and sentences are cut from passages, else passage.",
    )
    units: tuple[Unit, ...] = Field(
        ("sentence", "passage"), min_length=1, description="Units to retrieve: sentences (ParetoRAG), passages."
    )
    text: Annotated[Text, NOT_IN_FINGERPRINT] = Field(
        "titled",
        description="Text to encode and to index for BM25. titled: the sentence or passage after its passage's title, "
        "if any; unit: without the title.",
    )
    vectors: Annotated[Literal["all", "later"], NOT_IN_FINGERPRINT] = Field(
        "all",
        description="all: encode every unit now. later: index keywords alone, and encode the passages that keywords "
        "find for a question, once. `vitalfew index --encode all` adds the others.",
    )
    reuse: Annotated[bool, NOT_IN_FINGERPRINT] = Field(
        True,
        description="Copy vectors from earlier indexes of this encoder; false: encode everything, to measure the cost.",
    )

    @field_validator("units")
    @classmethod
    def _in_one_order(cls, units: tuple[Unit, ...]) -> tuple[Unit, ...]:
        return tuple(unit for unit in get_args(Unit) if unit in units)


class IndexConfig(Section):
    """How vectors are indexed for search."""

    kind: ClassVar[str] = "index"
    named_by: ClassVar[str] = "type"

    type: IndexType = Field("flat", description="An index type of `vitalfew methods`; flat is exact.")
    layout: Layout = Field(
        "dual", description="dual: separate core and context vectors, any alpha; fused: one alpha, half the size."
    )
    alpha: float | None = Field(
        None, ge=0, le=1, description=f"fused: weight of the core vector; default: {ALPHA}. Not for dual."
    )
    shard_mb: int = Field(256, ge=1, description="Approximate size of a FAISS shard, in MiB.")

    def idle(self) -> dict[str, str]:
        if self.layout == "fused":
            return {}
        return {"alpha": "a dual index serves any alpha: set retrieve.alpha instead, or set index.layout=fused"}

    @model_validator(mode="before")
    @classmethod
    def _fused_at(cls, given: Any) -> Any:
        fused = isinstance(given, dict) and given.get("layout") == "fused" and given.get("alpha") is None
        return {**given, "alpha": ALPHA} if fused else given


class BM25Config(Config):
    """Keyword search (BM25) over the same units."""

    enabled: bool = Field(True, description="Build the index of the retrievers bm25 and hybrid.")
    k1: float = Field(0.9, ge=0, description="Term frequency saturation.")
    b: float = Field(0.4, ge=0, le=1, description="Length normalization, from 0 (none) to 1 (full).")
    stemmer: Stemmer = Field(
        "porter",
        description="Snowball's stemmer of the corpus's language (porter is the one of English that the literature "
        "uses), or none. It goes with the stop words of its language, where bm25s has some.",
    )


class Place(Config):
    """Where a flow runs, and how much of the machine it uses. These settings do not change results."""

    store: Annotated[Path, BeforeValidator(store_setting)] = Field(
        Path("store"), description="Place of all artifacts: a directory, or a prefix of a bucket (s3://BUCKET/PREFIX)."
    )
    workers: int | None = Field(None, ge=1, description="Number of parallel workers; default: one per CPU core.")
    num_gpus: float | None = Field(
        None,
        gt=0,
        le=1,
        title="GPUs per worker",
        description="Share of a GPU per encoding worker: with 0.25, four workers share a GPU. Default on GPUs: 1.",
    )
    max_usd: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        title="Max USD",
        description="Most USD that the run may pay for requests to servers (openai). It stops before a request that "
        "could pass this; run it again with a higher limit to continue. What earlier runs paid does not count.",
    )
    until_cap: bool = Field(
        False,
        title="Until the cap",
        description="Skip the confirmation when the estimate is above max_usd; stop at the cap.",
    )


class Execution(Place):
    """Where and how a flow runs."""

    runner: RunnerName = Field(
        "auto",
        description="ray: Prefect and Ray; serial: this process only; auto: ray if that ends sooner, or if "
        "PREFECT_API_URL or RAY_ADDRESS names a server. Flows of Prefect's UI always use Ray.",
    )


class IndexCorpus(Execution):
    """Parameters of the flow `index_corpus`."""

    datasets: tuple[str, ...] = Field(min_length=1, description="Data sets of the corpus, as FORMAT:PATH?option=value.")
    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100, description="Name of the index, for `search --index`."
    )
    load: LoadConfig = LoadConfig()
    split: SerializeAsAny[SplitConfig] = SplitConfig()
    encode: SerializeAsAny[EncodeConfig] = EncodeConfig()
    index: SerializeAsAny[IndexConfig] = IndexConfig()
    bm25: BM25Config = BM25Config()


class GateConfig(Config):
    """The comparison that a new generation of an index has to pass before searches use it."""

    questions: str | None = Field(
        None,
        description="Questions to ask both generations, as FORMAT:PATH?option=value. Default: those of the corpus's "
        "data sets.",
    )
    experiment: str = Field(
        "retrieval_only",
        description="Experiment with the methods that answer them. Default: retrieval alone, which needs no generator.",
    )
    margins: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        {"passage_recall@10": 0.02},
        min_length=1,
        description="Metrics of the gate, each with the loss of its mean that is accepted, in the metric's unit.",
    )
    max_removed: float = Field(
        0.1,
        gt=0,
        le=1,
        description="A generation is held, whatever the metrics say, if it lacks this share of the documents, passages "
        "or gold passages of the generation before.",
    )
    max_rejects: float = Field(
        0.05, ge=0, le=1, description="A generation is held if the share of rejected rows grows by more than this."
    )
    approve: Literal["never", "on_doubt", "always"] = Field(
        "never",
        description="When a person decides: never, on_doubt (if the intervals do not decide), or always. The run is "
        "suspended until then.",
    )
    approve_hours: float = Field(
        72,
        gt=0,
        allow_inf_nan=False,
        description="Hours that a run waits for a person. After that the current generation stays.",
    )


CRON_ALIASES = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")


class Corpus(IndexCorpus):
    """Settings of the corpus's index, when to re-encode it, and what a new generation has to pass. Corpus and index are
    named after the file."""

    cron: str | None = Field(
        None,
        description="Cron schedule of re-encoding, such as `0 3 * * *` for 3 a.m. daily; default: on request only.",
    )
    timezone: str = Field("UTC", description="Time zone of `cron`, for example Europe/Berlin.")
    gate: GateConfig | None = Field(
        None, description="Gate of a new generation, compared with the current one; default: it is promoted at once."
    )

    on_promote: str | None = Field(
        None,
        description="Shell command that runs once after searches use a new generation, such as `vitalfew export "
        "vectors handbook --out handbook.parquet`. It has VITALFEW_INDEX, VITALFEW_GENERATION and VITALFEW_STORE.",
    )

    @field_validator("cron")
    @classmethod
    def _comes(cls, cron: str | None) -> str | None:
        from cronsim import CronSim, CronSimError  # slowly

        if cron is None or cron in CRON_ALIASES:
            return cron
        if len(cron.split()) != 5:
            raise ValueError(
                "a schedule has five fields: minute hour day month weekday, such as `30 2 * * *`. Or it is one of "
                f"{', '.join(CRON_ALIASES)}"
            )
        try:
            next(CronSim(cron, datetime(2000, 1, 1)))
        except (CronSimError, StopIteration) as error:
            raise ValueError(f"there is no such time ({error or 'it never comes'}): write it as `30 2 * * *`") from None
        return cron

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in (known := available_timezones()):
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else "write one such as Europe/Berlin"
            raise ValueError(f"there is no such time zone; {hint}")
        return name


class RetrieveConfig(Section):
    """How units are retrieved for questions."""

    kind: ClassVar[str] = "retriever"

    retriever: str = Field("core_context", description="A retriever of `vitalfew methods`, or module:Class.")
    top_k: int = Field(10, ge=1, description="Units retrieved per question.")
    rescore: int | None = Field(
        None,
        ge=1,
        description="Units that the encoder rates for a question: the best ones by the retriever, if it knows no "
        "vectors (bm25, run_file). For others, in an index with encode.vectors=later: the passages that keywords find "
        f"and they compare; default: {CANDIDATES}. In an index with all vectors they compare all.",
    )
    weight: float = Field(
        WEIGHT, ge=0, description="rescore: weight of the encoder's score; the retriever's has 1. Both are z-scores."
    )
    where: str | None = Field(
        None,
        description="SQL condition on the table `passages`: only passages that fulfil it are searched. For example "
        "\"metadata->>'category' = 'guide'\" or \"source_id LIKE 'docs/%'\".",
    )


class Search(Config):
    """Settings of the command `search`."""

    retrieve: SerializeAsAny[RetrieveConfig] = RetrieveConfig(retriever=RETRIEVER, top_k=10)

    @field_validator("retrieve", mode="before")
    @classmethod
    def _by_the_recommended(cls, given: Any) -> Any:
        return {"retriever": RETRIEVER, "top_k": 10, **given} if isinstance(given, dict) else given
