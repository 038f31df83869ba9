"""Figures that papers print, from configs/papers/*.yaml: a report shows them beside those of an experiment's run."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from vitalfew.configs.loading import build, read_yaml
from vitalfew.configs.section import Config

FOLDER = Path(__file__).parent / "papers"


class Ours(Config):
    """The figure of a run that corresponds to a printed one: of a method, its difference (`minus`) or its ratio."""

    method: str = Field(description="Method of the experiment.")
    metric: str = Field(description="Metric of the method.")
    minus: str | None = Field(None, description="Method whose figure to subtract.")
    over: str | None = Field(None, description="Method whose figure to divide by.")

    @property
    def neutral(self) -> float | None:
        """The value that says that two methods are equal; None where there is one method."""
        return 0.0 if self.minus else 1.0 if self.over else None


class Figure(Config):
    """A figure of a paper, and the corresponding figure of a run.

    `unit` is that of `printed` and `margin`: '%', of which a hundredth is compared with ours (percent of a share,
    percentage points of a difference), or '', compared as it is. A `claim` is what the paper says and what could turn
    out otherwise; a figure without one is shown and counted nowhere.
    """

    what: str = Field(description="Subject of the figure.")
    printed: float | None = Field(None, description="Figure as printed, or computed of printed ones; null: none.")
    source: str = Field("", description="Source of a printed figure: TABLE / ROW / COLUMN of `tables`, or the section.")
    unit: Literal["", "%"] = ""
    claim: Literal["higher", "lower"] | None = Field(None, description="Side of no difference that the paper claims.")
    margin: float = Field(0.0, description="How far ours may lie on the other side and still be no worse.")
    note: str = Field("", description="Where the paper contradicts itself, and other remarks.")
    ours: Ours

    @property
    def target(self) -> float | None:
        """The paper's figure in the unit of ours, a share where percent is printed; None: it has no such figure."""
        return None if self.printed is None else self.in_our_unit(self.printed)

    def in_our_unit(self, number: float) -> float:
        return number * 0.01 if self.unit else number


class Repeated(Config):
    """The figures that an experiment repeats."""

    figures: tuple[Figure, ...] = Field((), description="Printed figures.")
    deviations: tuple[str, ...] = Field((), description="Deviations from the paper, in words.")


class Paper(Config):
    """A paper, what it prints, and what of that which experiment repeats. `tables`: for readers, and for a test."""

    paper: str = Field(description="Title, authors, where.")
    settings: str = Field("", description="Models, retrievers, data.")
    chosen: str = Field("", description="Questions on which the settings shared by its experiments were chosen.")
    missing: str = Field("", description="What of the paper this file leaves out, and why.")
    tables: dict[str, Any] = Field({}, description="Printed tables, by the name that sources refer to.")
    experiments: dict[str, Repeated] = Field({}, description="Experiments, by name.")


def paper_of(experiment: str) -> Paper | None:
    """The paper that the experiment is of: configs/papers/NAME.yaml of paretorag/alpha_sweep's first part. Raises
    ConfigError where the file is malformed."""
    path = FOLDER / f"{experiment.partition('/')[0]}.yaml"
    return build(Paper, read_yaml(path)) if "/" in experiment and path.exists() else None
