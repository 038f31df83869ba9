"""Commands in processes of their own, to be killed: forks of one that has loaded the libraries, and no client of a
bucket."""

import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Protocol

from typer.testing import CliRunner

from tests.support.indexing import sql
from tests.support.paid import PaidServer
from tests.support.tiny_models import bert
from tests.support.towns import towns
from vitalfew.storage import generations
from vitalfew.storage.runs import find_index, read_runs

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    [
        "vitalfew.flows.cli.main",
        "vitalfew.flows.pipelines.index_corpus",
        "vitalfew.flows.pipelines.evaluate",
        "vitalfew.tasks.train",
    ]
)
Environment = Mapping[str, str]
NOTHING: Environment = {}

KILLS = {"index": 2, "gate": 1, "evaluate": 2, "train": 2}
"""Of each command in each kind of store: fourteen in all."""
BEFORE = {"evaluate": "index", "gate": "index"}
"""What has to be done before a command."""
DATASET = "synthetic:passages=160,questions=30,seed=3"

EXPERIMENT = """
questions: {{sample: 12, batch: 6}}
generate: {{generator: "tests.support.paid:Timeless", model: tiny, base_url: {url}, concurrency: 4}}
methods:
  naive RAG: {{retrieve: {{retriever: passage, top_k: 5}}}}
  PFE-Self-RAG:
    retrieve: {{retriever: passage, top_k: 5}}
    refine: {{refiner: mmr, top_k: 3}}
    generate: {{per_context: true}}
    critique: {{critic: embedded}}
    select: {{selector: pareto_ideal}}
"""
RECIPE = "trainer: reader\nbase: {base}\nrank: 4\nepochs: 6\nbatch_tokens: 256\nheld_out: 1\nchoosing: 1\n"
RECIPE += "precision: fp32\nthreads: 1\n"


GATED = """
datasets: ["{dataset}"]
encode: {{encoder: "tests.support.fakes:HashEncoder"}}
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


def _ended(command: "Command", environment: Environment, after: float | None = None) -> int | None:
    """Run a command to its end, or kill it after so many seconds; its exit status, which may be 0 or -9."""
    with NamedTemporaryFile("r") as output:
        process = FORKED.Process(target=_obey, args=(command.words, environment, output.name, command.folder))
        process.start()
        process.join(after)
        process.kill()
        process.join()
        assert process.exitcode in (0, -9), f"{command.words}: {output.read()}"
    return process.exitcode


@dataclass(frozen=True)
class Command:
    """The words of a command line, in a folder."""

    words: Sequence[str]
    folder: Path


def seconds(command: Command, environment: Environment = NOTHING) -> float:
    """Run a command to its end. Returns how long it took."""
    began = time.monotonic()
    assert _ended(command, environment) == 0, command
    return time.monotonic() - began


def is_killed(command: Command, after: float, environment: Environment = NOTHING) -> bool:
    """Start a command and kill it after so many seconds; whether it had not ended before."""
    return _ended(command, environment, after) == -9


class Stores(Protocol):
    """Stores of one kind: directories, or prefixes of a bucket."""

    environment: Environment

    def copied(self, store: Path | None, name: str) -> Path:
        """A copy of a store, or the place of a new one."""

    def results(self, store: Path) -> dict[str, str]:
        """Checksums of all that is not a record of time."""


@dataclass
class Commands:
    """What is killed: commands over what lies in `place`, with a server that is paid for its answers."""

    place: Path
    server: PaidServer
    made: dict[str, Callable[[Path], list[str]]] = field(init=False)

    def __post_init__(self) -> None:
        towns(self.place / "towns.json")
        (self.place / "recipe.yaml").write_text(RECIPE.format(base=bert(self.place / "base", 256)))
        (self.place / "trial.yaml").write_text(EXPERIMENT.format(url=self.server.url))
        for folder in ("corpora", "experiments"):
            (self.place / folder).mkdir()
        (self.place / "corpora" / "test.yaml").write_text(GATED.format(dataset=DATASET))
        naive = EXPERIMENT.partition("  PFE-Self-RAG")[0].format(url=self.server.url)
        (self.place / "experiments" / "naive.yaml").write_text(naive)
        self.made = {"index": self._index, "gate": self._gate, "evaluate": self._evaluate, "train": self._train}

    def of(self, name: str, store: Path) -> Command:
        return Command([*self.made[name](store), "--runner", "serial", "--store", str(store)], self.place)

    def _gate(self, store: Path) -> list[str]:
        return ["index", "--corpus", "test"]

    def _index(self, store: Path) -> list[str]:
        settings = ["encode.encoder=tests.support.fakes:HashEncoder", "load.shard_passages=40", "bm25.enabled=true"]
        words = [word for setting in [*settings, "index.type=sq8"] for word in ("--set", setting)]
        return ["index", DATASET, "--name", "test", *words]

    def _evaluate(self, store: Path) -> list[str]:
        return ["evaluate", str(self.place / "trial.yaml"), "--index", "test"]

    def _train(self, store: Path) -> list[str]:
        return ["train", str(self.place / "recipe.yaml"), f"squad:{self.place / 'towns.json'}"]


def kill_at_random_moments(name: str, commands: Commands, stores: Stores, whole: dict[str, str]) -> Path:
    """Kill a command as often as KILLS says, each time as it goes on from the last kill; where it comes to its end, it
    begins anew in a new store. Nothing differs from `whole`, nothing is lost, and nothing is paid twice. Returns the
    last store.
    """
    environment = stores.environment
    before = None
    if name in BEFORE:
        before = stores.copied(None, "before")
        seconds(commands.of(BEFORE[name], before), environment)
    takes = seconds(commands.of(name, stores.copied(before, "timed")), environment)
    moments = random.Random(name)
    kills = begun = 0
    while kills < KILLS[name]:
        assert begun < 3 * KILLS[name] + 6  # a command may end before its moment
        store = stores.copied(before, str(begun))
        command = commands.of(name, store)
        begun += 1
        commands.server.wait()
        commands.server.asked.clear()
        while kills < KILLS[name] and is_killed(command, moments.uniform(0, takes), environment):
            kills += 1
            assert stores.results(store).items() <= whole.items()
            assert name != "gate" or _is_served(store)
        seconds(command, environment)
        assert stores.results(store) == whole
        _is_accounted_for(store, commands.server)
    return store


def _is_served(store: Path) -> bool:
    """Whether a search finds the generation that was there first, or one that the gate has promoted."""
    now = find_index(store, "test")
    return now.generation == 1 or generations.find(store, "test", now.generation).verdict == "promoted"


def _is_accounted_for(store: Path, server: PaidServer) -> None:
    states = Counter(run.state for run in read_runs(store))
    assert set(states) <= {"completed", "interrupted"}
    assert read_runs(store)[-1].state == "completed"
    assert sql(store, "SELECT stage, shard FROM costs GROUP BY stage, shard, fingerprint HAVING count(*) > 1") == []
    ((paid,),) = sql(store, "SELECT coalesce(sum(tokens), 0) FROM costs WHERE stage = 'generate'")
    server.wait()
    assert paid == server.tokens_due()


def is_clean(store: Path) -> None:
    """Nothing is left over, and nothing is damaged."""
    from vitalfew.flows.cli.main import app

    for words in (["store", "gc", "--delete"], ["store", "verify"]):
        done = CliRunner().invoke(app, [*words, "--store", str(store)])
        assert done.exit_code == 0, done.output
    assert "No fault" in done.output
