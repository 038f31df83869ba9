"""The commands `start` and `demo`: from documents to a method to serve, with the command of every step."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from typer import Argument, Option

from vitalfew.configs.evaluation import SECTIONS, Experiment
from vitalfew.configs.installing import install_command
from vitalfew.configs.loading import build, flat, parse_assignments
from vitalfew.configs.schema import Execution, IndexCorpus
from vitalfew.flows.cli import options
from vitalfew.flows.cli.evaluate import evaluate
from vitalfew.flows.cli.index import index, search
from vitalfew.flows.cli.options import at, sets
from vitalfew.flows.cli.questions import write
from vitalfew.flows.cli.serve import answer
from vitalfew.flows.cli.terminal import command, out, prepare, say, step, took
from vitalfew.tasks.datasets.base import InputError

if TYPE_CHECKING:
    from vitalfew.tasks.report import WrittenReport


RETRIEVAL, ANSWERS = "start", "start_answers"
"""The experiments that compare methods by what they find, and by the answers that are given from it."""
LATER = "encode.vectors=later"
LONG, MANY_BYTES = 60.0, 500_000
"""Seconds of encoding that are saved where it is done later, and bytes of documents from which they are estimated."""
QUESTIONS = 200
"""Questions of the comparison, as many as are written by default: the passages that they ask for are encoded."""
PEEKED = 10_000
"""Questions that are looked at to see what they can measure, at most."""
ENGLISH = frozenset(["the", "of", "and", "to", "is", "that", "for", "with", "are", "it"])
SHARE = 0.05
"""English texts have about a fifth of ENGLISH among their words; texts of code with comments, some fewer."""


def start(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Folder with your documents.")],
    name: Annotated[str | None, Option(metavar="NAME", help="Name of the index; default: the folder's.")] = None,
    questions: Annotated[
        str | None, Option(metavar="FILE.jsonl", help="Your questions; default: questions are generated.")
    ] = None,
    n: options.N = None,
    writer: Annotated[
        str | None, Option(metavar="NAME", help="cloze (default) needs no language model; llm asks that of --model.")
    ] = None,
    model: options.Model = None,
    store: options.Store = options.STORE,
    assignments: options.StepSettings = None,
    max_usd: options.MaxUsd = None,
    yes: options.Yes = False,
    verbose: options.Verbose = False,
) -> None:
    """Find the method that suits your documents.

    Every step is a command that you can run by itself, and is printed before it runs: index, questions write, evaluate.
    All methods pass on at most 300 tokens (words and punctuation marks). Rerun after a crash: the command resumes.

        vitalfew start handbook

    By default no language model is needed, and questions are sentences of your documents with a name or number left
    out. They show what a search finds, and favour searches for sentences and words: the last screen says how far to
    trust them. A language model writes better ones, and answers them:

        vitalfew start handbook --writer llm --model openai:NAME

    Real questions decide. A line of the file is a question with its answers, source or quote, such as {"question": "Who
    approves trips?", "answers": ["the director"], "source": "travel.md"}:

        vitalfew start handbook --questions questions.jsonl

    --set takes the settings of all steps: those of index (encode.encoder), write (write.model) and evaluate
    (generate.generator).
    """
    prepare(verbose)
    from vitalfew.tasks.models.causal.engines.budget import capped
    from vitalfew.tasks.reports.advice import advice

    documents = f"folder:{_folder(folder)}"
    name = name or "-".join(re.findall(r"[A-Za-z0-9_.]+", folder.resolve().name)).strip("._-")[:100] or "mine"
    if questions is not None and (n is not None or writer is not None):
        raise InputError(
            "--n and --writer are for questions that are written: leave them out, or leave out --questions"
        )
    writing = options.of_model(model, "write") if writer == "llm" else []
    given = _by_step([*options.of_model(model, "generate"), *writing, *(assignments or [])])
    given["index"] = _checked(store, name, documents, given["index"])
    here: dict[str, Any] = {"store": store, "verbose": verbose, "max_usd": max_usd, "yes": yes}
    seconds: dict[str, float] = {}
    given_asked = _given_questions(store, questions) if questions is not None else None
    with capped(max_usd):
        with step(seconds, "index", documents, "--name", name, *sets(given["index"]), *at(store)):
            _index(documents, name, given["index"], here)
        asked = given_asked or _write_questions(seconds, name, n, writer, given["write"], here)
        answers = asked.experiment == ANSWERS  # else settings of a generator are for the answers that are served
        whole = [f"questions.dataset={asked.dataset}", *asked.settings]
        whole += [own for own in given["evaluate"] if answers or not own.startswith("generate.")]
        with step(seconds, "evaluate", asked.experiment, "--index", name, *sets(whole), *at(store)):
            evaluated = evaluate(asked.experiment, name, assignments=whole, **here)
        begin = advice(evaluated.report).method or evaluated.report.methods[0]
        # By the run's id the method keeps its generator, whatever is evaluated later.
        method = f"{evaluated.report.run_id if answers else ANSWERS}:{begin.name}"
        settings = [own for own in given["evaluate"] if own.partition("=")[0].partition(".")[0] in SECTIONS[1:]]
        if answers:
            words = (method, "--index", name, *sets(settings), *at(store))
            with step(seconds, "answer", asked.example, *words):
                answer(asked.example, method, name, max_usd=max_usd, store=store, assignments=settings, verbose=verbose)
    _last_screen(evaluated, asked, seconds, given["evaluate"])
    kept = sets(dict.fromkeys([*given["index"], *given["evaluate"]]))  # without those of the index it would be another
    _next(name, asked, method, settings, ("start", str(folder), "--name", name, *kept), at(store))
    if not _is_english(store, name):
        out.print(
            "\n[yellow]Your documents do not seem to be English.[/] The bundled encoder and reader know only English. "
            "Start again with an encoder of your language (--set encode.encoder=huggingface --set encode.model=NAME) "
            "and a language model that answers (--model openai:NAME)."
        )


@dataclass(frozen=True)
class _Posed:
    """The questions of a journey. `example`: the first; `experiment`: the one that can be judged by them, with the
    `settings` that it needs; `is_written`: a writer wrote them."""

    dataset: str
    example: str
    experiment: str
    is_written: bool
    settings: tuple[str, ...] = ()


def _write_questions(
    seconds: dict[str, float], name: str, n: int | None, writer: str | None, settings: list[str], here: dict[str, Any]
) -> _Posed:
    """Write the questions. Raises InputError, with what can be done without, where none can be written."""
    from vitalfew.flows.pipelines.write_questions import questions_of
    from vitalfew.tasks.datasets.written import written
    from vitalfew.tasks.registry import resolve

    store = here["store"]
    own = [*(["--n", str(n)] if n else []), *(["--writer", writer] if writer else []), *sets(settings)]
    with step(seconds, "questions", "write", "--index", name, *own, *at(store)):
        try:
            write(name, n=n, writer=writer, assignments=settings, **here)
        except InputError as error:
            raise InputError(
                f"{error}. Nothing can be compared without questions. The index is ready: vitalfew search QUESTION "
                f"--index {name}. With your questions (--questions FILE.jsonl) or of a language model "
                "(--writer llm), run `vitalfew start` again"
            ) from None
    artifact = written(store, name)
    config = parse_assignments(settings).get("write", {})
    measures = resolve("writer", writer or config.get("writer", "cloze")).measures
    example = questions_of(artifact)["text"][0].as_py()
    return _Posed(f"written:{name}", example, RETRIEVAL if "not answers" in measures else ANSWERS, True)


def _given_questions(store: Path, given: str) -> _Posed:
    """The questions of a file, or of any data set. Raises InputError where they have nothing to be judged by."""
    from vitalfew.tasks.datasets.base import Question
    from vitalfew.tasks.datasets.specification import likely, parse_dataset
    from vitalfew.tasks.datasets.written import located
    from vitalfew.tasks.writers.cloze import GAP

    dataset = given if ":" in given else likely(given)
    _, opened = parse_dataset(located(store, dataset))
    opened.files()
    read = [record for _, record in islice(opened.records(), PEEKED) if isinstance(record, Question)]
    if not read:
        raise InputError(f"--questions {given}: no row is a question; a row is one with `question` and without `text`")
    first = read[0].text
    is_gapped = 2 * sum(GAP in question.text for question in read) > len(read)
    if any(question.answers for question in read) and not is_gapped:
        return _Posed(dataset, first, ANSWERS, False)
    if any(question.supporting_facts or any(gold.quote for gold in question.gold_places) for question in read):
        return _Posed(dataset, first, RETRIEVAL, False)
    if any(question.gold_passages or question.gold_places for question in read):
        return _Posed(dataset, first, RETRIEVAL, False, ("primary=context_recall",))
    raise InputError(
        f"--questions {given}: methods cannot be compared by these questions. Add `answers`, a `source` (the file that "
        "answers) or a `quote` from it"
    )


def _folder(folder: Path) -> Path:
    """Raises InputError, with the remedy, for what is not a folder."""
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InputError(
            f"{folder} is a file, and `start` takes a folder of documents, such as `vitalfew start {folder.parent}`. "
            "For a file of passages: `vitalfew index FORMAT:PATH --name NAME` (`vitalfew datasets`)"
        )
    from vitalfew.tasks.datasets.files import check_source

    check_source(folder)  # names the folder with the most similar name
    raise InputError(f"{folder} is not a folder")


def _checked(store: Path, name: str, documents: str, given: list[str]) -> list[str]:
    """The settings of an index, completed. Raises InputError where the name stands for an index of other documents, or
    of other settings: both would be replaced for whoever uses the name."""
    from vitalfew.storage.runs import find_index, index_names

    settings = [*given, *_later(store, name, documents, given)]
    if name not in index_names(store):
        return settings
    there = find_index(store, name).config
    others = [*there["datasets"]]
    if [Path(each.removeprefix("folder:")).resolve() for each in others] != [Path(documents[7:]).resolve()]:
        raise InputError(
            f"there is an index {name} of {', '.join(others)} in this store; give another one: --name NAME"
        )
    if changed := _changed(store, there, documents, name, settings):
        raise InputError(
            f"index {name} has other settings: {', '.join(changed)}. Give them to keep it ({' '.join(sets(changed))}), "
            "or another name: --name NAME"
        )
    return settings


def _later(store: Path, name: str, documents: str, settings: Sequence[str]) -> list[str]:
    """The setting by which passages are encoded as questions ask for them, where that saves much time, as is said then;
    an index that there is keeps its own."""
    from vitalfew.flows.pipelines.estimate import NothingToTry, encoding
    from vitalfew.flows.pipelines.graph import graph
    from vitalfew.flows.pipelines.runner import source_bytes
    from vitalfew.storage.runs import find_index, index_names

    if any(own.partition("=")[0] in (LATER.partition("=")[0], "bm25.enabled") for own in settings):
        return []
    if name in index_names(store):
        return [LATER] if find_index(store, name).config["encode"].get("vectors") == "later" else []
    about = {"datasets": [documents], "name": name, "store": store, "runner": "serial"}
    try:
        plan = graph(build(IndexCorpus, about, parse_assignments(settings)))
        seconds, asked = encoding(plan, QUESTIONS) if source_bytes(plan) >= MANY_BYTES else (0.0, 1.0)
    except (InputError, NothingToTry):  # the index says it, with the remedy
        return []
    if seconds * (1 - asked) <= LONG:
        return []
    out.print(
        f"To encode all passages would take about {seconds / 60:,.0f} minutes. So a passage is encoded when a question "
        f"first asks for it: keywords find the passages that are compared. The comparison asks for about {asked:.0%} "
        "of them. This encodes the others, at any time:"
    )
    command("index", "--name", name, "--encode", "all", *at(store))
    out.print()
    return [LATER]


def _changed(store: Path, there: Mapping[str, Any], documents: str, name: str, settings: Sequence[str]) -> list[str]:
    """The settings of an index, as it was made, that would be others if it were made with these."""
    from vitalfew.flows.pipelines.graph import graph

    about = {"datasets": [documents], "name": name, "store": store}
    made = graph(build(IndexCorpus, about, parse_assignments(settings))).parameters.model_dump(mode="json")
    now = {key: own for key, own in flat(made) if "." in key and key.partition(".")[0] not in Execution.model_fields}
    changed = ((key, value) for key, value in flat(there) if key in now and now[key] != value)
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in changed]


def _by_step(assignments: Sequence[str]) -> dict[str, list[str]]:
    """The settings of every step, by its command's name; those of how to run (runner, workers) are of all. Raises
    ConfigError, UnknownName."""
    from vitalfew.tasks.registry import UnknownName

    parse_assignments(assignments)
    of_index = {*IndexCorpus.model_fields} - {"datasets", "name"}
    steps: dict[str, list[str]] = {"index": [], "write": [], "evaluate": []}
    for assignment in assignments:
        section = assignment.partition("=")[0].partition(".")[0].strip()
        if section in Execution.model_fields:
            for settings in steps.values():
                settings.append(assignment)
        elif section in of_index or section == "write":
            steps["write" if section == "write" else "index"].append(assignment)
        elif section in Experiment.model_fields or section in SECTIONS:
            steps["evaluate"].append(assignment)
        else:
            known = {*of_index, "write", *SECTIONS, *Experiment.model_fields} - {"name", "methods", "about", "repeats"}
            raise UnknownName("section of settings", section, sorted(known))
    return steps


def _index(documents: str, name: str, settings: list[str], here: dict[str, Any]) -> None:
    """Raises InputError, with what `start` reads, where no document can be read."""
    try:
        index([documents], name, assignments=settings, **here)
    except InputError as error:
        raise InputError(
            f"{error}. Markdown, HTML and text files are read. For reStructuredText, PDF, DOCX and notebooks: "
            f"{install_command('documents')}"
        ) from None


def _last_screen(evaluated: "WrittenReport", asked: _Posed, seconds: dict[str, float], settings: Sequence[str]) -> None:
    """Print what to do, what the figures mean, and the seconds of every step; the report above says why."""
    from vitalfew.storage import files
    from vitalfew.tasks.reports.advice import advice

    out.print(escape(advice(evaluated.report).headline), style="bold green")
    if any(own.startswith("primary=") for own in settings):
        meaning = "Quality is the primary metric that you set."
    elif asked.experiment == RETRIEVAL:
        what = "a text of their source" if asked.settings else "the sentence that answers"
        meaning = f"Quality is the share of questions whose context holds {what}; no answer is generated."
    else:
        meaning = "Quality is the share of questions that the model answered right."
    out.print(f"\n{meaning}")
    say(f"{took(seconds)} Page with plots: {escape(str(files.local(evaluated.html)))}")


def _next(
    name: str, asked: _Posed, method: str, settings: Sequence[str], again: Sequence[str], there: Sequence[str]
) -> None:
    """Print what to do next, command by command. `again`: the words that start again; `there`: those of the store."""
    out.print("\n[bold]Next steps[/]")
    if asked.is_written and asked.experiment == RETRIEVAL:
        say("So far the search was measured. To measure the answers too, which are then served as evaluated:")
        command("evaluate", ANSWERS, "--index", name, *sets([f"questions.dataset={asked.dataset}"]), *there)
    say("Ask your own question, and serve the method over HTTP:")
    command("answer", "YOUR QUESTION", method, "--index", name, *sets(settings), *there)
    command("serve", method, "--index", name, *sets(settings), *there)
    if not any(own.startswith("generate.") for own in settings):
        say("The bundled reader is for measuring: it copies a few words. Your language model answers in sentences:")
        command("serve", method, "--index", name, "--model", "openai:NAME", *sets(settings), *there)
    if asked.is_written:
        say("Look at the questions, or edit them and ask the file:")
        command("questions", "show", name, *there)
        command("questions", "export", name, "--out", f"{name}.jsonl", *there)
        say("Questions that people ask, with answers, sources or quotes, would settle the choice:")
        command(*again, "--questions", "FILE.jsonl", *there)
    if asked.is_written and asked.experiment == RETRIEVAL:
        say("Nearer to these than a gap: questions that a language model writes from your documents:")
        command(*again, "--writer", "llm", "--model", "openai:NAME", *there)


def _is_english(store: Path, name: str) -> bool:
    """Return whether the first passages of an index have English words as English texts have, or are too short to
    say."""
    from vitalfew.storage.runs import find_index

    passages = find_index(store, name).located(store)["passages"]
    shard = next(record.shard for record in passages.completed().shards if record.rows("passages"))
    texts = passages.read(shard, columns=["text"])["text"].slice(0, 1000).to_pylist()
    words = re.findall(r"\w+", " ".join(texts).lower())
    return len(words) < 100 or sum(word in ENGLISH for word in words) >= SHARE * len(words)


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
        f"{signed(difference.mean_difference)} (95 % interval {interval}, n = {difference.questions:,})"
    )
