"""`make bench-encode`: tokens per second of `minilm`, in each precision, against sentence-transformers' ways.

Same model and texts, one core for all (the processes are bound to it), turn by turn in rounds, the order turned round
in every second one; tokenisation counts on both sides. Time is CPU time: on one core it is the clock's but for what
other processes took. A machine's speed drifts all the same, so there are two ratios: that of the medians, and the
median of the rounds' ratios. Beside speed, quality: cosine to sentence-transformers' float32 vectors, and how many of
the ten best passages of a question are the same. The machine's peak is that of one of the model's products alone.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import torch

from benchmarks.common import Ask, describe, machine, one_core, options, other_side, texts
from benchmarks.rivals import DEFAULT, PRODUCT, WAYS
from vitalfew.configs.section import NumberName
from vitalfew.tasks.datasets.base import Passage, Question
from vitalfew.tasks.encoders.transformer import MiniLM
from vitalfew.tasks.models.compiled import BATCH_TOKENS, Compiled, has_native
from vitalfew.tasks.models.files import minilm_directory

ROUNDS = 3
TEXTS = 300
QUESTIONS = 300
EQUAL = 0.9999
"""Worst cosine to float32 of what counts as equal quality."""
USUAL = "minilm"
SHAPE = (BATCH_TOKENS, 384, 1536)
"""Rows, inner and outer width of the product that measures the peak: the larger one of MiniLM's."""
PER_TOKEN = 21.3e6
"""Floating-point operations of a token in MiniLM's products, without attention."""


@dataclass
class Contender:
    """A way to encode: `encode(texts, file)` encodes "passages" or "questions", writes the vectors to the file unless
    it is None, and returns seconds of CPU and of the clock."""

    name: str
    about: str
    encode: Callable[[str, Path | None], tuple[float, float]]
    cpu: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    worst: float = 0.0
    mean: float = 0.0
    overlap: float = 0.0

    def vectors(self, texts: str, file: Path) -> np.ndarray:
        """Return float32 (n, d), of unit length."""
        self.encode(texts, file)
        found = np.load(file)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def against(self, other: "Contender") -> float:
        """Return how many times as fast as the other it is, as the median of the rounds."""
        return statistics.median(theirs / own for own, theirs in zip(self.cpu, other.cpu, strict=True))


def sample() -> dict[str, list[str]]:
    """Draw passages and questions evenly over the corpus."""
    passages, questions = list(texts(Passage)), list(texts(Question))
    return {
        "passages": passages[:: len(passages) // TEXTS][:TEXTS],
        "questions": questions[:: max(1, len(questions) // QUESTIONS)][:QUESTIONS],
    }


def own(name: str, encoder: MiniLM, texts: dict[str, list[str]]) -> Contender:
    def encode(what: str, to: Path | None) -> tuple[float, float]:
        clock, cpu = time.perf_counter(), time.process_time()
        encoded = encoder.encode(texts[what]) if what == "passages" else encoder.encode_questions(texts[what])
        spent = time.process_time() - cpu, time.perf_counter() - clock
        if to:
            np.save(to, encoded.vectors)
        return spent

    return Contender(name, str(encoder.computation), encode)


def ours(texts: dict[str, list[str]]) -> Iterator[Contender]:
    """Yield what `auto` chooses, then the other precisions that this processor has."""
    chosen = MiniLM(MiniLM.Options())
    yield own(USUAL, chosen, texts)
    names: tuple[NumberName, ...] = ("fp32", "bf16", "int8")
    for precision in names:
        if precision != chosen.computation.precision and (precision == "int8" or has_native(precision)):
            yield own(f"minilm, {precision}", MiniLM(MiniLM.Options(precision=precision)), texts)


def peak(precision: NumberName) -> float:
    """Measure the operations per CPU second of the product alone, on one core."""
    from openvino import Model, opset13  # type: ignore[import-untyped]

    rows, inner, outer = SHAPE
    given = opset13.parameter([rows, inner], np.float32)
    weights = opset13.constant(np.random.default_rng(0).standard_normal((inner, outer), np.float32))
    product = Compiled(Model([opset13.matmul(given, weights, False, False)], [given]), precision, 1)
    some = np.ones((rows, inner), np.float32)
    best = 0.0
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(50):
            product.rows(some)
        best = max(best, 50 * 2 * rows * inner * outer / (time.process_time() - began))
    return best


def asked(ask: Ask, name: str, what: str, to: Path | None) -> tuple[float, float]:
    """Let a process of benchmarks/rivals.py encode."""
    answer = ask("encode", name=name, texts=what, to=str(to) if to else None)
    if "error" in answer:
        raise RuntimeError(f"{name}: {answer['error']}")
    return answer["cpu"], answer["clock"]


def rivals(texts: Path, stack: ExitStack) -> Iterator[Contender]:
    """Yield the ways that can be loaded; print the reasons of the others."""
    workers: dict[str, Ask] = {}
    models = [str(minilm_directory()), str(texts)]
    for name, (environment, _) in WAYS.items():
        python = Path(sys.executable) if environment == PRODUCT else Path(environment) / "bin/python"
        if not python.exists():
            print(f"{name}: left out: there is no {environment} (make setup-rivals)")
            continue
        if environment not in workers:
            workers[environment] = stack.enter_context(other_side(python, "benchmarks.rivals", *models))
        answer = workers[environment]("load", name=name)
        if "error" in answer:
            print(f"{name}: left out: {answer['error']}")
            continue
        yield Contender(name, answer["about"], partial(asked, workers[environment], name))


def judge(contenders: list[Contender], reference: Contender, file: Path) -> None:
    """Measure the quality of every way; this first pass over all texts is not timed."""
    passages, questions = reference.vectors("passages", file), reference.vectors("questions", file)
    best = top(questions, passages)
    for contender in contenders:
        found = contender.vectors("passages", file)
        cosines = (found * passages).sum(1, dtype=np.float64)
        contender.worst, contender.mean = float(cosines.min()), float(cosines.mean())
        both = zip(best, top(contender.vectors("questions", file), found), strict=True)
        contender.overlap = statistics.mean(len(set(one) & set(other)) / 10 for one, other in both)


def top(questions: np.ndarray, passages: np.ndarray) -> np.ndarray:
    """Return the 10 best passages of the questions, int64 (questions, 10)."""
    return np.argsort(-questions @ passages.T, axis=1)[:, :10]


def report(contenders: list[Contender], reference: Contender, tokens: int) -> None:
    """Print a row for every way, and the share of the core that they had."""
    width = max(len(contender.name) for contender in contenders)
    print(f"\n{'':{width}}  tokens/s  ratio  per round  worst cosine   mean   top-10  how")
    usual = statistics.median(reference.cpu)
    for each in contenders:
        median = statistics.median(each.cpu)
        print(
            f"{each.name:{width}}  {tokens / median:8,.0f}  {usual / median:5.2f}  {each.against(reference):9.2f}"
            f"  {each.worst:12.5f}  {each.mean:.5f}  {each.overlap:.4f}  {each.about}"
        )
    for precision in ("fp32", "bf16"):
        if has_native(precision):
            print(f"peak of such products in {precision}: {(most := peak(precision)) / 1e9:.0f} GFLOPS", end="; ")
            used = [each for each in contenders if f" in {precision}," in each.about and "minilm" in each.name]
            print(
                *(f"{each.name} {PER_TOKEN * tokens / statistics.median(each.cpu) / most:.2f} of it" for each in used)
            )
    share = sum(sum(each.cpu) for each in contenders) / sum(sum(each.clock) for each in contenders)
    print(f"CPU time was {share:.0%} of the clock's: the rest is what other processes took")


def conclude(contenders: list[Contender], reference: Contender) -> None:
    """Print the two ratios that have goals, medians of the rounds."""
    chosen = next(each for each in contenders if each.name == USUAL)
    equal = [each for each in contenders if each.name in WAYS and each.worst >= EQUAL]
    fastest = min(equal, key=lambda each: statistics.median(each.cpu))
    print(f"ratio to sentence-transformers' defaults {chosen.against(reference):.2f}")
    for each in contenders:
        if each.name not in WAYS:
            print(
                f"{each.name}: {each.against(fastest):.2f} of sentence-transformers' fastest way of equal quality "
                f"({fastest.name}, worst cosine ≥ {EQUAL}); goals 1.0, int8 1.3"
            )


def main() -> None:
    options(__doc__).parse_args()
    one_core()
    torch.set_num_threads(1)
    chosen = sample()
    tokens = MiniLM(MiniLM.Options()).encode(chosen["passages"]).tokens
    print(f"{len(chosen['passages'])} passages of {describe()}, {tokens:,} tokens; {machine()}")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        (written := Path(scratch) / "texts.json").write_text(json.dumps(chosen))
        contenders = [*ours(chosen), *rivals(written, stack)]
        reference = next(each for each in contenders if each.name == DEFAULT)
        judge(contenders, reference, Path(scratch) / "vectors.npy")
        for turn in range(ROUNDS):
            for contender in contenders if turn % 2 else reversed(contenders):
                cpu, clock = contender.encode("passages", None)
                contender.cpu.append(cpu)
                contender.clock.append(clock)
    report(contenders, reference, tokens)
    conclude(contenders, reference)


if __name__ == "__main__":
    main()
