"""The base of refiners with a sequence-to-sequence model that writes a context from a question's hits (`rewriting`)."""

from typing import ClassVar

from vitalfew.tasks.refiners.rewriting import RewritingRefiner


class Seq2SeqRefiner(RewritingRefiner):
    """Base of refiners that rewrite by an encoder-decoder. A subclass has its model's presets, its limits, `frame`."""

    causal: ClassVar[bool] = False
