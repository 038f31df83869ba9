"""Figures that papers print, from configs/papers/*.yaml: what the experiments that repeat them are set beside.

A figure is a cell of a printed table (`printed`, with its `source`) or computed of such cells (`derived`).
"""

from collections import Counter
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from vitalfew.configs.loading import build, read_yaml
from vitalfew.configs.printed import PERCENT, Formula, Number, Table, value
from vitalfew.configs.section import Config

FOLDER = Path(__file__).parent / "papers"


class Ours(Config):
    """The figure of a run that corresponds to a printed one; no two of an experiment are the same."""

    method: str = Field(min_length=1, description="Method of the experiment.")
    metric: str = Field(min_length=1, description="Metric of the method.")
    minus: str | None = Field(None, description="Method whose figure to subtract.")
    over: str | None = Field(None, description="Method whose figure to divide by.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.minus and self.over:
            raise ValueError("set either minus (a difference) or over (a ratio), not both")
        return self

    @property
    def neutral(self) -> float | None:
        """The value that says that two methods are equal; None where there is one method."""
        return 0.0 if self.minus else 1.0 if self.over else None


class Figure(Config):
    """A figure of a paper, and the corresponding figure of a run.

    `unit` is that of `printed`, `derived` and `margin`: '%', of which a hundredth is compared with ours (percent of a
    share, percentage points of a difference), or '', compared as it is. A `claim` is what the paper says and what could
    turn out otherwise; a figure without one is shown and counted nowhere.
    """

    what: str = Field(min_length=1, description="Subject of the figure.")
    printed: Number | None = Field(None, description="Figure as printed; null: the paper prints no such figure.")
    derived: Formula | None = Field(None, description="Formula over printed cells, for a figure that the paper omits.")
    source: str = Field("", description="Source of a printed figure: TABLE / ROW / COLUMN of `tables`, or the section.")
    unit: Literal["", "%"] = ""
    claim: Literal["higher", "lower"] | None = Field(None, description="Side of no difference that the paper claims.")
    margin: float = Field(0.0, ge=0, description="How far ours may lie on the other side and still be no worse.")
    note: str = Field("", description="Contradictions of the paper, and other remarks.")
    ours: Ours

    @model_validator(mode="after")
    def _printed_or_derived(self) -> Self:
        if self.printed is not None and (self.derived or not self.source):
            raise ValueError("a printed figure needs a source and must not be derived")
        return self

    @model_validator(mode="after")
    def _claimed_of_two_methods(self) -> Self:
        if self.claim and self.ours.neutral is None:
            raise ValueError("a claim compares two methods: set ours.minus or ours.over, or leave claim out")
        if self.margin and not self.claim:
            raise ValueError(f"margin belongs to a claim: set claim, or leave margin {self.margin:g} out")
        return self

    @property
    def scale(self) -> float:
        """The factor from its unit to the unit of our figures."""
        return 0.01 if self.unit == PERCENT else 1.0


class Repeated(Config):
    """The figures that an experiment repeats."""

    figures: tuple[Figure, ...] = Field((), description="Printed figures.")
    deviations: tuple[str, ...] = Field((), description="Deviations from the paper, in words.")

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        found = Counter(figure.ours for figure in self.figures)
        if twice := [ours for ours, number in found.items() if number > 1]:
            raise ValueError(f"a figure of a run stands once among the figures, got twice: {twice[0]}")
        return self


class Item(Config):
    """A table or figure of a paper, or a part of one: a row of docs/papers.md."""

    what: str = Field(min_length=1, description="Number and subject of the table or figure.")
    experiments: tuple[str, ...] = Field((), description="Experiments that repeat it.")
    why_not: str = Field("", description="Reason why it does not run, or what it needs to run.")
    noted: str = Field("", description="Other measurements or computations, in Markdown, with a link to their page.")
    verdict: str = Field("", description="Verdict in words, in place of those on the figures of its experiments.")


class Paper(Config):
    """A paper, what it prints, and what of that which experiment repeats."""

    paper: str = Field(min_length=1, description="Title, authors, where.")
    about: str = Field("", description="Parts that are built, if not all of them.")
    settings: str = Field("", description="Models, retrievers, data.")
    chosen: str = Field("", description="Questions on which the settings shared by its experiments were chosen.")
    missing: str = Field("", description="Figures that are missing here, and why.")
    tables: dict[str, Table] = Field({}, description="Printed tables, by the name that cells refer to.")
    contradictions: tuple[str, ...] = Field((), description="Contradictions within the paper.")
    items: tuple[Item, ...] = Field((), description="Tables and figures, in the order of the paper.")
    experiments: dict[str, Repeated] = Field({}, description="Experiments, by name.")

    @model_validator(mode="after")
    def _figures_are_of_the_tables(self) -> Self:
        for figure in (figure for repeated in self.experiments.values() for figure in repeated.figures):
            if named := figure.derived or (figure.source if " / " in figure.source else None):
                number, unit = value(self.tables, named)
                if figure.printed not in (None, number):
                    raise ValueError(
                        f"{figure.what!r}: printed must be {number} as in {figure.source}, got {figure.printed}"
                    )
                if (unit == PERCENT) != (figure.unit == PERCENT):
                    raise ValueError(
                        f"{figure.what!r}: unit must be {unit!r} like that of its cells, got {figure.unit!r}"
                    )
        return self

    def target(self, figure: Figure) -> float | None:
        """The paper's figure in the unit of ours, a share where percent is printed; None: it has no such figure."""
        number = value(self.tables, figure.derived)[0] if figure.derived else figure.printed
        return None if number is None else number * figure.scale


def papers() -> dict[str, Paper]:
    """All papers, by their folder of configs/experiments. Raises ConfigError where a file is malformed."""
    return {path.stem: build(Paper, read_yaml(path)) for path in sorted(FOLDER.glob("*.yaml"))}


def paper_of(experiment: str) -> Paper | None:
    """The paper that the experiment is of: configs/papers/NAME.yaml of paretorag/alpha_sweep's first part. Raises
    ConfigError where the file is malformed."""
    path = FOLDER / f"{experiment.partition('/')[0]}.yaml"
    return build(Paper, read_yaml(path)) if "/" in experiment and path.exists() else None
