"""Settings of the flow `train`: the data, the trainer, and the directory of the finished model."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from vitalfew.configs.evaluation import Questions
from vitalfew.configs.schema import Execution, LoadConfig, RetrieveConfig
from vitalfew.configs.section import NOT_IN_FINGERPRINT, Device, Precision, Section

SplitBy = Literal["article", "question", "file"]


class TrainConfig(Section):
    """How a model is trained."""

    kind: ClassVar[str] = "trainer"

    trainer: str = Field(description="A trainer of `vitalfew methods`, or module:Class.")
    seed: int = Field(100, description="Seed of the split, the sampling and the weights.")
    epochs: int = Field(1, ge=1, description="Passes over the questions.")
    steps: int | None = Field(
        None, ge=1, description="Maximum number of steps; the learning rate schedule ends there too."
    )
    learning_rate: float = Field(1e-4, gt=0, description="Peak learning rate: a linear warm-up, then a decay to 0.")
    # Device and precision, as far as they change a result, are in the trainer's identity.
    precision: Annotated[Precision, NOT_IN_FINGERPRINT] = Field(
        "auto", description="auto: bf16 where the hardware is faster in it, else fp16 on a GPU and fp32 on a CPU."
    )
    device: Annotated[Device, NOT_IN_FINGERPRINT] = Field(
        "auto", description="auto: the GPU if there is one, else the CPU."
    )
    threads: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
        None, ge=1, description="CPU threads; default: one per core. The number may change the last digits of results."
    )
    checkpoint_every: Annotated[int, NOT_IN_FINGERPRINT] = Field(
        100, ge=1, description="Steps between checkpoints; a killed run repeats at most this many."
    )

    def recipe(self) -> dict[str, Any]:
        """Return the settings that change the result, as a recipe has them."""
        return self.identity()


class SplitOptions(Section):
    """Which questions are learnt from, which choose the best weights, and which are held out for the figures."""

    split: SplitBy | None = Field(
        None,
        description="Unit of the split: article (of a question's gold passage), question, or file (held_out is another "
        "data set). Default: article.",
    )
    held_out: int | str = Field(
        12,
        description="Number of articles or questions to hold out of training, for the model card; with split=file, "
        "the data set to hold out, as FORMAT:PATH.",
    )
    choosing: int | str = Field(
        3,
        description="Number of further articles or questions, used to choose the best weights; with split=file, a data "
        "set or a number of questions.",
    )

    @property
    def apart(self) -> dict[str, str]:
        """The data sets that are not learnt from, by the name of their part."""
        return {name: given for name in PARTS if isinstance(given := getattr(self, name), str)}

    def identity(self) -> dict[str, Any]:
        """Without the paths of data sets: the content of these counts, which stages know."""
        return {**super().identity(), **dict.fromkeys(self.apart, "a data set")}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name in PARTS:
            given = getattr(self, name)
            if isinstance(given, int) and given < 1:
                raise ValueError(f"{name} must be at least 1, got {given}")
            if isinstance(given, str) and self.split != "file":
                raise ValueError(f"{name} must be a number, got {given!r}; to hold out a data set, add split=file")
        if self.split == "file" and isinstance(self.held_out, int):
            raise ValueError("split=file needs the data set to hold out: held_out=FORMAT:PATH (squad:dev-v1.1.json)")
        return self


PARTS = ("held_out", "choosing")
"""The settings of the parts that are not learnt from."""


class ArticleOptions(TrainConfig, SplitOptions):
    """The settings of the trainers that learn from some questions, choose by others and hold the rest out."""

    epochs: int = Field(3, ge=1, description="Passes over the questions.")
    check_questions: int = Field(300, ge=1, description="Questions after every pass, to choose the best weights.")

    def recipe(self) -> dict[str, Any]:
        return {**super().recipe(), **self.apart}


class CollectConfig(SplitOptions):
    """How questions and their hits become training examples with an evidence text (Oreo)."""

    kind: ClassVar[str] = "collector"

    collector: str = Field("oracle", description="A collector of `vitalfew methods`, or module:Class.")
    top_k: int = Field(5, ge=1, description="Maximum chunks (hits) per example.")
    titles: bool = Field(True, description="Put the title of the passage before its chunk.")
    question_tokens: int = Field(
        96, ge=1, description="Maximum words and punctuation marks of a question; longer questions are skipped."
    )
    target_tokens: int = Field(
        300, ge=1, description="Maximum words and punctuation marks of an evidence text; longer texts are skipped."
    )
    seed: int = Field(100, description="Seed of the split.")


class TrainModel(Execution):
    """Parameters of the flow `train`."""

    recipe: str = Field(description="Name of the recipe and of the run.")
    datasets: tuple[str, ...] = Field(min_length=1, description="Questions to learn from, as FORMAT:PATH?option=value.")
    passages: tuple[str, ...] = Field(
        (), description="Further passages (distractors), as FORMAT:PATH; their questions are not used."
    )
    labels: str | None = Field(
        None,
        description="Evaluation whose table `labels` says which passages are relevant: a run id, an experiment or "
        "`latest`. Add :METHOD if several methods have labels. For the trainer sparse_rag.",
    )
    out: Path | None = Field(None, description="Directory to copy the finished model to, with its card.")
    load: LoadConfig = LoadConfig()
    train: TrainConfig

    @property
    def trainings(self) -> list[TrainConfig]:
        """The trainings, in their order."""
        return [self.train]


class TrainOreo(Execution):
    """Parameters of the flow `train` for Oreo: questions on an index, and trainings. A training starts from the weights
    of the one before."""

    recipe: str = Field(description="Name of the recipe and of the run.")
    index: str = Field(description="Name of the index to search; the questions of its data sets are learned from.")
    questions: Questions = Questions()
    retrieve: SerializeAsAny[RetrieveConfig] = RetrieveConfig(retriever="passage", top_k=5)
    collect: SerializeAsAny[CollectConfig] = CollectConfig()
    sft: SerializeAsAny[TrainConfig]
    contrastive: SerializeAsAny[TrainConfig | None] = Field(None, description="null: no contrastive training.")
    ppo: SerializeAsAny[TrainConfig | None] = Field(None, description="null: no reinforcement learning.")
    out: Path | None = Field(None, description="Directory to copy the finished model to, with its card.")

    @property
    def trainings(self) -> list[TrainConfig]:
        """The trainings, in their order."""
        return [config for config in (self.sft, self.contrastive, self.ppo) if config is not None]
