"""A question's hits on a map, and what a refiner that chooses by vectors keeps of them."""

from typing import Any

import numpy as np

from vitalfew.tasks.reports.contents import ContextMap, Report
from vitalfew.tasks.reports.plots.drawing import COLOURS, INK, LABEL, QUESTION, Plot, axes_grid, ground, svg
from vitalfew.tasks.reports.shown.text import one_line, shortened

_SEED = 100


def contexts_in_two_dimensions(report: Report) -> Plot | None:
    """A question and its hits by t-SNE on the index's vectors, what the refiner keeps ringed and numbered."""
    shown = report.context_map
    if shown is None or len(shown.documents) < 3:
        return None
    places = embedded(shown)
    refiner = one_line(shown.refiner)
    title = f"Contexts that {refiner} keeps"
    with ground("contexts"):
        drawing, (axes,) = axes_grid(1, 1, (6.0, 5.0))
        documents, query = places[:-1], places[-1]
        axes.scatter(*documents.T, s=26, color=INK, zorder=3)
        axes.scatter(*query[:, None], s=140, marker="*", color=COLOURS[1], zorder=3)
        axes.annotate("question", query, (8, 4), **LABEL)
        kept = [*shown.kept]
        axes.scatter(*documents[kept].T, s=150, facecolors="none", edgecolors=COLOURS[0], linewidths=1.6, zorder=2)
        for rank, place in enumerate(documents, 1):
            axes.annotate(str(rank), place, (8, 4), **LABEL)
        axes.margins(0.12)
        axes.set_xticks([])
        axes.set_yticks([])
        ranks = ", ".join(str(place + 1) for place in kept)
        element = svg(drawing, "contexts", title, f"{len(documents)} hits; {refiner} keeps, in this order, {ranks}.")
    asked = shortened(one_line(shown.question), QUESTION)
    caption = (
        f"“{asked}” The question and its hits, numbered by rank, on a t-SNE map of the index's vectors. {refiner} "
        f"keeps the ringed hits ({ranks}). Distances on such a map are only a hint."
    )
    return Plot(title, caption, element)


def embedded(shown: ContextMap) -> Any:
    """t-SNE (van der Maaten & Hinton, JMLR 2008) by scikit-learn, cosine: float (documents and the question, 2)."""
    from sklearn.manifold import TSNE

    vectors = np.array([*shown.documents, shown.query], np.float64)
    perplexity = min(5.0, (len(vectors) - 1) / 2)
    tsne = TSNE(2, perplexity=perplexity, metric="cosine", init="random", random_state=_SEED, n_jobs=1)
    return tsne.fit_transform(vectors)
