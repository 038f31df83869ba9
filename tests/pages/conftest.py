import pytest
from nicegui.testing import User

import vitalfew as vf
from tests.library.conftest import corpus, own, store
from tests.support.paging import LOOKS
from vitalfew.pages.site import Site

__all__ = ["corpus", "own", "store"]


@pytest.fixture(scope="session")
def site(store: vf.Store) -> Site:
    """The pages of a store with the index `towns` and the evaluation `shapes`. Read it."""
    return Site(store.place)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user looks `LOOKS` times until a text is there: three, as by default, are too few for a busy machine."""
    for look in (User.should_see, User.should_not_see):
        monkeypatch.setitem(look.__kwdefaults__, "retries", LOOKS)
