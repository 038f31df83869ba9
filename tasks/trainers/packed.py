"""An example in one pass: which tokens there are, at which positions, what each may see, and what it has to say.

Prefix, blocks, for each block the assess control, then the generate control with the answer. With attention `block` a
block sees the prefix and itself, and all blocks start at the same position (Sparse RAG, arXiv 2405.16178, section 3.2;
PCW). With `full` each also sees the blocks before it, and stands behind them; ratings are then learnt from copies of
the blocks, which nothing else sees. An assess control sees the prefix and its own block, and nothing sees it. The
generate control stands where it would if the blocks had followed one another.

So both tasks of the paper's mixture are learnt from one pass: what is rated and what is answered do not meet.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from tasks.models.controls import Segmenter

Attention = Literal["block", "full"]


@dataclass
class Packed:
    """Token ids with their positions, and the segment of each; `sees`: of each segment, the segments that it sees
    besides itself. Targets: places of tokens, with the id that should come next."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    sees: list[frozenset[int]] = field(default_factory=list)
    ratings: list[tuple[int, int]] = field(default_factory=list)
    answer: list[tuple[int, int]] = field(default_factory=list)

    def add(self, ids: Sequence[int], start: int, sees: Collection[int] = ()) -> int:
        """A segment whose first token has the position `start`; returns its number."""
        self.segments += [len(self.sees)] * len(ids)
        self.sees.append(frozenset(sees))
        self.ids += ids
        self.positions += range(start, start + len(ids))
        return len(self.sees) - 1

    def mask(self) -> Tensor:
        """bool (tokens, tokens): whether the token of a row sees that of a column."""
        seen = torch.eye(len(self.sees), dtype=torch.bool)
        for segment, others in enumerate(self.sees):
            seen[segment, list(others)] = True
        segments = torch.tensor(self.segments)
        return seen[segments][:, segments].tril()


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
        shown = [packed.add([token for block in prompt.blocks for token in block], first, {prefix})]
    else:
        shown = [packed.add(block, first, {prefix}) for block in prompt.blocks]
    for number, is_relevant in enumerate(relevant or ()):
        block = prompt.blocks[number]
        rated = packed.add(block, first, {prefix}) if full else shown[number]
        packed.add(segmenter.assess, first + len(block), {prefix, rated})
        packed.ratings.append((len(packed.ids) - 1, segmenter.yes if is_relevant else segmenter.no))
    said = segmenter.answer(answer)
    behind = first + sum(map(len, prompt.blocks))
    packed.add([*segmenter.generate, *said[:-1]], behind, {prefix, *shown})
    start = len(packed.ids) - len(said)
    packed.answer = [(start + number, token) for number, token in enumerate(said)]
    return packed
