"""The site that `make docs` builds from these pages, with Sphinx. Neither the build nor the reader needs a network."""

from typing import Any

from sphinx.application import Sphinx

project = "Vital Few"
extensions = ["myst_parser"]
myst_heading_anchors = 4  # a link to a heading goes as it does on a code host
smartquotes = False  # `--set` is no dash
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # a code host knows more languages
html_theme = "furo"
html_title = "Vital Few"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False

PARTS = {
    "Tutorials": ["tutorials/*"],
    "Guides": [
        "guides/own_corpus",
        "guides/evaluate",
        "guides/check",
        "guides/python",
        "guides/frameworks",
        "guides/sql",
        "guides/schedule",
        "guides/train",
        "guides/*",
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
    "More": ["papers", "*"],
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
