"""A server that may pay no more refuses questions, and goes on searching."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import vitalfew as vf
from tests.support.evaluating import searchable
from tests.support.paid import PaidServer
from tests.support.prices import PER_TOKEN, priced
from tests.support.serving import Running
from vitalfew.flows.cli.main import app
from vitalfew.flows.serving.application import application
from vitalfew.flows.serving.running import Entry, opened, read_entries
from vitalfew.tasks.models.causal.engines.budget import Budget, CapReached, NoPrice
from vitalfew.tasks.models.causal.engines.remote import FRAME_TOKENS

METHOD = "retrieve: {retriever: passage, top_k: 1}"
QUESTIONS = [f"Who founded the town number {number}?" for number in range(40)]


@pytest.fixture
def provider() -> Iterator[PaidServer]:
    with PaidServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _prices(tmp_path: Path) -> Iterator[None]:
    with priced(tmp_path, "openai:tiny"):
        yield


@pytest.fixture
def file(tmp_path: Path, provider: PaidServer) -> Path:
    file = tmp_path / "trial.yaml"
    generate = f"{{generator: openai, model: tiny, prompt: short_answer, base_url: '{provider.url}', max_tokens: 8}}"
    file.write_text(f"choose: null\ngenerate: {generate}\nmethods:\n  one: {{{METHOD}}}\n  other: {{retrieve: null}}\n")
    return file


def usd(provider: PaidServer) -> float:
    return PER_TOKEN * sum(sum(provider.usage(prompt)) for prompt in provider.prompts())


def spent(running: Running, file: Path, provider: PaidServer) -> None:
    """Ask until both configurations refuse."""
    with running.ready().client() as client:
        for name in ("one", "other"):
            asked = ({"question": question, "model": f"{file}:{name}"} for question in QUESTIONS)
            refused = next(reply for body in asked if (reply := client.post("/answer", json=body)).is_error)
            assert refused.status_code == 402
            assert refused.json()["error"]["code"] == "insufficient_quota"
            assert f"{name} cannot answer any more: the cap of 1.2000 USD is reached" in refused.text
        assert 1.2 - PER_TOKEN * (FRAME_TOKENS + 500) < usd(provider) <= 1.2
        figures = client.get("/metrics").text
        (paid,) = [float(line.split()[1]) for line in figures.splitlines() if line.startswith("vitalfew_paid_usd ")]
        assert paid == pytest.approx(usd(provider))
        found = client.post("/search", json={"question": QUESTIONS[0], "model": f"{file}:one"})
        assert found.status_code == 200
        assert client.get("/ready").status_code == 200


def entries(file: Path) -> dict[str, Entry]:
    return read_entries([f"{file}:one", f"{file}:other"], "test")


def test_all_configurations_share_the_cap_of_a_server(file: Path, provider: PaidServer) -> None:
    served = opened(searchable(), entries(file), Budget(1.2))
    with Running(lambda hosts: application(served, hosts=hosts)) as running:
        spent(running, file, provider)


@pytest.mark.slow
def test_all_replicas_share_the_cap_of_a_server(file: Path, provider: PaidServer) -> None:
    from vitalfew.flows.serving.replicas import Replicas, on_ray  # imports Ray

    served = opened(searchable(), entries(file), Budget(1.2))
    with on_ray(served, Replicas()) as models, Running(lambda hosts: application(models, hosts=hosts)) as running:
        spent(running, file, provider)


def test_a_program_and_the_command_have_caps_too(file: Path, provider: PaidServer) -> None:
    store = vf.Store(searchable(), progress=False)
    rag = store.rag(f"{file}:other", index="test", max_usd=0.6)
    with pytest.raises(CapReached, match=r"Allow more to continue"):
        rag.answers(QUESTIONS)
    assert 0.6 - PER_TOKEN * (FRAME_TOKENS + 500) < usd(provider) <= 0.6
    with pytest.raises(NoPrice, match="openai:huge"):
        store.rag(f"{file}:other", index="test", model="huge", max_usd=1)
    given = ["answer", QUESTIONS[0], "--index", "test", "--store", str(store.place), f"{file}:other"]
    done = CliRunner().invoke(app, [*given, "--max-usd", "0.01"])
    assert done.exit_code == 1
    assert "the cap of 0.0100 USD is reached: 0.0000 USD are paid" in " ".join(done.output.split())
