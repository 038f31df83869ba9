"""`make bench-encode`: tokens per second of `minilm`, in each precision, against sentence-transformers on PyTorch.

Same model and texts, one core for all, turn by turn in rounds, the order turned round in every second one; tokenisation
counts on both sides. Time is CPU time: on one core it is the clock's but for what other processes took. Beside speed,
quality: cosine to sentence-transformers' float32 vectors, and how many of the ten best passages of a question are the
same. Against its OpenVINO and ONNX backends: `git show 23cb3959:benchmarks/encode.py`.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import torch

from benchmarks.common import describe, machine, one_core, options, show, texts
from vitalfew.configs.section import NumberName
from vitalfew.tasks.datasets.base import Passage, Question
from vitalfew.tasks.encoders.transformer import MiniLM
from vitalfew.tasks.models.compiled import has_native
from vitalfew.tasks.models.files import minilm_directory

ROUNDS, TEXTS, QUESTIONS = 3, 300, 300
RIVAL = "sentence-transformers"


@dataclass
class Contender:
    """A way to encode texts as float32 (n, d), and the CPU seconds that its rounds took."""

    name: str
    about: str
    passages: Callable[[list[str]], np.ndarray]
    questions: Callable[[list[str]], np.ndarray]
    seconds: list[float] = field(default_factory=list)


def contenders() -> Iterator[Contender]:
    """Yield sentence-transformers as it is and in bf16, what `auto` chooses, and the processor's other precisions."""
    from sentence_transformers import SentenceTransformer

    for name, arguments in ((RIVAL, {}), (f"{RIVAL}, bf16", {"dtype": "bfloat16"})):
        model = SentenceTransformer(str(minilm_directory()), device="cpu", model_kwargs=arguments)
        yield Contender(name, "batches of 32", model.encode, model.encode)
    chosen = MiniLM(MiniLM.Options())
    yield _own("minilm", chosen)
    precisions: tuple[NumberName, ...] = ("fp32", "bf16", "int8")
    for precision in precisions:
        if precision != chosen.computation.precision and (precision == "int8" or has_native(precision)):
            yield _own(f"minilm, {precision}", MiniLM(MiniLM.Options(precision=precision)))


def _own(name: str, encoder: MiniLM) -> Contender:
    about = str(encoder.computation)
    return Contender(name, about, lambda given: encoder.encode(given).vectors,
                     lambda given: encoder.encode_questions(given).vectors)  # fmt: skip


def drawn(kind: type, count: int) -> list[str]:
    """Draw texts evenly over the corpus."""
    every = list(texts(kind))
    return every[:: max(1, len(every) // count)][:count]


def top(questions: np.ndarray, passages: np.ndarray) -> np.ndarray:
    """Return the 10 best passages of the questions, int64 (questions, 10)."""
    return np.argsort(-questions @ passages.T, axis=1)[:, :10]


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main() -> None:
    options(__doc__).parse_args()
    one_core()
    torch.set_num_threads(1)
    passages, questions = drawn(Passage, TEXTS), drawn(Question, QUESTIONS)
    tokens = MiniLM(MiniLM.Options()).encode(passages).tokens
    print(f"{len(passages)} passages of {describe()}, {tokens:,} tokens; {machine()}\n")
    every = [*contenders()]
    found = [(unit(each.passages(passages)), unit(each.questions(questions))) for each in every]  # and warm up
    for turn in range(ROUNDS):
        for each in every if turn % 2 else reversed(every):
            began = time.process_time()
            each.passages(passages)
            each.seconds.append(time.process_time() - began)

    def rows() -> Iterator[tuple[str, ...]]:
        reference, best = found[0][0], top(found[0][1], found[0][0])
        for each, (of_passages, of_questions) in zip(every, found, strict=True):
            cosines = (of_passages * reference).sum(1, dtype=np.float64)
            pairs = zip(best, top(of_questions, of_passages), strict=True)
            overlap = statistics.mean(len({*one} & {*other}) / 10 for one, other in pairs)
            ratio = statistics.median(theirs / own for own, theirs in zip(each.seconds, every[0].seconds, strict=True))
            speed = f"{tokens / statistics.median(each.seconds):,.0f}"
            yield each.name, speed, f"{ratio:.2f}", f"{cosines.min():.5f}", f"{overlap:.4f}", each.about

    show(("", "tokens/s", f"of {RIVAL}'s", "worst cosine", "top-10", "how"), rows())


if __name__ == "__main__":
    main()
