"""Figures that papers print, from configs/papers/*.yaml: what the experiments that repeat them are set beside.

A figure is a cell of a printed table (`printed`, with its `source`) or computed of such cells (`derived`).
"""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from vitalfew.configs.loading import build, read_yaml
from vitalfew.configs.printed import PERCENT, Formula, Number, Table, value
from vitalfew.configs.section import Config

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
    """A figure of a paper, and where its counterpart is found.

    `unit` is that of `printed`, `derived`, `claimed` and `margin`: '%', of which a hundredth is compared with ours
    (percent of a share, percentage points of a difference), or '', compared as it is.
    """

    what: str = Field(min_length=1, description="What it is of.")
    printed: Number | None = Field(None, description="As the paper prints it; none: it prints no such figure.")
    derived: Formula | None = Field(None, description="Instead: what printed cells come to, which the paper has not.")
    source: str = Field("", description="Of a printed one: TABLE / ROW / COLUMN of `tables`, or the section.")
    unit: Literal["", "%"] = ""
    claim: Literal["at_least", "at_most"] | None = Field(None, description="What the paper says of it.")
    claimed: float | None = Field(None, description="Of what, if not of the figure; 0: better, by however little.")
    margin: float = Field(0.0, ge=0, description="By so much ours may be worse than that.")
    note: str = Field("", description="Where the paper contradicts itself, or what else has to be known.")
    ours: Ours

    @model_validator(mode="after")
    def _printed_or_derived(self) -> Self:
        if self.printed is not None and (self.derived or not self.source):
            raise ValueError("a printed figure has a source, and is not derived")
        return self

    @property
    def scale(self) -> float:
        """What a value in its unit is multiplied by, to be compared with ours."""
        return 0.01 if self.unit == PERCENT else 1.0


class Repeated(Config):
    """What an experiment repeats."""

    figures: tuple[Figure, ...] = Field((), description="Printed figures.")
    deviations: tuple[str, ...] = Field((), description="What is done otherwise than in the paper, in words.")


class Item(Config):
    """A table or figure of a paper, or a part of one: a row of docs/papers.md."""

    what: str = Field(min_length=1, description="Which, and of what.")
    experiments: tuple[str, ...] = Field((), description="Those that repeat it.")
    why_not: str = Field("", description="Why nothing of it runs, or what it needs, while nothing ran.")
    noted: str = Field("", description="What was measured or computed otherwise, in Markdown, with its page.")
    holds: str = Field("", description="Whether the paper's claim holds by that.")


class Paper(Config):
    """A paper, what it prints, and what of that which experiment repeats."""

    paper: str = Field(min_length=1, description="Title, authors, where.")
    about: str = Field("", description="What of it is built, where it is not all.")
    settings: str = Field("", description="Models, retrievers, data.")
    chosen: str = Field("", description="On which questions the settings were chosen that its experiments share.")
    missing: str = Field("", description="Which figures are not here, and why.")
    tables: dict[str, Table] = Field({}, description="Every printed table, by the name that cells are called by.")
    contradictions: tuple[str, ...] = Field((), description="Where the paper disagrees with itself.")
    items: tuple[Item, ...] = Field((), description="Its tables and figures, in its order.")
    experiments: dict[str, Repeated] = Field({}, description="By the experiment's name.")

    @model_validator(mode="after")
    def _figures_are_of_the_tables(self) -> Self:
        for figure in (figure for repeated in self.experiments.values() for figure in repeated.figures):
            if named := figure.derived or (figure.source if " / " in figure.source else None):
                number, unit = value(self.tables, named)
                if figure.printed not in (None, number):
                    raise ValueError(f"{figure.what!r}: {figure.source} has {number}, not {figure.printed}")
                if (unit == PERCENT) != (figure.unit == PERCENT):
                    raise ValueError(f"{figure.what!r}: its cells are in {unit!r}, not in {figure.unit!r}")
        return self

    def target(self, figure: Figure) -> float | None:
        """The paper's figure in the unit of ours, a share where percent is printed; None: it has no such figure."""
        number = value(self.tables, figure.derived)[0] if figure.derived else figure.printed
        return None if number is None else number * figure.scale

    def goal(self, figure: Figure) -> float | None:
        """What the claim is held to, in the unit of ours and before the margin; None: there is no claim."""
        if figure.claim is None:
            return None
        return self.target(figure) if figure.claimed is None else figure.claimed * figure.scale


def papers() -> dict[str, Paper]:
    """All papers, by their folder of configs/experiments. Raises ConfigError where a file is malformed."""
    return {path.stem: build(Paper, read_yaml(path)) for path in sorted(FOLDER.glob("*.yaml"))}


def paper_of(experiment: str) -> Paper | None:
    """The paper that the experiment is of: configs/papers/NAME.yaml of paretorag/alpha_sweep's first part. Raises
    ConfigError where the file is malformed."""
    path = FOLDER / f"{experiment.partition('/')[0]}.yaml"
    return build(Paper, read_yaml(path)) if "/" in experiment and path.exists() else None
