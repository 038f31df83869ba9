"""What a user can set of the stage `label`."""

from typing import ClassVar

from pydantic import Field

from configs.section import Section


class LabelConfig(Section):
    """How a retrieved passage is labelled: is it relevant to its question?"""

    kind: ClassVar[str] = "labeller"

    labeller: str = Field("gold", description="A labeller of `vitalfew methods`, or module:Class.")
