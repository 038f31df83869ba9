"""PFE-Self-RAG in pictures: a question's candidates as its critic sees them, what MMR keeps, and what that does."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tasks.reports.contents import ContextMap, MethodResult, Report, Summary
from tasks.reports.plots.drawing import COLOURS, INK, MARKERS, Plot, axes_grid, ground, legend, svg
from tasks.reports.shown.columns import figure, heading, quality_metric
from tasks.reports.shown.text import one_line, shortened

_NAME = 40
_QUESTION = 90
_SEED = 100
REFINER = "refine.refiner"


def candidates_in_the_plane(report: Report) -> Plot | None:
    """A question's candidates by F1 and F2, their Pareto front, the ideal point and what each method takes."""
    choice = report.choice
    if choice is None:
        return None
    title = "Candidates of one question"
    with ground("candidates"):
        drawing, (axes,) = axes_grid(1, 1, (6.4, 5.6))
        front = sorted(point for point, on in zip(choice.points, choice.on_front, strict=True) if on)
        axes.plot(*zip(*front, strict=True), color=INK, lw=1, ls="--", zorder=1)
        axes.scatter(*zip(*choice.points, strict=True), s=26, color=INK, zorder=3, clip_on=False)
        axes.scatter([1], [1], marker="*", s=140, color=COLOURS[1], zorder=3, clip_on=False)
        for number, ((x, y), candidate) in enumerate(zip(choice.points, choice.candidates, strict=True)):
            axes.annotate(str(candidate), (x, y), (6, 6 + 9 * _before(choice.points, number)), **_LABEL)
        axes.annotate("ideal", (1, 1), (-8, 4), ha="right", **_LABEL)
        handles = [_rings(axes, report, number, name) for number, name in enumerate(choice.chosen)]
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlabel("F1: harmonic mean of ISUSE and ISSUP")
        axes.set_ylabel("F2: ISREL")
        legend(drawing, handles, [shortened(one_line(name), _NAME) for name in choice.chosen])
        told = "; ".join(f"{one_line(name)} takes {', '.join(map(str, of))}" for name, of in choice.chosen.items())
        element = svg(drawing, "candidates", title, f"{len(choice.points)} candidates. {told}.")
    asked = shortened(one_line(choice.question), _QUESTION)
    caption = (
        f"“{asked}” A dot is a candidate with its number, the dashed line the Pareto front; a mark around a dot is a "
        "method's answer. Of the first questions the one that methods differ most about."
    )
    return Plot(title, caption, element)


_LABEL: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "annotation_clip": False}


def _before(points: Sequence[tuple[float, float]], number: int) -> int:
    """How many earlier candidates lie on the same spot, whose labels are below."""
    return sum(np.hypot(x - points[number][0], y - points[number][1]) < 0.02 for x, y in points[:number])


def _rings(axes: Any, report: Report, number: int, name: str) -> Any:
    """Marks around the answers of a method, each method's larger than those before."""
    choice = report.choice
    assert choice is not None
    places = [choice.candidates.index(each) for each in choice.chosen[name] if each in choice.candidates]
    xy = np.array([choice.points[place] for place in places]).reshape(-1, 2)
    looks = {"facecolors": "none", "edgecolors": COLOURS[number % len(COLOURS)], "linewidths": 1.4}
    marker = MARKERS[number % len(MARKERS)]
    return axes.scatter(xy[:, 0], xy[:, 1], s=90 + 80 * number, marker=marker, zorder=2, clip_on=False, **looks)


def contexts_in_two_dimensions(report: Report) -> Plot | None:
    """A question and its hits by t-SNE on the index's vectors, what MMR keeps ringed and numbered."""
    found = report.context_map
    if found is None or len(found.documents) < 3:
        return None
    places = embedded(found)
    title = "What MMR keeps"
    with ground("contexts"):
        drawing, (axes,) = axes_grid(1, 1, (6.0, 5.0))
        documents, query = places[:-1], places[-1]
        axes.scatter(*documents.T, s=26, color=INK, zorder=3)
        axes.scatter(*query[:, None], s=140, marker="*", color=COLOURS[1], zorder=3)
        axes.annotate("question", query, (8, 4), **_LABEL)
        kept = [*found.kept]
        axes.scatter(*documents[kept].T, s=150, facecolors="none", edgecolors=COLOURS[0], linewidths=1.6, zorder=2)
        for rank, place in enumerate(documents, 1):
            axes.annotate(str(rank), place, (8, 4), **_LABEL)
        axes.margins(0.12)
        axes.set_xticks([])
        axes.set_yticks([])
        ranks = ", ".join(str(place + 1) for place in kept)
        element = svg(drawing, "contexts", title, f"{len(documents)} hits; MMR keeps, in this order, {ranks}.")
    asked = shortened(one_line(found.question), _QUESTION)
    caption = (
        f"“{asked}” Its hits, numbered by rank, and the question itself, laid out by t-SNE on the index's vectors; "
        f"ringed: what MMR keeps ({ranks}). Such a map's distances are a hint only."
    )
    return Plot(title, caption, element)


def embedded(found: ContextMap) -> Any:
    """t-SNE (van der Maaten & Hinton, JMLR 2008) by scikit-learn, cosine: float (documents and the question, 2)."""
    from sklearn.manifold import TSNE

    vectors = np.array([*found.documents, found.query], np.float64)
    perplexity = min(5.0, (len(vectors) - 1) / 2)
    tsne = TSNE(2, perplexity=perplexity, metric="cosine", init="random", random_state=_SEED, n_jobs=1)
    return tsne.fit_transform(vectors)


def with_and_without_mmr(report: Report) -> Plot | None:
    """The quality of methods that differ in the refiner alone, without and with MMR."""
    metric = quality_metric(report)
    pairs = [*_pairs(report.methods)]
    if metric is None or not pairs:
        return None
    sides = [tuple(report.measures(method).get(metric) for method in (one, other)) for _, one, other in pairs]
    title = f"{heading(metric)[0].upper()}{heading(metric)[1:]} without and with MMR"
    with ground("mmr"):
        drawing, (axes,) = axes_grid(1, 1, (7.4, 1.3 + 0.5 * len(pairs)))
        handles = [_side(axes, [each[side] for each in sides], side) for side in (0, 1)]
        axes.set_yticks(range(len(pairs)), [shortened(name, _NAME) for name, _, _ in pairs])
        axes.set_ylim(len(pairs) - 0.5, -0.5)
        axes.set_xlabel(heading(metric))
        legend(drawing, handles, ["the best hits", "MMR's choice"])
        told = "; ".join(
            f"{name}: {' without, '.join(figure(metric, each.value if each else None) for each in both)} with"
            for (name, _, _), both in zip(pairs, sides, strict=True)
        )
        element = svg(drawing, "mmr", title, f"{told}.")
    return Plot(title, "Means over the questions, with 95 % intervals where there are enough of them.", element)


def _pairs(methods: Sequence[MethodResult]) -> list[tuple[str, MethodResult, MethodResult]]:
    """Name, method with `cut`, method with `mmr`, that differ in nothing else."""
    found = []
    for one in methods:
        if one.settings.get(REFINER) == "cut":
            same = {**one.settings, REFINER: "mmr"}
            found += [(one.label.replace(" refiner=cut", ""), one, each) for each in methods if each.settings == same]
    return found


def _side(axes: Any, summaries: Sequence[Summary | None], side: int) -> Any:
    colour, handle = COLOURS[side], None
    for row, summary in enumerate(summaries):
        if summary is None or summary.value is None:
            continue
        y = row + (side - 0.5) * 0.28
        if summary.low is not None and summary.high is not None:
            axes.plot([summary.low, summary.high], [y, y], color=colour, lw=1.4)
        (handle,) = axes.plot([summary.value], [y], ls="", marker=MARKERS[side], color=colour, ms=6)
    return handle
