"""The addresses of the pages: every view has one that can be shared."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from vitalfew.flows.server.guard import PAGES as ROOT

_NONE: Mapping[str, Any] = {}


def parameters() -> dict[str, str]:
    """The parameters of the address that is open."""
    request = ui.context.client.request
    return dict(request.query_params) if request else {}


def link(page: str, base: Mapping[str, Any] = _NONE, **given: Any) -> str:
    """The address of a page with parameters, for a link. Those given take the place of those in `base`; those that are
    None or empty are left out, and one that is a list is repeated."""
    filled = {name: value for name, value in {**base, **given}.items() if value not in (None, "", [])}
    return f"{ROOT}{page}?{urlencode(filled, doseq=True)}" if filled else f"{ROOT}{page}"


def results(base: Mapping[str, Any] = _NONE, **given: Any) -> str:
    """A view of the page Results."""
    return link("/results", base, **given)


def corpora(**given: Any) -> str:
    """A view of the page Corpora and indexes: `start`, the form of a deployment; `index`; `run`, one that is
    followed."""
    return link("/corpora", **given)


def go(page: str, base: Mapping[str, Any] = _NONE, **given: Any) -> None:
    """Open a page with parameters, as of `link`."""
    ui.navigate.to(link(page, base, **given).removeprefix(ROOT))  # NiceGUI adds the path that the pages are below
