"""`ance`: ANCE (arXiv 2007.00808), first passage variant, in sentence-transformers' conversion of the authors' weights.

RoBERTa, the state of the first token, a linear layer and a layer norm after it (read from the model's own files), inner
product. Deviation: every text is cut at the same number of tokens, where the authors' code cuts questions at 64.
"""

from typing import ClassVar

from vitalfew.tasks.encoders.transformer import TransformerEncoder
from vitalfew.tasks.models.encoder.recipe import Preset


class ANCE(TransformerEncoder):
    """sentence-transformers/msmarco-roberta-base-ance-firstp: first token, inner product, 768 dimensions."""

    preset: ClassVar[Preset] = Preset(model="sentence-transformers/msmarco-roberta-base-ance-firstp", similarity="dot")
