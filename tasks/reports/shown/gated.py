"""The verdict of a gate, for Prefect's page of a run and for a terminal."""

from collections.abc import Sequence

from vitalfew.storage.generations import GateFigure, Generation
from vitalfew.tasks.reports.gating import LostQuestion
from vitalfew.tasks.reports.shown.columns import decided_cells, figure
from vitalfew.tasks.reports.shown.markdown import escaped, row
from vitalfew.tasks.reports.shown.text import significant

HEADS = ("method", "metric", "current", "candidate", "difference", "95 % interval", "margin", "questions", "verdict")


def markdown_gate(generation: Generation, lost: Sequence[LostQuestion], cost: str) -> str:
    """Verdict, figures, and the questions that became worse. `cost`: of what was asked, in words."""
    gate = generation.gate
    if gate is None:
        return ""
    lines = [f"### {escaped(gate.said)}", ""]
    if gate.figures:
        lines += [row(HEADS), row(["---"] * len(HEADS)), *(row(map(escaped, cells(each))) for each in gate.figures)]
        lines.append("")
    lines += [f"- {escaped(note)}" for note in notes(generation, cost)]
    if lost:
        lines += ["", "#### Questions that became worse", "", "✓ marks what comes from a gold passage.", ""]
        lines += [line for each in lost for line in _lost(each)]
    return "\n".join(lines) + "\n"


def cells(each: GateFigure) -> list[str]:
    """A row of the table, under `HEADS`."""
    rest = (significant(each.margin), f"{each.questions:,}", each.verdict)
    return [each.method, each.metric, *decided_cells(each), *rest]


def notes(generation: Generation, cost: str = "") -> list[str]:
    gate = generation.gate
    said = []
    if gate and gate.left_out:
        said.append(f"{gate.left_out:,} questions were left out: their gold passages are not in both corpora.")
    said += [
        f"With the {each.vanished:,} questions that lost their gold passages counted as lost, {each.metric} of "
        f"{each.method}: {figure(each.current_counted)} → {figure(each.candidate_counted)}."
        for each in (gate.figures if gate else ())
        if each.current_counted is not None and each.candidate_counted is not None
    ]
    if gate and gate.run_id:
        said.append(f"Both were asked by run {gate.run_id}.")
    return [*said, *([cost] if cost else [])]


def _lost(each: LostQuestion) -> list[str]:
    heading = f"- {escaped(each.question)}: {escaped(each.metric)} of {escaped(each.method)} "
    values = f"{figure(each.before)} → {figure(each.after)}"
    sides = (("before", each.found_before), ("now", each.found_now))
    return [heading + values, *(f"  - {when}: {escaped(' | '.join(found)) or 'nothing'}" for when, found in sides)]
