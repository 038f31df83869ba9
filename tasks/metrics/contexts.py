"""Contexts of the prompt: supporting facts, gold passages and answers in them, and how faithful they are.

A metric of the contexts' sentences or passages leaves out a question with a context of unknown origin: a summary, a
proposition, or a whole passage of which only propositions are known.

**Supporting facts**, alone and joint with the answer. HotpotQA's evaluation (Yang et al., 2018, arXiv 1809.09600,
section 5.2) compares predicted sentences with the supporting facts; joint precision and recall are the products of the
answer's and the facts', joint exact match asks for both. Here the predicted sentences are those of the prompt's
contexts. The splitter and the data set may cut a passage differently, and a budget may cut a sentence. So two rules
replace equal sentence numbers, and come to the same where all cuts agree:

- a fact is **shown** when more than half its characters are in the contexts, in one sentence or in several;
- a sentence is **of a fact** when it shares more than half of the shorter of the two with a fact that is shown.

True positives are the facts shown, false positives the sentences of no fact, misses the facts not shown. A repeated
sentence counts once. An empty list of contexts has 0.

**Useful information**: the share of the prompt's sentences that are supporting facts (ParetoRAG, table 2, appendix B).
`useful_information_bound` is an oracle's share at as many sentences: the supporting facts over the sentences, at most
1. The table's 20.79 to 28.82 % at about 450 tokens, some 19 sentences, are above that bound for HotpotQA's 2 to 3
facts. They fit the share of the facts that is shown, `sp_recall`; the experiment shows both readings.

**Contexts hold the answer** (`answer_shown`): the share of the questions of which a context has an accepted answer, in
a row of tokens, as for `answer_recall`. A text that was put together of parts holds it only where a part has it whole.

**Answer kept**: the same of the questions whose hits hold an accepted answer, in text or title. After `perturb`, the
hits are those that the refiner was given.

**Context recall**: the gold passages (of a group, one) among those that the contexts come from, whatever the contexts
have kept of them, for questions whose gold is a passage or a file. An empty list of contexts has 0.

**Grounding**: the share of a refiner's words that are in a hit or its title, whatever the case: a count beside Oreo's
faithfulness, which a language model judges (arXiv 2502.13019, section 4.5). Names (a capital that begins no sentence)
and numbers (a digit) are counted apart. A context that says something else in the same words has 1 too; contexts that
reach beyond their hits (refine.text=window, passage) count as ungrounded there. Without words, or without names, a
question is left out.

**Appraisal**: faithfulness and completeness from 0 to 10 (Oreo, arXiv 2502.13019, figure 7). A question whose contexts
could not be appraised is left out; the table `appraisals` has its error.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from vitalfew.tasks.comparable import comparable
from vitalfew.tasks.datasets.base import Span
from vitalfew.tasks.metrics.answers import JUDGED, alike
from vitalfew.tasks.metrics.base import (
    APPRAISALS,
    CONTEXTS,
    GOLD_ANSWERS,
    GOLD_PASSAGES,
    HITS,
    SUPPORTING_FACTS,
    Case,
    Column,
    PerQuestion,
    judged,
)
from vitalfew.tasks.metrics.ranking import first_correct

NEEDS = (CONTEXTS, SUPPORTING_FACTS)
_CLOSED = {"yes", "no", "noanswer"}


class Support(NamedTuple):
    """Counts: the facts of a question, those that are in its contexts, the contexts' sentences, and those that are of
    such a fact."""

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
    """The supporting facts in a case's contexts; None without ground."""
    spans = _shown(case)
    if not case.supporting_facts or spans is None:
        return None
    sentences = [span for span in spans if not any(_within(span, other) for other in spans - {span})]
    facts = set(case.supporting_facts)
    found = [fact for fact in facts if _is_found(fact, sentences)]
    useful = sum(any(_is_of(sentence, fact) for fact in found) for sentence in sentences)
    return Support(len(facts), len(found), len(sentences), useful)


def _shown(case: Case) -> set[Span] | None:
    """The sentences of the contexts; None without contexts, or where one is of unknown origin."""
    if case.contexts is None or not all(context.sentences for context in case.contexts):
        return None
    return {Span(*sentence) for context in case.contexts for sentence in context.sentences}


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

    shown = (
        Column("sp_precision", "facts precision", needs=NEEDS),
        Column("sp_recall", "facts recall", needs=NEEDS),
        Column("sp_f1", "facts F1", needs=NEEDS),
        Column("sp_em", "facts exact match", needs=NEEDS, detail=True),
    )

    def row(self, case: Case) -> tuple[float, ...] | None:
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

    version = "3"  # since 3, of the comparable form; 2, no empty output equals articles or punctuation

    shown = (
        Column("joint_em", "joint exact match", needs=(*JUDGED, *NEEDS)),
        Column("joint_f1", "joint F1", needs=(*JUDGED, *NEEDS)),
    )

    def row(self, case: Case) -> tuple[float, float] | None:
        output, known = judged(case), support(case)
        if output is None or known is None:
            return None
        texts = [alike(output, gold) for gold in case.answers]
        of_facts = known.ratios()
        pairs = [_words(*both) for both in texts]
        best = max(harmonic(precision * of_facts[0], recall * of_facts[1]) for precision, recall in pairs)
        return float(known.exact() and any(answer == gold for answer, gold in texts)), best


def _words(answer: str, gold: str) -> tuple[float, float]:
    """Precision and recall of the words of an answer, repetitions counted; both `alike`."""
    given, due = answer.split(), gold.split()
    if answer == gold:
        return 1.0, 1.0
    if not given or not due or _CLOSED & {answer, gold}:
        return 0.0, 0.0
    common = (Counter(given) & Counter(due)).total()
    return common / len(given), common / len(due)


class UsefulInformation(PerQuestion):
    """Share of the evidence's sentences that are supporting facts, 0 to 1."""

    version = "2"  # since 2, what a budget has cut off a fact does not count as shown

    shown = (
        Column("useful_information", "useful information", needs=NEEDS),
        Column("useful_information_bound", "useful information bound", needs=NEEDS, detail=True),
    )

    def row(self, case: Case) -> tuple[float, float] | None:
        known = support(case)
        if known is None or not known.sentences:
            return None
        return known.useful / known.sentences, max(known.useful, min(known.facts, known.sentences)) / known.sentences


class ContextRecall(PerQuestion):
    """Share of the gold passages that a context of the prompt comes from, whatever it has kept of them."""

    shown = (Column("context_recall", "context recall", needs=(CONTEXTS, GOLD_PASSAGES), detail=True),)

    def row(self, case: Case) -> tuple[float] | None:
        spans = _shown(case)
        if not case.gold_passages or spans is None:
            return None
        groups, sources = case.gold(), {span.passage_id for span in spans}
        found = {group for passage, group in groups.items() if passage in sources}
        return (len(found) / len({*groups.values()}),)


class AnswerShown(PerQuestion):
    """1 if a context of the prompt holds an accepted answer, else 0. Its mean is the share of the questions."""

    shown = (Column("answer_shown", "contexts hold the answer", needs=(CONTEXTS, GOLD_ANSWERS)),)

    def row(self, case: Case) -> tuple[float] | None:
        if not case.answers or case.contexts is None:
            return None
        return (float(first_correct(case.answers, (context.text for context in case.contexts)) > 0),)


class AnswerKept(PerQuestion):
    """1 if the contexts still hold an accepted answer that the hits hold, else 0."""

    version = "2"  # since 2, of the comparable form
    shown = (Column("answer_kept", "answer kept", needs=(CONTEXTS, HITS, GOLD_ANSWERS)),)

    def row(self, case: Case) -> tuple[float] | None:
        given = case.hits if case.given is None else case.given
        if case.contexts is None or given is None:
            return None
        if not first_correct(case.answers, (text for hit in given for text in (hit.title, hit.text))):
            return None
        return (float(first_correct(case.answers, (context.text for context in case.contexts)) > 0),)


_WORD = re.compile(r"\w+")
_OPENS = re.compile(r"(?:\A|[.!?:;\n])[^\w.!?]*\Z")
"""The text before a word that begins a sentence."""


class Grounding(PerQuestion):
    """Share of the contexts' words, and of their names and numbers, that are in the hits; needs no model."""

    version = "2"  # since 2, of the comparable form
    shown = (
        Column("grounding", "grounding", needs=(CONTEXTS, HITS)),
        Column("grounded_names", "grounded names and numbers", needs=(CONTEXTS, HITS)),
    )

    def row(self, case: Case) -> tuple[float | None, float | None] | None:
        if case.contexts is None or case.hits is None:
            return None
        given = case.hits if case.given is None else case.given
        source = {word.lower() for hit in given for word in _WORD.findall(_plain(f"{hit.title} {hit.text}"))}
        words: list[bool] = []
        names: list[bool] = []
        for context in case.contexts:
            text = _plain(context.text)
            for match in _WORD.finditer(text):
                grounded = match[0].lower() in source
                words.append(grounded)
                is_name = match[0][0].isupper() and not _begins(text, match.start())
                if is_name or any(sign.isdigit() for sign in match[0]):
                    names.append(grounded)
        return _share(words), _share(names)


def _begins(text: str, place: int) -> bool:
    """Return whether the word at this place begins a sentence."""
    return bool(_OPENS.search(text[max(0, place - 8) : place])) if place else True


def _plain(text: str) -> str:
    """The comparable form of every line."""
    return "\n".join(map(comparable, text.splitlines()))


def _share(grounded: Sequence[bool]) -> float | None:
    return sum(grounded) / len(grounded) if grounded else None


_GRADES = "0 to 10"


class AppraisalMetric(PerQuestion):
    """Faithfulness of the contexts to their hits, and completeness, from 0 to 10, as an appraiser grades them."""

    shown = (
        Column("faithfulness", "faithfulness", _GRADES, needs=(APPRAISALS,)),
        Column("completeness", "completeness", _GRADES, needs=(APPRAISALS,)),
    )

    def row(self, case: Case) -> tuple[float, float] | None:
        return case.appraisal
