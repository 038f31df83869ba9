"""The addresses of the pages: every view has one that can be shared."""

from collections.abc import Mapping
from urllib.parse import urlencode

from nicegui import ui

from vitalfew.flows.server.guard import PAGES as ROOT


def parameters() -> dict[str, str]:
    """The parameters of the address that is open."""
    request = ui.context.client.request
    return dict(request.query_params) if request else {}


def path(page: str, **given: object) -> str:
    """The path of a page below `ROOT`, with the parameters that are neither None nor empty."""
    left = {name: str(value) for name, value in given.items() if value not in (None, "")}
    return f"{page}?{urlencode(left)}" if left else page


def results(**given: object) -> str:
    """A view of the page Results, for a link."""
    return f"{ROOT}{path('/results', **given)}"


def ask(question: str, method: str) -> str:
    """The page Ask with a question and a method, for a link."""
    return f"{ROOT}{path('/ask', question=question, method=method)}"


CORPORA = f"{ROOT}/corpora"


def index(name: str, **given: object) -> str:
    """The page of an index, or a view of it (`generation`, `reason`), for a link."""
    return f"{ROOT}{path('/corpora', index=name, **given)}"


def going(**given: object) -> None:
    """Open a view of the page Results."""
    ui.navigate.to(path("/results", **given))


def changed(wanted: Mapping[str, str], **given: object) -> dict[str, object]:
    """The parameters of an address with others in their place."""
    return {**wanted, **given}
