"""A store in a bucket has a version too, and one of another version is not touched."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.faulty import FaultyProxy
from tests.support.indexing import SYNTHETIC, index
from tests.support.object_store import everything_in
from vitalfew import Store
from vitalfew.flows.cli.main import app
from vitalfew.storage import files, version
from vitalfew.storage.version import FILE, OtherVersion


def test_a_store_of_another_version_is_not_touched(store: Path, proxy: FaultyProxy) -> None:
    index(store)
    assert files.read_json(store / FILE) == {"version": version.VERSION}
    files.write_json(store / FILE, {"version": version.VERSION + 1})
    version._checked.clear()  # as in another process
    before = everything_in(proxy.server)
    with pytest.raises(OtherVersion, match="Index again into a new store: vitalfew index … --store NEW"):
        Store(store)
    for words in (("index", SYNTHETIC, "--name", "new", "--runner", "serial"), ("store", "ls"), ("sql", "SELECT 1")):
        result = CliRunner().invoke(app, [*words, "--store", str(store)])
        assert result.exit_code == 1, result.output
        assert f"{store} has" in result.output
    assert everything_in(proxy.server) == before
