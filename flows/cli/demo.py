"""The command `demo`: all steps on real text, with the command of every step."""

from pathlib import Path
from typing import Any

from vitalfew.flows.cli import options
from vitalfew.flows.cli.options import at
from vitalfew.flows.cli.runs import evaluate, index, search
from vitalfew.flows.cli.terminal import command, out, prepare, step, took

CORPUS, INDEX = "python_manual", "demo"
EXPERIMENT, ALL, WITH_SPARSE_RAG = "demo", "quickstart", "quickstart_sparse_rag"
QUESTION = "SELECT text FROM questions WHERE source_id LIKE 'development/%' ORDER BY source_id LIMIT 1"
WORST = "FROM worst(of_metric := 'accuracy', of_method := 'ParetoRAG', run := '{}')"


def demo(store: options.Store = options.STORE, verbose: options.Verbose = False) -> None:
    """Try every step on a real manual.

    Indexes, searches and evaluates the manual that comes with Python, with 226 questions, and prints the command of
    every step. Settings are chosen on one half of the questions, and figures are of the other half. A second run reuses
    everything in the store and takes seconds. The demo runs in one process, because Prefect and Ray would take longer
    to start than the work takes. The last lines say how to add the methods that take longer.

        vitalfew demo --store store
    """
    from vitalfew.storage.catalog.database import query

    prepare(verbose)
    there = at(store)
    equal_tokens = f"{EXPERIMENT}:naive RAG, equal tokens", f"{EXPERIMENT}:ParetoRAG"
    here: dict[str, Any] = {"store": store, "verbose": verbose}
    seconds: dict[str, float] = {}
    with step(seconds, "index", CORPUS, "--name", INDEX, *there):
        index([CORPUS], INDEX, runner="serial", **here)
    question = str(query(store, QUESTION).fetchall()[0][0])
    with step(seconds, "search", question, "--index", INDEX, "--top-k", "3", *there):
        search(question, INDEX, top_k=3, **here)
    with step(seconds, "evaluate", EXPERIMENT, "--index", INDEX, *there):
        evaluate(EXPERIMENT, INDEX, runner="serial", **here)
    with step(seconds, "compare", *equal_tokens, *there):
        _compare(store, *equal_tokens)
    out.print(f"\n{took(seconds)}")
    out.print("Next steps:\n")
    command("search", "What does a finally clause do with a return?", "--index", INDEX, *there)
    command("sql", WORST.format(EXPERIMENT), *there)
    command("ui", *there)
    out.print("\nWith PFE-Self-RAG and Oreo, about a minute more:\n")
    command("evaluate", ALL, "--index", INDEX, *there)
    out.print("\nWith Sparse RAG, about five minutes more (`make setup-llm` installs its language model):\n")
    command("evaluate", WITH_SPARSE_RAG, "--index", INDEX, *there)


def _compare(store: Path, one: str, other: str) -> None:
    """Print the difference between the two methods of equal tokens, in the metric that the report begins with."""
    from vitalfew.tasks.reports.comparison import compare, main_metric
    from vitalfew.tasks.reports.shown.columns import signed

    pairs = compare(store, one, other)
    metric = main_metric(pairs, None)
    difference = pairs[0].differences[metric]
    interval = f"{signed(difference.low)} to {signed(difference.high)}"
    out.print(
        f"{pairs[0].a.columns[metric].heading}, ParetoRAG minus naive RAG at equal tokens: "
        f"{signed(difference.mean_difference)} (95 % interval {interval}, n = {difference.questions:,})",
    )
