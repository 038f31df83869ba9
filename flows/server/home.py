"""The place of Prefect's database, logs and secrets: the user's state directory, closed to other users.

A store can be published, so it contains no secret: Prefect's home is `vitalfew/NAME-HASH` in $XDG_STATE_HOME or
~/.local/state, by the name of the store and its absolute path. The key of Prefect's Secret blocks is beside the homes,
in `vitalfew/keys`: the database alone opens no block. If $PREFECT_HOME is set, it is used as it is.
"""

import json
import os
import sqlite3
from base64 import urlsafe_b64encode
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

from vitalfew.configs.loading import ConfigError
from vitalfew.storage import files

DATABASE = "prefect.db"


def home(store: Path) -> Path:
    """The directory of Prefect's database and of the logs: $PREFECT_HOME, or the store's in the state directory."""
    if own := os.environ.get("PREFECT_HOME"):
        return Path(own).expanduser().absolute()
    path = files.absolute(store)
    digest = blake2b(os.fsencode(str(path)), digest_size=6).hexdigest()
    return _state() / f"{path.name[:60]}-{digest}"


def _state() -> Path:
    given = Path(os.environ.get("XDG_STATE_HOME") or "")
    return (given if given.is_absolute() else Path.home() / ".local" / "state") / "vitalfew"


def prepare(store: Path) -> str | None:
    """Make the home, closed to other users, and move a home that an earlier version had in the store. Returns a message
    about that, if any.

    Raises ConfigError if $PREFECT_HOME is in the store, or an earlier version serves the store.
    """
    folder, old = home(store), store / ".prefect"
    if files.absolute(folder).is_relative_to(files.absolute(store)):
        raise ConfigError(
            f"PREFECT_HOME={folder} is in the store, so its secrets could be published with it: unset PREFECT_HOME"
        )
    told = _move(old, folder) if files.is_folder(old) else None
    if os.environ.get("PREFECT_HOME"):
        files.make_folder(folder)
    else:
        files.make_private_folder(folder.parent)
        files.make_private_folder(folder)
    return told


def _move(old: Path, folder: Path) -> str:
    """Move the home that earlier versions had in the store, with its schedules and its history. Returns a message."""
    if os.environ.get("PREFECT_HOME") or files.exists(folder):
        return leftover(old)
    with files.locked(old / "ui.lock", wait=False) as free:
        if not free:
            raise ConfigError(
                f"a `vitalfew ui` of an earlier version is running in {old}; stop it with Ctrl-C in its terminal"
            )
        files.move_private(old, folder)
    return f"Moved Prefect's database with its secrets out of the store: {old} is now {folder}"


def leftover(old: Path) -> str:
    return f"{old} is from an earlier version and may contain secrets: remove it (rm -r) before you publish the store"


def encryption_key(folder: Path) -> str | None:
    """The key of the Secret blocks in a home's database, from a separate file; None if the user has set one.

    A key that Prefect keeps in the database, as with earlier versions, is taken out of it.
    """
    own = ("PREFECT_HOME", "PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
    if any(os.environ.get(name) for name in ("PREFECT_SERVER_ENCRYPTION_KEY", "ORION_ENCRYPTION_KEY", *own)):
        return None
    file = folder.parent / "keys" / f"{folder.name}.key"
    files.make_private_folder(file.parent)
    database = folder / DATABASE
    if stored := _stored_key(database):
        files.write_private(file, stored)
        _forget_key(database)
    elif not files.exists(file):
        files.write_private(file, urlsafe_b64encode(os.urandom(32)).decode())
    return files.read_text(file)


def _stored_key(database: Path) -> str | None:
    if not files.exists(database):
        return None
    with closing(sqlite3.connect(database)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'configuration'").fetchone():
            return None  # Prefect was killed before it had its tables
        row = connection.execute("SELECT value FROM configuration WHERE key = 'ENCRYPTION_KEY'").fetchone()
    return str(json.loads(row[0])["fernet_key"]) if row else None


def _forget_key(database: Path) -> None:
    """Remove the key's row and its bytes from the database, and from the log that SQLite writes first."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        with connection:
            connection.execute("DELETE FROM configuration WHERE key = 'ENCRYPTION_KEY'")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
