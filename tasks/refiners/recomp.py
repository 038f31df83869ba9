"""`recomp`: an abstractive compressor writes a summary of the hits for the question, or nothing where they do not help.

RECOMP (Xu et al. 2023, arXiv 2310.04408, section 3.2): T5-large, trained on summaries by GPT-3.5 that raise a language
model's score; an empty summary means that the question is answered without contexts ("selective augmentation"). Input,
limits (1024 tokens read, 512 written) and the presets' names are those of the authors' script
`train_hf_summarization_model.py` and README (github.com/carriex/recomp); they compress the best 5 passages
(refine.top_k=5), ParetoRAG's table 1 ten. Its appendix E.1 calls the third hotpotqa_abstractive_compressor; the
authors' README has the name below. Their code does not show how they join passages and titles; here a new line joins
them. In their script the tokenizer cuts a long input at its end, including the word "Summary:"; here the passages are
cut and that word stays.

The published checkpoints were not available during development: tests use tiny models of their architecture.
"""

from collections.abc import Mapping
from typing import ClassVar

from vitalfew.tasks.refiners.seq2seq import Seq2SeqRefiner


class Recomp(Seq2SeqRefiner):
    """A sequence-to-sequence compressor in refine.model writes a summary of the hits, or nothing (RECOMP)."""

    example: ClassVar[tuple[str, ...]] = ("refine.model=recomp-nq",)

    name: ClassVar[str] = "recomp"
    version: ClassVar[str] = "2"
    presets: ClassVar[Mapping[str, str]] = {
        "recomp-nq": "fangyuan/nq_abstractive_compressor",
        "recomp-tqa": "fangyuan/tqa_abstractive_compressor",
        "recomp-hotpotqa": "fangyuan/hotpotqa_abstractive",
    }
    max_new_tokens: ClassVar[int] = 512
    max_input_tokens: ClassVar[int] = 1024

    def frame(self, question: str, documents: str) -> str:
        return f"Question: {question}\n Document: {documents}\n Summary: "
