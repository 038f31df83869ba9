"""Costs of methods: whichever is first, loading models is in none of them, and on a line of its own; what a server had
cached has its own price."""

from pathlib import Path

import vitalfew as vf
from vitalfew.tasks import registry

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
