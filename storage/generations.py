"""The generations of an index's name: its finished builds, and which of them a search finds.

A generation is a record, `generations/NAME.00003.json`. The name's record, `indexes/NAME.json`, has the current one,
and which were current before it. To promote one, or to roll back, reads and writes a few small records, whatever the
size of the index. Numbers order generations: a clock may jump.

Whatever moves a name is a decision, written down first (storage/decisions.py).

The name's record changes in one step: under a lock in a directory, by a conditional write in a bucket. So of two that
change it at once, the second sees what the first did. A generation is written before the name points at it, so a build
that is killed at any moment can be run again.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import StringConstraints

from vitalfew.storage import decisions, files
from vitalfew.storage.decisions import By
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.names import ArtifactName, IndexName, Moment, Number, RunId, Strict, Word, read_named
from vitalfew.storage.runs import IndexNotFound, NamedIndex, find_index, index_path

logger = logging.getLogger("vitalfew")


@dataclass(frozen=True)
class GateFigure(Strict):
    """A method's metric on the same questions of two generations: their means `current` and `candidate`, the
    `difference` (candidate minus current) with the ends of its interval, all in the metric's unit.

    `verdict`: of this metric (no worse, worse, in doubt); `settled_by`: how many questions would settle a doubt, None
    without a doubt, and where no number would.

    `vanished`: further questions, whose gold passages the candidate's corpus has no more. `current_counted`,
    `candidate_counted`: the means with these, which count as lost for the candidate; None where no value says so.
    `direction`: which values are better, higher or lower ones.
    """

    method: str
    metric: str
    margin: float
    questions: int
    current: float | None
    candidate: float | None
    difference: float | None
    low: float | None
    high: float | None
    verdict: str
    settled_by: int | None
    vanished: int = 0
    current_counted: float | None = None
    candidate_counted: float | None = None
    direction: str = "higher"


@dataclass(frozen=True)
class Approval(Strict):
    """A person's part in a verdict. `asked_by`: the flow run that waits for the person, empty for a terminal; `until`:
    its deadline; `decision`: approved or declined, empty until there is one; `note`: the person's reason."""

    asked_by: str
    until: Moment | None = None
    decision: str = ""
    note: str = ""

    def seconds_left(self) -> int:
        """Seconds until the deadline; 0 without one, or after it."""
        if not self.until:
            return 0
        return max(0, round((datetime.fromisoformat(self.until) - datetime.now(UTC)).total_seconds()))


@dataclass(frozen=True)
class GateRecord(Strict):
    """The comparison that a gate has judged a generation by. `against`: the other generation; `terms`: a fingerprint of
    what both were asked, and of the margins; `said`: the verdict in a sentence.

    `run_id`: the evaluation, empty where nothing could be asked; `left_out`: questions whose gold passages are not in
    both corpora. `figures`: none where nothing could be compared; `approval`: None where no person was asked.
    `losses`: what the candidate's corpus lost, in words, each beyond what the gate accepts.
    """

    against: int
    terms: str
    said: str
    run_id: str = ""
    left_out: int = 0
    figures: tuple[GateFigure, ...] = ()
    approval: Approval | None = None
    losses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generation(Strict):
    """A finished build of an index. `settings`: a fingerprint of all that determines it besides its corpus; `verdict`:
    of the gate (promoted, held, rejected, in doubt) or declined by a person, empty where nobody judged; `gate`: what
    that rests on. `gated_by`: the settings of the gate that it had to pass, None for an index without a gate."""

    name: IndexName
    number: Number
    made: Moment
    run_id: RunId
    artifacts: dict[Word, ArtifactName]
    config: dict[str, Any]
    settings: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{16})?$")] = ""
    verdict: str = ""
    gate: GateRecord | None = None
    gated_by: dict[str, Any] | None = None

    @property
    def corpus(self) -> str:
        """The fingerprint of its passages, which follows from the corpus and how it is read."""
        return self.artifacts.get("passages", "").partition("/")[2]

    @property
    def index(self) -> NamedIndex:
        """It as a search takes it, whether the name points at it or not."""
        return NamedIndex(self.name, self.run_id, self.artifacts, self.config, self.number)


class CannotPromote(ValueError):
    """There is no such generation, or it cannot become current: the message says why, and what to do."""


class IndexMoved(CannotPromote):
    """The name points at another generation than the caller has seen."""


def history(store: Path, name: str) -> list[Generation]:
    """All generations, oldest first. One whose record is damaged is left out with a warning, but for the current one,
    of which the name's record says enough. Raises IndexNotFound, DamagedRecord."""
    index = find_index(store, name)
    known = [*filter(None, files.at_once(store, _readable, _places(store, name).values()))]
    if index.generation not in [each.number for each in known]:
        made = datetime.fromtimestamp(files.status(_name(store, name)).modified_ns / 1e9, UTC).isoformat()
        known.append(Generation(name, index.generation, made, index.run_id, index.artifacts, index.config))
    return sorted(known, key=lambda each: each.number)


def find(store: Path, name: str, number: int | None = None) -> Generation:
    """A generation, by default the latest. Raises IndexNotFound, CannotPromote where there is none of this number, and
    DamagedRecord."""
    places = _places(store, name)
    for place in reversed(places.values()) if number is None else [_place(store, name, number)]:
        with suppress(FileNotFoundError):
            return _read(place)
    there = ", ".join(map(str, places))
    raise CannotPromote(f"index {name} in {store} has no generation {number}; there are: {there}")


def named(store: Path, name: str) -> NamedIndex:
    """The index that a name points at now; NAME@3 is its third generation, wherever the name points.

    Raises IndexNotFound, CannotPromote where there is no such generation or its artifacts were removed, DamagedRecord.
    """
    own, at, number = name.rpartition("@")
    if not at or not number.isdecimal():
        return find_index(store, name)
    generation = find(store, own, int(number))
    _check_stored(store, generation)
    return replace(generation.index, name=name)


def waiting(store: Path, name: str) -> Generation | None:
    """The latest generation, if a person is to decide about it: the name never pointed at it, and nobody declined it.
    None too where a record is damaged or was removed, of which others tell."""
    try:
        index, latest = find_index(store, name), find(store, name)
    except (IndexNotFound, CannotPromote, DamagedRecord):
        return None
    return latest if latest.number > index.reached and latest.verdict != decisions.DECLINED else None


def removed(store: Path, known: Iterable[Generation]) -> set[int]:
    """The numbers of the generations that miss an artifact, by one look at the store."""
    there = {f"{path.parent.parent.name}/{path.parent.name}" for path in files.find(store, "*/*/manifest.json")}
    return {each.number for each in known if not there.issuperset(each.artifacts.values())}


def record(
    store: Path, built: NamedIndex, settings: str = "", promoted: bool = True, gated_by: dict[str, Any] | None = None
) -> Generation:
    """Record a finished build and, unless `promoted` is false, point the name at it. The first one of a name
    always becomes current.

    A build with the artifacts of the current or the latest generation is that one. If the name pointed at it once and
    was moved away since, it stays away: a build that brought nothing new undoes no rollback. `settings`, `gated_by`:
    see `Generation`. Raises DamagedRecord where `promoted` is false.
    """
    with _turn(store, built.name):
        now = _current(store, built.name, damaged_too=promoted)
        generation = _same(store, built, now, gated_by) or _new(store, built, settings, gated_by)
        unseen = now is None or generation.number > now.reached
        if now and generation.number == now.generation:
            again = replace(now, config=built.config)
            _move(store, built.name, lambda latest: again if latest == now else latest or again)
        elif now is None or (promoted and unseen):
            decisions.add(
                store, built.name, generation.number, decisions.PROMOTED, "build", "", now.generation if now else 0
            )
            _move(store, built.name, lambda latest: latest if latest and not promoted else _over(latest, generation))
        return generation


def judge(store: Path, name: str, number: int, verdict: decisions.Kind, gate: GateRecord | None = None) -> Generation:
    """Record a gate's verdict on a generation, with its reasons. Raises as `find` does."""
    now = find_index(store, name)
    if verdict != decisions.PROMOTED:  # whoever promotes it writes that down
        decisions.add(store, name, number, verdict, "gate", gate.said if gate else "", now.generation)
    return write_verdict(store, name, number, verdict, gate)


def decline(
    store: Path, name: str, number: int, note: str = "", by: By = "library", gate: GateRecord | None = None
) -> Generation:
    """Note that a person does not want a generation: no gate promotes it, nor another build of the same. `gate`: what a
    gate's verdict rests on, where it changes. Raises CannotPromote for the current one, and as `find` does."""
    now, known = find_index(store, name), find(store, name, number)
    if now.generation == number:
        raise IndexMoved(
            f"generation {number} of {name} is current, so it cannot be declined. To go back to the one before: "
            f"vitalfew index rollback {name}"
        )
    decisions.add(store, name, number, decisions.DECLINED, by, note, now.generation)
    return write_verdict(store, name, number, decisions.DECLINED, gate or known.gate)


def declined(store: Path, generation: Generation) -> decisions.Decision | None:
    """The decision by which a person declined a generation or another build of the same, if that still holds. Raises
    DamagedRecord."""
    personal = [each for each in decisions.of(store, generation.name) if each.is_personal]
    if not personal:
        return None
    same = [each.number for each in history(store, generation.name) if each.artifacts == generation.artifacts]
    last = next((each for each in reversed(personal) if each.generation in same), None)
    return last if last and last.decision == decisions.DECLINED else None


def write_verdict(store: Path, name: str, number: int, verdict: str, gate: GateRecord | None) -> Generation:
    """Write a verdict into the record of a generation; who decided is noted apart. Raises as `find` does."""
    with _turn(store, name):
        _current(store, name)
        judged = replace(find(store, name, number), verdict=verdict, gate=gate)
        files.write_json(_place(store, name, number), asdict(judged))
        return judged


def promote(
    store: Path, name: str, number: int | None = None, instead_of: int | None = None, note: str = "", by: By = "library"
) -> Generation:
    """Point the name at a generation, by default the latest, and return it.

    `instead_of`: only if the name points at this generation now, the one that a gate has compared with. `note`: why;
    `by`: who decides. Raises IndexNotFound, CannotPromote (IndexMoved), and DamagedRecord.
    """

    def chosen_over(now: NamedIndex | None) -> NamedIndex:
        if now and instead_of is not None and now.generation not in (instead_of, chosen.number):
            raise IndexMoved(
                f"index {name} was moved from generation {instead_of} to {now.generation} meanwhile: generation "
                f"{chosen.number} was not compared with that one. Run the same command again"
            )
        return _over(now, chosen)

    with suppress(DamagedRecord):  # a generation that is named is enough to write the record again
        find_index(store, name)
    with _turn(store, name):
        now = _current(store, name, damaged_too=number is not None)
        chosen = find(store, name, number)
        _check_stored(store, chosen)
        chosen_over(now)
        served = now.generation if now else 0
        if chosen.number != served:
            decisions.add(store, name, chosen.number, decisions.PROMOTED, by, note, served)
        _move(store, name, chosen_over)
        _confirm_stored(store, chosen, now)
        return chosen


def rollback(store: Path, name: str, note: str = "", by: By = "library") -> Generation:
    """Point the name at the generation that was current before, and return that one. `note`, `by`, errors: as of
    `promote`."""

    def back(latest: NamedIndex | None) -> NamedIndex:
        if latest not in (now, before):
            raise IndexMoved(
                f"index {name} was moved by another command meanwhile; look with `vitalfew index history {name}`, then "
                "run the same command again"
            )
        return before

    find_index(store, name)  # nothing is written for a name that is not there
    with _turn(store, name):
        now = _current(store, name)
        if now is None or not now.before:
            number = now.generation if now else 1
            raise CannotPromote(
                f"index {name}: no other generation was current before generation {number}; "
                f"`vitalfew index history {name}` lists all, and `vitalfew index promote {name} GENERATION` takes any"
            )
        chosen = find(store, name, now.before[-1])
        _check_stored(store, chosen)
        before = replace(chosen.index, before=now.before[:-1], reached=now.reached)
        decisions.add(store, name, chosen.number, decisions.ROLLED_BACK, by, note, now.generation)
        _move(store, name, back)
        _confirm_stored(store, chosen, now)
        return chosen


def kept(store: Path, name: str, keep: int) -> list[Generation]:
    """The generations whose artifacts `store gc` keeps: the `keep` latest, and of those that were current the `keep`
    latest too, the current one included. Raises IndexNotFound, DamagedRecord."""
    index, places = find_index(store, name), _places(store, name)
    earlier = index.before[max(0, len(index.before) - keep + 1) :]
    numbers = {*list(places)[-keep:], *earlier, index.generation} & places.keys()
    read = files.at_once(store, _read_if_there, [places[number] for number in sorted(numbers)])
    return [*filter(None, read)]


def damage(store: Path, name: str) -> Iterator[DamagedRecord]:
    """The errors of the records of a name's generations, and of the decisions about them, that are damaged."""
    records = [(_read_if_there, place) for place in _places(store, name).values()]
    for read, place in [*records, *((decisions.read_if_there, place) for place in decisions.places(store, name))]:
        try:
            read(place)
        except DamagedRecord as error:
            yield error


def forget(store: Path, name: str) -> None:
    """Remove a name with its history, and nothing else: `store gc` removes what nothing refers to. Raises
    IndexNotFound."""
    for place in [*_places(store, name).values(), *decisions.places(store, name), index_path(store, name)]:
        files.remove(place)


def copy(source: Path, target: Path, name: str) -> None:
    """Copy a name that the target lacks, with its history. Raises IndexNotFound, DamagedRecord."""
    known, index = history(source, name), find_index(source, name)
    for each in known:
        files.write_json(_place(target, name, each.number), asdict(each))
    decisions.copy(source, target, name)
    number = index.generation or known[-1].number
    files.write_json(_name(target, name), asdict(replace(index, generation=number, reached=max(index.reached, number))))


# Records


def _name(store: Path, name: str) -> Path:
    return store / "indexes" / f"{name}.json"


def _place(store: Path, name: str, number: int) -> Path:
    return store / "generations" / f"{name}.{number:05d}.json"


def _places(store: Path, name: str) -> dict[int, Path]:
    """The records of a name's generations by number, oldest first."""
    split = ((path, path.stem.rpartition(".")) for path in files.find(store / "generations", "*.json"))
    own = {int(number): path for path, (of, _, number) in split if of == name and re.fullmatch(r"[0-9]{5,9}", number)}
    return dict(sorted(own.items()))


def _read(place: Path) -> Generation:
    """Raises FileNotFoundError, DamagedRecord."""
    return read_named(place, Generation, lambda each: f"{each.name}.{each.number:05d}")


def _read_if_there(place: Path) -> Generation | None:
    with suppress(FileNotFoundError):
        return _read(place)
    return None


def _readable(place: Path) -> Generation | None:
    try:
        return _read_if_there(place)
    except DamagedRecord as error:
        logger.warning("a generation is left out: %s", error)
        return None


def _current(store: Path, name: str, damaged_too: bool = False) -> NamedIndex | None:
    """Return the name's record; None if there is no such name. Raises DamagedRecord unless `damaged_too`, for a caller
    that writes the record again."""
    with suppress(IndexNotFound, *([DamagedRecord] if damaged_too else [])):
        return find_index(store, name)
    return None


def _same(store: Path, built: NamedIndex, now: NamedIndex | None, gated_by: dict[str, Any] | None) -> Generation | None:
    """The current or the latest generation, if it has the artifacts of a build; it gets the way that was built now."""
    latest = [*_places(store, built.name)][-1:]
    for number in [*([now.generation] if now else []), *latest]:
        with suppress(FileNotFoundError, DamagedRecord):
            known = _read(_place(store, built.name, number))
            if known.artifacts == built.artifacts:
                again = replace(known, config=built.config, gated_by=gated_by)
                if again != known:
                    files.write_json(_place(store, built.name, number), asdict(again))
                return again
    return None


def _new(store: Path, built: NamedIndex, settings: str, gated_by: dict[str, Any] | None) -> Generation:
    made = datetime.now(UTC).isoformat()
    while True:
        number = max(_places(store, built.name), default=0) + 1
        new = Generation(
            built.name, number, made, built.run_id, built.artifacts, built.config, settings, gated_by=gated_by
        )
        if files.write_json_once(_place(store, built.name, number), asdict(new)):
            return new


# The name's record


def _turn(store: Path, name: str) -> AbstractContextManager[Any]:
    """Keep others from moving a name. In a bucket conditional writes do."""
    return nullcontext() if files.is_in_bucket(store) else files.locked(store / "indexes" / f".{name}.turn")


def _move(store: Path, name: str, change: Callable[[NamedIndex | None], NamedIndex]) -> None:
    """Write a name's record, made from the present one (None: there is none that can be read)."""

    def changed() -> dict[str, Any]:
        latest = None
        with suppress(IndexNotFound, FileNotFoundError, DamagedRecord):
            latest = find_index(store, name)
        return asdict(change(latest))

    files.rewrite_json(_name(store, name), changed)


def _over(now: NamedIndex | None, chosen: Generation) -> NamedIndex:
    """Return the name's record once a generation is promoted."""
    if now is None:
        return replace(chosen.index, reached=chosen.number)
    if now.generation == chosen.number:
        return now
    return replace(chosen.index, before=(*now.before, now.generation), reached=max(now.reached, chosen.number))


def _check_stored(store: Path, generation: Generation) -> None:
    names = [*generation.artifacts.values()]
    there = files.at_once(store, lambda name: files.exists(store / name / "manifest.json"), names)
    if gone := [name for name, is_there in zip(names, there, strict=True) if not is_there]:  # `store gc` was at work
        raise CannotPromote(
            f"generation {generation.number} of {generation.name} was removed: {gone[0]} is not in {store} any more. "
            f"`vitalfew index history {generation.name}` shows which are there; to make it again, index its corpus "
            f"with its settings (run {generation.run_id})"
        )


def _confirm_stored(store: Path, chosen: Generation, before: NamedIndex | None) -> None:
    """Look again once nothing removes it any more: a `store gc` may have been at work. Raises CannotPromote, and then
    the name points where it did before."""
    try:
        _check_stored(store, chosen)
    except CannotPromote:
        if before:
            _move(store, chosen.name, lambda now: before if now and now.generation == chosen.number else now or before)
        raise
