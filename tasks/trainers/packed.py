"""An example in one pass: which tokens there are, at which positions, what each may see, and what it has to say.

Prefix, blocks, for each block the assess control, then the generate control with the answer. With attention `block` a
block sees the prefix and itself, and all blocks start at the same position (Sparse RAG, arXiv 2405.16178, section 3.2;
PCW). With `full` each also sees the blocks before it, and stands behind them; ratings are then learnt from copies of
the blocks, which nothing else sees. An assess control sees the prefix and its own block, and nothing sees it. The
generate control stands where it would if the blocks had followed one another.

So both tasks of the paper's mixture are learnt from one pass: what is rated and what is answered do not meet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from vitalfew.tasks.models.causal.controls import Segmenter
from vitalfew.tasks.models.causal.segmented import Span

Attention = Literal["block", "full"]


@dataclass
class Packed:
    """Token ids with their positions, and the layout of their segments. Targets: places of tokens, with the id that
    should come next."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    layout: list[tuple[Span, list[Span]]] = field(default_factory=list)
    ratings: list[tuple[int, int]] = field(default_factory=list)
    answer: list[tuple[int, int]] = field(default_factory=list)

    @property
    def places(self) -> list[int]:
        """Of all targets, the ratings' first."""
        return [place for place, _ in (*self.ratings, *self.answer)]

    def add(self, ids: Sequence[int], start: int, sees: Sequence[Span] = ()) -> Span:
        """A segment whose first token has the position `start`; returns where it is."""
        span = len(self.ids), len(self.ids) + len(ids)
        self.layout.append((span, list(sees)))
        self.ids += ids
        self.positions += range(start, start + len(ids))
        return span


def pack(
    segmenter: Segmenter,
    question: str,
    contexts: Sequence[str],
    relevant: Sequence[bool] | None,
    answer: str,
    attention: Attention = "block",
) -> Packed:
    """`relevant`: of each context; None: no rating is learnt. with attention `full` contexts see those before them."""
    full = attention == "full"
    packed, prompt = Packed(), segmenter.segments(question, contexts)
    prefix, first = packed.add(prompt.prefix, 0), len(prompt.prefix)
    if full:
        shown = [packed.add([token for block in prompt.blocks for token in block], first, [prefix])]
    else:
        shown = [packed.add(block, first, [prefix]) for block in prompt.blocks]
    for number, is_relevant in enumerate(relevant or ()):
        block = prompt.blocks[number]
        rated = packed.add(block, first, [prefix]) if full else shown[number]
        packed.add(segmenter.assess, first + len(block), [prefix, rated])
        packed.ratings.append((len(packed.ids) - 1, segmenter.yes if is_relevant else segmenter.no))
    said = segmenter.answer(answer)
    behind = first + sum(map(len, prompt.blocks))
    packed.add([*segmenter.generate, *said[:-1]], behind, [prefix, *shown])
    start = len(packed.ids) - len(said)
    packed.answer = [(start + number, token) for number, token in enumerate(said)]
    return packed
