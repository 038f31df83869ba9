"""An index that moves, and one that is damaged, while questions are asked."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import httpx

from tests.support.evaluating import CORPUS, copied, searchable
from tests.support.indexing import index
from tests.support.serving import Running, experiment, served, until
from tests.support.shared import indexed
from vitalfew.flows.serving.application import Limits, application
from vitalfew.flows.serving.completing import completing, incomplete
from vitalfew.storage import generations

QUESTION = "Who founded the town of Velmar?"


def serving(store: Path, file: Path, *others: Any) -> Running:
    limits = Limits(follow=0.05)
    made = [served(file, "passages", store), *others]
    return Running(lambda hosts: application(made, hosts=hosts, limits=limits))


def fingerprint(client: httpx.Client) -> str:
    asked = client.post("/answer", json={"question": QUESTION, "model": "passages"}).raise_for_status()
    return str(asked.json()["fingerprint"])


def test_generations_are_followed_and_no_request_fails(store: Path, tmp_path: Path) -> None:
    """Promoted and rolled back while requests come; a candidate is not answered from before it is promoted."""
    index(store, "synthetic:passages=50,questions=5,seed=9")
    generations.rollback(store, "test")
    with serving(store, experiment(tmp_path)) as running:
        running.ready()
        ended = Event()

        def ask() -> list[str]:
            with running.client() as client:
                seen = [fingerprint(client)]
                while not ended.is_set():
                    seen.append(fingerprint(client))
            return seen

        with ThreadPoolExecutor(3) as pool, running.client() as client:
            before = fingerprint(client)
            asked = [pool.submit(ask) for _ in range(3)]
            try:
                assert not running.app.state.service.served["passages"].follow()
                generations.promote(store, "test", 2)
                until(lambda: fingerprint(client) != before)
                after = fingerprint(client)
                generations.rollback(store, "test")
                until(lambda: fingerprint(client) == before)
                generations.promote(store, "test")
                until(lambda: fingerprint(client) == after)
            finally:
                ended.set()
            for future in asked:
                assert set(future.result()) <= {before, after}


def test_an_index_is_encoded_beside_the_server_which_takes_it(tmp_path: Path) -> None:
    store = copied(indexed(CORPUS, encode={"vectors": "later"}, bm25={"enabled": True}), tmp_path / "store")
    running = serving(store, experiment(tmp_path))
    made = running.app.state.service.served.values()
    assert incomplete(made) == ["test"]
    with completing(store, incomplete(made)):
        pass  # the server ends at once: the command with it
    assert generations.named(store, "test").generation == 1
    with completing(store, incomplete(made)), running, running.client() as client:
        assert 'vitalfew_served_encoded{model="passages"} 0.0' in client.get("/metrics").text
        until(lambda: 'vitalfew_served_encoded{model="passages"} 1.0' in client.get("/metrics").text)
        assert fingerprint(client)
    assert incomplete(made) == []


def test_a_damaged_index_is_said_and_others_are_served_on(store: Path, tmp_path: Path) -> None:
    file = experiment(tmp_path)
    other = served(file, "passages", searchable(), name="sound")
    running = serving(store, file, other)
    passages, away = store / "passages", store / "away"
    passages.rename(away)
    with running, running.client() as client:
        until(lambda: other.ready)
        body = {"question": QUESTION, "model": "passages"}
        damaged = client.post("/answer", json=body)
        assert damaged.status_code == 503
        assert "its index or model is missing or damaged" in damaged.json()["error"]["message"]
        assert client.post("/search", json=body).status_code == 503
        assert client.post("/answer", json={**body, "model": "sound"}).status_code == 200
        assert client.get("/ready").status_code == 503
        away.rename(passages)
        until(lambda: client.get("/ready").status_code == 200)
        assert client.post("/answer", json=body).status_code == 200
