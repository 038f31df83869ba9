"""`huggingface`: any encoder in safetensors, by its name in the local Hugging Face cache or by its directory.

Pooling, layers after it, length, limit and prompts come from the model's own files where it has sentence-transformers'
layout; a plain model is pooled by the mean and compared by the cosine unless the settings say otherwise.
"""

from typing import ClassVar

from vitalfew.tasks.encoders.transformer import TransformerEncoder


class HuggingFace(TransformerEncoder):
    """Any sentence-transformers or Hugging Face model: a name or a directory in encode.model."""

    example: ClassVar[tuple[str, ...]] = ("encode.model=sentence-transformers/all-MiniLM-L6-v2",)
