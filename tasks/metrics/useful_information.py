"""Useful information: the share of the evidence's sentences that are supporting facts (ParetoRAG, table 2).

The evidence's sentences are the spans of its contexts, one a sentence, counted once however often it is repeated.
The splitter and the dataset may cut a passage differently, so a sentence is a supporting fact when the two share more
than half the characters of the shorter one: half a fact counts, and so does a sentence that holds a fact and more; the
blank between two sentences, or a stray word, does not.

`useful_information_bound` is what an oracle would get from as many sentences: the supporting facts over the sentences,
at most 1. HotpotQA's questions have 2 to 3 facts, so that no method can reach more than that share of a long evidence.

A question without supporting facts, without evidence, or with a context of unknown origin (a summary, a proposition,
or a whole passage of which only propositions are known) is left out.
"""

from collections.abc import Sequence

from tasks.datasets.base import Span
from tasks.metrics.base import CONTEXTS, SUPPORTING_FACTS, Case, Column, PerQuestion, Values


class UsefulInformation(PerQuestion):
    """Share of the evidence's sentences that are supporting facts, 0 to 1."""

    def columns(self) -> tuple[Column, Column]:
        needs = (CONTEXTS, SUPPORTING_FACTS)
        return (
            Column("useful_information", "useful information", needs=needs),
            Column("useful_information_bound", "useful information bound", needs=needs, detail=True),
        )

    def score(self, cases: Sequence[Case]) -> Values:
        pairs = [_share(case) for case in cases]
        return {
            "useful_information": [pair and pair[0] for pair in pairs],
            "useful_information_bound": [pair and pair[1] for pair in pairs],
        }


def _share(case: Case) -> tuple[float, float] | None:
    """The share that it is and the largest that it could be; None without ground."""
    facts = case.supporting_facts
    if not facts or not case.contexts or not all(context.spans for context in case.contexts):
        return None
    sentences = {span for context in case.contexts for span in context.spans}
    useful = sum(any(_same(sentence, fact) for fact in facts) for sentence in sentences)
    return useful / len(sentences), max(useful, min(len(facts), len(sentences))) / len(sentences)


def _same(sentence: Span, fact: Span) -> bool:
    shared = min(sentence.end, fact.end) - max(sentence.start, fact.start)
    shorter = min(sentence.end - sentence.start, fact.end - fact.start)
    return sentence.passage_id == fact.passage_id and 2 * shared > shorter
