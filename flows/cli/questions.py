"""`vitalfew questions`: questions that are written from a corpus."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from typer import Argument, Option

from vitalfew.configs.loading import build
from vitalfew.configs.writing import WriteQuestions
from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import Command, Group, execute, out, prepare, say, table
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.registry import UnknownName, resolve

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.run import Outcome

questions_app = typer.Typer(name="questions", cls=Group, no_args_is_help=True, help="Generate questions from a corpus.")
SetName = Annotated[
    str, Argument(metavar="NAME", help="Name of a set of written questions: its index's, or that of --name.")
]


@questions_app.command(cls=Command)
def write(
    index: options.Index = None,
    n: options.N = None,
    writer: Annotated[
        str | None, Option(metavar="NAME", help="A writer of `methods`; default: cloze, or llm with --model.")
    ] = None,
    model: options.WriterModel = None,
    name: Annotated[
        str | None, Option(metavar="NAME", help="Name for the set of questions; default: the name of the index.")
    ] = None,
    store: options.Store = options.STORE,
    config: options.Config = None,
    assignments: options.WriterSettings = None,
    workers: options.Workers = None,
    runner: options.Runner = None,
    max_usd: options.MaxUsd = None,
    yes: options.Yes = False,
    verbose: options.Verbose = False,
) -> None:
    """Write questions from the passages of an index.

    A question has its answers and the passages that have them. Passages are drawn by document, so that one long file
    does not dominate, and documents are halved into development and test. The writer cloze needs no language model: it
    leaves a name or a number out of a sentence, which measures retrieval, not answers.

        vitalfew questions write --index handbook --n 200
        vitalfew questions write --index handbook --model openai:NAME
    """
    prepare(verbose)
    writer = writer or ("llm" if model else None)
    own = {key: value for key, value in (("n", n), ("writer", writer)) if value is not None}
    given = {"store": store, "workers": workers, "runner": runner, "max_usd": max_usd, "until_cap": yes or None}
    assignments = [*options.of_model(model, "write"), *(assignments or [])]
    settings = options.with_index(options.layers(config, assignments, index=index, name=name, **given))
    parameters = build(WriteQuestions, *settings, {"write": own})
    _tell(parameters, execute(parameters))


def _tell(parameters: WriteQuestions, outcome: "Outcome") -> None:
    """Print how many questions there are, of which kinds and halves, what was refused, and the next commands."""
    from vitalfew.flows.pipelines.write_questions import questions_of, tried_all
    from vitalfew.tasks.datasets.written import written
    from vitalfew.tasks.write import reasons_of

    artifact, at = written(parameters.store, outcome.run.name), options.at_end(parameters.store)
    rows = questions_of(artifact)
    if outcome.reused:
        out.print("Nothing to do: the questions are already written.")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in _counts(rows["kind"]))
    halves = ", ".join(f"{count:,} {half}" for half, count in _counts(rows["half"]))
    documents = len(set(zip(rows["source"].to_pylist(), rows["document"].to_pylist(), strict=True)))
    say(f"{_counted(len(rows), 'question')} from {_counted(documents, 'document')}: {kinds}; {halves}.")
    if refused := reasons_of(artifact.read(0, "rejects")):
        listed = ", ".join(f"{count:,} {reason}" for reason, count in refused)
        say(f"[yellow]Passages that gave no question:[/] {escape(listed)}. To list them:")
        asked = f"SELECT reason, detail FROM rejects WHERE fingerprint = '{artifact.fingerprint}'"
        say(f'  vitalfew sql "{asked}"{at}')
    if len(rows) < (wanted := parameters.write.n):
        why = "the passages that were tried gave no more; `--set write.spare=20` tries more of them"
        if tried_all(artifact):
            why = "all passages of the index were tried, and one gives one question at most"
        say(f"[yellow]Fewer than the {wanted:,} that were asked for:[/] {why}.")
    measures = resolve("writer", parameters.write.writer).measures
    out.print(f"Writer {escape(parameters.write.writer)}: these questions measure [b]{measures}[/].")
    name = outcome.run.name
    out.print("To read, ask and edit them:")
    say(f"  vitalfew questions show {name}{at}")
    asked = f"--index {escape(parameters.index)} --set questions.dataset=written:{name}"
    say(f"  vitalfew evaluate retrieval_only {asked}{at}")
    say(f"  vitalfew questions export {name} --out {name}.jsonl{at}")


def _counts(column: Any) -> list[tuple[str, int]]:
    return sorted((row["values"], row["counts"]) for row in column.value_counts().to_pylist())


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


@questions_app.command(cls=Command)
def show(
    name: SetName,
    n: Annotated[int, Option(metavar="N", min=1, help="Number of questions to show.")] = 20,
    store: options.Store = options.STORE,
) -> None:
    """Print written questions, answers and passages.

    vitalfew questions show handbook --n 10
    """
    from vitalfew.flows.pipelines.write_questions import questions_of
    from vitalfew.tasks.datasets.written import written

    rows = questions_of(written(store, name))
    cells = (
        (row["half"], row["kind"], row["text"], "; ".join(row["answers"]), row["source_id"] or row["document"])
        for row in rows.slice(0, n).to_pylist()
    )
    out.print(table("half", "kind", "question", "answer", "passage", rows=(map(escape, row) for row in cells)))
    if len(rows) > n:
        say(f"{len(rows) - n:,} more: vitalfew questions show {escape(name)} --n {len(rows)}{options.at_end(store)}")


@questions_app.command(cls=Command)
def export(
    name: SetName,
    file: Annotated[
        Path, Option("--out", metavar="FILE.jsonl", help="File to write; it must not exist.", dir_okay=False)
    ],
    kinds: Annotated[
        list[str] | None,
        Option("--kind", metavar="KIND", help="Questions of this kind alone, such as unanswerable; repeatable."),
    ] = None,
    store: options.Store = options.STORE,
) -> None:
    """Write a set of questions as JSON Lines.

    The file is for people to edit, and for `questions.dataset=jsonl:FILE`. A line has the question, its answers, the
    document and the quote that answers. The gold passages are those of the document in which the quote stands. A
    question of two hops has two quotes, an unanswerable one no answer. Ids begin with the half.

        vitalfew questions export handbook --out handbook.jsonl
    """
    from vitalfew.flows.pipelines.write_questions import questions_of
    from vitalfew.storage import files
    from vitalfew.tasks.datasets.written import as_line, written

    rows = questions_of(written(store, name))
    known = sorted(set(rows["kind"].to_pylist()))
    for kind in kinds or ():
        if kind not in known:
            raise UnknownName("kind of questions", kind, known)
    if kinds:
        rows = rows.filter([kind in kinds for kind in rows["kind"].to_pylist()])
    if file.suffix != ".jsonl":
        raise InputError(f"--out {file}: the file must end in .jsonl")
    if files.exists(file):
        raise InputError(f"--out {file}: there is such a file, perhaps one that was edited; give another name")
    files.write_text(file, "".join(json.dumps(as_line(row), ensure_ascii=False) + "\n" for row in rows.to_pylist()))
    say(f"{_counted(len(rows), 'question')} in {escape(str(file))}:")
    at = options.at_end(store)
    say(f"  vitalfew evaluate retrieval_only --index NAME --set questions.dataset=jsonl:{escape(str(file))}{at}")
