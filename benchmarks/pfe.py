"""`make bench-pfe`: what MMR and selection take on one core, and how k candidates reach the generator.

MMR over 1,000 questions of ten contexts each (vectors of 384 numbers, texts of a passage's length, the cut to five and
the counting of tokens included); each selector over 10,000 questions of ten candidates; the embedded reader answering
the candidates of 200 questions as the stage hands them over, against a bare call with the same prompts in one batch.
Each the best of three.

    python -m benchmarks.pfe
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import pyarrow.parquet as pq

from benchmarks.common import cpu, in_turns, index, machine, options
from vitalfew.configs.evaluation import SelectConfig
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph
from vitalfew.tasks.generators.base import Prompt
from vitalfew.tasks.generators.prompts import render, source
from vitalfew.tasks.generators.reader import Reader
from vitalfew.tasks.refiners.base import Hit, Vectors
from vitalfew.tasks.refiners.whole_hits import Mmr
from vitalfew.tasks.registry import METHODS, make
from vitalfew.tasks.selectors.fronts import Critiqued
from vitalfew.tasks.stage import Stage

MMR_QUESTIONS, CONTEXTS, DIMENSION, WORDS = 1000, 10, 384, 100
QUESTIONS, CANDIDATES = 10_000, 10


def best(*works: Callable[[], Any]) -> list[float]:
    """Return the least CPU seconds of three rounds of every work: the time of one core that nobody else uses."""
    return [min(times) for times in in_turns(3, *(partial(cpu, work) for work in works))]


def mmr_seconds() -> float:
    random = np.random.default_rng(1)
    text = "The river rises in the hills and runs to the sea. " * (WORDS // 11)
    hits = [[Hit("", text, number, 0, len(text)) for number in range(CONTEXTS)]] * MMR_QUESTIONS
    found = random.standard_normal((MMR_QUESTIONS, CONTEXTS, DIMENSION)).astype(np.float32)
    vectors = Vectors(random.standard_normal((MMR_QUESTIONS, DIMENSION)).astype(np.float32), [*found])
    refiner = Mmr(Mmr.Options(refiner="mmr", top_k=5))
    return best(lambda: refiner.refine(["Who?"] * MMR_QUESTIONS, hits, vectors))[0]


def selection_seconds(name: str) -> float:
    random = np.random.default_rng(2)
    shape = (QUESTIONS, CANDIDATES)
    candidates = Critiqued(
        *random.random((3, *shape)),
        logprob=-random.random(shape),
        same=random.integers(0, 4, shape),
        usable=random.random(shape) < 0.98,
    )
    selector = make(SelectConfig(selector=name), "select")
    return best(lambda: selector.select(candidates))[0]


def batch_ratio() -> str:
    """Compare the reader in the stage `generate`, with a candidate for every context, with a bare call."""
    with TemporaryDirectory() as folder:
        store = Path(folder)
        index(datasets=["synthetic:passages=600,questions=60,seed=0"], name="bench", store=store)
        settings = {
            "index": "bench",
            "retrieve": {"retriever": "passage"},
            "refine": {"refiner": "mmr", "top_k": 5},
            "generate": {"per_context": True},
            "critique": {"critic": "tests.support.fakes:WordCritic"},  # neither has a part in this
            "select": {},
            "methods": {"pfe": {}},
        }
        stages = graph(evaluation("bench", settings, {"store": store, "runner": "serial"})).by_method["pfe"]
        for verb in ("ask", "encode_questions", "retrieve", "refine"):
            stages[verb].run("bench")
        stage = stages["generate"]
        stage.run_preparation("bench", lambda rows, tokens: None)
        prompts = [prompt for shard in stage.shards() for prompt in _prompts(stage, shard)]
        reader: Reader = stage.generator  # type: ignore[attr-defined]
        reader.generate(prompts[:1])  # loads the model
        bare, staged = best(
            lambda: (reader.kept.clear(), reader.generate(prompts)),
            lambda: (reader.kept.clear(), [stage.run_shard(shard, "bench", _quiet) for shard in stage.shards()]),
        )
    return (
        f"generate, {len(prompts):,} candidates: {len(prompts) / staged:.1f} a second as a stage, "
        f"{len(prompts) / bare:.1f} bare, ratio {bare / staged:.3f}"
    )


def _prompts(stage: Stage, shard: int) -> Iterator[Prompt]:
    """Yield the prompts of a shard, made from the tables."""
    asked = {row["question_id"]: row["text"] for row in pq.read_table(stage.inputs["asked"].path(shard)).to_pylist()}
    for row in pq.read_table(stage.inputs["evidence"].path(shard)).to_pylist():
        question, context = asked[row["question_id"]], row["text"]
        yield Prompt(render(source("short_answer"), question, (context,)), question, (context,))


def _quiet(rows: int, tokens: int) -> None:
    """Report nothing."""


def main() -> None:
    options(__doc__).parse_args()
    print(machine())
    print(f"mmr, {MMR_QUESTIONS:,} questions x {CONTEXTS} contexts: {mmr_seconds():.3f} s")
    for name in METHODS["selector"]:
        print(f"{name}, {QUESTIONS:,} questions x {CANDIDATES} candidates: {selection_seconds(name):.3f} s")
    print(batch_ratio())


if __name__ == "__main__":
    main()
