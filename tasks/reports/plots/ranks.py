"""How far down the prompt the first correct context stands, over the questions (ParetoRAG, figure 5)."""

from bisect import bisect_right
from collections.abc import Sequence
from math import inf

from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.plots.drawing import COLOURS, LINES, Plot, axes_grid, ground, legend, svg


def rank_distribution(report: Report) -> Plot | None:
    """The share of questions whose first correct context stands within the first x percent of them, a line per
    method; None unless `first_rank` was scored. Of methods with the same ranks one is drawn."""
    drawn = {method.ranks: method for method in reversed(report.methods) if method.ranks}
    methods = [method for method in report.methods if method in drawn.values()]
    if not methods or all(rank == inf for method in methods for rank in method.ranks):
        return None
    title = "Rank of the first correct context"
    with ground("ranks"):
        drawing, (axes,) = axes_grid(1, 1, (7.0, 4.2))
        handles = []
        for kind, method in enumerate(methods):
            percents, shares = steps(method.ranks)
            looks = {"color": COLOURS[kind % len(COLOURS)], "ls": LINES[kind % len(LINES)], "lw": 1.4}
            handles += axes.step(percents, shares, where="post", **looks)
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 1)
        axes.set_xlabel("rank in percent of the prompt's contexts")
        axes.set_ylabel("share of questions")
        legend(drawing, handles, [method.label for method in methods])
        element = svg(drawing, "ranks", title, " ".join(map(_in_words, methods)))
    caption = (
        "Share of questions with a gold answer in a context of this rank or a better one. Where a line ends below 1, "
        "no context answers the remaining questions."
    )
    return Plot(title, caption, element)


def steps(ranks: Sequence[float]) -> tuple[list[float], list[float]]:
    """Distinct ranks, ascending to 100 (inf: missing, left out), and the share of all that are no larger."""
    ordered = sorted(ranks)
    distinct = sorted({*ordered, 100.0} - {inf})
    return distinct, [bisect_right(ordered, rank) / len(ordered) for rank in distinct]


def _in_words(method: MethodResult) -> str:
    known = sorted(rank for rank in method.ranks if rank != inf)
    share = len(known) / len(method.ranks)
    middle = f", half of these within {known[len(known) // 2]:.3g} %" if known else ""
    return f"{method.label}: present for {share:.3f} of {len(method.ranks):,} questions{middle}."
