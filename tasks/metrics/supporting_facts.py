"""Supporting facts in the prompt: precision, recall, F1 and exact match, and those joint with the answer (HotpotQA).

HotpotQA's evaluation (Yang et al., 2018, arXiv 1809.09600, section 5.2) holds the set of predicted sentences against
the set of supporting facts; joint precision and recall are the products of the answer's and the facts' own, joint exact
match asks for both. Here the predicted sentences are those of the prompt's contexts: nobody chose among them, so that
this measures what retrieval and refining pass on, not what a model would name as its evidence.

The splitter and the data set may cut a passage differently, and a budget may cut a sentence. So two rules stand in for
equal sentence numbers, and come to the same where all cuts agree:

- a fact is **found** when more than half its characters stand in the contexts, in one sentence or in several;
- a sentence is **of a fact** when it shares more than half of the shorter of the two with a fact that is found: a part
  of a fact counts with the other parts, a sentence that holds a fact and more counts, two words that a budget has left
  of a fact do not.

True positives are the facts found, false positives the sentences of no fact, misses the facts not found. A sentence
counts once however often it is repeated.

A question without supporting facts, without contexts, or with a context of unknown origin (a summary, a proposition, or
a whole passage of which only propositions are known) is left out. One whose contexts are none has 0.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from vitalfew.tasks.datasets.base import Span
from vitalfew.tasks.metrics.answers import JUDGED, comparable
from vitalfew.tasks.metrics.base import CONTEXTS, SUPPORTING_FACTS, Case, Column, PerQuestion, Values, judged

NEEDS = (CONTEXTS, SUPPORTING_FACTS)
_CLOSED = {"yes", "no", "noanswer"}


class Support(NamedTuple):
    """How many facts a question has, how many of them were found, how many sentences its contexts have, and how many
    of those are of a fact that was found."""

    facts: int
    found: int
    sentences: int
    useful: int

    def ratios(self) -> tuple[float, float]:
        """Precision and recall."""
        given = self.found + self.sentences - self.useful
        return self.found / given if given else 0.0, self.found / self.facts

    def exact(self) -> bool:
        """Every fact and nothing else."""
        return self.found == self.facts and self.useful == self.sentences


def support(case: Case) -> Support | None:
    """None without ground."""
    if not case.supporting_facts or case.contexts is None or not all(context.spans for context in case.contexts):
        return None
    spans = {span for context in case.contexts for span in context.spans}
    sentences = [span for span in spans if not any(_within(span, other) for other in spans - {span})]
    facts = set(case.supporting_facts)
    found = [fact for fact in facts if _is_found(fact, sentences)]
    useful = sum(any(_is_of(sentence, fact) for fact in found) for sentence in sentences)
    return Support(len(facts), len(found), len(sentences), useful)


def _within(span: Span, other: Span) -> bool:
    return span.passage_id == other.passage_id and other.start <= span.start and span.end <= other.end


def _shared(one: Span, other: Span) -> range:
    """The places of the characters that both have."""
    if one.passage_id != other.passage_id:
        return range(0)
    return range(max(one.start, other.start), min(one.end, other.end))


def _is_found(fact: Span, sentences: Sequence[Span]) -> bool:
    return 2 * len({place for sentence in sentences for place in _shared(sentence, fact)}) > fact.end - fact.start


def _is_of(sentence: Span, fact: Span) -> bool:
    shorter = min(sentence.end - sentence.start, fact.end - fact.start)
    return 2 * len(_shared(sentence, fact)) > shorter


def harmonic(precision: float, recall: float) -> float:
    """F1; 0 where both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


class SupportingFacts(PerQuestion):
    """Precision, recall, F1 and exact match of the prompt's sentences against the supporting facts (HotpotQA)."""

    def columns(self) -> tuple[Column, ...]:
        return (
            Column("sp_precision", "facts precision", needs=NEEDS),
            Column("sp_recall", "facts recall", needs=NEEDS),
            Column("sp_f1", "facts F1", needs=NEEDS),
            Column("sp_em", "facts exact match", needs=NEEDS, detail=True),
        )

    def score(self, cases: Sequence[Case]) -> Values:
        rows = [_facts(case) for case in cases]
        return {
            column.name: [row[place] if row else None for row in rows] for place, column in enumerate(self.columns())
        }


def _facts(case: Case) -> tuple[float, ...] | None:
    known = support(case)
    if known is None:
        return None
    precision, recall = known.ratios()
    return precision, recall, harmonic(precision, recall), float(known.exact())


class Joint(PerQuestion):
    """Exact match and F1 of answer and supporting facts together (HotpotQA): precisions and recalls are multiplied.

    The score is the best over a question's gold answers. As in HotpotQA's evaluation, an answer of "yes", "no" or
    "noanswer" is right as a whole or not at all.
    """

    version = "2"  # since 2, an empty output never equals a gold answer of articles or punctuation

    def columns(self) -> tuple[Column, ...]:
        needs = (*JUDGED, *NEEDS)
        return Column("joint_em", "joint exact match", needs=needs), Column("joint_f1", "joint F1", needs=needs)

    def score(self, cases: Sequence[Case]) -> Values:
        pairs = [_joint(case) for case in cases]
        return {"joint_em": [pair and pair[0] for pair in pairs], "joint_f1": [pair and pair[1] for pair in pairs]}


def _joint(case: Case) -> tuple[float, float] | None:
    output, known = judged(case), support(case)
    if output is None or known is None:
        return None
    texts = [comparable(output, gold) for gold in case.answers]
    of_facts = known.ratios()
    pairs = [_words(*both) for both in texts]
    best = max(harmonic(precision * of_facts[0], recall * of_facts[1]) for precision, recall in pairs)
    return float(known.exact() and any(answer == gold for answer, gold in texts)), best


def _words(answer: str, gold: str) -> tuple[float, float]:
    """Precision and recall of the words of an answer, repetitions counted; both `comparable`."""
    given, due = answer.split(), gold.split()
    if answer == gold:
        return 1.0, 1.0
    if not given or not due or _CLOSED & {answer, gold}:
        return 0.0, 0.0
    common = (Counter(given) & Counter(due)).total()
    return common / len(given), common / len(due)
