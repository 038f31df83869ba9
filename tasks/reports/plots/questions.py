"""Plots of single questions: ranks of the first correct context, candidates of one, hits of one on a map."""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from vitalfew.tasks.reports.contents import ContextMap, Report
from vitalfew.tasks.reports.plots.drawing import COLOURS, INK, LABEL, LINES, QUESTION, Plot, canvas, colour, marker
from vitalfew.tasks.reports.shown.text import one_line, shortened


def rank_distribution(report: Report) -> Plot | None:
    """The share of questions whose first correct context stands within the first x percent of them, a line per
    method (ParetoRAG, figure 5); None unless `first_rank` was scored. Of methods with the same ranks one is drawn."""
    drawn = {method.ranks: method for method in reversed(report.methods) if method.ranks}
    methods = [method for method in report.methods if method in drawn.values()]
    if not methods or all(rank == inf for method in methods for rank in method.ranks):
        return None
    title = "Rank of the first correct context"
    words = []
    for method in methods:
        known = sorted(rank for rank in method.ranks if rank != inf)
        middle = f", half of these within {known[len(known) // 2]:.3g} %" if known else ""
        share = f"{len(known) / len(method.ranks):.3f} of {len(method.ranks):,} questions"
        words.append(f"{method.label}: present for {share}{middle}.")
    caption = (
        "Share of questions with a gold answer in a context of this rank or a better one. Where a line ends below 1, "
        "no context answers the remaining questions."
    )
    with canvas("ranks", (7.0, 4.2)) as drawing:
        [axes] = drawing.axes
        handles = []
        for kind, method in enumerate(methods):
            percents, shares = steps(method.ranks)
            looks = {"color": colour(kind), "ls": LINES[kind % len(LINES)], "lw": 1.4}
            handles += axes.step(percents, shares, where="post", **looks)
        axes.set(xlim=(0, 100), ylim=(0, 1), ylabel="share of questions")
        axes.set_xlabel("rank in percent of the prompt's contexts")
        drawing.legend(handles, [method.label for method in methods])
        return drawing.plot(title, caption, " ".join(words))


def steps(ranks: Sequence[float]) -> tuple[list[float], list[float]]:
    """Distinct ranks, ascending to 100 (inf: missing, left out), and the share of all that are at most as large."""
    ordered = np.sort(ranks)
    distinct = np.unique([*ordered[np.isfinite(ordered)], 100.0])
    return distinct.tolist(), (np.searchsorted(ordered, distinct, side="right") / len(ordered)).tolist()


_NAME = 40


def candidates_in_the_plane(report: Report) -> Plot | None:
    """A question's candidates by F1 and F2, their Pareto front, the ideal point and the answers of every method."""
    choice = report.choice
    if choice is None:
        return None
    asked = shortened(one_line(choice.question), QUESTION)
    caption = (
        f"“{asked}” Every dot is a numbered candidate, the dashed line is the Pareto front, and a mark around a dot is "
        "a method's answer. Among the first questions, this is the one on which the methods differ most."
    )
    with canvas("candidates", (6.4, 5.6)) as drawing:
        [axes] = drawing.axes
        front = sorted(point for point, on in zip(choice.points, choice.on_front, strict=True) if on)
        axes.plot(*zip(*front, strict=True), color=INK, lw=1, ls="--", zorder=1)
        axes.scatter(*zip(*choice.points, strict=True), s=26, color=INK, zorder=3, clip_on=False)
        axes.scatter([1], [1], marker="*", s=140, color=COLOURS[1], zorder=3, clip_on=False)
        points = np.array(choice.points)
        for number, candidate in enumerate(choice.candidates):
            # The labels of earlier candidates on the same spot are below.
            before = int((np.hypot(*(points[:number] - points[number]).T) < 0.02).sum())
            axes.annotate(str(candidate), points[number], (6, 6 + 9 * before), **LABEL)
        axes.annotate("ideal", (1, 1), (-8, 4), ha="right", **LABEL)
        handles = []
        for kind, chosen in enumerate(choice.chosen.values()):  # rings, larger than those of the methods before
            places = [choice.candidates.index(candidate) for candidate in chosen if candidate in choice.candidates]
            looks = {"facecolors": "none", "edgecolors": colour(kind), "linewidths": 1.4, "marker": marker(kind)}
            handles.append(axes.scatter(*points[places].T, s=90 + 80 * kind, zorder=2, clip_on=False, **looks))
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        axes.set(xlabel="F1: harmonic mean of ISUSE and ISSUP", ylabel="F2: ISREL")
        drawing.legend(handles, [shortened(one_line(name), _NAME) for name in choice.chosen])
        takes = "; ".join(f"{one_line(name)} takes {', '.join(map(str, of))}" for name, of in choice.chosen.items())
        return drawing.plot("Candidates of one question", caption, f"{len(choice.points)} candidates. {takes}.")


_SEED = 100


def contexts_in_two_dimensions(report: Report) -> Plot | None:
    """A question and its hits by t-SNE on the index's vectors, what the refiner keeps ringed and numbered."""
    shown = report.context_map
    if shown is None or len(shown.documents) < 3:
        return None
    places = embedded(shown)
    refiner = one_line(shown.refiner)
    kept = [*shown.kept]
    ranks = ", ".join(str(place + 1) for place in kept)
    asked = shortened(one_line(shown.question), QUESTION)
    caption = (
        f"“{asked}” The question and its hits, numbered by rank, on a t-SNE map of the index's vectors. {refiner} "
        f"keeps the ringed hits ({ranks}). Distances on such a map are only a hint."
    )
    with canvas("contexts", (6.0, 5.0)) as drawing:
        [axes] = drawing.axes
        documents, query = places[:-1], places[-1]
        axes.scatter(*documents.T, s=26, color=INK, zorder=3)
        axes.scatter(*query[:, None], s=140, marker="*", color=COLOURS[1], zorder=3)
        axes.annotate("question", query, (8, 4), **LABEL)
        axes.scatter(*documents[kept].T, s=150, facecolors="none", edgecolors=COLOURS[0], linewidths=1.6, zorder=2)
        for rank, place in enumerate(documents, 1):
            axes.annotate(str(rank), place, (8, 4), **LABEL)
        axes.margins(0.12)
        axes.set(xticks=[], yticks=[])
        about = f"{len(documents)} hits; {refiner} keeps, in this order, {ranks}."
        return drawing.plot(f"Contexts that {refiner} keeps", caption, about)


def embedded(shown: ContextMap) -> Any:
    """t-SNE (van der Maaten & Hinton, JMLR 2008) by scikit-learn, cosine: float (documents and the question, 2)."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    vectors = np.array([*shown.documents, shown.query], np.float64)
    perplexity = min(5.0, (len(vectors) - 1) / 2)
    tsne = TSNE(2, perplexity=perplexity, metric="cosine", init="random", random_state=_SEED, n_jobs=1)
    with threadpool_limits(1):  # so few points: threads that wait for one another on busy cores took seconds
        return tsne.fit_transform(vectors)
