"""The method to begin with on a new corpus, by an evaluation of `start` or `start_answers`, and why.

Questions that people asked, or that a language model wrote with their answers, choose by the report's recommendation.
Sentences with a gap (the writer `cloze`) do not: they look like the sentences that they ask for, so that searches for
sentences and for words are ahead by them whatever people ask, and a lead of such a method shows nothing. The reverse
does: a method that is not ahead although they favour it has no case here. So spans, whose case is made by other corpora
(docs/spans.md), are the beginning unless they are not ahead of whole passages cut to as many tokens. Between spans and
ParetoRAG, which are both favoured, they do not choose.
"""

from dataclasses import dataclass

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.recommendation import GAPPED, is_blank, recommendation, recommended
from vitalfew.tasks.reports.shown.columns import figure, is_apart, quality_metric, signed
from vitalfew.tasks.reports.statistics.bootstrap import ENOUGH

FAVOURED = "spans"
MEASURED = (
    "{} is named for what was measured on other corpora, English ones, at equal tokens (docs/spans.md): there it was "
    "better than passages, or not shown to be worse."
)
WRITTEN = (
    "A language model wrote the questions: docs/results/written_questions.md says how far such questions choose what "
    "people's questions choose."
)


@dataclass(frozen=True)
class Beginning:
    """`method`: the name of the one to begin with; `is_chosen`: the questions were enough to choose it; `why`:
    sentences, a paragraph an item."""

    method: str
    is_chosen: bool
    why: tuple[str, ...]


def beginning(report: Report, is_written: bool) -> Beginning:
    """`report`: of an experiment whose methods include `spans`; `is_written`: a writer wrote the questions."""
    if report.asked.is_gapped and not is_blank(report):
        return _by_gaps(report)
    taken, why = recommended(report), [recommendation(report)]
    if taken is None:
        why.append(_meanwhile())
    return Beginning(
        taken.name if taken else FAVOURED, taken is not None, (*filter(None, why), *([WRITTEN] if is_written else []))
    )


def _meanwhile() -> str:
    """The method that is named although nothing was chosen, and why."""
    return MEASURED.format(f"Until questions choose, {FAVOURED}")


def _by_gaps(report: Report) -> Beginning:
    metric = quality_metric(report)
    spans = next((own for own in report.methods if own.name == FAVOURED), None)
    difference = spans.differences.get(metric) if spans and metric else None
    if spans is None or metric is None or difference is None or difference.questions < ENOUGH:
        asked = report.asked.questions
        few = (
            f"{asked:,} {'question is' if asked == 1 else 'questions are'} too few to choose by: ask {ENOUGH} or more."
        )
        return Beginning(FAVOURED, False, (few, GAPPED, _meanwhile()))
    base = report.methods[spans.against or 0]
    interval = f"95 % interval {signed(difference.low)} to {signed(difference.high)}"
    shown = (
        f"In {figure(report.value(spans, metric))} of {difference.questions:,} questions, the context of {FAVOURED} "
        f"has what was asked for; that of {base.label}, whole passages up to as many tokens, in "
        f"{figure(report.value(base, metric))} ({signed(difference.mean_difference)}, {interval})."
    )
    named = MEASURED.format(FAVOURED.capitalize())
    if is_apart(difference) and (difference.mean_difference or 0.0) > 0:
        lead = f"{GAPPED} So this lead is not a proof, nor do they choose between spans and ParetoRAG. {named}"
        return Beginning(FAVOURED, True, (shown, lead))
    behind = f"{GAPPED} Even so {FAVOURED} is not shown to be ahead: whole passages are the simpler beginning."
    return Beginning(base.name, True, (shown, behind))
