"""`vitalfew store`: what is in a store, whether it is as it was written, and removal of what nothing refers to."""

import json
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Column
from typer import Argument, Option

from vitalfew.configs.schema import IndexCorpus
from vitalfew.configs.section import Config
from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import Command, Group, err, out, print_table, say, table
from vitalfew.tasks.registry import as_recorded, completed

store_app = typer.Typer(name="store", cls=Group, no_args_is_help=True, help="List, verify, copy and clean a store.")


@store_app.command(cls=Command)
def ls(form: options.Format = "table", store: options.Store = options.STORE) -> None:
    """List artifacts and named indexes.

    Shows their state, rows, size, age and cost, and the indexes and runs that use them. Reads only records and sizes;
    `verify` reads every byte.
    """
    from vitalfew.storage import files
    from vitalfew.storage.indexes.remembered import FOLDER as REMEMBERED
    from vitalfew.storage.upkeep.inventory import check_store, survey

    check_store(store)
    entries = survey(store)
    indexes = _indexes(store)
    free_bytes = None if files.is_in_bucket(store) else files.free_bytes(store)
    size = files.tree_bytes(store)
    if form == "json":
        listed = [{**asdict(entry), "artifact": entry.artifact.name} for entry in entries]
        whole = {"store": str(store), "artifacts": listed, "indexes": indexes, "bytes": size, "free_bytes": free_bytes}
        print(json.dumps(whole, indent=1))
        return
    figures = (Column(heading, justify="right", no_wrap=True) for heading in ("rows", "size", "age", "USD"))
    shown = table(Column("artifact", no_wrap=True), "stage", "state", *figures, "indexes", "runs")
    for entry in entries:
        shards = f"{entry.shards_done} of {entry.shards or '?'} shards"
        state = {"unfinished": f"[yellow]{shards}[/]", "damaged": f"[red]damaged[/]: {escape(entry.fault)}"}
        shown.add_row(
            f"{entry.artifact.table}/{entry.artifact.fingerprint[:8]}",  # `verify` accepts this form
            entry.stage,
            state.get(entry.state, entry.state),
            f"{entry.rows:,}",
            decimal(entry.bytes),
            _age(time.time() - entry.modified),
            f"{entry.usd:.5f}",
            ", ".join(entry.indexes),
            f"{len({*entry.made_by, *entry.used_by})}",
        )
    print_table(shown, "stage", "age")
    for index in indexes:
        say(f"\n[b]{index['name']}[/]  {escape(index['settings'])}")
    usd = sum(entry.usd for entry in entries)
    remembered = files.tree_bytes(store / REMEMBERED)
    of_searches = f" ({decimal(remembered)} of them vectors that searches had made)" if remembered else ""
    free = "" if free_bytes is None else f"; {decimal(free_bytes)} free on this disk"
    say(f"\n{len(entries)} artifacts, {decimal(size)} in {escape(str(store))}{of_searches}, cost: USD {usd:.5f}{free}.")


def _indexes(store: Path) -> list[dict[str, Any]]:
    from vitalfew.storage.files import DamagedRecord
    from vitalfew.storage.runs import find_index, index_names

    indexes: list[dict[str, Any]] = []
    for name in index_names(store):
        try:
            index = find_index(store, name)
            settings = " ".join([*index.config["datasets"], *_changed_settings(index.config)])
            indexes.append({"name": name, "settings": settings, "artifacts": index.artifacts, "run_id": index.run_id})
        except DamagedRecord as error:
            indexes.append({"name": name, "settings": f"DAMAGED: {error}", "artifacts": {}, "run_id": None})
    return indexes


def _age(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


@store_app.command(cls=Command)
def verify(
    names: Annotated[
        list[str] | None, Argument(metavar="ARTIFACT", help="TABLE/FINGERPRINT, or a prefix of it.")
    ] = None,
    indexes: options.OfIndexes = None,
    store: options.Store = options.STORE,
) -> None:
    """Compare every file with its checksum.

    Exits with status 1 if anything is damaged. Prints a remedy for every fault. It is mostly the command that made the
    artifact, which repairs only the damage.
    """
    from vitalfew.storage.upkeep.inventory import check_store
    from vitalfew.storage.upkeep.verify import bytes_to_read, select, verify, verify_records

    check_store(store)
    chosen = select(store, names or [], indexes or [])
    size = bytes_to_read(chosen)
    with _bar(size) as bar:
        task = bar.add_task("verify", total=size)
        faults = list(verify(chosen, lambda read: bar.advance(task, read)))
    if not names and not indexes:
        faults += verify_records(store)
    for fault in faults:
        remedy = fault.remedy or _remake(store, fault.artifact, fault.remove)
        say(f"[red]{escape(fault.what)}[/]\n    {escape(remedy)}")
    count = f"{len(faults)} faults in" if faults else "No faults in"
    out.print(f"{count} {len(chosen)} artifacts, {decimal(size)} read.")
    raise typer.Exit(1 if faults else 0)


def _bar(size: int) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Progress(*columns, TimeRemainingColumn(), console=err, disable=not (sys.stderr.isatty() and size))


def _remake(store: Path, artifact: str, remove: Path | None) -> str:
    """The command that makes an artifact again, by the index or else the run that used it last."""
    from vitalfew.storage.files import DamagedRecord
    from vitalfew.storage.runs import find_index, index_names, read_runs

    users = [run for run in read_runs(store) if artifact in run.fingerprints]
    configs = [run.config for run in users if run.flow == "index_corpus"]
    for name in index_names(store):
        with suppress(DamagedRecord):
            index = find_index(store, name)
            configs += [index.config] if artifact in index.artifacts.values() else []
    first = f"rm {shlex.quote(str(remove))} && " if remove else ""
    if configs:
        return first + _index_command(configs[-1], store)
    if users:
        return f"{first}repeat the command of run {users[-1].run_id} ({users[-1].flow} {users[-1].name})"
    return "nothing uses it: `vitalfew store gc --delete` removes it"


@store_app.command(cls=Command)
def copy(
    source: Annotated[Path, Argument(metavar="FROM", parser=options.store_argument, help="DIR or s3://BUCKET/PREFIX.")],
    target: Annotated[Path, Argument(metavar="TO", parser=options.store_argument, help="DIR or s3://BUCKET/PREFIX.")],
    indexes: options.OfIndexes = None,
) -> None:
    """Copy a store, for example to a bucket.

    Copies all complete artifacts with their costs, runs, named indexes and reports, and compares every byte with its
    checksum. Skips artifacts that the target already has: repeat the command to resume after a kill, or to update a
    copy.

        vitalfew store copy store s3://BUCKET/PREFIX
    """
    from vitalfew.storage.upkeep.copying import check_places, copy_records, select
    from vitalfew.storage.upkeep.copying import copy as copied
    from vitalfew.storage.upkeep.inventory import check_store

    check_store(source)
    check_places(source, target)
    chosen = select(source, indexes or [])
    size = sum(file.bytes for _, manifest in chosen for file in manifest.files())
    with _bar(size) as bar:
        task = bar.add_task("copy", total=size)
        done = list(copied(chosen, target, lambda more: bar.advance(task, more)))
    for told in copy_records(source, target, indexes or []):
        say(f"[yellow]{escape(told)}[/]")
    new = [each for each in done if not each.was_there]
    say(
        f"Copied {len(new)} artifacts ({decimal(sum(each.bytes for each in new))}); "
        f"{len(done) - len(new)} already existed. To use the copy:  --store {escape(str(target))}"
    )


@store_app.command(cls=Command)
def gc(
    delete: Annotated[
        bool, Option("--delete", help="Remove the artifacts; without this option, only list them.")
    ] = False,
    keep_runs: Annotated[int, Option(metavar="N", min=1, help="Completed runs per index whose artifacts to keep.")] = 1,
    keep_unfinished: Annotated[float, Option(metavar="DAYS", min=0, help="Days to keep an unfinished run.")] = 30,
    keep: Annotated[
        int, Option(metavar="N", min=1, help="Generations per index to keep; the current one always is.")
    ] = 3,
    form: options.Format = "table",
    store: options.Store = options.STORE,
) -> None:
    """List unused artifacts, or delete them.

    They are artifacts that no index and no run refers to; --delete removes them. Keeps the artifacts of named indexes,
    of their last generations, of active runs, and of unfinished runs that can be resumed by name. Always keeps the
    records of runs, generations and costs. Vectors that searches had made (remembered) go once no index has their
    encoder.

    --keep N keeps the N latest generations of an index, and the N latest that were current. `index rollback` goes back
    to the latter.
    """
    from vitalfew.storage.upkeep.inventory import RetentionPolicy, check_store
    from vitalfew.storage.upkeep.removal import plan, remove

    check_store(store)
    policy = RetentionPolicy(keep_runs, keep_unfinished, keep)
    planned = plan(store, policy)
    unremoved = ((removal, None) for removal in planned.removals)
    outcome = [*(remove(store, planned.removals, policy) if delete else unremoved)]
    removals = [removal for removal, reason in outcome if reason is None]
    kept = planned.kept | {removal.name: reason for removal, reason in outcome if reason}
    freed = sum(removal.bytes for removal in removals)
    if form == "json":
        listed = [asdict(removal) for removal in removals]
        print(json.dumps({"deleted": delete, "bytes": freed, "removals": listed, "kept": kept}, indent=1))
        return
    rows = [(escape(removal.name), decimal(removal.bytes), escape(removal.why)) for removal in removals]
    rows += [
        (f"[dim]{escape(name)}[/]", "[dim]kept[/]", f"[dim]{escape(reason)}[/]")
        for name, reason in sorted(kept.items())
    ]
    out.print(table("artifact or file", "size", "", rows=rows))
    action = "Removed" if delete else "Nothing was removed; --delete would remove"
    out.print(f"{action} {len(removals)} of these, {decimal(freed)}.")


@store_app.command(cls=Command)
def rm(name: options.IndexName, store: options.Store = options.STORE) -> None:
    """Remove an index's name and its history.

    `gc --delete` then removes the artifacts of all its generations, unless another index or run uses them.
    """
    from vitalfew.storage.generations import forget
    from vitalfew.storage.upkeep.inventory import check_store

    check_store(store)
    forget(store, name)
    said = f"Removed the name {name}. `vitalfew store gc` lists the artifacts that are no longer used."
    out.print(said)


def _changed_settings(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield `key.path=value` for every setting of an index that differs from its default, as `--set` takes it."""
    for name, section in completed(IndexCorpus.model_validate(config), read=as_recorded):
        if isinstance(section, Config):
            values = section.model_dump(mode="json")
            for key, field in type(section).model_fields.items():
                default = json.loads(json.dumps(field.get_default(call_default_factory=True), default=str))
                if values[key] != default:
                    yield f"{name}.{key}={values[key] if isinstance(values[key], str) else json.dumps(values[key])}"


def _index_command(config: Mapping[str, Any], store: Path) -> str:
    """Return `vitalfew index …`, quoted for a shell; the command does not repeat finished work."""
    words = ["vitalfew", "index", *config["datasets"], "--name", config["name"], "--store", str(store)]
    serial = ["--runner", "serial"] if config.get("runner") == "serial" else []
    return shlex.join([*words, *serial, *options.sets(_changed_settings(config))])
