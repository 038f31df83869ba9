"""`make bench-encode`: tokens per second of `minilm` against `SentenceTransformer.encode()` with its defaults.

Same model, same texts, one core for each (the process is bound to it), turn by turn; the ratio is that of the medians.
Ours counts tokenisation in, as theirs does. Then how close the vectors are to theirs (float32).
"""

import os
import statistics
import time
from collections.abc import Callable

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from benchmarks.corpus import describe, specifications
from tasks.datasets.base import Passage, Question
from tasks.datasets.specification import parse_dataset
from tasks.encoders.minilm import MiniLM

ROUNDS = 3
TEXTS = 1500
QUESTIONS = 300


def sample() -> tuple[list[str], list[str]]:
    """Passages and questions, evenly drawn over the corpus."""
    passages, questions = [], []
    for specification in specifications():
        for _, record in parse_dataset(specification)[1].records():
            if isinstance(record, Passage):
                passages.append(record.text)
            elif isinstance(record, Question):
                questions.append(record.text)
    return passages[:: len(passages) // TEXTS][:TEXTS], questions[:: max(1, len(questions) // QUESTIONS)][:QUESTIONS]


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    texts, questions = sample()
    ours = MiniLM(MiniLM.Options())
    theirs = SentenceTransformer(str(ours.model_directory()), device="cpu")
    encoded, reference = ours.encode(texts), theirs.encode(texts)
    times: dict[str, list[float]] = {"theirs": [], "ours": []}
    for _ in range(ROUNDS):
        times["theirs"].append(seconds(lambda: theirs.encode(texts)))
        times["ours"].append(seconds(lambda: ours.encode(texts)))
    speed = {name: encoded.tokens / statistics.median(each) for name, each in times.items()}
    print(f"{len(texts)} passages of {describe()}, {encoded.tokens:,} tokens, {ours.dtype}, one core")
    print(f"SentenceTransformer.encode() {speed['theirs']:8,.0f} tokens/s")
    print(f"minilm                       {speed['ours']:8,.0f} tokens/s")
    print(f"ratio {speed['ours'] / speed['theirs']:.2f}")
    cosines = (encoded.vectors * reference).sum(1)
    print(f"cosine to float32: worst {cosines.min():.5f}, mean {cosines.mean():.5f}")
    overlap = top(ours.encode_questions(questions).vectors, encoded.vectors), top(theirs.encode(questions), reference)
    shared = [len(set(one) & set(other)) / 10 for one, other in zip(*overlap, strict=True)]
    print(f"top-10 overlap of {len(questions)} questions: mean {statistics.mean(shared):.4f}")


def top(questions: np.ndarray, passages: np.ndarray) -> np.ndarray:
    """The 10 best passages of each question, int64 (questions, 10)."""
    return np.argsort(-questions @ passages.T, axis=1)[:, :10]


if __name__ == "__main__":
    main()
