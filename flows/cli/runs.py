"""The commands that start a run, `index`, `evaluate` and `train`, with `search` and `experiments`."""

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.prompt import Prompt
from rich.table import Column
from typer import Argument, Option

from vitalfew.configs.loading import build
from vitalfew.configs.paths import BucketPath
from vitalfew.configs.schema import ALPHA, RETRIEVER, GateConfig, IndexCorpus, Search
from vitalfew.flows.cli import completion, options, show
from vitalfew.flows.cli.results import show_report
from vitalfew.flows.cli.terminal import asking, err, execute, out, prepare, say, table
from vitalfew.tasks.datasets.base import InputError, check_question
from vitalfew.tasks.registry import METHODS

if TYPE_CHECKING:
    from vitalfew.flows.forms import Source
    from vitalfew.flows.pipelines.gate import Gated


OF_GENERATIONS = ("history", "promote", "rollback", "decline")
"""The commands below `index`."""


def index(
    datasets: Annotated[
        list[str] | None,
        Argument(
            metavar="DATASET",
            autocompletion=lambda: [*OF_GENERATIONS, *(f"{name}:" for name in METHODS["dataset"])],
            help="FORMAT:PATH?option=value; see `datasets`.",
        ),
    ] = None,
    name: Annotated[
        str | None, Option(metavar="NAME", help="Name of the index, for `search --index`. Required.")
    ] = None,
    corpus: Annotated[
        str | None,
        Option(
            metavar="NAME",
            autocompletion=completion.corpora,
            help="Index the corpus of corpora/NAME.yaml, with its gate, instead.",
        ),
    ] = None,
    store: options.Store = options.STORE,
    config: options.Config = None,
    assignments: options.IndexSettings = None,
    workers: options.Workers = None,
    runner: options.Runner = None,
    max_usd: options.MaxUsd = None,
    yes: options.Yes = False,
    verbose: options.Verbose = False,
) -> None:
    """Index a corpus.

    The stages are load, split, encode and index. Several data sets form one corpus. Rerun after a crash: the command
    resumes, and writes identical files.

        vitalfew index folder:handbook --name handbook
        vitalfew index squad:dev-v1.1.json --name wiki --set encode.context=late

    Every finished build is a generation of the name. `index history NAME` lists them. `index promote NAME GENERATION`
    points the name at another generation, and `index rollback NAME` at the one before.

    A corpus with a file corpora/NAME.yaml beside the store is indexed by its name. If the file has a gate, each new
    generation is compared with the current one, and promoted if it is no worse. If it is not promoted, the exit status
    is 4:

        vitalfew index --corpus notes
    """
    prepare(verbose)
    given = {"store": store, "workers": workers, "runner": runner, "max_usd": max_usd, "until_cap": yes or None}
    if corpus:
        if datasets or name or config or assignments:
            raise InputError(f"--corpus {corpus}: its data sets and settings are in its file, so give no others")
        from vitalfew.flows.pipelines.named import find_corpus
        from vitalfew.flows.pipelines.re_encode import index_parameters

        found = find_corpus(corpus, store)
        _index(index_parameters(found, options.layers(None, None, **given)[-1]), found.gate)
        return
    if not datasets:
        raise InputError("give a data set: vitalfew index DATASET --name NAME, or a corpus: --corpus NAME")
    if datasets[0] in OF_GENERATIONS:
        command = " ".join(map(shlex.quote, ["vitalfew", "index", *datasets]))
        raise InputError(f"`{datasets[0]}` is a command, so that options come after it: {command} --store {store}")
    settings = options.layers(config, assignments, datasets=datasets, name=name, **given)
    if not any("name" in layer for layer in settings):
        raise InputError(_without_name(datasets))
    _index(build(IndexCorpus, *settings))


NOT_PROMOTED = 4
"""The exit status of `index` where the gate did not promote what it built."""


def _index(parameters: IndexCorpus, gate: GateConfig | None = None) -> None:
    """Index a corpus, show what its gate said, and ask whoever is at the terminal where a person is to decide."""
    outcome = execute(parameters, gate=gate)
    gated: Gated | None = outcome.gated
    show.indexed(parameters, outcome, gated)
    if gated and asking():
        from vitalfew.flows.pipelines.gate import decide, wants_person
        from vitalfew.flows.pipelines.named import gate_of

        gate, number = gate or gate_of(parameters.store, parameters.name), gated.generation.number
        if gate and wants_person(gate, gated):
            asked = f"Promote generation {number} of {parameters.name}, decline it for good, or decide later?"
            said = Prompt.ask(asked, choices=["promote", "decline", "later"], default="later", console=err)
            if said != "later":
                note = Prompt.ask("Why? It is kept with the decision", default="", console=err)
                gated = decide(parameters.store, gated.generation, said == "promote", note, by="command")
                show.verdict(gated)
    if gated and not gated.is_promoted:
        raise typer.Exit(NOT_PROMOTED)


def _without_name(datasets: list[str]) -> str:
    """An error of `index` without a name: first what is wrong with the data sets, and the whole command."""
    from vitalfew.tasks.datasets.specification import likely, parse_dataset

    faults, proposed = [], []
    for dataset in datasets:
        try:
            parse_dataset(dataset)
        except ValueError as error:
            faults.append(f"{error}. ")
            proposed.append(dataset if ":" in dataset else likely(dataset))
        else:
            proposed.append(dataset)
    name = "".join(re.findall(r"[A-Za-z0-9_-]+", Path(proposed[0].partition(":")[2].partition("?")[0]).stem)) or "mine"
    command = " ".join(map(shlex.quote, ["vitalfew", "index", *proposed, "--name", name]))
    return f"{''.join(faults)}The index needs a name: {command}"


def _retrievers() -> list[str]:
    """The retrievers that need nothing but an index, the recommended one first."""
    return sorted(METHODS["retriever"].keys() - {"run_file"}, key=lambda name: (name != RETRIEVER, name))


def search(
    question: Annotated[str, Argument(metavar="QUESTION", help="Question to search for.")],
    index: options.Index = None,
    alpha: Annotated[
        float | None,
        Option(metavar="ALPHA", help=f"Weight of a sentence against its context; default: {ALPHA}."),
    ] = None,
    top_k: Annotated[int | None, Option(metavar="K", help="Units to show; default: 10.")] = None,
    retriever: Annotated[
        str | None,
        Option(
            metavar="NAME",
            autocompletion=_retrievers,
            help=f"{' or '.join(_retrievers())}; default: {RETRIEVER}.",
        ),
    ] = None,
    where: Annotated[
        str | None,
        Option(
            metavar="SQL",
            help="Search only passages for which an SQL condition is true, such as \"source_id LIKE 'guides/%'\".",
        ),
    ] = None,
    full: Annotated[bool, Option("--full", help="Print whole passages, and the parts of the scores.")] = False,
    form: options.Format = "table",
    store: options.Store = options.STORE,
    config: options.Config = None,
    assignments: options.SearchSettings = None,
    verbose: options.Verbose = False,
) -> None:
    """Search an index.

    Shows the rank, score, title and file of each hit, and the »matched text« in its passage.

        vitalfew search "Who founded the town of Velmar?" --index demo --top-k 5

    --where is a condition on the columns of the table passages; metadata has the fields of a document's front matter:

        vitalfew search "Who travels?" --where "metadata->>'team' = 'travel'"
    """
    prepare(verbose)
    from vitalfew.tasks.registry import with_options
    from vitalfew.tasks.retrieve import Searcher
    from vitalfew.tasks.retrievers.keywords import has_keyword

    given = {"retriever": retriever, "alpha": alpha, "top_k": top_k, "where": where}
    settings = options.layers(config, assignments)
    own = {"retrieve": {key: value for key, value in given.items() if value is not None}}
    request = with_options(build(Search, *settings, own).retrieve, "retrieve")
    check_question(question)
    index = options.index_of(store, index)
    searcher = Searcher.named(store, index)
    hits = searcher.hits(question, request)
    if form == "json":
        print(json.dumps([vars(hit) for hit in hits], ensure_ascii=False, indent=1))
    else:
        searched = bool(hits) or searcher.index.only(request.where).has_passages
        keyword = has_keyword(question, searcher.index.stemmer)
        show.hits(question, index, request, hits, full, searched, keyword)


def evaluate(
    experiment: options.Experiment,
    index: options.IndexOfOthers = None,
    model: options.Model = None,
    judge: options.JudgeModel = None,
    store: options.Store = options.STORE,
    assignments: options.EvaluationSettings = None,
    workers: options.Workers = None,
    runner: options.Runner = None,
    max_usd: options.MaxUsd = None,
    yes: options.Yes = False,
    verbose: options.Verbose = False,
) -> Any:
    """Compare methods on the same questions.

    Compares their quality, tokens, time and cost. Finished work is not repeated: another alpha encodes nothing,
    another generator retrieves nothing. A list of values makes one method per value:

        vitalfew evaluate quickstart --index wiki --set retrieve.alpha=[0.5,0.8]

    --model names the language model that answers, and --judge one that judges the answers:

        vitalfew evaluate quickstart --model openai:NAME --judge openai:NAME

    An experiment that chooses settings, such as quickstart, needs about thirty questions; --set choose=null asks all
    questions with the current settings.
    """
    prepare(verbose)
    from vitalfew.flows.pipelines.experiments import evaluation, find

    name, settings = find(experiment, store)
    given = {"store": store, "workers": workers, "runner": runner, "max_usd": max_usd, "until_cap": yes or None}
    of_models = [*options.of_model(model, "generate"), *options.of_model(judge, "judge")]
    assignments = [*of_models, *(assignments or [])]
    parameters = evaluation(name, settings, *options.layers(None, assignments, index=index, **given))
    options.tell_index(parameters)
    outcome = execute(parameters)
    show_report(outcome.report)
    # All methods share the stage that loads `questions.dataset`.
    if load := next((stages["load"] for stages in outcome.methods.values() if "load" in stages), None):
        show.rejected(load, parameters)
    return outcome.report


def experiments(store: options.Store = options.STORE) -> None:
    """List what `evaluate` can compare.

    Names the table or figure of a paper that an experiment repeats. Includes your experiments: the files
    experiments/NAME.yaml in the folder of the store:

        vitalfew experiments --store store
    """
    from vitalfew.flows.pipelines.experiments import find, names

    found = ((name, find(name, store)[1]) for name in names(store))
    rows = ((name, *(escape(str(own.get(key, ""))) for key in ("repeats", "about"))) for name, own in found)
    out.print(table(Column("experiment", no_wrap=True), Column("repeats", max_width=20), "purpose", rows=rows))
    out.print(
        "\nTo add an experiment, write a YAML file of the same form: experiments/NAME.yaml next to the store, or "
        "another file:"
    )
    say("  vitalfew evaluate FILE.yaml --index NAME")


def _directory(given: str | Path) -> Path:
    """A directory of this machine. Raises BadParameter for a place in a bucket."""
    if isinstance(place := options.store_argument(given), BucketPath):
        raise typer.BadParameter(f"{place}: --out must be a local directory; models in a bucket need no copy")
    return place


def train(
    recipe: Annotated[str, Argument(metavar="RECIPE", help="A recipe of configs/recipes, or FILE.yaml.")],
    datasets: Annotated[
        list[str] | None, Argument(metavar="DATASET", help="Questions to learn from, as FORMAT:PATH?option=value.")
    ] = None,
    index: Annotated[
        str | None,
        options.index_option("For oreo: index whose questions to learn from."),
    ] = None,
    directory: Annotated[
        Path | None,
        Option(
            "--out", metavar="DIR", parser=_directory, help="Copy the finished model to this directory, with its card."
        ),
    ] = None,
    passages: Annotated[
        list[str] | None, Option(metavar="DATASET", help="Further passages to learn from. Repeatable.")
    ] = None,
    store: options.Store = options.STORE,
    assignments: options.TrainingSettings = None,
    workers: options.Workers = None,
    runner: options.Runner = None,
    max_usd: options.MaxUsd = None,
    verbose: options.Verbose = False,
) -> None:
    """Train a model, and evaluate it.

    A recipe says how; the figures are of held-out data. Rerun after a crash: the command resumes from the last
    checkpoint. A finished training is not repeated: the command
    then shows its figures, and copies the model to --out DIR.

        vitalfew train reader squad:dev-v1.1.json --out mine
        vitalfew train critic squad:dev-v1.1.json --set reader=mine --out my-critic
        vitalfew train cxmi squad:dev-v1.1.json --set reader=mine --out my-filter
        vitalfew train oreo --index squad --out my-oreo
    """
    prepare(verbose)
    from vitalfew.flows.forms import TrainForm
    from vitalfew.flows.pipelines.named import find_recipe
    from vitalfew.storage.artifacts import weights_folder
    from vitalfew.storage.files import is_in_bucket
    from vitalfew.tasks.registry import resolve

    find_recipe(recipe)
    form = TrainForm(
        recipe=recipe,
        datasets=_sources(datasets),
        index=index,
        passages=_sources(passages),
        more=tuple(assignments or ()),
        store=store,
        workers=workers,
        max_usd=max_usd,
        out=directory and directory.absolute(),
    )
    parameters = form.training()
    if runner:
        parameters = parameters.model_copy(update={"runner": runner})
    trained = execute(parameters, form)
    trainer = resolve("trainer", parameters.trainings[-1].trainer)
    show.trained(trained.artifact, trained.figures, trainer.headings)
    if len(trained.reused) == len(trained.manifests):
        out.print("Nothing to do: the model is already trained.")
    if directory:
        shown = escape(str(directory))
        say(f"The model is in {shown}:  --set {trainer.use}={shown}")
    elif is_in_bucket(parameters.store):
        folder = weights_folder(parameters.store / trained.artifact)
        say(f"To use it, wherever this bucket can be read:  --set {trainer.use}={folder}")
    else:
        out.print("To use the model, copy it to a directory: run the same command with --out DIR.")


def _sources(specifications: list[str] | None) -> "tuple[Source, ...]":
    """The data sets as a form has them. Raises UnknownName, InputError."""
    from vitalfew.flows.forms import Source
    from vitalfew.tasks.datasets.specification import parse_dataset

    for specification in specifications or ():
        parse_dataset(specification)
    parts = (specification.partition(":") for specification in specifications or ())
    return tuple(Source(format=name, path=path) for name, _, path in parts)
