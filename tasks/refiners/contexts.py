"""The contexts of a prompt as they grow: parts of hits under their titles, within a budget.

`refine.group` says what shares a context. `apart`: every hit is one, and pays for its title. `passage`: all that is
taken of a passage is one, at the place of its best part: its title once, its parts in reading order, neighbours as they
are in the passage, gaps as " … ". The mark of a gap costs a token; what a context has already costs nothing. A text
that a model wrote has no place in its passage and stays apart.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from operator import attrgetter

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.refiners.base import Budget, Evidence, Hit, merged
from vitalfew.tasks.splitters.tokens import count_tokens

GAP = " … "


class Contexts:
    """The contexts of one question, in the order in which their first parts are added.

    `gap`: stands between parts that do not adjoin; a blank only after a part without white space at its end."""

    def __init__(self, options: RefineConfig, gap: str = GAP) -> None:
        self.options, self.gap = options, gap
        self.budget = Budget(options)
        self.parts: dict[Hashable, list[Hit]] = {}
        self.hits: dict[Hashable, int] = {}

    def add(self, hit: Hit, number: int) -> bool:
        """Add what the budget takes of a hit; return whether that is all of it.

        Hits with the same number share a context, and with `group=passage` those of the same passage."""
        key = (hit.passage_id,) if self.options.group == "passage" and hit.start < hit.end else number
        beside = self.parts.get(key, [])
        if not hit.text.strip() or any(other.start <= hit.start < hit.end <= other.end for other in beside):
            return True
        before, text = self._before(hit, beside), hit.text.strip()
        if any(hit.start < other.start <= hit.end for other in beside) and not self.budget.holds([before + text]):
            self.budget.take(self.gap)  # cut, it no longer reaches the part after it
        shown = self.budget.take(before + text)
        whole = len(shown) == len(before + text)
        if len(shown) > len(before):
            self.hits[key] = min(number, self.hits.get(key, number))
            self.parts.setdefault(key, []).append(hit if whole else beginning(hit, shown[len(before) :]))
        return whole

    def _before(self, hit: Hit, beside: Sequence[Hit]) -> str:
        """Return the title or the mark that a hit adds to its context before its text."""
        if not beside:
            return hit.label(self.options)
        adjoins = any(other.start <= hit.end and hit.start <= other.end for other in beside)
        return "" if adjoins else self.gap.lstrip()

    def made(self, by_hit: bool = False) -> list[Evidence]:
        """The contexts so far; with `by_hit` in the order of their best hits."""
        keys = sorted(self.parts, key=self.hits.__getitem__) if by_hit else self.parts
        return [self._joined(sorted(self.parts[key], key=attrgetter("start"))) for key in keys]

    def _joined(self, parts: Sequence[Hit]) -> Evidence:
        text, end = "", parts[0].start
        for hit in parts:
            text = text + hit.text[end - hit.start :] if hit.start <= end else self._gapped(text) + hit.text
            end = max(end, hit.end)
        shown = parts[0].label(self.options) + text.strip()
        spans = merged((part.start, part.end) for part in parts)
        origin = tuple((parts[0].passage_id, *span) for span in spans)
        return Evidence(shown, count_tokens(shown), origin, max(part.score for part in parts))

    def _gapped(self, text: str) -> str:
        if self.gap.isspace():
            return text if text[-1:].isspace() else text + self.gap
        return text.rstrip() + self.gap


def beginning(hit: Hit, text: str) -> Hit:
    """Return a hit cut down to `text`, with which it begins but for white space."""
    if hit.start == hit.end:
        return replace(hit, text=text)
    start = hit.start + hit.text.index(text)
    return replace(hit, text=text, start=start, end=start + len(text))
