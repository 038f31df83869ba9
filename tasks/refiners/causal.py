"""The base of refiners with a causal language model that writes one context from a question's hits (`rewriting`).

The input is one message of a user, in the model's chat template if it has one. A LoRA adapter is merged into the model
(tasks/models/causal/adapters.py).
"""

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.refiners.rewriting import RewritingRefiner


class CausalRefiner(RewritingRefiner):
    """Base of refiners that rewrite by a causal model. A subclass has its model's presets, its limits, `frame`."""

    class Options(RewritingRefiner.Options):
        model_config = ConfigDict(extra="forbid")

        adapter: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None, description="LoRA adapter for the model: a preset, a Hugging Face name, or a directory."
        )

    causal: ClassVar[bool] = True
