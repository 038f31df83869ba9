"""`dpr`: Dense Passage Retrieval (arXiv 2004.04906), one BERT for passages and another for questions.

The state of the first token and inner product, as in section 3.1 of the paper. With encode.text=titled it reads a title
and a text as the paper's context encoder does, [CLS] title [SEP] text [SEP]; with unit the text alone (a deviation).
"""

from typing import ClassVar

from vitalfew.tasks.encoders.transformer import TransformerEncoder
from vitalfew.tasks.models.encoder.recipe import Preset


class DPR(TransformerEncoder):
    """facebook/dpr-{ctx,question}_encoder-multiset-base: two models, first token, inner product, 768 dimensions."""

    separator: ClassVar[str] = " [SEP] "
    preset: ClassVar[Preset] = Preset(
        model="facebook/dpr-ctx_encoder-multiset-base",
        question_model="facebook/dpr-question_encoder-multiset-base",
        pooling="cls",
        similarity="dot",
    )
