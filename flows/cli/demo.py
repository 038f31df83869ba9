"""The command `demo`: the whole of it on real text, each step as the command that does it."""

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from vitalfew.configs.loading import build
from vitalfew.configs.schema import IndexCorpus, Search
from vitalfew.flows.cli import show
from vitalfew.flows.cli.results import show_report
from vitalfew.flows.cli.terminal import (
    DEFAULT_STORE,
    StoreOption,
    VerboseOption,
    execute,
    explained_errors,
    out,
    prepare,
)

if TYPE_CHECKING:
    from vitalfew.tasks.report import WrittenReport

CORPUS, INDEX = "python_manual", "demo"
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
    prepare(verbose)
    with explained_errors():
        given = {"store": store, "runner": "serial"}
        at = [] if store == DEFAULT_STORE else ["--store", str(store)]
        experiment = _experiment()
        seconds: dict[str, float] = {}
        with _step(seconds, "index", CORPUS, "--name", INDEX, *at):
            _index(given)
        question = _question(store)
        with _step(seconds, "search", question, "--index", INDEX, "--top-k", "3", *at):
            _search(store, question)
        with _step(seconds, "evaluate", experiment, "--index", INDEX, *at):
            written = _evaluate(experiment, given)
        with _step(seconds, "compare", *_equal_tokens(experiment), *at):
            _compare(store, experiment)
        _plot(written)
        parts = ", ".join(f"{command} {took:,.0f} s" for command, took in seconds.items())
        out.print(f"\nThis took {sum(seconds.values()):,.0f} s: {parts}.")
        out.print("Next steps:\n")
        _command("search", "What does a finally clause do with a return?", "--index", INDEX, *at)
        _command("sql", WORST.format(experiment), *at)
        _command("ui", *at)


@contextmanager
def _step(seconds: dict[str, float], *words: str) -> Iterator[None]:
    """Print the command that does what the block does, and keep the seconds that it takes."""
    _command(*words)
    began = time.monotonic()
    yield
    seconds[words[0]] = time.monotonic() - began
    out.print()


def _command(*words: str) -> None:
    """Print a command as a shell takes it."""
    quoted = (f'"{word}"' if "'" in word else shlex.quote(word) for word in words)
    out.print(f"[bold cyan]$ vitalfew {escape(' '.join(quoted))}[/]", soft_wrap=True, highlight=False)


def _index(given: dict[str, Any]) -> None:
    from vitalfew.flows.cli.runs import index_flow

    parameters = build(IndexCorpus, {**given, "datasets": [CORPUS], "name": INDEX})
    show.indexed(out, parameters, execute(parameters, index_flow))


def _question(store: Path) -> str:
    from vitalfew.storage.catalog.database import query

    rows = query(store, QUESTION).fetchall()
    return str(rows[0][0])


def _search(store: Path, question: str) -> None:
    from vitalfew.tasks.registry import with_options
    from vitalfew.tasks.retrieve import Searcher

    request = with_options(build(Search, {"retrieve": {"top_k": 3}}).retrieve, "retrieve")
    show.hits(out, question, INDEX, request, Searcher.named(store, INDEX).hits(question, request))


def _experiment() -> str:
    """The one of the table. No installation has the language model of Sparse RAG, and not each has PEFT, its adapter's
    library."""
    from vitalfew.tasks.models.causal import adapters, smollm2

    try:
        smollm2.find()
    except FileNotFoundError:
        return "quickstart"
    return "quickstart_sparse_rag" if adapters.readable() else "quickstart"


def _equal_tokens(experiment: str) -> tuple[str, str]:
    return f"{experiment}:naive RAG, equal tokens", f"{experiment}:ParetoRAG"


def _evaluate(experiment: str, given: dict[str, Any]) -> "WrittenReport":
    from vitalfew.flows.cli.runs import evaluation_flow
    from vitalfew.flows.pipelines.experiments import evaluation, find

    name, settings = find(experiment)
    outcome = execute(evaluation(name, settings, {**given, "index": INDEX}), evaluation_flow)
    show_report(outcome.report)
    return outcome.report


def _compare(store: Path, experiment: str) -> None:
    """Print the difference between the two methods of equal tokens, in the metric that the report begins with."""
    from vitalfew.tasks.reports.comparison import compare, main_metric
    from vitalfew.tasks.reports.shown.columns import signed

    pairs = compare(store, *_equal_tokens(experiment))
    metric = main_metric(pairs, None)
    difference = pairs[0].differences[metric]
    interval = f"{signed(difference.low)} to {signed(difference.high)}"
    out.print(
        f"{pairs[0].a.columns[metric].heading}, ParetoRAG minus naive RAG at equal tokens: "
        f"{signed(difference.mean_difference)} (95 % interval {interval}, n = {difference.questions:,})",
        highlight=False,
    )


def _plot(written: "WrittenReport") -> None:
    from vitalfew.tasks.reports.shown.terminal import bars

    out.print(bars(written.report, out.width))
