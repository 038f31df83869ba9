"""Settings of the flow `train`: the data, the trainer, and the directory of the finished model."""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, SerializeAsAny

from vitalfew.configs.evaluation import Questions
from vitalfew.configs.schema import Execution, LoadConfig, RetrieveConfig
from vitalfew.configs.section import NOT_IN_FINGERPRINT, Device, Precision, Section


class TrainConfig(Section):
    """How a model is trained."""

    kind: ClassVar[str] = "trainer"

    trainer: str = Field(description="A trainer of `vitalfew methods`, or module:Class.")
    seed: int = Field(100, description="Seed of the split, the sampling and the weights.")
    epochs: int = Field(1, ge=1, description="Passes over the questions.")
    steps: int | None = Field(
        None,
        ge=1,
        description="Maximum number of steps; the learning rate schedule ends there too.",
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


class ArticleOptions(TrainConfig):
    """The settings of the trainers that learn from some articles, choose by others and hold the rest out."""

    epochs: int = Field(3, ge=1, description="Passes over the questions.")
    held_out: int = Field(12, ge=1, description="Articles to hold out of training, for the model card.")
    choosing: int = Field(3, ge=1, description="Further articles, used to choose the best weights.")
    check_questions: int = Field(300, ge=1, description="Questions after every pass, to choose the best weights.")


class CollectConfig(Section):
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
    held_out: int = Field(12, ge=1, description="Articles to hold out of training, for the model card.")
    choosing: int = Field(3, ge=1, description="Further articles, used to choose the best weights.")
    seed: int = Field(100, description="Seed of the choice of articles.")


class TrainModel(Execution):
    """Parameters of the flow `train`."""

    recipe: str = Field(description="Name of the recipe and of the run.")
    datasets: tuple[str, ...] = Field(min_length=1, description="Questions to learn from, as FORMAT:PATH?option=value.")
    passages: tuple[str, ...] = Field(
        (), description="Further passages (distractors), as FORMAT:PATH; their questions are not used."
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
