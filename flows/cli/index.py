"""The commands `index`, with those of the generations of a name, and `search`."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from rich.markup import escape
from rich.padding import Padding
from rich.prompt import Prompt
from rich.table import Column
from rich.text import Text
from typer import Argument, Option

from vitalfew.configs.installing import install_command
from vitalfew.configs.loading import build
from vitalfew.configs.schema import ALPHA, RETRIEVER, Execution, GateConfig, IndexCorpus, RetrieveConfig, Search
from vitalfew.flows.cli import completion, options
from vitalfew.flows.cli.costs import quoted_and_actual
from vitalfew.flows.cli.options import at_end
from vitalfew.flows.cli.terminal import asking, err, execute, out, prepare, print_table, say, table
from vitalfew.storage.costs import find_quote
from vitalfew.storage.runs import find_index
from vitalfew.tasks.datasets.base import InputError, check_question
from vitalfew.tasks.registry import METHODS
from vitalfew.tasks.reports.shown.text import printable

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.gate import Gated
    from vitalfew.storage.artifacts import Manifest
    from vitalfew.storage.generations import Generation


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
    encode: Annotated[
        str | None,
        Option(
            metavar="<all|later>",
            help="later: encode only passages that keywords find, as questions ask for them; all: encode every passage "
            "(default). As --set encode.vectors=….",
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

    A large corpus is ready in a hundredth of the time where its passages are encoded later, as questions ask for them.
    `--encode all` encodes the rest of an index, whenever you like:

        vitalfew index titletext:large.json --name large --encode later
        vitalfew index --name large --encode all
    """
    prepare(verbose)
    given = {"store": store, "workers": workers, "runner": runner, "max_usd": max_usd, "until_cap": yes or None}
    if corpus:
        if datasets or name or config or assignments or encode:
            raise InputError(f"--corpus {corpus}: its data sets and settings are in its file, so give no others")
        from vitalfew.flows.pipelines.named import find_corpus
        from vitalfew.flows.pipelines.re_encode import index_parameters

        found = find_corpus(corpus, store)
        _index(index_parameters(found, options.layers(None, None, **given)[-1]), found.gate)
        return
    if encode:
        assignments = [*(assignments or []), f"encode.vectors={encode}"]
    if not datasets and name and encode:  # of an index that there is
        there = {
            key: value for key, value in find_index(store, name).config.items() if key not in Execution.model_fields
        }
        _index(build(IndexCorpus, there, *options.layers(config, assignments, **given)))
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
    indexed(parameters, outcome, gated)
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
                _print_verdict(gated)
    _publish(parameters.store, parameters.name)
    if gated and not gated.is_promoted:
        raise typer.Exit(NOT_PROMOTED)


def _without_name(datasets: list[str]) -> str:
    """An error of `index` without a name: first what is wrong with the data sets, and the whole command."""
    from vitalfew.tasks.datasets.specification import likely, parse_dataset

    faults, proposed = [], []
    for dataset in datasets:
        try:
            parse_dataset(dataset)
            proposed.append(dataset)
        except ValueError as error:
            faults.append(f"{error}. ")
            proposed.append(dataset if ":" in dataset else likely(dataset))
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
        Option(
            metavar="ALPHA",
            help=f"Weight of a sentence against its context, for core_context and hybrid; default: {ALPHA}.",
        ),
    ] = None,
    top_k: Annotated[int | None, Option(metavar="K", help="Units to show; default: 10.")] = None,
    retriever: Annotated[
        str | None,
        Option(metavar="NAME", autocompletion=_retrievers, help=f"{' or '.join(_retrievers())}; default: {RETRIEVER}."),
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

        vitalfew search "Who founded the town of Velmar?" --index toy --top-k 5

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
        _print_hits(question, index, request, hits, full, searched, keyword)
        if searched and not hits and not searcher.index.is_encoded:
            say("Without all vectors a passage that shares no word with the question is not found. To encode the rest:")
            say(f"  vitalfew index --name {index} --encode all{options.at_end(store)}")


def history(name: options.IndexName, form: options.Format = "table", store: options.Store = options.STORE) -> None:
    """List the generations of an index.

    A generation is a finished build. The list says which one a search finds, and who decided so. settings and corpus
    are fingerprints: generations with the same settings differ in their corpus alone. The gate's verdict is empty where
    none judged; the last decision says who promoted, declined or rolled back, whatever the gate said. `store gc`
    removes the artifacts of old generations; their lines stay. A narrow terminal has no room for all columns; --format
    json and the tables generations and decisions have them.

        vitalfew index history wiki
    """
    from vitalfew.flows.pipelines.on_promote import describe_on_promote
    from vitalfew.storage import decisions, generations

    decided, known = decisions.of(store, name), generations.history(store, name)
    states = {find_index(store, name).generation or known[-1].number: "current"}
    states |= dict.fromkeys(generations.removed(store, known), "removed")
    listed = [
        {
            "generation": each.number,
            "state": states.get(each.number, ""),
            "made_at": each.made,
            "run_id": each.run_id,
            "settings": each.settings,
            "corpus": each.corpus,
            "verdict": each.verdict,
            "said": each.gate.said if each.gate else "",
            "decisions": [vars(one) for one in decided if one.generation == each.number],
        }
        for each in known
    ]
    if form == "json":
        print(json.dumps(listed, indent=1))
        return
    heads = ("state", "made", "run", "settings", "corpus", "gate's verdict")
    columns = (Column(heading, no_wrap=True) for heading in heads)
    shown = table(Column("generation", justify="right", no_wrap=True), *columns, "last decision")
    for each in known:
        own = (states.get(each.number, ""), _minute(each.made), each.run_id, each.settings[:8], each.corpus[:8])
        last = decisions.latest(decided, each.number)
        by = f"{last.decision} by {last.decider}" if last else ""
        shown.add_row(str(each.number), *own, escape(each.verdict), escape(by))
    print_table(shown, "settings", "corpus", "run")
    for one in decided:
        if one.is_personal and one.note:
            out.print("", escape(f"{one.decision} {one.generation}: {one.note}"))
    newest = decisions.latest(decided, known[-1].number)
    said = str(listed[-1]["said"])
    if newest and newest.is_personal:
        said = f"Generation {newest.generation}: {newest.decision} by {newest.decider}, {_minute(newest.time)} UTC."
    if said:
        out.print("", escape(said))
    if published := describe_on_promote(store, name):
        out.print("", escape(published))


Note = Annotated[str, Option("--note", metavar="TEXT", help="Your reason; `index history` shows it.")]


def promote(
    name: options.IndexName,
    generation: Annotated[
        int | None, Argument(metavar="GENERATION", help="A number of `index history`; default: the latest.")
    ] = None,
    note: Note = "",
    corpora: options.Corpora = None,
    store: options.Store = options.STORE,
) -> None:
    """Point an index at another generation.

    Searches find it at once, and servers follow within seconds. Nothing is encoded, and no gate is asked. `vitalfew
    index rollback NAME` takes it back.

        vitalfew index promote wiki 3 --note "The lost pages are obsolete"
    """
    from vitalfew.storage import generations

    _tell(store, generations.promote(store, name, generation, note=note, by="command"), corpora)


def rollback(
    name: options.IndexName,
    note: Note = "",
    corpora: options.Corpora = None,
    store: options.Store = options.STORE,
) -> None:
    """Point an index at its previous generation.

    Nothing is encoded. It holds until another generation is built or promoted. Indexing the same corpus again with the
    same settings does not undo it.

        vitalfew index rollback wiki
    """
    from vitalfew.storage import generations

    _tell(store, generations.rollback(store, name, note, "command"), corpora)


def decline(
    name: options.IndexName,
    generation: Annotated[int, Argument(metavar="GENERATION", help="A number of `index history`.")],
    note: Note = "",
    store: options.Store = options.STORE,
) -> None:
    """Decline a generation.

    No gate promotes it any more. Nor does a gate promote another build of the same. Searches go on with the current
    one. `vitalfew index promote NAME GENERATION` takes it back.

        vitalfew index decline wiki 4 --note "The guides are missing"
    """
    from vitalfew.storage import generations

    generations.decline(store, name, generation, note, "command")
    say(f"Generation {generation} of [b]{escape(name)}[/] is declined: no gate promotes it.")


def _tell(store: Path, chosen: "Generation", corpora: Path | None) -> None:
    say(f"Index [b]{chosen.name}[/] is generation {chosen.number} now (made {_minute(chosen.made)}).")
    _publish(store, chosen.name, corpora)


def _publish(store: Path, name: str, corpora: Path | None = None) -> None:
    """Run what a corpus wants after a promotion, and say how it went."""
    from vitalfew.flows.pipelines.on_promote import run_on_promote

    if said := run_on_promote(store, name, corpora):
        say(escape(said))


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


_NOTES = {
    "whole": "[yellow]{count:,} of {passages:,} passages gave no propositions[/] and were kept whole.",
    "incomplete": "[yellow]The propositions of {count:,} passages were cut off[/]; the complete ones were kept. To get "
    "all, index with a larger split.max_new_tokens.",
    "truncated": "[yellow]{count:,} texts exceed the maximum length of the encoder[/] and were truncated: their ends "
    "are not found by meaning. Cut shorter passages (folder:PATH?words=150), or take an encoder that reads more.",
}
"""What is said of the notes of the stages."""


def indexed(parameters: IndexCorpus, outcome: Any, gated: "Gated | None" = None) -> None:
    """Print what an index run made and what it skipped, what its gate said, and the next command."""
    load, manifests, at = outcome.manifests[0], outcome.manifests, at_end(parameters.store)
    say(_summary(parameters, manifests))
    rejected(load, parameters)
    if known := sum(manifest.note("reused") for manifest in outcome.new()):
        vectors = sum(manifest.rows.get("vectors", 0) for manifest in manifests)
        out.print(f"{known:,} of {vectors:,} vectors were already in the store and were not encoded again.")
    for note, said in _NOTES.items():
        if count := sum(manifest.note(note) for manifest in manifests):
            out.print(said.format(count=count, passages=load.rows["passages"]))
    for manifest in manifests:
        if compared := manifest.note("compared"):
            same = manifest.note("nearest_same") / max(1, manifest.note("nearest"))
            out.print(
                f"int8 against float32, {compared:,} texts: worst cosine {manifest.note('worst_cosine') / 1e6:.4f}, "
                f"{same:.3f} of the ten nearest are the same."
            )
        _unread(manifest, parameters)
    if len(outcome.reused) == len(manifests):
        out.print("Nothing to do: all artifacts already exist.")
    if any(find_quote(parameters.store, manifest.artifact.split("/")[1]) for manifest in outcome.new()):
        from vitalfew.storage.catalog.database import connect

        with connect(parameters.store) as connection:
            quoted_and_actual(connection, outcome.run.run_id)
    ready, now = "ready", find_index(parameters.store, parameters.name)
    if gated:
        _gate(gated)
        ready = "ready" if gated.is_promoted else f"generation {gated.record.against} as before"
    elif {*now.artifacts.values()} != {manifest.artifact for manifest in manifests}:  # it was rolled back
        out.print(
            f"[yellow]Searches still use generation {now.generation}[/], which was chosen by promote or rollback. "
            "To use this build:"
        )
        say(f"  vitalfew index promote {parameters.name}{at}")
    out.print(f"Index [b]{parameters.name}[/] is {ready}:")
    say(f'  vitalfew search "…" --index {parameters.name}{at}')


def _gate(gated: "Gated") -> None:
    """Print the figures of a gate and its verdict."""
    from vitalfew.tasks.reports.shown.gated import HEADS, cells, notes

    if gated.record.figures:
        words = [Column(heading, no_wrap=True) for heading in (*HEADS[:2], HEADS[-1])]
        figures = [Column(heading, justify="right", no_wrap=True) for heading in HEADS[2:-1]]
        rows = (map(escape, cells(figure)) for figure in gated.record.figures)
        shown = table(*words[:2], *figures, words[2], rows=rows)
        out.print()
        print_table(shown, "margin", "difference", "questions", "current", "candidate")
    for note in notes(gated.generation, gated.cost):
        out.print(escape(note))
    _print_verdict(gated)


def _print_verdict(gated: "Gated") -> None:
    """Print the verdict on a new generation, a line for each sentence and figure."""
    color = "green" if gated.is_promoted else "yellow"
    said = gated.record.said.replace(". ", ".\n").replace("; ", ";\n")
    say(f"[{color}]{escape(said)}[/]\n")


def _summary(parameters: IndexCorpus, manifests: Sequence["Manifest"]) -> str:
    """Say what was made: '9,438 sentences, 902 passages from 31 files, 29 MB, exact search'."""
    made = next((manifest for manifest in manifests if manifest.stage == "index"), None)
    quality = made.read(parameters.store, "index_quality").to_pylist() if made else []
    chosen = {row["unit"]: row for row in quality if row["chosen"]}
    counts = {unit: row["vectors"] for unit, row in chosen.items()}
    counts["passage"] = manifests[0].rows["passages"]
    units = [f"{count:,} {unit}{'s' * (count != 1)}" for unit, count in counts.items()]
    units[-1] += _files(manifests[0], parameters)
    size = sum(file.bytes for manifest in manifests for file in manifest.files())
    recalls = [f"{row['recall_at_10']:.2f} of {unit}s" for unit, row in chosen.items() if row["probes"]]
    if not made:
        return ", ".join([*units, decimal(size, precision=0), "search by keywords, vectors on demand"])
    search = f"approximate search (recall@10: {', '.join(recalls)})" if recalls else "exact search"
    return ", ".join([*units, decimal(size, precision=0), search])


def rejected(load: "Manifest", parameters: Execution) -> None:
    """Print how many rows or files of the sources were not used, if any, why, and how to see which."""
    reasons: Counter[str] = Counter()
    if load.rows.get("rejects", 0):
        reasons.update(load.read(parameters.store, "rejects", ["reason"])["reason"].to_pylist())
    skipped = [f"{count:,} {reason}" for reason, count in reasons.most_common(_REASONS)]
    if len(reasons) > _REASONS:
        skipped.append(f"others for {len(reasons) - _REASONS} more reasons")
    skipped += [f"{count:,} {what}" for note, what in _LEFT_OUT.items() if (count := load.note(note))]
    if skipped:
        say(f"[yellow]Skipped:[/] {escape(', '.join(skipped))}")
    if not reasons:
        return
    fingerprint = load.artifact.partition("/")[2]
    out.print("To list the rejects:")
    say(
        f"  vitalfew sql \"SELECT source, reason, detail FROM rejects WHERE fingerprint = '{fingerprint}'\""
        f"{at_end(parameters.store)}"
    )
    for reason in (reason for reason, _ in reasons.most_common(_REASONS) if reason in _REMEDIES):
        say(f"  {reason}: {_REMEDIES[reason].format(documents=escape(install_command('documents')))}")


def _unread(manifest: "Manifest", parameters: IndexCorpus) -> None:
    """Say where the encoder does not know the scripts of the corpus, by a sample of it."""
    from vitalfew.tasks.encoders.scripts import LETTERS, UNREAD

    first = manifest.shards[0].notes if manifest.shards else {}
    lost = {name.removeprefix(UNREAD): count for name, count in first.items() if name.startswith(UNREAD)}
    share = sum(lost.values()) / max(1, first.get(LETTERS, 0))
    if share >= _MUCH:
        out.print(
            f"[yellow]{share:.0%} of the letters are of scripts that the encoder {escape(parameters.encode.encoder)} "
            f"does not know[/] ({', '.join(map(str.title, lost))}): it finds little of them by meaning. Take a "
            "multilingual encoder, such as intfloat/multilingual-e5-small:"
        )
        say("  --set encode.encoder=huggingface --set encode.model=DIRECTORY")


_MUCH = 0.1
"""The share of unknown letters from which it is said."""


_REMEDIES = {
    "duplicate": "the same text stands elsewhere; it is found once, under all its names",
    "missing_reader": "{documents}, then index again",
    "invalid_unicode": "the details name the likely encoding; encoding= reads it",
    "over_long": "cut the files, or raise the setting that the details name",
    "over_time": "raise load.document_seconds, or leave the files out with exclude=",
    "over_memory": "raise load.document_mb, or leave the files out with exclude=",
    "encrypted": "save the files without a password",
    "no_text": "scans need text first, for example by ocrmypdf",
    "binary_file": "leave them out with exclude= or .vitalfewignore",
    "missing_column": "name the columns with text=, question=, answers=",
}
"""What helps against the rejects of a reason, as markup; the details of others say what is wrong."""
_LEFT_OUT = {
    "excluded_files": "left out by patterns (defaults, exclude= or .vitalfewignore)",
    "includes_not_followed": "includes (index the files that they name)",
    "pages_without_text": "pages without text, such as scans (they need text first, for example by ocrmypdf)",
}
"""Notes of a load on what no row of `rejects` has."""

_REASONS = 4
"""The most reasons whose numbers are printed."""


def _files(load: "Manifest", parameters: IndexCorpus) -> str:
    """' from 31 files', if all sources are folders: a passage is called by its file and heading."""
    from vitalfew.tasks.datasets.gold import file_of

    if not all(dataset.startswith("folder:") for dataset in parameters.datasets):
        return ""
    rows = load.read(parameters.store, "passages", ["source", "source_id", "also"]).to_pylist()
    files = {(row["source"], file_of(name)) for row in rows for name in (row["source_id"], *row["also"])}
    return f" from {len(files):,} file{'s' * (len(files) != 1)}"


def _print_hits(
    question: str,
    index: str,
    request: RetrieveConfig,
    ranked: Sequence[Any],
    full: bool,
    searched: bool,
    has_keyword: bool,
) -> None:
    """Print hits in three lines: rank, score, title, file and place; then the matched text, between » and «, with some
    words around it. `full`: with the parts of the score and the whole passage; `searched`: whether any passage was;
    `has_keyword`: whether the question has one."""
    alpha = getattr(request, "alpha", None)
    how = request.retriever if alpha is None else f"{request.retriever}, alpha {alpha:g}"
    out.print(f"[b]{escape(printable(question))}[/]  ({index}, {how})\n")
    for hit in ranked:
        out.print(_heading(hit), no_wrap=True, overflow="ellipsis")
        if full and hit.core is not None:
            context = "" if hit.context is None else f", context {hit.context:.3f}"
            out.print(f"    core {hit.core:.3f}{context}", style="dim")
        room = None if full else 2 * (out.width - _INDENT) - _WRAPPED
        out.print(Padding(_marked(hit, room), (0, 0, 0, _INDENT)))
    if not ranked and not searched:
        say(f"No passage fulfils the condition of --where: {escape(printable(str(request.where)))}")
    elif not ranked:
        say("There are no hits" + (_NO_WORD if request.retriever == "bm25" and has_keyword else "."))
    if not has_keyword:
        say("Nothing of the question is a keyword: words like the, of, is, and punctuation are none. Ask with others.")


_NO_WORD = ": no unit has a word of the question. Words like the, of, is count only where a text has no others."
_INDENT = 4
_WRAPPED = 12
"""Characters that the end of a line may leave free, where a long word begins the next one."""


def _heading(hit: Any) -> Text:
    text = Text(f"{hit.rank:>3} {hit.score:.3f}  ")
    place = printable(", ".join([hit.source_id, *hit.also]))
    room = max(12, out.width - len(text) - len(place) - 3)
    title = printable(hit.title) or "untitled"
    text.append(title if len(title) <= room else f"{title[: room - 1]}…", style="cyan")
    text.append(f"  {place}", style="dim")
    return text


def _marked(hit: Any, room: int | None) -> Text:
    """The text of a hit in its passage, marked; `room`: characters of all of it, at most."""
    start, end = (hit.start, hit.end) if hit.end > hit.start else (0, 0)
    before, found, after = hit.passage[:start], hit.text, hit.passage[end:] if end else ""
    if room is not None:
        before, found, after = (" ".join(part.split()) for part in (before, found, after))
        found = found if len(found) <= room - 2 else f"{found[: room - 3]}…"
        left = max(0, room - len(found) - 4)
        before = _first(before[::-1], left // 3)[::-1]
        after = _first(after, left - len(before))
        before, after = before and f"{before} ", after and f" {after}"
    text = Text(printable(before), style="dim")
    text.append(f"»{printable(found)}«", style="not dim bold")
    return text.append(printable(after))


def _first(text: str, room: int) -> str:
    """The first words of a text, in so many characters."""
    return text if len(text) <= room else f"{text[:room].rpartition(' ')[0]}…" if room > 1 else ""
