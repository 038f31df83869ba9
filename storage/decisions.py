"""What was decided about the generations of an index, by whom, and why. Decisions are added, never changed.

Each is a record of its own, `decisions/NAME/TIME-TOKEN.json`, so that two that are made at once both stay. It is
written before its effect: what a search finds was decided, whatever instant a process is killed at.
"""

import getpass
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Literal, get_args

from vitalfew.storage import files
from vitalfew.storage.names import IndexName, Moment, Number, Strict, validated

Kind = Literal["promoted", "held", "rejected", "in doubt", "declined", "rolled back"]
PROMOTED, HELD, REJECTED, IN_DOUBT, DECLINED, ROLLED_BACK = get_args(Kind)
By = Literal["build", "gate", "command", "page", "run", "library"]
"""What decided: `build`: an index without a gate; `run`: a person, in the form of a suspended run in Prefect's page."""
PERSONAL = ("command", "page", "run", "library")
"""Where a person decides."""


@dataclass(frozen=True)
class Decision(Strict):
    """`generation`: what was decided about; for a rollback, the generation that the name came back to.

    `instead_of`: the generation that the name pointed at, 0 for none. `who`: the user of the process in which a person
    decided, empty for a gate and a build; `note`: the person's reason, or the gate's verdict in a sentence.
    """

    time: Moment
    index: IndexName
    generation: Number
    decision: Kind
    by: By
    who: str = ""
    note: str = ""
    instead_of: Number = 0

    @property
    def is_personal(self) -> bool:
        return self.by in PERSONAL

    @property
    def decider(self) -> str:
        """The person or the mechanism that decided: `ana (page)`, `gate`."""
        return f"{self.who} ({self.by})" if self.who else self.by


def add(
    store: Path, index: str, generation: int, decision: Kind, by: By, note: str = "", instead_of: int = 0
) -> Decision:
    """Write down a decision, and return it. Raises NotWritten."""
    now = datetime.now(UTC)
    who = _user() if by in PERSONAL else ""
    added = Decision(now.isoformat(), index, generation, decision, by, who, note, instead_of)
    files.write_json(store / "decisions" / index / f"{now:%Y%m%dT%H%M%S.%f}-{token_hex(3)}.json", asdict(added))
    return added


def of(store: Path, index: str | None = None) -> list[Decision]:
    """The decisions about an index, by default about all of them, the oldest first. Raises DamagedRecord."""
    read = files.at_once(store, read_if_there, places(store, index or "*"))
    return sorted(filter(None, read), key=lambda each: each.time)


def latest(decided: list[Decision], generation: int) -> Decision | None:
    """The latest decision about a generation, of those given."""
    return next((each for each in reversed(decided) if each.generation == generation), None)


def copy(source: Path, target: Path, index: str) -> None:
    """Copy the decisions about an index to another store. Raises DamagedRecord, NotWritten."""
    for place in places(source, index):
        files.write_json(target / place.relative_to(source), files.read_json(place))


def places(store: Path, index: str) -> list[Path]:
    """The records of the decisions about an index; `*`: about all of them."""
    return files.find(store / "decisions", f"{index}/*.json")


def read_if_there(place: Path) -> Decision | None:
    with suppress(FileNotFoundError):
        return files.read_record(place, lambda value: validated(Decision, value))
    return None


def _user() -> str:
    """The user of this process; empty where the system has no name for one, as in a container."""
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return ""
