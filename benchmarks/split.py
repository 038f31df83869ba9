"""`make bench-split`: boundary F1 of `punkt` against HotpotQA's gold sentences, and its speed on one core.

Trained as the pipeline trains it, on a sample of the corpus. A boundary is a place between two sentences of a passage,
white space apart. Without the real data there is no gold split of other hands, and only the speed is measured.
"""

import json
import time
from itertools import accumulate

from benchmarks.common import REAL, describe, machine, options, texts
from vitalfew.tasks.datasets.base import Passage
from vitalfew.tasks.splitters.punkt import Punkt


def boundaries(sentences: list[str]) -> set[int]:
    """Return the places between sentences, counted in characters that are not white space."""
    return set(accumulate(len("".join(sentence.split())) for sentence in sentences[:-1]))


def gold() -> dict[str, list[str]]:
    """Return HotpotQA's passages, without white space, and their gold sentences."""
    questions = json.loads(REAL["hotpotqa"].read_text(encoding="utf-8"))
    splits = [sentences for question in questions for _, sentences in question["context"]]
    return {"".join("".join(sentences).split()): sentences for sentences in splits}


def main() -> None:
    options(__doc__).parse_args()
    passages = list(dict.fromkeys(texts(Passage)))
    punkt = Punkt(Punkt.Options())
    step = max(1, sum(map(len, passages)) // punkt.options.sample_chars)  # drawn evenly over the corpus
    punkt.load(Punkt(Punkt.Options()).train(passages[::step]))
    began = time.process_time()
    split = {text: [text[start:end] for start, end in punkt.split(text)] for text in passages}
    seconds = time.process_time() - began
    print(f"punkt, trained on {punkt.options.sample_chars:,} characters of {describe()}")
    print(f"{sum(len(text.encode()) for text in passages) / 1e6 / seconds:.1f} MB/s on one core; {machine()}")
    if REAL["hotpotqa"].exists():
        report(split)


def report(split: dict[str, list[str]]) -> None:
    truth = gold()
    found = {"".join(text.split()): sentences for text, sentences in split.items()}
    right = wrong = missed = 0
    for key, sentences in truth.items():
        expected, ours = boundaries(sentences), boundaries(found[key])
        right += len(expected & ours)
        wrong += len(ours - expected)
        missed += len(expected - ours)
    precision, recall = right / (right + wrong), right / (right + missed)
    f1 = 2 * precision * recall / (precision + recall)
    print(f"boundaries of {len(truth)} passages: precision {precision:.4f}, recall {recall:.4f}, F1 {f1:.4f}")


if __name__ == "__main__":
    main()
