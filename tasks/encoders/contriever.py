"""`contriever`: Contriever (arXiv 2112.09118), one BERT for questions and passages.

Mean over the token states and inner product, as in section 3 of the paper. No deviation. The fine-tuned model is
`encode.model=facebook/contriever-msmarco`.
"""

from typing import ClassVar

from vitalfew.tasks.encoders.transformer import TransformerEncoder
from vitalfew.tasks.models.encoder.recipe import Preset


class Contriever(TransformerEncoder):
    """facebook/contriever: mean pooling, inner product, 768 dimensions."""

    preset: ClassVar[Preset] = Preset(model="facebook/contriever", pooling="mean", similarity="dot")
