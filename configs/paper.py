"""Figures that papers print, from configs/papers/*.yaml: what the experiments that repeat them are set beside."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from configs.loading import build, read_yaml
from configs.section import Config

FOLDER = Path(__file__).parent / "papers"


class Ours(Config):
    """Where a run's counterpart of a printed figure is found."""

    method: str = Field(min_length=1, description="A method of the experiment.")
    metric: str = Field(min_length=1, description="One of its metrics.")
    minus: str | None = Field(None, description="The method whose figure is subtracted.")
    over: str | None = Field(None, description="The method whose figure it is divided by.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.minus and self.over:
            raise ValueError("either a difference (minus) or a ratio (over)")
        return self


class Figure(Config):
    """A figure of a paper, and where its counterpart is found."""

    what: str = Field(min_length=1, description="What it is of.")
    printed: float | None = Field(None, description="As the paper prints it; none: the paper has no such figure.")
    source: str = Field("", description="Table, figure or section.")
    claim: Literal["at_least", "at_most"] | None = Field(None, description="What the paper says of it.")
    ours: Ours


class Repeated(Config):
    """What an experiment repeats."""

    figures: tuple[Figure, ...] = Field((), description="Printed figures.")
    deviations: tuple[str, ...] = Field((), description="What is done otherwise than in the paper, in words.")


class Paper(Config):
    """A paper, and what of it which experiment repeats."""

    paper: str = Field(min_length=1, description="Title, authors, where.")
    settings: str = Field("", description="Models, retrievers, data.")
    missing: str = Field("", description="Which figures are not here, and why.")
    experiments: dict[str, Repeated] = Field({}, description="By the experiment's name.")


def paper_of(experiment: str) -> Paper | None:
    """The paper that the experiment is of: configs/papers/NAME.yaml of paretorag/alpha_sweep's first part. Raises
    ConfigError where the file is malformed."""
    path = FOLDER / f"{experiment.partition('/')[0]}.yaml"
    return build(Paper, read_yaml(path)) if "/" in experiment and path.exists() else None
