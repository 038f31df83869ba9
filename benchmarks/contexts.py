"""`make bench-index`, its second part: which context mode finds the passages, and with which constants.

One corpus (HotpotQA's sample, 2WikiMultihopQA's, SQuAD's dev set, the gold passages of NQ), encoded once per kind of
vector; everything else is numpy. A question belongs to one of two halves by its id. The constants of a mode (the
weights and the length of `pooled`, the gain of `late`) are those of the highest passage recall@10 over the questions of
the one half at alpha 0.8, which a search takes by default; "best" has the alpha chosen so, too. Everything that is told
is of the other half: passage recall@10 (a top-10 unit is of a gold passage), answer recall@10 (a top-10 unit's own text
has a gold answer, letter case apart), and paired bootstrap intervals of the differences in passage recall to naive
retrieval and to mode `passage`, both at alpha 0.8.

    python -m benchmarks.contexts [--store DIR] [--modes passage late exact]
"""

import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np

from benchmarks.common import (
    NQ,
    describe,
    difference,
    index,
    machine,
    nq_articles,
    one_core,
    options,
    read_questions,
    show,
    specifications,
)
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.indexes.units import Outline, ShardVectors, pooled
from vitalfew.storage.runs import find_index
from vitalfew.tasks.encoders import contexts
from vitalfew.tasks.models.encoder.tower import unit_rows
from vitalfew.tasks.retrieve import Searcher

BUILD = Path("build/bench/contexts")
ALPHA, ALPHAS = 0.8, (0.5, 0.6, 0.7, 0.8, 0.9)
GAINS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
K = 10
MOST, SEED = 3000, 100
"""Questions of one source, at most, and the seed of the choice."""
BLOCK = 128


def sources() -> tuple[str, ...]:
    """The benchmark corpus and, where it is, NQ's gold passages with their questions, in SQuAD's layout."""
    if not NQ.exists():
        return specifications()
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "nq.json").write_text(json.dumps(nq_articles()), encoding="utf-8")
    return (*specifications(), f"squad:{BUILD / 'nq.json'}")


def build_index(store: Path, mode: str) -> None:
    """`late` with the cores as they are, for any gain to be tried on them."""
    contexts.LATE_GAIN = 0.0
    index(datasets=sources(), name=mode, store=store, encode={"context": mode})


@dataclass(frozen=True)
class Corpus:
    """Some vectors of an index, in the order of its sentences and passages."""

    artifacts: dict[str, Artifact]

    def _shards(self, table: str) -> Iterator[Path]:
        artifact = self.artifacts[table]
        return (artifact.path(record.shard) for record in artifact.completed().shards)

    @cached_property
    def _vectors(self) -> list[ShardVectors]:
        return [ShardVectors.read(path) for path in self._shards("vectors")]

    @cached_property
    def core(self) -> np.ndarray:
        return np.concatenate([shard.core for shard in self._vectors])

    @cached_property
    def passage(self) -> np.ndarray:
        return np.concatenate([shard.passage for shard in self._vectors])

    @cached_property
    def outline(self) -> Outline:
        parts = [Outline.read(path) for path in self._shards("sentences")]
        sizes = np.concatenate([part.sizes for part in parts])
        return Outline(np.cumsum(sizes) - sizes, sizes, np.concatenate([part.lengths for part in parts]))

    @cached_property
    def owner(self) -> np.ndarray:
        """The number of every sentence's passage."""
        return np.repeat(np.arange(len(self.outline.sizes)), self.outline.sizes)

    def column(self, table: str, name: str) -> list:
        """A column of its table `passages` or `sentences`."""
        artifact = self.artifacts[table]
        shards = [artifact.read(record.shard, columns=[name]) for record in artifact.completed().shards]
        return [value for shard in shards for value in shard[name].to_pylist()]

    def around(self, of_passages: np.ndarray) -> np.ndarray:
        """The context of every sentence by its passage's; its core where it is alone."""
        return np.where(self.outline.has_context[:, None], of_passages[self.owner], self.core)

    def exact(self) -> np.ndarray:
        paths = zip(self._vectors, self._shards("sentences"), strict=True)
        return np.concatenate([vectors.contexts(sentences, "exact") for vectors, sentences in paths])


@dataclass(frozen=True)
class Asked:
    """Questions of all sources: `source` and `report` (told of, not used to choose) by question."""

    rows: list[dict]
    vectors: np.ndarray
    source: np.ndarray
    report: np.ndarray


def asked(store: Path, mode: str) -> Asked:
    searcher = Searcher.named(store, mode)
    by_source: dict[str, list[dict]] = {}
    for row in read_questions(searcher.index.artifacts["passages"]):
        name = "NQ" if row["source"].endswith("nq.json") else row["source"].partition(":")[0]
        by_source.setdefault(name, []).append(row)
    kept = {name: random.Random(SEED).sample(each, min(MOST, len(each))) for name, each in sorted(by_source.items())}
    rows = [row for each in kept.values() for row in each]
    source = np.repeat(list(kept), [len(each) for each in kept.values()])
    report = np.array([row["question_id"] % 2 == 1 for row in rows])  # ids are hashes
    return Asked(rows, searcher.encoder.encode_questions([row["text"] for row in rows]).vectors, source, report)


@dataclass(frozen=True)
class Scoring:
    """A way to score sentences, or passages (`context` None). `owner`: the number of every row's passage."""

    core: np.ndarray
    context: np.ndarray | None
    owner: np.ndarray

    def blocks(self, vectors: np.ndarray, alphas: Sequence[float]) -> Iterator[tuple[slice, int, np.ndarray]]:
        """Some questions, the number of an alpha, and the scores of all rows, float32 (questions, rows)."""
        for start in range(0, len(vectors), BLOCK):
            some = slice(start, start + BLOCK)
            core = vectors[some] @ self.core.T
            context = core if self.context is None else vectors[some] @ self.context.T
            for number, alpha in enumerate(alphas):
                yield some, number, alpha * core + (1 - alpha) * context

    def found(self, vectors: np.ndarray, gold: list[np.ndarray], alphas: Sequence[float]) -> np.ndarray:
        """Return whether a row of a gold passage is among the best K, bool (alphas, questions): fewer are better."""
        found = np.zeros((len(alphas), len(gold)), bool)
        spans = [np.searchsorted(self.owner, [due, due + 1]).T for due in gold]
        rows = [np.concatenate([np.arange(*span) for span in each]) for each in spans]
        for some, number, scores in self.blocks(vectors, alphas):
            better = [np.count_nonzero(each > each[due].max()) for each, due in zip(scores, rows[some], strict=True)]
            found[number, some] = np.array(better) < K
        return found

    def answered(self, vectors: np.ndarray, answers: list[list[str]], texts: list[str], alpha: float) -> np.ndarray:
        """Return whether the text of one of the best K rows has an answer, bool (questions,)."""
        found = []
        for some, _, scores in self.blocks(vectors, [alpha]):
            for rows, due in zip(np.argpartition(scores, -K, axis=1)[:, -K:], answers[some], strict=True):
                found.append(any(answer.lower() in texts[row].lower() for row in rows for answer in due))
        return np.array(found)


def families(apart: Corpus, late: Corpus | None, exact: Corpus | None) -> dict[str, dict[str, Callable[[], Scoring]]]:
    """The scorings of every mode by what they try, made one at a time. `late`: with its cores as they are."""

    def of(core: np.ndarray, context: np.ndarray | None = None) -> Scoring:
        return Scoring(core, context, apart.owner)

    def mean(lengths: np.ndarray, unit: bool) -> Scoring:
        means = pooled(apart.core, lengths, apart.outline.starts)
        return of(apart.core, apart.around(unit_rows(means) if unit else means))

    def sharp(source: Corpus, gain: float) -> Scoring:
        moved = contexts.sharpened(source.core, source.passage[source.owner], gain)
        core = np.where(source.outline.has_context[:, None], moved, source.core)
        return of(core, np.where(source.outline.has_context[:, None], source.passage[source.owner], core))

    words, sentences = apart.outline.lengths, apart.column("sentences", "text")
    weights = {"words": words, "characters": np.array([*map(len, sentences)]), "none": np.ones_like(words)}
    tried: dict[str, dict[str, Callable[[], Scoring]]] = {
        "naive": {"": lambda: Scoring(apart.passage, None, np.arange(len(apart.passage)))},
        "sentences alone": {"": lambda: of(apart.core)},
        "passage": {"": lambda: of(apart.core, apart.around(apart.passage))},
        "pooled": {
            f"weights {name}, {'length 1' if unit else 'as it is'}": partial(mean, lengths, unit)
            for name, lengths in weights.items()
            for unit in (False, True)
        },
    }
    if late:
        tried["late"] = {f"gain {gain}": partial(sharp, late, gain) for gain in GAINS}
    if exact:
        tried["exact"] = {"": lambda: of(exact.core, exact.exact())}
    return tried


@dataclass(frozen=True)
class Chosen:
    """The best of what was tried. `passage`, `answer`: whether it found them, bool (questions,)."""

    settings: str
    passage: np.ndarray
    answer: np.ndarray


def choose(mode: str, tried: dict[str, Callable[[], Scoring]], questions: Asked, apart: Corpus) -> dict[str, Chosen]:
    """The mode at alpha 0.8 and, as "MODE, best", at the best alpha."""
    ids = np.array(apart.column("passages", "passage_id"))
    order = np.argsort(ids)
    gold = [order[np.searchsorted(ids, row["gold_passages"], sorter=order)] for row in questions.rows]
    best: dict[str, tuple[float, str, Scoring, float, np.ndarray]] = {}
    for settings, make in tried.items():
        scoring = make()
        alphas = ALPHAS if scoring.context is not None else (ALPHA,)
        for alpha, found in zip(alphas, scoring.found(questions.vectors, gold, alphas), strict=True):
            name = ", ".join(filter(None, [settings, f"alpha {alpha}" if scoring.context is not None else ""]))
            recall = float(found[~questions.report].mean())
            print(f"{mode}, {name}: {recall:.4f}", file=sys.stderr, flush=True)
            for row in [mode] * (alpha == ALPHA) + [f"{mode}, best"] * (len(alphas) > 1):
                if row not in best or recall > best[row][0]:
                    best[row] = recall, name, scoring, alpha, found
    texts = apart.column("passages" if mode == "naive" else "sentences", "text")
    answers = [row["answers"] for row in questions.rows]
    return {
        row: Chosen(name, found, scoring.answered(questions.vectors, answers, texts, alpha))
        for row, (_, name, scoring, alpha, found) in best.items()
    }


COLUMNS = ["questions", "mode", "chosen", "passage@10", "minus naive (95 %)", "minus `passage` (95 %)", "answer@10"]


def rows(chosen: dict[str, Chosen], questions: Asked) -> Iterator[Sequence[str]]:
    """Yield recalls and differences by source, for the questions that chose nothing."""
    sources = {name: questions.source == name for name in dict.fromkeys(questions.source)}
    for source, of_source in {"all": questions.report | True, **sources}.items():
        kept = of_source & questions.report
        for mode, each in chosen.items():
            found = each.passage[kept].astype(float)
            cells = [f"{source} ({kept.sum():,})", mode, each.settings, f"{found.mean():.3f}"]
            for base in ("naive", "passage"):
                cells.append(difference(chosen[base].passage[kept].astype(float), found) if mode != base else "")
            yield *cells, f"{each.answer[kept].mean():.3f}"


def main() -> None:
    parser = options(__doc__, BUILD / "store")
    parser.add_argument("--modes", nargs="*", default=["late", "exact"], help="besides passage and pooled")
    given = parser.parse_args()
    one_core()
    print(f"corpus: {describe()}, nq_gold; {machine()}", flush=True)
    for mode in ("passage", *given.modes):
        build_index(given.store, mode)
    corpora = {mode: Corpus(find_index(given.store, mode).located(given.store)) for mode in ("passage", *given.modes)}
    questions, apart = asked(given.store, "passage"), corpora["passage"]
    tried = families(apart, corpora.get("late"), corpora.get("exact"))
    found = [choose(mode, each, questions, apart) for mode, each in tried.items()]
    show(COLUMNS, rows({row: chosen for each in found for row, chosen in each.items()}, questions))


if __name__ == "__main__":
    main()
