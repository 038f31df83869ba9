"""`vitalfew index history`, `promote`, `rollback` and `decline`: the generations of an index's name."""

import json
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from rich.table import Column
from typer import Argument, Option

from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import out, print_table, say, table

if TYPE_CHECKING:
    from vitalfew.storage.decisions import Decision
    from vitalfew.storage.generations import Generation


def history(name: options.IndexName, form: options.Format = "table", store: options.Store = options.STORE) -> None:
    """List the generations of an index.

    A generation is a finished build. The list says which one a search finds, and who decided so. settings and corpus
    are fingerprints: generations with the same settings differ in their corpus alone. verdict is that of a gate, empty
    where none judged; decided is the latest decision, and by whom. `store gc` removes the artifacts of old generations;
    their lines stay. A narrow terminal has no room for all columns; --format json and the tables generations and
    decisions have them.

        vitalfew index history wiki
    """
    from vitalfew.storage import decisions, generations
    from vitalfew.storage.runs import find_index

    decided = decisions.of(store, name)
    known = generations.history(store, name)
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
    else:
        columns = [Column(heading, no_wrap=True) for heading in ("state", "made", "run", "settings", "corpus")]
        shown = table(
            Column("generation", justify="right", no_wrap=True), *columns, Column("verdict", no_wrap=True), "decided"
        )
        for each in known:
            own = (states.get(each.number, ""), _minute(each.made), each.run_id, each.settings[:8], each.corpus[:8])
            shown.add_row(str(each.number), *own, escape(each.verdict), escape(_decided(decided, each.number)))
        print_table(shown, "settings", "corpus", "run")
        for one in decided:
            if one.is_personal and one.note:
                out.print("", escape(f"{one.decision} {one.generation}: {one.note}"))
        newest = decisions.latest(decided, known[-1].number)
        if newest and newest.is_personal:
            said = f"Generation {newest.generation}: {newest.decision} by {newest.decider}, {_minute(newest.time)} UTC."
            out.print("", escape(said))
        elif last := str(listed[-1]["said"]):
            out.print("", escape(last))


def _decided(decided: "list[Decision]", generation: int) -> str:
    """The latest decision about a generation, with who made it; empty where there is none."""
    from vitalfew.storage import decisions

    last = decisions.latest(decided, generation)
    return f"{last.decision} by {last.decider}" if last else ""


Note = Annotated[str, Option("--note", metavar="TEXT", help="Your reason; `index history` shows it.")]


def promote(
    name: options.IndexName,
    generation: Annotated[
        int | None, Argument(metavar="GENERATION", help="A number of `index history`; default: the latest.")
    ] = None,
    note: Note = "",
    store: options.Store = options.STORE,
) -> None:
    """Point an index at another generation.

    Searches find it at once, and servers follow within seconds. Nothing is encoded, and no gate is asked. `vitalfew
    index rollback NAME` takes it back.

        vitalfew index promote wiki 3 --note "The lost pages are obsolete"
    """
    from vitalfew.storage import generations

    _tell(generations.promote(store, name, generation, note=note, by="command"))


def rollback(name: options.IndexName, note: Note = "", store: options.Store = options.STORE) -> None:
    """Point an index at its previous generation.

    Nothing is encoded. It holds until another generation is built or promoted. Indexing the same corpus again with the
    same settings does not undo it.

        vitalfew index rollback wiki
    """
    from vitalfew.storage import generations

    _tell(generations.rollback(store, name, note, "command"))


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


def _tell(chosen: "Generation") -> None:
    say(f"Index [b]{chosen.name}[/] is generation {chosen.number} now (made {_minute(chosen.made)}).")


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")
