"""What Prometheus reads of the indexes of a store."""

import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.storage.test_generations import built
from vitalfew.flows.server import figures as served
from vitalfew.flows.server.figures import PATH
from vitalfew.flows.server.guard import Addresses, Links
from vitalfew.storage import freshness, generations
from vitalfew.storage.runs import INDEXING, recorded_run

LINKS = Links("secret")
OWN = {"Authorization": f"Basic {LINKS.key}"}


def run(store: Path, fault: str = "") -> None:
    """A run that indexes `notes`, and fails where there is a fault."""
    with recorded_run(store, INDEXING, "notes", {}, []):
        if fault:
            raise ValueError(fault)


def figures(client: TestClient) -> dict[str, float]:
    text = client.get(PATH, headers=OWN).text
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    assert {each.labels["index"] for each in samples} == {"notes"}
    return {each.name.removeprefix("vitalfew_index_"): each.value for each in samples}


def test_an_index_says_what_is_served_and_what_waits(tmp_path: Path) -> None:
    began = time.time()
    for number, verdict in ((1, "promoted"), (2, "held"), (3, "rejected"), (4, "in doubt")):
        generations.record(tmp_path, built(tmp_path, number), promoted=number == 1)
        generations.judge(tmp_path, "notes", number, verdict)
    seconds = [0.0]
    reader = freshness.FreshnessReader(tmp_path, every=10, clock=lambda: seconds[0])
    client = TestClient(Addresses(Starlette(), served.figures(tmp_path, LINKS)))
    assert client.get(PATH).status_code == 401
    found = figures(client)
    assert 0 <= found.pop("age_seconds") <= time.time() - began
    assert found == {"generation": 1, "held": 2, "failed": 0}
    run(tmp_path)
    for _ in range(2):
        with pytest.raises(ValueError, match="the source is gone"):
            run(tmp_path, "the source is gone")
    generations.promote(tmp_path, "notes", 3)
    (row,) = reader.read()
    assert (row.generation, row.held, row.failed) == (3, 1, 2)
    assert row.indexed
    assert began <= row.indexed.timestamp() <= time.time()
    run(tmp_path)
    assert reader.read() == [row]  # within seconds, it reads nothing
    seconds[0] = 10.0
    assert reader.read()[0].failed == 0
