"""What a server answered is paid for once, whatever is asked again; and `--max-usd` is never passed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.golden.surface import columns, index_synthetic, lines_with, vitalfew
from tests.support.paid import PaidServer
from tests.support.prices import PER_TOKEN, priced

EXPERIMENT = """
index: synthetic
questions: {{sample: {sample}, seed: 7, batch: 6}}
generate: {{generator: openai, model: tiny, prompt: short_answer, temperature: 0, base_url: "{url}", concurrency: 1}}
methods:
  alone: {{retrieve: null}}
  keywords: {{retrieve: {{retriever: bm25, top_k: {top_k}}}}}
"""
CAP = 1.5
"""USD, of which all requests may cost more."""


class Trial:
    """An experiment whose generator is a server, and what the server has counted."""

    def __init__(self, folder: Path, server: PaidServer) -> None:
        self.folder, self.store, self.server = folder, folder / "store", server
        index_synthetic(self.store, "passages=60,questions=24,seed=3")

    def evaluate(self, *words: object, sample: int = 8, top_k: int = 1, status: int = 0) -> str:
        file = self.folder / "paid.yaml"
        file.write_text(EXPERIMENT.format(sample=sample, top_k=top_k, url=self.server.url))
        return vitalfew("evaluate", file, "--runner", "serial", *words, store=self.store, status=status)

    def usd(self) -> float:
        """What the server has charged."""
        return PER_TOKEN * sum(sum(self.server.usage(prompt)) for prompt in self.server.prompts())

    def counted(self) -> str:
        """What the server has counted, and what the store says of it."""
        table = columns(vitalfew("costs", store=self.store), "stage", "model", "tokens")
        asked = f"asked {len(self.server.prompts())} times, {self.server.paid_again()} of them again"
        return f"{asked}; charged {self.usd():.3f} USD\n{lines_with(table, 'tiny')}".strip()


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with PaidServer() as server, priced(tmp_path, "openai:tiny"):
        yield Trial(tmp_path, server)


def test_paid(golden: Callable[[str, str], None], trial: Trial) -> None:
    refused = trial.evaluate("--max-usd", 0.01, "--yes", status=1)
    told = ["# a cap below what a request may cost", _first_clause(refused), trial.counted()]
    stopped = trial.evaluate("--max-usd", CAP, "--yes", status=1)
    is_within = 0 < trial.usd() <= CAP
    told += ["# a cap below what all requests may cost", _first_clause(stopped)]
    told += [f"something was paid, and not more than {CAP} USD: {is_within}"]
    trial.evaluate("--max-usd", 20, "--yes")
    told += ["# a cap that is high enough", trial.counted()]
    trial.evaluate(sample=16, top_k=2)
    told += ["# twice the questions, and keywords with two passages", trial.counted()]
    trial.evaluate()
    told += ["# the first questions and methods again", trial.counted()]
    golden("paid.txt", "\n".join(line for line in told if line))


def _first_clause(printed: str) -> str:
    """Of an error: without the estimates behind it."""
    return lines_with(printed, "Error").partition(":")[2].partition(":")[0].strip()
