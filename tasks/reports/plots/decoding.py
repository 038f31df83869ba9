"""Decoding speed by the number of contexts that are decoded on (Sparse RAG, figure 2b)."""

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.drawing import COLOURS, MARKERS, NAMED, Plot, axes_grid, ground, numbered, svg
from vitalfew.tasks.reports.plots.labels import label_points
from vitalfew.tasks.reports.shown.columns import figure

KEPT, SPEED = "kept", "decoding_speed"


def decoding_speed(report: Report) -> Plot | None:
    """Tokens a second by kept contexts, a point for each method; None unless two methods have both."""
    pairs = zip(report.values(KEPT), report.values(SPEED), strict=True)
    points = {number: (x, y) for number, (x, y) in enumerate(pairs) if x is not None and y is not None}
    if len(points) < 2:
        return None
    title = "Decoding speed by contexts"
    with ground("decoding"):
        drawing, (axes,) = axes_grid(1, 1, (7.4, 4.0))
        for number, (x, y) in points.items():
            axes.plot(
                [x], [y], ls="", marker=MARKERS[number % len(MARKERS)], color=COLOURS[number % len(COLOURS)], ms=6
            )
        axes.margins(0.1, 0.15)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"{report.column(KEPT).heading}, contexts per answer")
        axes.set_ylabel(f"{report.column(SPEED).heading}, tokens per second")
        names = [numbered(report, n) if len(points) <= NAMED else str(n + 1) for n in points]
        label_points(axes, [*points.values()], names, ())
        lines = (
            f"{numbered(report, number)}: {figure(y)} tokens per second on {figure(x)} contexts"
            for number, (x, y) in points.items()
        )
        element = svg(drawing, "decoding", title, f"{'; '.join(lines)}.")
    caption = "Every decoded token reads the keys and values of all kept contexts."
    return Plot(title, caption, element)
