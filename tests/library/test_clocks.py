"""Costs of methods: whichever is first, loading models is in none of them, and on a line of its own; what a server had
cached has its own price."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import vitalfew as vf
from tests.support.fakes import FirstWords
from vitalfew.storage.costs import OWN_PRICES
from vitalfew.tasks import registry
from vitalfew.tasks.generators.base import Prompt
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.ticks import Tick, no_tick

OF_GENERATE = """
SELECT sum(tokens), sum(cached_tokens), sum(usd) FROM costs WHERE stage = 'generate' AND run_id = '{run}'
"""
BY_STAGE = "SELECT stage, sum(usd) FROM costs WHERE run_id = '{run}' GROUP BY ALL"


def test_of_two_equal_methods_the_first_does_not_pay_for_loading(own: vf.Store, tmp_path: Path) -> None:
    """They differ in a limit that no answer reaches, so that neither takes over the other's answers."""
    registry._latest.clear()  # as in a process that has loaded nothing
    methods = "".join(f"  m{most}: {{generate: {{generator: reader, max_tokens: {most}}}}}\n" for most in (29, 30))
    file = tmp_path / "equal.yaml"
    file.write_text(f"retrieve: {{retriever: passage, top_k: 3}}\nmethods:\n{methods}")
    report = own.evaluate(str(file), "towns", runner="serial")
    booked = dict(own.sql(BY_STAGE.format(run=report.run)).iter_rows())
    questions = report.scores["question"].n_unique()
    first, second = (questions * usd for usd in report.methods["stage_usd"])
    assert abs(first - second) < booked["loading"] / 2
    work = sum(booked.values()) - booked["loading"]
    assert 0 < questions * sum(report.methods["paid_usd"]) <= work + 1e-12
    assert "Loading models took" in " ".join(str(report).split())


@dataclass(frozen=True, slots=True)
class CachedCompletion(Completion):
    cached_tokens: int = 0


class Cached(FirstWords):
    """A generator whose prompts of more than ten words were cached to the half."""

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        return [
            CachedCompletion("Velmar", 100, 4, 0.1, cached_tokens=50 if len(prompt.text.split()) > 10 else 0)
            for prompt in prompts
        ]


def test_cached_tokens_have_their_own_price(own: vf.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{__name__}:Cached"
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "{dated: 2026-01-01, cpu_core_hour: 0, gpu_hour: 0, "
        f'million_tokens: {{"{name}": 10000.0}}, million_cached_tokens: {{"{name}": 1000.0}}}}\n'
    )
    monkeypatch.setenv(OWN_PRICES, str(prices))
    file = tmp_path / "cached.yaml"
    file.write_text(
        f'generate: {{generator: "{name}"}}\nmethods:\n  naive: {{retrieve: {{retriever: passage, top_k: 1}}}}\n'
    )
    asked = [{"question": f"Where does Velmar lie? {place}", "answers": ["river"]} for place in range(4)]
    report = own.evaluate(str(file), "towns", asked, runner="serial")
    (row,) = own.sql(OF_GENERATE.format(run=report.run)).iter_rows()
    assert row == (4 * 104, 4 * 50, pytest.approx(4 * (54 * 0.01 + 50 * 0.001)))
    values = dict(report.summaries.select("metric", "value").iter_rows())
    assert (values["cached_tokens"], values["usd"]) == (50, pytest.approx(54 * 0.01 + 50 * 0.001))
