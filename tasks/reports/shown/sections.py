"""What a report shows, once for every output: a terminal, Markdown and a page render the same sections.

The first sections say how good the methods are, where they fail and what they cost. All others are folded.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vitalfew.storage.costs import without_price
from vitalfew.tasks.reports import readings
from vitalfew.tasks.reports.advice import Advice, advice
from vitalfew.tasks.reports.contents import Answered, DifferingQuestion, Labelled, MethodResult, Report
from vitalfew.tasks.reports.papers import conditions
from vitalfew.tasks.reports.shown import grids, labels, notes
from vitalfew.tasks.reports.shown.grids import Grid
from vitalfew.tasks.reports.shown.text import one_line, shortened, sql_command

_EXAMPLES = 3
_EXAMPLE = 120
"""Characters of a question, and of an answer, in an example."""
READER = "reader"
CONNECT = (
    "The bundled reader answers with a few words of the context. It is an instrument that measures contexts. "
    "To measure with your language model: vitalfew evaluate {} --index {} --model openai:NAME"
)


class Query(NamedTuple):
    """`about`: what it asks; `command`: for a shell."""

    about: str
    command: str


class Section(NamedTuple):
    """`lines`: sentences; `grids`: tables; one of the two may be empty. `commands`: for a shell, with what they do."""

    title: str
    lines: Sequence[str] = ()
    grids: Sequence[Grid] = ()
    commands: Sequence[Query] = ()

    @property
    def is_empty(self) -> bool:
        return not self.lines and not self.commands and not any(grid.rows for grid in self.grids)


def first(report: Report) -> list[Section]:
    """The sections that are shown at once, below the advice."""
    made = advice(report)
    compared = Section("How good the methods are", _notes(report), [grids.compared(report)])
    fails = Section("Where it fails", [*_fails(report, made)])
    unpriced = sorted({name for method in report.methods for name in method.unpriced})
    costs = Section("What it costs", [*([without_price(unpriced)] if unpriced else []), *notes.paid(report)])
    paper = Section("Paper and ours", conditions(report), [grids.paper(report)])
    people = [judged(report.labelled)] if report.labelled else []
    return _filled(compared, *people, paper, fails, costs)


def judged(said: Labelled) -> Section:
    """Verdicts of a judge and of people: right answers by method, differences to the baseline, and sentences."""
    return Section("Right answers, by judge and people", labels.sentences(said), grids.verdicts(said))


def folded(report: Report) -> list[Section]:
    """All other sections."""
    differing = notes.differing(report)
    return _filled(
        Section("All metrics, with statistics", notes.statistics(report), [grids.figures(report)]),
        Section("Questions to look at", [differing] if differing else [], grids.differing(report)),
        Section("Settings chosen on development questions", (), [grids.choices(report)]),
        Section("What could not be scored", notes.unscored(report)),
        Section("All pairs", (), [grids.pairs(report)]),
        Section("Settings", (), [grids.settings(report)] if report.settings() else ()),
        Section("Indexes", (), [grids.indexes(report)]),
        Section("Costs by stage", (), [grids.costs(report)]),
        Section("Every figure, with its questions and its difference to the baseline", (), [grids.everything(report)]),
        Section("SQL", (), (), queries(report)),
    )


def _filled(*sections: Section) -> list[Section]:
    return [section for section in sections if not section.is_empty]


def _notes(report: Report) -> list[str]:
    """What a reader of the table has to know of the generator and of the budget."""
    lines = readings.warning(report)
    if any(method.generator == READER for method in report.methods):
        indexes = [one_line(index.name) for index in report.indexes]
        lines.append(CONNECT.format(one_line(report.experiment), indexes[0] if indexes else "NAME"))
    return lines


def _fails(report: Report, made: Advice) -> Iterator[str]:
    shown = made.method or next(iter(report.methods), None)
    yield from readings.sentences(report, shown)
    yield from notes.failures(report)
    own = shown.reading if shown else None
    is_whole = own is None or (own.whole and own.is_told_apart and not own.dropped)
    yield from (_example(*each, is_whole) for each in _wrong(report, shown)[:_EXAMPLES])


def _wrong(report: Report, method: MethodResult | None) -> list[tuple[DifferingQuestion, Answered]]:
    """Questions that a method answers wrong, with its answers."""
    shown = report.differing.shown if report.differing else ()
    every = [(question, own) for question in shown for own in question.answered]
    return [(question, own) for question, own in every if method and own.method == method.name and own.value < 1]


def _example(question: DifferingQuestion, own: Answered, is_whole: bool) -> str:
    """A question, its gold answer, what was answered, and whose fault it is. `is_whole`: the model saw all hits."""
    answer = shortened(" | ".join(own.answers), _EXAMPLE) or "nothing"
    gold = shortened(" | ".join(question.gold), _EXAMPLE) or "none"
    fault = "the model" if own.holding else "retrieval" if is_whole else "retrieval or refiner"
    asked = f"Example: {shortened(question.question, _EXAMPLE)} Gold answer: {gold}."
    said = f"{asked} {one_line(own.method)} answered: {answer}."
    # Without contexts nothing can be blamed: no retrieval was asked for, or a file of answers has none.
    return f"{said} Fault of {fault}: {notes.held(own)}." if own.contexts else f"{said} No context is known."


def queries(report: Report) -> list[Query]:
    """Examples of SQL: the figures of a method, its answers, and the costs of the run."""
    method = report.methods[-1] if report.methods else None
    of = f" of {shortened(method.label, 60)}" if method and method.fingerprints else ""
    asked = {f"Figures{of}": f"SELECT metric, value, questions, left_out FROM summaries{_where('summaries', method)}"}
    if method is None or method.generator:
        asked[f"Answers with their tokens and errors{of}"] = (
            "SELECT DISTINCT asked.text AS question, answers, candidates.text AS answer, prompt_tokens, seconds, error "
            f"FROM candidates JOIN asked USING (question_id){_where('candidates', method)} LIMIT 20"
        )
    asked["Cost of this run, by stage"] = (
        "SELECT stage, sum(rows) AS rows, sum(tokens) AS tokens, sum(cpu_seconds) AS cpu_seconds, sum(usd) AS usd "
        f"FROM costs WHERE run_id = {_quoted(report.run_id)} GROUP BY stage ORDER BY usd DESC"
    )
    return [Query(about, sql_command(sql, report.store)) for about, sql in asked.items()]


def _where(table: str, method: MethodResult | None) -> str:
    fingerprint = method.fingerprints.get(table) if method else None
    return f" WHERE {table}.fingerprint = {_quoted(fingerprint)}" if fingerprint else ""


def _quoted(text: str) -> str:
    return "'" + one_line(text).replace("'", "''") + "'"
