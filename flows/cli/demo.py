"""The command `demo`: all steps on real text, with the command of every step."""

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.markup import escape

from vitalfew.flows.cli.runs import evaluate, index, search
from vitalfew.flows.cli.terminal import DEFAULT_STORE, Runner, StoreOption, VerboseOption, out, prepare, say

CORPUS, INDEX = "python_manual", "demo"
KEYWORDS = "bm25.enabled=true"
"""With keywords, quickstart tries `hybrid` too."""
QUESTION = "SELECT text FROM questions WHERE source_id LIKE 'development/%' ORDER BY source_id LIMIT 1"
WORST = "FROM worst(of_metric := 'accuracy', of_method := 'ParetoRAG', run := '{}')"


def demo(
    store: StoreOption = DEFAULT_STORE,
    verbose: VerboseOption = False,
) -> None:
    """Index, search and evaluate real text, with a table and a plot, in two or three minutes.

    The text is the manual that comes with Python, with 226 questions. The demo prints the command of every step.
    Settings are chosen on one half of the questions, and figures are reported on the other half. A second run reuses
    everything in the store and takes seconds. The demo runs in one process, because Prefect and Ray would take longer
    to start than the work takes. If SmolLM2 and PEFT are installed (`make setup-llm`), the table also includes Sparse
    RAG, which takes most of the time.

        vitalfew demo --store store
    """
    from vitalfew.tasks.reports.shown.terminal import bars

    prepare(verbose)
    at = [] if store == DEFAULT_STORE else ["--store", str(store)]
    experiment = _experiment()
    equal_tokens = f"{experiment}:naive RAG, equal tokens", f"{experiment}:ParetoRAG"
    here: dict[str, Any] = {"store": store, "verbose": verbose}
    seconds: dict[str, float] = {}
    with _step(seconds, "index", CORPUS, "--name", INDEX, "--set", KEYWORDS, *at):
        index([CORPUS], INDEX, assignments=[KEYWORDS], runner=Runner.serial, **here)
    question = _question(store)
    with _step(seconds, "search", question, "--index", INDEX, "--top-k", "3", *at):
        search(question, INDEX, top_k=3, **here)
    with _step(seconds, "evaluate", experiment, "--index", INDEX, *at):
        written = evaluate(experiment, INDEX, runner=Runner.serial, **here)
    with _step(seconds, "compare", *equal_tokens, *at):
        _compare(store, *equal_tokens)
    out.print(bars(written.report, out.width))
    parts = ", ".join(f"{command} {took:,.0f} s" for command, took in seconds.items())
    out.print(f"\nThis took {sum(seconds.values()):,.0f} s: {parts}.")
    out.print("Next steps:\n")
    _command("search", "What does a finally clause do with a return?", "--index", INDEX, *at)
    _command("sql", WORST.format(experiment), *at)
    _command("ui", *at)


@contextmanager
def _step(seconds: dict[str, float], *words: str) -> Iterator[None]:
    """Print the command that does the same as the block, and keep the seconds that the block takes."""
    _command(*words)
    began = time.monotonic()
    yield
    seconds[words[0]] = time.monotonic() - began
    out.print()


def _command(*words: str) -> None:
    """Print a command as a shell takes it."""
    quoted = (f'"{word}"' if "'" in word else shlex.quote(word) for word in words)
    say(f"[bold cyan]$ vitalfew {escape(' '.join(quoted))}[/]")


def _question(store: Path) -> str:
    from vitalfew.storage.catalog.database import query

    rows = query(store, QUESTION).fetchall()
    return str(rows[0][0])


def _experiment() -> str:
    """The experiment that this machine can run: Sparse RAG needs its language model, and PEFT for the adapter."""
    from vitalfew.tasks.models.causal import adapters, smollm2

    try:
        smollm2.find()
    except FileNotFoundError:
        return "quickstart"
    return "quickstart_sparse_rag" if adapters.readable() else "quickstart"


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
        highlight=False,
    )
