import pytest

import vitalfew as vf
from tests.library.conftest import corpus, own, store
from vitalfew.pages.site import Site

__all__ = ["corpus", "own", "store"]


@pytest.fixture(scope="session")
def site(store: vf.Store) -> Site:
    """The pages of a store with the index `towns` and the evaluation `shapes`. Read it."""
    return Site(store.place)
