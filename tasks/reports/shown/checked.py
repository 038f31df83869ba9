"""A check against a baseline, for a terminal, for a pull request (Markdown) and for tools of continuous integration
(JUnit's XML)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vitalfew.storage import files
from vitalfew.tasks.reports.baselines import Checked, WorsenedQuestion
from vitalfew.tasks.reports.shown.columns import decided_cells, figure
from vitalfew.tasks.reports.shown.markdown import escaped, row
from vitalfew.tasks.reports.shown.text import one_line, shortened, significant
from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS
from vitalfew.tasks.reports.statistics.gates import IN_DOUBT, NO_WORSE, WORSE, DecidedMetric

HEADS = ("metric", "baseline", "now", "difference", "95 % interval", "margin", "questions", "verdict")
_STYLES = {NO_WORSE: "bold green", WORSE: "bold red", IN_DOUBT: "bold yellow"}
_QUESTION, _VALUE, _SETTINGS = 100, 60, 12


def terminal_check(checked: Checked) -> Group:
    """The verdict, the table and what has to be said of it."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(HEADS[0], overflow="fold")
    for head in HEADS[1:]:
        table.add_column(head, justify="left" if head == HEADS[-1] else "right", no_wrap=True)
    for metric, decided in checked.decision.metrics.items():
        *cells, verdict = _cells(checked, metric, decided)
        table.add_row(*map(Text, cells), Text(verdict, style=_STYLES[decided.verdict]))
    parts: list[RenderableType] = [Text(headline(checked), style=_STYLES[checked.decision.verdict]), Text(), table]
    parts += [Text(), *(Text(line) for line in notes(checked))]
    if checked.worsened:
        parts += [Text(), Text("Questions that became worse", style="bold")]
        parts += [Text(f"  {_worsened(checked, each)}") for each in checked.worsened]
    return Group(*parts)


def markdown_check(checked: Checked) -> str:
    """A comment for a pull request."""
    rows = [_cells(checked, metric, decided) for metric, decided in checked.decision.metrics.items()]
    *heads, last = HEADS
    lines = [
        f"### {escaped(headline(checked))}",
        "",
        row([*heads, last]),
        row(["---", *("---:" for _ in heads[1:]), "---"]),
        *(row([*map(escaped, cells), f"**{verdict}**"]) for *cells, verdict in rows),
        "",
        *(f"- {escaped(line)}" for line in notes(checked)),
    ]
    if checked.worsened:
        lines += ["", "<details><summary>Questions that became worse</summary>", ""]
        lines += [*(f"- {escaped(_worsened(checked, each))}" for each in checked.worsened), "", "</details>"]
    return "\n".join(lines) + "\n"


def junit_check(checked: Checked) -> bytes:
    """A test case for every gated metric: worse is a failure, in doubt an error."""
    name = one_line(f"vitalfew check {checked.experiment}: {checked.method}")
    verdicts = [decided.verdict for decided in checked.decision.metrics.values()]
    counts = {"tests": len(verdicts), "failures": verdicts.count(WORSE), "errors": verdicts.count(IN_DOUBT)}
    suite = ElementTree.Element("testsuite", {"name": name, **{key: str(value) for key, value in counts.items()}})
    for metric, decided in checked.decision.metrics.items():
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=one_line(metric))
        said = "; ".join(
            f"{head} {cell}" for head, cell in zip(HEADS[1:], _cells(checked, metric, decided)[1:], strict=True)
        )
        if decided.verdict != NO_WORSE:
            tag = "failure" if decided.verdict == WORSE else "error"
            failed = ElementTree.SubElement(case, tag, message=said, type=decided.verdict)
            failed.text = "\n".join([headline(checked), *notes(checked)])
        ElementTree.SubElement(case, "system-out").text = said
    whole = ElementTree.Element("testsuites")
    whole.append(suite)
    ElementTree.indent(whole)
    return ElementTree.tostring(whole, encoding="utf-8", xml_declaration=True) + b"\n"


def write_check(checked: Checked, markdown: Path | None, junit: Path | None) -> None:
    """Raises NotWritten."""
    if markdown:
        files.write_text(markdown, markdown_check(checked))
    if junit:
        files.write_bytes(junit, junit_check(checked))


def headline(checked: Checked) -> str:
    """The verdict in a line: "ParetoRAG is no worse than the baseline, on 300 questions", and which were left out."""
    said = {NO_WORSE: "is no worse than", WORSE: "is worse than", IN_DOUBT: "may be worse than"}
    sure = " (in doubt)" if checked.decision.verdict == IN_DOUBT else ""
    number = f"{checked.questions:,} {'question' if checked.questions == 1 else 'questions'}"
    name = shortened(one_line(checked.method), _VALUE)
    return f"{name} {said[checked.decision.verdict]} the baseline, on {number}{sure}{_left_out(checked)}"


def _left_out(checked: Checked) -> str:
    """How many questions were left out, and why; empty where none were."""
    counts = {
        "of the baseline alone": checked.only_before,
        "of this run alone": checked.only_now,
        "whose gold passages are in one of the two corpora alone": checked.without_gold,
    }
    said = [f"{count:,} {why}" for why, count in counts.items() if count]
    return f"; left out: {', '.join(said)}" if said else ""


def notes(checked: Checked) -> list[str]:
    """Everything that a reader of the table has to know, in sentences."""
    return [*_doubts(checked), *_without_value(checked), *_compared(checked), *_settings(checked)]


def _doubts(checked: Checked) -> Iterator[str]:
    for metric, decided in checked.decision.metrics.items():
        if decided.verdict == IN_DOUBT:
            few = f"{metric} is in doubt with {decided.questions:,} questions"
            if decided.low is None and decided.high is None:
                few += f", fewer than the {MIN_QUESTIONS} that an interval takes"
            if decided.settled_by:
                yield f"{few}: about {decided.settled_by:,} would settle it, if they are like these."
            elif decided.lost:
                yield f"{few}, because some have no value any more."
            else:
                yield f"{few}: the difference is as good as on the margin, so no number would settle it."


def _without_value(checked: Checked) -> Iterator[str]:
    for metric, decided in checked.decision.metrics.items():
        if decided.lost:
            yield (
                f"{decided.lost:,} questions had a value of {metric} and lost it: for it to be no worse, they count "
                "as the worst value."
            )
        if decided.gained:
            yield f"{decided.gained:,} questions gained a value of {metric}: they are left out."


def _compared(checked: Checked) -> Iterator[str]:
    many = len(checked.decision.metrics)
    corrected = f"; the end that shows a loss is corrected for {many} metrics" if many > 1 else ""
    yield (
        "No worse: the paired 95 % interval of the difference lies within the margin. Worse: all of it lies beyond"
        f"{corrected}. In doubt: neither."
    )
    if not checked.same_corpus:
        yield "The two searched different corpora."
    baseline = checked.baseline
    yield (
        f"Run {checked.run_id} of {checked.experiment}, against run {baseline.run_id} of {baseline.experiment} "
        f"({Path(checked.place).name}, written {baseline.written:.10})."
    )


def _settings(checked: Checked) -> Iterator[str]:
    shown = [*checked.changed.items()]
    for name, (before, now) in shown[:_SETTINGS]:
        yield f"Changed: {name}, {_value(before)} → {_value(now)}."
    if len(shown) > _SETTINGS:
        yield f"Changed: {len(shown) - _SETTINGS} more settings."
    if not shown:
        yield "No setting, model or version of a method has changed."


def _value(value: Any) -> str:
    return "none" if value is None else shortened(one_line(str(value)), _VALUE)


def _cells(checked: Checked, metric: str, decided: DecidedMetric) -> list[str]:
    sign = "-" if decided.direction == "higher" else "+"
    return [
        one_line(checked.headings[metric]),
        *decided_cells(decided, checked.units[metric]),
        f"{sign}{significant(decided.margin)}",
        f"{decided.questions:,}",
        decided.verdict,
    ]


def _worsened(checked: Checked, each: WorsenedQuestion) -> str:
    unit = checked.units[each.metric]
    values = f"{figure(each.before, unit)} → {figure(each.after, unit)}"
    return f"{one_line(checked.headings[each.metric])} {values}: {shortened(one_line(each.question), _QUESTION)}"
