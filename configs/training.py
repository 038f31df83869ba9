"""What a user can set of the flow `train`: what is learnt from, by which trainer, and where the finished model goes."""

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
        None, ge=1, description="Stop after this many steps, before the passes end; the learning rate follows."
    )
    learning_rate: float = Field(1e-4, gt=0, description="Peak learning rate, after a linear rise; then it falls to 0.")
    # Device and precision, as far as they change a result, are in the trainer's identity.
    precision: Annotated[Precision, NOT_IN_FINGERPRINT] = Field(
        "auto", description="auto: bf16 where it is native, else fp16 on a GPU and fp32 on a CPU."
    )
    device: Annotated[Device, NOT_IN_FINGERPRINT] = Field("auto", description="auto: the GPU where there is one.")
    threads: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
        None, ge=1, description="CPU threads; default: one per core. The last digits may depend on their number."
    )
    checkpoint_every: Annotated[int, NOT_IN_FINGERPRINT] = Field(
        100, ge=1, description="Steps between checkpoints; a kill costs that many at most."
    )


class ArticleOptions(TrainConfig):
    """The settings of the trainers that learn from some articles, choose by others and hold the rest out."""

    epochs: int = Field(3, ge=1, description="Passes over the questions.")
    held_out: int = Field(12, ge=1, description="Articles that are kept out of training altogether, for the card.")
    choosing: int = Field(3, ge=1, description="Other articles, which decide which weights are best.")
    check_questions: int = Field(300, ge=1, description="Questions asked after every pass, to choose the best weights.")


class CollectConfig(Section):
    """How questions with what was retrieved for them become examples with an evidence text (Oreo)."""

    kind: ClassVar[str] = "collector"

    collector: str = Field("oracle", description="A collector of `vitalfew methods`, or module:Class.")
    top_k: int = Field(5, ge=1, description="Chunks of an example: hits passed on, at most.")
    titles: bool = Field(True, description="Whether chunks are shown with their passages' titles before them.")
    question_tokens: int = Field(
        96, ge=1, description="Words and punctuation marks of a question, at most: a longer one gives no example."
    )
    target_tokens: int = Field(
        300, ge=1, description="Words and punctuation marks of an evidence text, at most: a longer one is left out."
    )
    held_out: int = Field(12, ge=1, description="Articles that are kept out of training altogether, for the card.")
    choosing: int = Field(3, ge=1, description="Other articles, which decide which weights are best.")
    seed: int = Field(100, description="Seed of the choice of those articles.")


class TrainModel(Execution):
    """Parameters of the flow `train`."""

    recipe: str = Field(description="The recipe's name, which is also the run's.")
    datasets: tuple[str, ...] = Field(min_length=1, description="FORMAT:PATH?option=value of questions to learn from.")
    passages: tuple[str, ...] = Field(
        (), description="FORMAT:PATH of more passages, whose own questions are left alone: distractors."
    )
    out: Path | None = Field(None, description="Directory that the finished model is copied to, with its card.")
    load: LoadConfig = LoadConfig()
    train: TrainConfig

    @property
    def trainings(self) -> list[TrainConfig]:
        """The trainings, in their order."""
        return [self.train]


class TrainOreo(Execution):
    """Parameters of the flow `train` for a recipe of Oreo's: questions on an index, and its trainings, each of which
    begins with the weights of the one before."""

    recipe: str = Field(description="The recipe's name, which is also the run's.")
    index: str = Field(description="The named index that is searched; its data sets' questions are learnt from.")
    questions: Questions = Questions()
    retrieve: SerializeAsAny[RetrieveConfig] = RetrieveConfig(retriever="passage", top_k=5)
    collect: SerializeAsAny[CollectConfig] = CollectConfig()
    sft: SerializeAsAny[TrainConfig]
    contrastive: SerializeAsAny[TrainConfig | None] = Field(None, description="null: no contrastive training.")
    ppo: SerializeAsAny[TrainConfig | None] = Field(None, description="null: no reinforcement learning.")
    out: Path | None = Field(None, description="Directory that the finished model is copied to, with its card.")

    @property
    def trainings(self) -> list[TrainConfig]:
        """The trainings, in their order."""
        return [config for config in (self.sft, self.contrastive, self.ppo) if config is not None]
