"""What a user can set, as Pydantic models: the command line, YAML files and Prefect's forms all fill these in."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from configs.section import Section

Unit = Literal["sentence", "passage"]
ContextMode = Literal["exact", "passage", "late"]
Layout = Literal["dual", "fused"]
IndexType = Literal["flat", "sq8", "sqfp16", "hnsw", "ivf_flat", "ivf_sq8", "ivf_pq"]
RunnerName = Literal["ray", "serial"]


class Config(BaseModel):
    """Base of every section: an unknown key is an error, and a loaded configuration does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LoadConfig(Config):
    """How source rows become passages and questions."""

    shard_passages: int = Field(4096, ge=1, description="Passages in a shard, at most; memory follows it.")
    max_chars: int = Field(200_000, ge=1, description="A longer passage goes to `rejects` (characters).")


class Rewriting(Config):
    """A sequence-to-sequence model that rewrites texts. What of it changes a result is in its user's identity."""

    model: str | None = Field(
        None, description="Of a method that rewrites: one of its presets, a Hugging Face name, or a directory."
    )
    max_new_tokens: int | None = Field(
        None, ge=1, description="Tokens that the model writes for a text, at most; default: the method's own."
    )
    max_input_tokens: int | None = Field(
        None, ge=8, description="Tokens that the model reads at once, at most; default: the method's own."
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU where there is one.")
    precision: Literal["auto", "bf16", "fp16", "fp32"] = Field("auto", description="As for the encoder.")
    batch_tokens: int | None = Field(
        None, ge=16, description="Tokens in a batch of the model, padding included, at most; default: its own."
    )

    @field_validator("model")
    @classmethod
    def _absolute(cls, model: str | None) -> str | None:
        # A worker may have another working directory.
        path = Path(model).expanduser() if model else None
        return str(path.absolute()) if path and path.is_dir() else model


class SplitConfig(Rewriting):
    """How passages become sentences, or what else is to be retrieved in their place."""

    splitter: str = Field("punkt", description="A splitter of `vitalfew methods`, or module:Class.")
    sample_chars: int = Field(2_000_000, ge=1, description="Characters of the corpus the splitter is trained on.")
    file: Path | None = Field(
        None, description="ready_propositions: a file of propositions, JSON, JSON Lines or Parquet."
    )

    @field_validator("file")
    @classmethod
    def _found_anywhere(cls, file: Path | None) -> Path | None:
        return file.expanduser().absolute() if file else None


class EncodeConfig(Config):
    """How units become vectors."""

    encoder: str = Field("minilm", description="An encoder of `vitalfew methods`, or module:Class.")
    context: ContextMode = Field(
        "passage",
        description="Where a sentence's context vector comes from: exact (the paper: the passage's other sentences, "
        "encoded together), passage (the passage's own vector), late (means over one forward pass).",
    )
    units: tuple[Unit, ...] = Field(
        ("sentence", "passage"), min_length=1, description="What can be retrieved: sentences (ParetoRAG), passages."
    )
    model: str | None = Field(
        None, description="The encoder's model, a Hugging Face name or a directory; default: the encoder's own."
    )
    question_model: str | None = Field(
        None, description="A second model for questions, where the encoder has two (dpr)."
    )
    pooling: Literal["auto", "mean", "cls", "last"] = Field(
        "auto", description="Token states to vector; auto: as the encoder or the model's files say, else mean."
    )
    similarity: Literal["auto", "cosine", "dot"] = Field(
        "auto",
        description="cosine: vectors of length 1; dot: as long as they come; auto: as the model was made for.",
    )
    question_prompt: str | None = Field(None, description="Put before every question; default: the model's own.")
    passage_prompt: str | None = Field(
        None, description="Put before every passage, sentence and context; default: the model's own."
    )
    max_tokens: int | None = Field(
        None, ge=8, description="A text is cut here (tokens); default: the model's own limit."
    )
    reuse: bool = Field(
        True,
        description="Copy the vectors that an earlier index of this encoder holds; false: encode all, to measure the "
        "cost.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="auto: the GPU where the machine that starts the run has one. cuda: the workers' GPUs."
    )
    precision: Literal["auto", "bf16", "fp16", "fp32"] = Field(
        "auto", description="auto: bf16 where it is native, else fp16 on a GPU and fp32 on a CPU."
    )
    batch_tokens: int | None = Field(
        None, ge=16, description="Tokens in a batch, padding included, at most; default: 2048 on a CPU, 65536 on a GPU."
    )

    @field_validator("model", "question_model")
    @classmethod
    def _absolute(cls, model: str | None) -> str | None:
        # A worker, or a later search, may have another working directory.
        path = Path(model).expanduser() if model else None
        return str(path.absolute()) if path and path.is_dir() else model


class IndexConfig(Config):
    """How vectors become a searchable index."""

    type: IndexType = Field(
        "flat",
        description="flat: exact; sq8, sqfp16: one or two bytes a number; hnsw: a graph; ivf_flat, ivf_sq8, ivf_pq: "
        "lists of like vectors, of which a search reads a few.",
    )
    layout: Layout = Field(
        "dual", description="dual: core and context apart, any alpha; fused: one alpha, half the size."
    )
    alpha: float = Field(0.8, ge=0, le=1, description="Weight of the core vector in a fused index.")
    shard_mb: int = Field(256, ge=1, description="Size of a FAISS shard, and of the training sample, at most (MiB).")
    recall: float = Field(
        0.95, gt=0, le=1, description="Recall@10 against flat that nprobe or ef_search are chosen for, on a sample."
    )
    nlist: int | None = Field(None, ge=1, description="ivf: lists; default: 4 * sqrt(vectors).")
    pq_m: int | None = Field(None, ge=1, description="ivf_pq: bytes of a code; default: a quarter of the dimension.")
    hnsw_m: int = Field(32, ge=2, le=256, description="hnsw: links of a vector.")
    ef_construction: int = Field(80, ge=1, description="hnsw: candidates looked at to link a vector.")

    def idle(self) -> set[str]:
        """The settings that have no part in an index of this type and layout."""
        lists, graph = self.type.startswith("ivf"), self.type == "hnsw"
        parts = {"alpha": self.layout == "fused", "nlist": lists, "pq_m": self.type == "ivf_pq"}
        parts |= {"hnsw_m": graph, "ef_construction": graph, "recall": lists or graph}
        return {name for name, has_part in parts.items() if not has_part}


class BM25Config(Config):
    """Keyword search (BM25) over the same units."""

    enabled: bool = Field(False, description="Build it, for the retrievers bm25 and hybrid.")
    k1: float = Field(0.9, ge=0, description="How much a word's repetition counts.")
    b: float = Field(0.4, ge=0, le=1, description="How much a long unit is discounted.")


class Place(Config):
    """Where a flow runs, and with how much of the machine. Nothing here changes a result."""

    store: Path = Field(Path("store"), description="Directory of all artifacts.")
    workers: int | None = Field(None, ge=1, description="Parallel workers; default: one per CPU core.")
    num_gpus: float | None = Field(
        None, gt=0, le=1, description="GPU of each worker that encodes, 0.25: four share one; default: 1 on GPUs."
    )


class Execution(Place):
    """Where and how a flow runs."""

    runner: RunnerName = Field("ray", description="ray: Prefect and Ray; serial: this process alone.")


class IndexCorpus(Execution):
    """Parameters of the flow `index_corpus`."""

    datasets: tuple[str, ...] = Field(min_length=1, description="FORMAT:PATH?option=value; together one corpus.")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="The name that `search --index` takes.")
    load: LoadConfig = LoadConfig()
    split: SplitConfig = SplitConfig()
    encode: EncodeConfig = EncodeConfig()
    index: IndexConfig = IndexConfig()
    bm25: BM25Config = BM25Config()


class RetrieveConfig(Section):
    """How questions find units."""

    kind: ClassVar[str] = "retriever"

    retriever: str = Field("core_context", description="A retriever of `vitalfew methods`, or module:Class.")
    top_k: int = Field(10, ge=1, description="Units retrieved per question.")


class Search(Config):
    """Settings of the command `search`."""

    retrieve: RetrieveConfig = RetrieveConfig()
