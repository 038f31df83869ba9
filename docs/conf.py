"""The site that `make docs` builds from these pages, with Sphinx. Neither the build nor the reader needs a network."""

import tomllib
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

project = "Vital Few"
release = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser", "sphinx_reredirects"]
myst_heading_anchors = 4  # a link to a heading goes as it does on a code host
smartquotes = False  # `--set` is no dash
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # a code host knows more languages
html_theme = "furo"
html_title = f"Vital Few {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
redirects = {
    "guides/own_corpus": "../how_to/corpus.html",
    "guides/evaluate": "../how_to/experiment.html",
    "guides/check": "../how_to/check.html",
    "guides/python": "../how_to/python.html",
    "guides/frameworks": "../how_to/frameworks.html",
    "guides/sql": "../how_to/sql.html",
    "guides/schedule": "../how_to/gate.html",
    "guides/train": "../how_to/train.html",
    "guides/pages": "../how_to/pages.html",
    "guides/serve": "../how_to/serve.html",
    "guides/cluster": "../how_to/clusters.html",
    "guides/laptop_to_cluster": "../how_to/clusters.html",
    "papers": "explanation/papers.html",
    "spans": "explanation/spans.html",
    "trust": "explanation/trust.html",
    "results/answers": "sentences.html",
    "results/when": "sentences.html",
    "results/scale": "growth.html",
}
"""Where a page went that had another address, as seen from its old one."""
html_copy_source = False
html_show_copyright = False

PARTS = {
    "Tutorials": [
        "tutorials/first_evaluation",
        "tutorials/your_documents",
        "tutorials/guard_a_nightly_re_encoding",
    ],
    "How to": [
        "how_to/corpus",
        "how_to/encode_later",
        "how_to/questions",
        "how_to/experiment",
        "how_to/report",
        "how_to/model",
        "how_to/cost",
        "how_to/judge",
        "how_to/review",
        "how_to/check",
        "how_to/other_rags",
        "how_to/gate",
        "how_to/deploy",
        "how_to/clusters",
        "how_to/serve",
        "how_to/vectors",
        "how_to/monitor",
        "how_to/pages",
        "how_to/python",
        "how_to/frameworks",
        "how_to/sql",
        "how_to/*",
    ],
    "Explanation": [
        "explanation/stages",
        "explanation/sentence_scoring",
        "explanation/spans",
        "explanation/statistics",
        "explanation/trust",
        "explanation/papers",
        "explanation/*",
    ],
    "Reference": [
        "reference/glossary",
        "reference/command_line",
        "reference/settings",
        "reference/formats",
        "reference/methods",
        "reference/*",
    ],
    "Results": ["results/index", "results/*"],
    "More": ["*"],
}
"""The navigation beside the text, in this order; a page that no list names is where its folder's star is."""


def with_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Sphinx reads the order of the pages from the front page; a code host would show it there as code."""
    if page == "index":
        for title, pages in PARTS.items():
            source[0] += "\n".join(["\n```{toctree}", ":hidden:", ":glob:", f":caption: {title}", "", *pages, "```\n"])


def with_style(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    if page.startswith("reference/"):
        app.add_css_file("reference.css")


def setup(app: Sphinx) -> None:
    app.connect("source-read", with_contents)
    app.connect("html-page-context", with_style)
