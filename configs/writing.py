"""Settings of questions that are written from a corpus."""

from typing import ClassVar

from pydantic import Field, SerializeAsAny

from vitalfew.configs.schema import Execution
from vitalfew.configs.section import Section


class WriteConfig(Section):
    """How questions are written from passages of a corpus that comes without questions."""

    kind: ClassVar[str] = "writer"

    writer: str = Field("cloze", description="A writer of `vitalfew methods`, or module:Class.")
    n: int = Field(200, ge=1, description="Questions to write, at most one of a passage.")
    seed: int = Field(100, description="Seed of the choice of passages; the same seed gives the same passages.")
    spare: int = Field(
        4,
        ge=1,
        description="Maximum passages tried per question. Another passage is tried only if a question was refused. "
        "Each refusal is a row of `rejects`.",
    )
    batch: int = Field(64, ge=1, description="Questions per shard; memory use grows with it.")


class WriteQuestions(Execution):
    """Parameters of `vitalfew questions write`."""

    index: str = Field(
        description="Index whose passages the questions are written from; NAME@3 is its third generation."
    )
    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=100,
        description="Name of the set of questions, for `questions show` and `export`; default: the index's.",
    )
    write: SerializeAsAny[WriteConfig] = WriteConfig()
