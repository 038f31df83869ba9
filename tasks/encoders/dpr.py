"""`dpr`: Dense Passage Retrieval (arXiv 2004.04906), one BERT for passages and another for questions.

The state of the first token and inner product, as in section 3.1 of the paper. Deviation: the paper's context encoder
reads a title and a text, [CLS] title [SEP] text [SEP]; here it reads the text alone, as every encoder does, because
what is encoded is mostly a sentence, which has no title of its own.
"""

from typing import ClassVar

from tasks.encoders.transformer import TransformerEncoder
from tasks.models.recipe import Preset


class DPR(TransformerEncoder):
    """facebook/dpr-{ctx,question}_encoder-multiset-base: two models, first token, inner product, 768 dimensions."""

    preset: ClassVar[Preset] = Preset(
        model="facebook/dpr-ctx_encoder-multiset-base",
        question_model="facebook/dpr-question_encoder-multiset-base",
        pooling="cls",
        similarity="dot",
    )
