"""What was chosen on development questions, as the record of a run has it."""

from typing import Any

from pydantic import Field

from vitalfew.configs.section import Config


class Tried(Config):
    """What an option came to."""

    method: str
    values: dict[str, Any]
    figure: float | None = Field(description="Its mean; null: no question has a value.")
    questions: int = Field(description="Development questions with a value.")
    taken: bool


class Chosen(Config):
    """A choice that was made, in the record of the evaluation of the test questions."""

    run: str = Field(description="The evaluation of the development questions.")
    by: str = Field(description="The metric that decided.")
    heading: str = Field(description="What reports call it.")
    unit: str = Field(description="Of its values.")
    questions: int = Field(description="Development questions that were asked.")
    hashed: int = Field(description="Of so many a hash decided in which half they are, of the others their data set.")
    tried: tuple[Tried, ...] = Field(description="Every option with its figure.")
