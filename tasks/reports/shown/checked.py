"""A check against a baseline, for a terminal, for a pull request (Markdown) and for tools of continuous integration
(JUnit's XML)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.console import Group
from rich.table import Table
from rich.text import Text

from vitalfew.storage import files
from vitalfew.tasks.reports.baselines import Checked, WorsenedQuestion
from vitalfew.tasks.reports.shown.columns import decided_cells, figure
from vitalfew.tasks.reports.shown.markdown import escaped, row
from vitalfew.tasks.reports.shown.text import count, one_line, shortened, significant
from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS
from vitalfew.tasks.reports.statistics.gates import IN_DOUBT, NO_WORSE, WORSE

HEADS = ("metric", "baseline", "now", "difference", "95 % interval", "margin", "questions", "verdict")
_STYLES = {NO_WORSE: "bold green", WORSE: "bold red", IN_DOUBT: "bold yellow"}
_SAID = {NO_WORSE: "is no worse than", WORSE: "is worse than", IN_DOUBT: "may be worse than"}
_BECAME = "Questions that became worse"
_QUESTION, _VALUE, _SETTINGS = 100, 60, 12


def terminal_check(checked: Checked) -> Group:
    """The verdict, the table and what has to be said of it."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(HEADS[0], overflow="fold")
    for head in HEADS[1:]:
        table.add_column(head, justify="left" if head == HEADS[-1] else "right", no_wrap=True)
    for *cells, verdict in _rows(checked).values():
        table.add_row(*map(Text, cells), Text(verdict, style=_STYLES[verdict]))
    said = Text(headline(checked), style=_STYLES[checked.decision.verdict])
    worsened = [Text(f"  {_worsened(checked, each)}") for each in checked.worsened]
    below = [Text(), Text(_BECAME, style="bold"), *worsened] if worsened else []
    return Group(said, Text(), table, Text(), *map(Text, notes(checked)), *below)


def markdown_check(checked: Checked) -> str:
    """A comment for a pull request."""
    rows = (row([*map(escaped, cells), f"**{verdict}**"]) for *cells, verdict in _rows(checked).values())
    rules = row(["---", *["---:"] * (len(HEADS) - 2), "---"])
    lines = [f"### {escaped(headline(checked))}", "", row(HEADS), rules, *rows, ""]
    lines += [f"- {escaped(line)}" for line in notes(checked)]
    if checked.worsened:
        lines += ["", f"<details><summary>{_BECAME}</summary>", ""]
        lines += [*(f"- {escaped(_worsened(checked, each))}" for each in checked.worsened), "", "</details>"]
    return "\n".join(lines) + "\n"


def junit_check(checked: Checked) -> bytes:
    """A test case for every gated metric: worse is a failure, in doubt an error."""
    name = one_line(f"vitalfew check {checked.now.run.name}: {checked.now.name}")
    rows = _rows(checked)
    verdicts = [cells[-1] for cells in rows.values()]
    counts = {"tests": len(verdicts), "failures": verdicts.count(WORSE), "errors": verdicts.count(IN_DOUBT)}
    whole = ElementTree.Element("testsuites")
    attributes = {"name": name, **{key: str(value) for key, value in counts.items()}}
    suite = ElementTree.SubElement(whole, "testsuite", attributes)
    for metric, cells in rows.items():
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=one_line(metric))
        said = "; ".join(f"{head} {cell}" for head, cell in zip(HEADS[1:], cells[1:], strict=True))
        if cells[-1] != NO_WORSE:
            tag = "failure" if cells[-1] == WORSE else "error"
            failed = ElementTree.SubElement(case, tag, message=said, type=cells[-1])
            failed.text = "\n".join([headline(checked), *notes(checked)])
        ElementTree.SubElement(case, "system-out").text = said
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
    counts = {
        "of the baseline alone": checked.only_before,
        "of this run alone": checked.only_now,
        "whose gold passages are in one of the two corpora alone": checked.without_gold,
    }
    left_out = ", ".join(f"{number:,} {why}" for why, number in counts.items() if number)
    verdict, name = checked.decision.verdict, shortened(one_line(checked.now.name), _VALUE)
    sure = " (in doubt)" if verdict == IN_DOUBT else ""
    line = f"{name} {_SAID[verdict]} the baseline, on {count(checked.questions, 'question')}{sure}"
    return f"{line}; left out: {left_out}" if left_out else line


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
    many, run, baseline = len(checked.decision.metrics), checked.now.run, checked.baseline
    corrected = f"; the end that shows a loss is corrected for {many} metrics" if many > 1 else ""
    yield (
        "No worse: the paired 95 % interval of the difference lies within the margin. Worse: all of it lies beyond"
        f"{corrected}. In doubt: neither."
    )
    if not checked.same_corpus:
        yield "The two searched different corpora."
    yield (
        f"Run {run.run_id} of {run.name}, against run {baseline.run_id} of {baseline.experiment} "
        f"({checked.place.name}, written {baseline.written:.10})."
    )


def _settings(checked: Checked) -> Iterator[str]:
    for name, (before, now) in [*checked.changed.items()][:_SETTINGS]:
        yield f"Changed: {name}, {_value(before)} → {_value(now)}."
    if len(checked.changed) > _SETTINGS:
        yield f"Changed: {len(checked.changed) - _SETTINGS} more settings."
    if not checked.changed:
        yield "No setting, model or version of a method has changed."


def _value(value: Any) -> str:
    return "none" if value is None else shortened(one_line(str(value)), _VALUE)


def _rows(checked: Checked) -> dict[str, list[str]]:
    """By metric the cells under `HEADS`."""
    rows = {}
    for metric, decided in checked.decision.metrics.items():
        declared = checked.now.metrics[metric]
        margin = f"{'-' if decided.direction == 'higher' else '+'}{significant(decided.margin)}"
        figures = decided_cells(decided, declared.unit)
        rows[metric] = [one_line(declared.heading), *figures, margin, f"{decided.questions:,}", decided.verdict]
    return rows


def _worsened(checked: Checked, each: WorsenedQuestion) -> str:
    declared = checked.now.metrics[each.metric]
    values = f"{figure(each.before, declared.unit)} → {figure(each.after, declared.unit)}"
    return f"{one_line(declared.heading)} {values}: {shortened(one_line(each.question), _QUESTION)}"
