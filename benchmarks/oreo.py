"""`make bench-oreo`: the speed of Oreo's copier, in refining and in its trainings, beside the goals.

Passages of generated articles, questions with five of them each, and as evidence text the sentence that answers; the
reader is the bundled one. The trainings have the settings of the recipe `oreo`. Weights have the size of the bundled
copier's, which says nothing of quality and all of speed: a copier that was trained for a few steps. Peak memory is that
of the training process. Cores: all there are, unless --cores says otherwise; a training has a thread on each, and
questions are refined by a process on each, as by the workers of a run. Length batching is that of a training in which
all layers learn, which reads with padding.

    python -m benchmarks.oreo [--questions N] [--steps N] [--cores N]
"""

import math
import os
import random
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import torch

from benchmarks.common import clock, machine, options
from vitalfew.configs.training import TrainConfig
from vitalfew.flows.pipelines.named import find_recipe
from vitalfew.storage import files, schemas
from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.small.copier import ON_CPU, Copier
from vitalfew.tasks.models.small.windows import padded
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.refiners.oreo import Oreo
from vitalfew.tasks.registry import make
from vitalfew.tasks.trainers.base import Tables
from vitalfew.tasks.trainers.oreo.evidence import OreoExample, examples

CHUNKS, WORDS = 5, (30, 220)
GOALS = {
    "questions refined a second": 8.0,
    "SFT, tokens a second": 2500.0,
    "PPO, episodes a second": 3.0,
    "length batching over arrival order": 1.5,
    "peak memory, GiB": 2.5,
}
MOST = "peak memory, GiB"
"""The goal that is not to be exceeded."""
ONSETS = "BDFKLMNPRSTV"
PLACES = ("mill", "bridge", "tower", "harbour", "library", "market", "school", "well")


def chunk(draw: random.Random, name: str, year: int) -> tuple[str, str]:
    """Return a passage as long as Wikipedia's, and its sentence with the year."""
    said = f"The {draw.choice(PLACES)} of {name} was built in {year}."
    words = draw.randint(*WORDS)
    verbs = ("lies near", "was sold to", "looks over")
    filler = [f"{draw.choice(PLACES)} {draw.choice(verbs)} the {draw.choice(PLACES)}" for _ in range(words // 6)]
    sentences = [f"The {one}." for one in filler]
    sentences.insert(draw.randint(0, len(sentences)), said)
    return " ".join(sentences), said


def rows(count: int) -> list[dict[str, Any]]:
    """Return rows of `oreo_examples`; one in eight chooses, and one is held out."""
    draw = random.Random(1)
    made = []
    for number in range(count):
        names = [f"{draw.choice(ONSETS)}{draw.choice('aeiou')}l{draw.choice('aeiou')}n{n}" for n in range(CHUNKS)]
        texts = [chunk(draw, name, 1700 + draw.randint(0, 250)) for name in names]
        place = draw.randrange(CHUNKS)
        text, said = texts[place]
        start = len(names[place]) + 2 + text.index(said)
        made.append({
            "question_id": number,
            "question": f"When was {names[place]} built?",
            "answers": [said[-5:-1]],
            "chunks": [{"passage_id": n, "title": names[n], "text": texts[n][0]} for n in range(CHUNKS)],
            "target": said,
            "copied": [{"chunk": place, "start": start, "end": start + len(said)}],
            "attempt": 0,
            "split": {0: "choose", 1: "held_out"}.get(number % 8, "learn"),
        })  # fmt: skip
    return made


def trainer(part: str, table: pa.Table, threads: int, weights: Path | None, **changes: Any) -> Any:
    """Begin a training of the recipe."""
    made = make(TrainConfig.model_validate({**find_recipe("oreo")[1][part], "threads": threads, **changes}), "")
    made.begin(Tables(examples=table, weights=weights))
    return made


def speed(training: Any, steps: int) -> tuple[float, float]:
    """Return the examples and tokens a second; a first step warms up."""
    batches = list(training.batches(0))[: steps + 1]
    training.step(batches[0], 0, 0.1)
    began = time.perf_counter()
    done = [training.step(batch, number, 0.1) for number, batch in enumerate(batches[1:], 1)]
    seconds = time.perf_counter() - began
    return sum(step.rows for step in done) / seconds, sum(step.tokens for step in done) / seconds


def refined(folder: Path, asked: Sequence[OreoExample], cores: int) -> float:
    """Return the questions a second of `cores` processes at once."""
    context = get_context("spawn")
    ready = context.Barrier(cores)
    with ProcessPoolExecutor(cores, context, _meet, (ready,)) as pool:
        return sum(pool.map(partial(_refined, folder), [asked] * cores))


_ready: list[Barrier] = []
"""The barrier at which all refining processes begin together."""


def _meet(ready: Barrier) -> None:
    _ready.append(ready)


def _refined(folder: Path, asked: Sequence[OreoExample]) -> float:
    # Texts as long as a trained copier's: one of a few steps would not end.
    refiner = Oreo(Oreo.Options(refiner="oreo", model=str(folder), max_new_tokens=31))
    questions = [row.question for row in asked]
    hits = [[Hit("", text, number, 0, len(text)) for number, text in enumerate(row.texts)] for row in asked]
    refiner.refine(questions[:1], hits[:1])
    _ready[0].wait()
    return len(asked) / clock(lambda: refiner.refine(questions, hits))


@torch.inference_mode()
def sorting(copier: Copier, asked: Sequence[OreoExample]) -> float:
    """Return the seconds of reading windows in batches by arrival, over those in batches of similar length, as a
    training reads them; both have equally many windows in the mean."""
    copier.eval()
    sources = copier.read([row.question for row in asked], [row.texts for row in asked])
    windows = [window for source in sources for window in source.content.windows]
    similar = list(batches([len(window.ids) for window in windows], ON_CPU))
    size = math.ceil(len(windows) / len(similar))
    arriving = [range(start, min(start + size, len(windows))) for start in range(0, len(windows), size)]

    def read(groups: Sequence[Sequence[int]]) -> None:
        for rows in groups:
            copier.logits(padded([windows[row] for row in rows], copier.padding, torch.device("cpu")))

    with copier.held():
        read(similar[:1])
        return clock(lambda: read(arriving)) / clock(lambda: read(similar))


def measured(questions: int, steps: int, cores: int, folder: Path) -> dict[str, float]:
    table = pa.Table.from_pylist(rows(max(questions, 16 * (steps + 2) * 8 // 6)), schemas.OREO_EXAMPLES)
    sft = trainer("sft", table, cores, None)
    _, tokens = speed(sft, steps)
    for name, content in sft.weights().items():
        files.write_bytes(folder / name, content)
    episodes, _ = speed(trainer("ppo", table, cores, folder), steps)
    asked = examples(table)[:questions]
    ratio = sorting(trainer("sft", table, cores, None, layers=None).model, asked)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return dict(zip(GOALS, (refined(folder, asked, cores), tokens, episodes, ratio, peak), strict=True))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    torch.set_num_threads(given.cores)
    with TemporaryDirectory() as folder:
        found = measured(given.questions, given.steps, given.cores, Path(folder))
    print(f"{machine()}, {given.cores} in use; {CHUNKS} passages a question")
    for name, value in found.items():
        goal, least = GOALS[name], name != MOST
        missed = "" if (value >= goal if least else value <= goal) else "   NOT REACHED"
        print(f"{name:36}{value:10,.2f}   goal {'≥' if least else '≤'} {goal:,g}{missed}")


if __name__ == "__main__":
    main()
