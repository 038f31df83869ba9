"""`exit`: a causal model is asked of every sentence, with its whole hit before it, whether it is of use (EXIT).

Hwang et al., 2024 (arXiv 2412.12559): Gemma 2B with an adapter reads the question, the whole passage and one of its
sentences, and is to say Yes or No. A sentence whose P(Yes) / (P(Yes) + P(No)), as the next token, is at least 0.5 is
kept; those that are stay in their original order. The prompt is that of the paper's table 6, which the checkpoint was
trained on, in the model's chat template; a title is on a line before its passage, as in the authors' code
(github.com/ThisIsHwang/EXIT).

Deviations: the sentences are the index's, not spaCy's, and the passage is the hit as refine.text has it (with
refine.text=passage all of it). Precision is refine.precision, not 4 bits. A passage that is too long for the model
loses its middle; a sentence that is too long counts as 0. The paper has no budget: where one is set, and no threshold,
the best sentences fill it. A question of which no sentence is kept is answered without contexts.

Question and passage are read once for all sentences of the passage (tasks/models/causal/verdict.py). The published
checkpoint (refine.model=gemma-2b-it, refine.adapter=exit) was not available during development: tests use a tiny Gemma.
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from vitalfew.configs.options import Adapted
from vitalfew.tasks.encoders.titles import MOST_CHARS
from vitalfew.tasks.refiners.base import Hit, Refiner
from vitalfew.tasks.refiners.sentences import Sentence, SentenceRefiner

QUESTION = "Query:\n{}\nFull context:\n"
SENTENCE = '\nSentence:\n{}\nIs this sentence useful in answering the query? Answer only "Yes" or "No".'


class Exit(SentenceRefiner):
    """A causal model reads a whole hit and keeps the sentences that it judges useful (EXIT)."""

    class Options(Adapted, Refiner.Options):
        threshold: float | None = Field(
            None,
            ge=0,
            le=1,
            description="Lowest score of a sentence to keep. Default: 0.5. If max_words or max_tokens is set: none, "
            "and the best sentences fill that limit.",
        )
        yes: str = Field("Yes", min_length=1, description="Answer for a useful sentence: one token of the model.")
        no: str = Field("No", min_length=1, description="Answer for any other sentence: one token of the model.")

    example: ClassVar[tuple[str, ...]] = ("refine.model=smollm2",)
    natural = 0.5

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, EngineUnavailable."""
        from vitalfew.tasks.models.causal.verdict import Verdict  # with PyTorch and transformers, which take seconds

        super().__init__(options, Verdict(options, "refine", options.yes, options.no))

    def requests(self, question: str, hits: Sequence[Hit], units: Sequence[Sentence]) -> list[tuple[str, str, str]]:
        """What comes before the passage, the passage with its title, and what comes after it."""
        titles = [hit.title[:MOST_CHARS].strip() for hit in hits]
        passages = [f"{title}\n{hit.text.strip()}".lstrip("\n") for title, hit in zip(titles, hits, strict=True)]
        return [(QUESTION.format(question), passages[each.hit], SENTENCE.format(each.text.strip())) for each in units]
