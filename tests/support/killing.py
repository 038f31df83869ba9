"""Commands in processes of their own, to be killed: forks of one that has loaded the libraries, and no client of a
bucket."""

import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.support.paid import PaidServer
from tests.support.tiny_models import bert
from tests.support.towns import towns

FORKED = multiprocessing.get_context("forkserver")
PRELOADED = ("flows.cli.main", "flows.pipelines.index_corpus", "flows.pipelines.evaluate", "tasks.train")
FORKED.set_forkserver_preload([f"vitalfew.{name}" for name in PRELOADED])
Environment = Mapping[str, str]

BEFORE = {"evaluate": "index", "gate": "index"}
"""What has to be done before a command, and is not killed."""
DATASET = "synthetic:passages=160,questions=30,seed=3"
ENCODER = "tests.support.fakes:HashEncoder"
NAIVE = """
questions: {{sample: 12, batch: 6}}
generate: {{generator: "tests.support.paid:Timeless", model: tiny, base_url: {url}, concurrency: 4}}
methods:
  naive RAG: {{retrieve: {{retriever: passage, top_k: 5}}}}
"""
PFE = """
  PFE-Self-RAG:
    retrieve: {retriever: passage, top_k: 5}
    refine: {refiner: mmr, top_k: 3}
    generate: {per_context: true}
    critique: {critic: embedded}
    select: {selector: pareto_ideal}
"""
RECIPE = "trainer: reader\nbase: {base}\nrank: 4\nepochs: 6\nbatch_tokens: 256\nheld_out: 1\nchoosing: 1\n"
RECIPE += "precision: fp32\nthreads: 1\n"
GATED = f"""
datasets: ["{DATASET}"]
encode: {{encoder: "{ENCODER}"}}
load: {{shard_passages: 40}}
gate: {{experiment: naive, margins: {{accuracy: 0.9}}}}
"""


def _obey(arguments: Sequence[str], environment: Environment, output: str, folder: Path) -> None:
    """The command line in a process of its own, which is there at once."""
    from vitalfew.flows.cli.main import app

    os.chdir(folder)  # beside a store in a bucket there are no files: the user's are here
    os.environ.update(environment)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(output, os.O_WRONLY | os.O_APPEND), stream.fileno())
    app(list(arguments))


@dataclass(frozen=True)
class Command:
    """The words of a command line, in a folder and an environment."""

    words: Sequence[str]
    folder: Path
    environment: Environment

    def seconds(self) -> float:
        """Run it to its end. Returns how long it took."""
        began = time.monotonic()
        assert self._status() == 0, self
        return time.monotonic() - began

    def is_killed(self, after: float) -> bool:
        """Start it and kill it after so many seconds; whether it had not ended before."""
        return self._status(after) == -9

    def _status(self, after: float | None = None) -> int | None:
        with NamedTemporaryFile("r") as output:
            given = (self.words, self.environment, output.name, self.folder)
            process = FORKED.Process(target=_obey, args=given)
            process.start()
            process.join(after)
            process.kill()
            process.join()
            assert process.exitcode in (0, -9), f"{self.words} ended with {process.exitcode}: {output.read()}"
        return process.exitcode


class Commands:
    """What is killed: `index`, `gate`, `evaluate` and `train`, over what lies in `place`, with a server that is paid
    for its answers."""

    def __init__(self, place: Path, server: PaidServer) -> None:
        self.place, self.server = place, server
        loading = FORKED.Process(target=int)  # the libraries, so that no command's seconds hold that
        loading.start()
        loading.join()
        naive = NAIVE.format(url=server.url)
        for folder in ("corpora", "experiments"):
            (place / folder).mkdir()
        (place / "corpora" / "test.yaml").write_text(GATED)
        (place / "experiments" / "naive.yaml").write_text(naive)
        (place / "trial.yaml").write_text(naive.rstrip() + PFE)
        (place / "recipe.yaml").write_text(RECIPE.format(base=bert(place / "base", 256)))
        towns(place / "towns.json")
        settings = (f"encode.encoder={ENCODER}", "load.shard_passages=40", "bm25.enabled=true", "index.type=sq8")
        self.words = {
            "index": ["index", DATASET, "--name", "test", *(word for each in settings for word in ("--set", each))],
            "gate": ["index", "--corpus", "test"],
            "evaluate": ["evaluate", str(place / "trial.yaml"), "--index", "test"],
            "train": ["train", str(place / "recipe.yaml"), f"squad:{place / 'towns.json'}"],
        }

    def of(self, name: str, store: Path | str, environment: Environment | None = None) -> Command:
        words = [*self.words[name], "--runner", "serial", "--store", str(store)]
        return Command(words, self.place, environment or {})
