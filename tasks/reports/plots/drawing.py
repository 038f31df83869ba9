"""Plots as SVG by matplotlib: axes, marks, lines, bars and legends in one style, and the element of a page.

Texts stay texts (selectable, read aloud, in the reader's fonts). Ink takes the colour of the page's text, so that a
plot on a dark page is light; markers, hatches and line styles distinguish what colours may not.
"""

import base64
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import Any

import numpy as np

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.shown.text import shortened

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
COLOURS = ("#2E86C8", "#D08700", "#009E73", "#D55E00", "#8C6BB1", "#CC79A7")
"""Colours of medium lightness, visible on white and on black; after Okabe and Ito, for all kinds of colour vision."""
INK = "#010203"
"""Stands for the colour of text until the SVG is written: matplotlib uses it nowhere."""
NAMED = 12
"""With more methods than these, points are labelled with their numbers, and only the front with names."""
LABEL: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "annotation_clip": False}
"""The looks of a short text beside a point."""
_NAME = 36
_DPI = 72  # what an SVG is written with: a pixel is a point

_STYLE = {
    "figure.dpi": _DPI,
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "svg.fonttype": "none",
    "text.parse_math": False,  # a method may be called $x$
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "grid.color": "#808080",
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.color": INK,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
}


@dataclass(frozen=True, slots=True)
class Plot:
    """`svg`: an element of a page; `caption`: how to read it, in one or two sentences."""

    title: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Canvas:
    """The figure of a plot while it is drawn, and its axes, from the left."""

    name: str
    figure: Any
    axes: list[Any]

    def legend(self, handles: Sequence[Any], names: Sequence[str]) -> None:
        """A legend below the axes, in as many columns as the names leave room for."""
        short = [shortened(name, 60) for name in names]
        width = max(map(len, short)) * 5.5 + 40  # points, at about 5.5 a character
        columns = min(len(names), max(1, int(self.figure.get_figwidth() * 72 / width)))
        box = self.figure.legend(handles, [" "] * len(names), loc="outside lower center", ncols=columns, handlelength=3)
        for text, name in zip(box.get_texts(), short, strict=True):
            text.set_text(name)  # set here, because a legend leaves out names that begin with an underscore

    def plot(self, title: str, caption: str, about: str) -> Plot:
        """Return the drawing as an element of a page. `about`: what it shows, in words."""
        target, name = StringIO(), self.name
        self.figure.savefig(target, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        text = target.getvalue()
        text = re.sub(r"(<metadata>.*?</metadata>|<!--.*?-->)\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
        text = re.sub(r"<[^>]+>", lambda tag: _in_page(tag[0], name), text)
        opening, _, rest = text.partition(">")
        told = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-about">{escape(about)}</desc>'
        label = f'role="img" aria-labelledby="{name}-title {name}-about" class="plot"'
        return Plot(title, caption, f"{opening} {label}>{told}{rest}")


@contextmanager
def canvas(name: str, size: tuple[float, float], columns: int = 1) -> Iterator[Canvas]:
    """A figure of `size` (inches) with so many axes side by side. `name`: of the plot, unlike others on the page.

    Matplotlib's defaults and ours are set, whatever the user has set: the same plot gives the same bytes. Without
    pyplot, which keeps figures and wants a display.
    """
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style.context(["default", {**_STYLE, "svg.hashsalt": name}]), warnings.catch_warnings():
        # What DejaVu Sans lacks, the reader's fonts may have.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)  # it can measure texts
        yield Canvas(name, figure, [*figure.subplots(1, columns, squeeze=False).flat])


def colour(kind: int) -> str:
    """The colour of the kind with this number; colours come again where there are more kinds."""
    return COLOURS[kind % len(COLOURS)]


def marker(kind: int) -> str:
    return MARKERS[kind % len(MARKERS)]


def marks(
    axes: Any, kind: int, xs: Any, ys: Any, ends: Sequence[tuple[Any, Any]] = (), across: bool = False, **looks: Any
) -> Any:
    """Draw the marks of a kind and their intervals, upright or across. `ends`: of every interval. The handle."""
    lengths = np.abs(np.transpose(ends) - np.array(xs if across else ys)) if ends else None
    drawn = {"marker": marker(kind), "color": colour(kind), "ls": "", "ms": 6}
    looks = {**drawn, "ecolor": (colour(kind), 0.6), "elinewidth": 1.4, **looks}
    return axes.errorbar(xs, ys, **{"xerr" if across else "yerr": lengths}, **looks)


def line(axes: Any, kind: int, xs: Sequence[float], ys: Sequence[Any], ends: Sequence[tuple[float, float]]) -> Any:
    """Draw a line with the looks of its kind, and a shaded band between `ends`. The handle."""
    looks = {"ls": LINES[kind % len(LINES)], "marker": marker(kind), "color": colour(kind)}
    (handle,) = axes.plot(xs, ys, mfc="none", lw=1.4, ms=5, **looks)
    axes.fill_between(xs, *np.transpose(ends), color=colour(kind), alpha=0.12, lw=0)
    return handle


def named_rows(axes: Any, names: Sequence[str]) -> None:
    """A row for every name, the first one at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def labelled(report: Report, number: int, length: int = _NAME) -> str:
    """A method's name, shortened; with a number where an earlier method's is shortened to the same."""
    names = [shortened(method.label, length) for method in report.methods[: number + 1]]
    earlier = names[:-1].count(names[-1])
    return f"{names[-1]} ({earlier + 1})" if earlier else names[-1]


def _in_page(tag: str, name: str) -> str:
    """A tag with ids of its plot alone, the page's colour of text and fonts to fall back on."""
    tag = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", tag)
    return tag.replace(INK, "currentColor").replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")


def standing_alone(element: str) -> str:
    """An SVG element as a file: black on white."""
    opening, _, rest = element.partition(">")
    return f'{opening}><rect width="100%" height="100%" fill="white"/>{rest}'.replace("currentColor", "black")


def data_uri(element: str) -> str:
    """An SVG element as an image that stands alone."""
    return f"data:image/svg+xml;base64,{base64.b64encode(standing_alone(element).encode()).decode()}"
