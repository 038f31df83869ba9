"""What a user can set of the flows `train-reader` and `train-critic`."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from configs.schema import Config


class Train(Config):
    """Parameters that every training has."""

    datasets: tuple[str, ...] = Field(
        min_length=1, description="FORMAT:PATH of questions whose answers are spans of their passages, as SQuAD's are."
    )
    passages: tuple[str, ...] = Field((), description="FORMAT:PATH of more passages: distractors.")
    out: Path = Field(description="Directory for the weights, their card and the checkpoint.")
    held_out: int = Field(12, ge=1, description="Articles that are kept out of training altogether, for the card.")
    choosing: int = Field(3, ge=1, description="Articles, of the others, that tell which weights are best.")
    seed: int = Field(100, description="Of the split by article, the sampling and the weights.")
    epochs: int = Field(3, ge=1, description="Passes over the questions.")
    steps: int | None = Field(
        None, ge=1, description="End after so many steps, sooner than the passes do; the learning rate follows."
    )
    negatives: float = Field(0.5, ge=0, description="Contexts without the answer per question and pass, on average.")
    learning_rate: float = Field(8e-4, gt=0, description="Its peak, after a linear rise; then it falls to 0.")
    batch_tokens: int = Field(1536, ge=256, description="Tokens of a step, padding included.")
    check_questions: int = Field(300, ge=1, description="Questions asked after every pass, to choose the best weights.")
    precision: Literal["auto", "bf16", "fp16", "fp32"] = Field("auto", description="As for the encoder.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU where there is one.")
    threads: int | None = Field(None, ge=1, description="CPU threads; default: one per core.")


class TrainReader(Train):
    """Parameters of the flow `train_reader`."""

    passages: tuple[str, ...] = Field(
        (), description="FORMAT:PATH of more passages: distractors, and text that cloze questions are made of."
    )
    base: str = Field("minilm", description="The encoder to start from: minilm, or a BERT's directory.")
    clozes: int = Field(0, ge=0, description="Cloze questions per passage, learnt from before the first pass.")
    rank: int = Field(64, ge=1, description="Of the low-rank updates.")


class TrainCritic(Train):
    """Parameters of the flow `train_critic`."""

    reader: Path | None = Field(
        None,
        description="The reader whose weights the critic begins from and whose answers it judges, a directory that "
        "train-reader wrote; default: the embedded one.",
    )
    epochs: int = Field(1, ge=1, description="Passes over the questions.")
    negatives: float = Field(1.5, ge=0, description="Contexts without the answer per question and pass, on average.")
    learning_rate: float = Field(5e-4, gt=0, description="Its peak, after a linear rise; then it falls to 0.")
    check_questions: int = Field(100, ge=1, description="Questions asked after every pass, to choose the best weights.")
