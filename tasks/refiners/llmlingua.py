"""`llmlingua`: a small language model keeps the hits, and in them the tokens, that it would guess least (LLMLingua).

Jiang et al., 2023 (arXiv 2310.05736), with hits for demonstrations:

- Budget controller (section 4.1, algorithm 1): hits in descending order of their perplexity are kept until they have
  more than refine.coarse (k) times the tokens that are to be left. What is kept stands in the order of retrieval.
- Token-level compression (section 4.2, algorithm 2): what was kept is read in segments, each after the compressed text
  so far, and of its tokens those with the highest perplexity stay (tasks/refiners/tokens.py, with what the authors'
  package does otherwise: so does this refiner).

With refine.rest=whole the tokens that stay are those of the package (llmlingua 0.2.2) with the same `rate`,
`iterative_size` for refine.segment and `context_budget="*2"` for refine.coarse=2, but for a few: the package gives the
model no start token, and of several hits it reads each after those before it, where here each is read alone at first.

Deviations: instruction and question are the generator's, who reads them whole, so they get no budget; the share that
is left of a segment makes up for what the first step dropped, so that all together come to refine.rate; the small model
is not aligned with the one that answers (section 4.3).

Perplexity is that of a hit after its title. A title that is shown stays whole. A hit longer than the model is read in
parts, and of a row that is longer the beginning is forgotten. max_words and max_tokens cut what was compressed at its
end.
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import ConfigDict

from vitalfew.tasks.models.ticks import TokensAlone
from vitalfew.tasks.refiners.compressor import Compressing, Compressor
from vitalfew.tasks.refiners.tokens import Floats


class LLMLingua(Compressor):
    """A small causal model drops the hits and tokens that it could have guessed, down to a share (LLMLingua)."""

    class Options(Compressing):
        model_config = ConfigDict(extra="forbid")

    example: ClassVar[tuple[str, ...]] = ("refine.model=vicuna-7b", "refine.rate=0.4")
    version: ClassVar[str] = "2"

    def rank(
        self, questions: Sequence[str], texts: Sequence[str], count: TokensAlone
    ) -> tuple[Sequence[Floats], Sequence[float]]:
        found = [surprise for _, surprise in self.model.read([("", text) for text in texts], count)]
        # The logarithm of the perplexity.
        return found, [float(surprise.mean()) if len(surprise) else 0.0 for surprise in found]
