"""`make bench-catalog`: the documented queries, and the catalog's rebuilding, on a store with 10^6 hits.

    python -m benchmarks.catalog [ROUNDS] [--questions N]

The product's own stages make the store: QUESTIONS questions on twice as many generated passages, asked by METHODS
methods that differ in alpha and take HITS hits each. Encoder and generator are those of the tests, which cost next to
nothing.
A query is timed from `catalog.connect` to its last row, in one process; the best and the worst of the rounds are shown.
On invented rows, with vectors of 384 numbers: `git show faa64c5c:benchmarks/catalog.py`.
"""

import shutil
from pathlib import Path

from benchmarks.common import clock, evaluated, in_turns, index, machine, options, show
from vitalfew.storage.catalog.database import build, connect, query
from vitalfew.storage.catalog.macros import MACROS

STORE = Path("build/catalog")
METHODS, QUESTIONS, HITS = 10, 10_000, 10
DOCUMENTED = {
    "guide: costs by stage": "SELECT stage, sum(wall_seconds), sum(tokens) FROM costs GROUP BY 1",
    "guide: rejects by reason": "SELECT reason, count(*) FROM rejects GROUP BY 1",
    "guide: sentences per passage": "SELECT title, count(*) AS sentences FROM sentences "
    "JOIN passages USING (passage_id) GROUP BY 1 ORDER BY 2 DESC LIMIT 5",
    "guide: means by method": "SELECT method, metric, avg(value) FROM scores JOIN methods USING (fingerprint) "
    "GROUP BY ALL ORDER BY ALL",
    "guide: runs": "SELECT * FROM runs",
    "guide: ledger": "SELECT stage, quoted_tokens, tokens, quoted_usd, usd FROM ledger",
    "report: scores of a method": "SELECT DISTINCT text, metric, value FROM scores JOIN asked USING (question_id) "
    "WHERE scores.fingerprint = (SELECT any_value(fingerprint) FROM methods "
    "WHERE method = 'method 3' AND table_name = 'scores') ORDER BY text, metric LIMIT 20",
    "hits by method": "SELECT method, count(*), avg(score) FROM hits JOIN methods USING (fingerprint) GROUP BY 1",
    **{f"macro {macro.name}": macro.example for macro in MACROS},
    "nearest to a known id": "SELECT similarity, text FROM nearest((SELECT min(sentence_id) FROM sentences))",
}


def make(count: int) -> None:
    """Write the store, with `count` questions."""
    shutil.rmtree(STORE, ignore_errors=True)
    common = {"store": STORE, "runner": "serial"}
    datasets = [f"synthetic:passages={2 * max(count, 100)},questions={count},seed=0"]
    index(name="bench", datasets=datasets, encode={"encoder": "tests.support.fakes:HashEncoder"}, **common)
    alphas = {f"method {place}": {"retrieve": {"alpha": place / METHODS}} for place in range(METHODS)}
    settings = {
        "index": "bench",
        "retrieve": {"retriever": "core_context", "top_k": HITS},
        "generate": {"generator": "tests.support.fakes:FirstWords"},
        "baseline": "method 0",
        "methods": alphas,
    }
    evaluated("bench", settings, STORE)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=3, help="times that every query is asked; 3")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help=f"questions that have hits; {QUESTIONS:,}")
    given = parser.parse_args()
    seconds = clock(lambda: make(given.questions))
    files = sum(1 for _ in STORE.rglob("*.parquet"))
    hits = METHODS * given.questions * HITS
    print(f"{hits:,} hits in {files:,} Parquet files, made in {seconds:.0f} s; {machine()}\n")
    actions = {"rebuild the catalog": lambda: build(STORE), "open it": lambda: connect(STORE).close()}
    for name, sql in DOCUMENTED.items():
        actions[name] = lambda sql=sql: query(STORE, sql).fetchall()  # type: ignore[misc]
    taken = ((name, in_turns(given.rounds, lambda action=action: clock(action))[0]) for name, action in actions.items())  # type: ignore[misc]
    show(["what", "best s", "worst s"], ((name, f"{min(times):.2f}", f"{max(times):.2f}") for name, times in taken))


if __name__ == "__main__":
    main()
