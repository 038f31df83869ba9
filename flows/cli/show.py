"""The output of the commands."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column
from rich.text import Text

from vitalfew.configs.installing import install_command
from vitalfew.configs.schema import Execution, IndexCorpus, RetrieveConfig
from vitalfew.flows.cli.options import at_end
from vitalfew.flows.cli.terminal import out, print_table, say, table
from vitalfew.storage.costs import find_quote
from vitalfew.storage.runs import find_index
from vitalfew.tasks.reports.shown.text import printable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from vitalfew.flows.pipelines.gate import Gated
    from vitalfew.storage.artifacts import Manifest


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
    verdict(gated)


def verdict(gated: "Gated") -> None:
    """Print the verdict on a new generation, a line for each sentence and figure."""
    color = "green" if gated.is_promoted else "yellow"
    said = gated.record.said.replace(". ", ".\n").replace("; ", ";\n")
    say(f"[{color}]{escape(said)}[/]\n")


def quoted_and_actual(connection: "DuckDBPyConnection", run: str) -> None:
    """Print what the artifacts of a run were quoted and took, by stage, if any was quoted."""
    pairs = ", ".join(f"{sum.format('quoted_')}, {sum.format('')}" for sum in _LEDGER.values())
    rows = connection.execute(
        f"SELECT stage, {pairs} FROM (SELECT fingerprint, row_number() OVER () AS place FROM quoted(?)) "
        "JOIN ledger USING (fingerprint) GROUP BY stage ORDER BY min(place)",
        [run],
    ).fetchall()
    if not rows:
        return
    shown = table(Column("stage", no_wrap=True), figures=_LEDGER, padding=(0, 1, 0, 0))
    for stage, *figures in rows:
        sides = zip(figures[::2], figures[1::2], strict=True)
        shown.add_row(stage, *(f"{_short(quoted)} → {_short(true)}" for quoted, true in sides))
    out.print("\nEstimate → actual:")
    print_table(shown, "peak MiB", "rows")


_LEDGER = {
    "rows": "sum({}rows)",
    "tokens": "sum({}tokens)",
    "wall s": "sum({}wall_seconds)",
    "CPU s": "sum({}cpu_seconds)",
    "peak MiB": "max({}peak_memory_bytes) / 1048576",
    "disk MiB": "sum({}disk_bytes) / 1048576",
    "USD": "sum({}usd)",
}


def _short(value: float | None) -> str:
    if value is None:  # the size of an artifact that was removed later
        return "removed"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _summary(parameters: IndexCorpus, manifests: Sequence["Manifest"]) -> str:
    """What was made: '9,438 sentences, 902 passages from 31 files, 29 MB, exact search'."""
    made = next((manifest for manifest in manifests if manifest.stage == "index"), None)
    quality = made.read(parameters.store, "index_quality").to_pylist() if made else []
    chosen = {row["unit"]: row for row in quality if row["chosen"]}
    counts = {unit: row["vectors"] for unit, row in chosen.items()}
    counts["passage"] = manifests[0].rows["passages"]
    units = [f"{count:,} {unit}{'s' * (count != 1)}" for unit, count in counts.items()]
    units[-1] += _files(manifests[0], parameters)
    size = sum(file.bytes for manifest in manifests for file in manifest.files())
    recalls = [f"{row['recall_at_10']:.2f} of {unit}s" for unit, row in chosen.items() if row["probes"]]
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


def hits(
    question: str,
    index: str,
    request: RetrieveConfig,
    ranked: Sequence[Any],
    full: bool = False,
    searched: bool = True,
    has_keyword: bool = True,
) -> None:
    """Print hits in three lines: rank, score, title, file and place; then the matched text, between » and «, with some
    words around it. `full`: with the parts of the score and the whole passage; `searched`: whether any passage was;
    `has_keyword`: whether the question has one."""
    alpha = getattr(request, "alpha", None)
    how = request.retriever if alpha is None else f"{request.retriever}, alpha {alpha:g}"
    out.print(f"[b]{escape(printable(question))}[/]  ({index}, {how})\n")
    for hit in ranked:
        out.print(_heading(hit), no_wrap=True, overflow="ellipsis")
        if full:
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


def trained(artifact: str, figures: Sequence[Mapping[str, Any]], headings: Mapping[str, str]) -> None:
    """Print the measurements of a training on the held-out part. `headings`: of figures with an unclear name."""
    columns = (
        Column(headings.get(name, name.replace("_", " ")), justify="left" if isinstance(value, str) else "right")
        for name, value in figures[0].items()
    )
    out.print(table(*columns, rows=(map(_figure, row.values()) for row in figures)))
    say(f"Measured on held-out data. Artifact: {escape(artifact)}")


def _figure(value: Any) -> str:
    """A figure in readable form; a number has at most three decimals."""
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else escape(printable(str(value)))
