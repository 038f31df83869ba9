"""The commands `index` and `search`."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from vitalfew.configs.loading import build
from vitalfew.configs.schema import IndexCorpus, Search
from vitalfew.flows.cli import show
from vitalfew.flows.cli.run import execute
from vitalfew.flows.cli.terminal import (
    DEFAULT_STORE,
    ConfigOption,
    RunnerOption,
    SetOption,
    StoreOption,
    VerboseOption,
    WorkersOption,
    explained_errors,
    layers,
    out,
    prepare,
)
from vitalfew.tasks.datasets.base import InputError

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.run import Outcome


def index(
    datasets: Annotated[list[str], typer.Argument(metavar="DATASET", help="FORMAT:PATH?option=value; see `datasets`.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the index, for `search --index`.")],
    store: StoreOption = DEFAULT_STORE,
    config: ConfigOption = None,
    assignments: SetOption = None,
    workers: WorkersOption = None,
    runner: RunnerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Index a corpus: load → split → encode → index.

    Several data sets form one corpus. Finished work is not repeated: after a kill, the same command
    does only the unfinished part, and another layout reuses all vectors.

        vitalfew index hotpotqa:questions.json squad:dev-v1.1.json --name wiki --set encode.context=late
    """
    prepare(verbose)
    with explained_errors():
        given = {"store": store, "workers": workers, "runner": runner and runner.value}
        given_layers = layers(config, assignments, datasets=datasets, name=name, **given)
        parameters = build(IndexCorpus, *given_layers)
        show.indexed(out, parameters, execute(parameters, flow))


def flow() -> Callable[[IndexCorpus], "Outcome"]:
    """The flow that makes an index, which takes seconds to import."""
    from vitalfew.flows.index_corpus import index_corpus

    return index_corpus


def search(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question to search for.")],
    index: Annotated[str, typer.Option("--index", metavar="NAME", help="Name of the index.")],
    alpha: Annotated[
        float | None,
        typer.Option("--alpha", metavar="ALPHA", help="Weight of the core vector, from 0 to 1; default: 0.8."),
    ] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", metavar="K", help="Units to show; default: 10.")] = None,
    retriever: Annotated[
        str | None,
        typer.Option(
            "--retriever",
            metavar="METHOD",
            help="core_context (ParetoRAG), passage (naive), bm25 or hybrid; default: core_context.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    store: StoreOption = DEFAULT_STORE,
    config: ConfigOption = None,
    assignments: SetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Search an index: show rank, score, its core and context parts, and every sentence in its passage.

    vitalfew search "Who founded the town of Velmar?" --index demo --alpha 0.8 --top-k 5
    """
    prepare(verbose)
    with explained_errors():
        from vitalfew.tasks.registry import with_options
        from vitalfew.tasks.retrieve import Searcher

        given = {"retriever": retriever, "alpha": alpha, "top_k": top_k}
        options = {"retrieve": {key: value for key, value in given.items() if value is not None}}
        request = with_options(build(Search, *layers(config, assignments), options).retrieve, "retrieve")
        if not question.strip():
            raise InputError("the question is empty")
        hits = Searcher.named(store, index).hits(question, request)
    if as_json:
        print(json.dumps([vars(hit) for hit in hits], ensure_ascii=False, indent=1))
    else:
        show.hits(out, question, index, request, hits)
