"""What was chosen on development questions, as the record of a run has it."""

from typing import Any

from pydantic import Field

from vitalfew.configs.section import Config


class Tried(Config):
    """Result of an option."""

    method: str
    values: dict[str, Any]
    figure: float | None = Field(description="Mean of the metric; null: no question has a value.")
    questions: int = Field(description="Development questions with a value.")
    taken: bool


class Chosen(Config):
    """A choice that was made, in the record of the evaluation of the test questions."""

    run: str = Field(description="Run id of the evaluation of the development questions.")
    by: str = Field(description="Metric that decided.")
    heading: str = Field(description="Name of the metric in reports.")
    unit: str = Field(description="Unit of the metric.")
    questions: int = Field(description="Development questions that were asked.")
    hashed: int = Field(description="Development questions assigned by a hash; the data set assigns the rest.")
    tried: tuple[Tried, ...] = Field(description="All options with their figures.")
