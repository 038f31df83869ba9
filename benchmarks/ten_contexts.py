"""Adapters that learnt with ten contexts, beside the bundled ones: tables of a run of `sparse_rag/ten_contexts`.

The first table has F1 of every method by adapters: those that are bundled, those of every seed, and the mean of the
seeds question by question. The second has Sparse RAG's F1 minus that of its rivals with adapters of the same kind, and
the third what the training changed. Differences are paired over the questions, with a 95 % bootstrap interval.

    python -m benchmarks.ten_contexts [--store DIR] [--run RUN]
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.common import difference, options, show
from vitalfew.tasks.reports.runs import QuestionScores, find_run, read_manifest, read_question_scores
from vitalfew.tasks.reports.statistics.bootstrap import mean_interval

BUNDLED, BOTH = "bundled", "mean of the seeds"
SPARSE = "Sparse RAG"
METRIC = "f1"

Found = dict[str, dict[str, np.ndarray]]
"""F1 by method and adapters, float64 (questions,)."""


def read(store: Path, name: str) -> Found:
    """Read a run. A method's name says the seed of its adapter, or none if that is bundled."""
    run = find_run(store, name)
    found: Found = {}
    for method, artifacts in run.methods.items():
        scores: QuestionScores = read_question_scores(
            store, read_manifest(store, artifacts["asked"]), [read_manifest(store, artifacts["scores"])]
        )
        own, _, seed = re.fullmatch(r"(.*?)(, ten, (seed \d+))?", method).groups()  # type: ignore[union-attr]
        found.setdefault(own, {})[seed or BUNDLED] = scores.values[METRIC]
    for by_adapter in found.values():
        seeds = [values for adapter, values in by_adapter.items() if adapter != BUNDLED]
        if len(seeds) > 1:
            by_adapter[BOTH] = np.mean(seeds, axis=0)
    return found


def means(found: Found, adapters: Sequence[str]) -> Iterator[Sequence[str]]:
    for method, by_adapter in found.items():
        cells = [mean_interval(by_adapter[one][None])[0] if one in by_adapter else None for one in adapters]
        yield (
            method,
            *("" if cell is None else f"{cell.mean:.3f} ({cell.low:.3f} to {cell.high:.3f})" for cell in cells),
        )


def against_rivals(found: Found, adapters: Sequence[str]) -> Iterator[Sequence[str]]:
    for rival, by_adapter in found.items():
        if rival != SPARSE:
            yield rival, *(minus(found[SPARSE], by_adapter, one, one) for one in adapters)


def changes(found: Found, adapters: Sequence[str]) -> Iterator[Sequence[str]]:
    for method, by_adapter in found.items():
        yield method, *(minus(by_adapter, by_adapter, one, BUNDLED) for one in adapters)


def minus(values: Mapping[str, np.ndarray], base: Mapping[str, np.ndarray], of: str, of_base: str) -> str:
    """Return the difference between two methods or adapters; nothing where the run lacks one of them."""
    return difference(base[of_base], values[of]) if of in values and of_base in base else ""


def main() -> None:
    parser = options(__doc__, Path("store"))
    parser.add_argument("--run", default="sparse_rag/ten_contexts", help="id of a run, or name of an experiment")
    given = parser.parse_args()
    found = read(given.store, given.run)
    adapters = max(([*by_adapter] for by_adapter in found.values()), key=len)
    print(f"{len(found[SPARSE][BUNDLED])} questions; F1 by adapters\n")
    show(["method", *adapters], means(found, adapters))
    print(f"\n{SPARSE}'s F1 minus that of\n")
    show(["rival", *adapters], against_rivals(found, adapters))
    print("\nF1 minus that with the bundled adapter\n")
    show(["method", *adapters[1:]], changes(found, adapters[1:]))


if __name__ == "__main__":
    main()
