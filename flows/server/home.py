"""The place of Prefect's database, logs and secrets: the user's state directory, closed to other users.

A store can be published, so it contains no secret: Prefect's home is `vitalfew/NAME-HASH` in $XDG_STATE_HOME or
~/.local/state, by the name of the store and its absolute path. The key of Prefect's Secret blocks is beside the homes,
in `vitalfew/keys`: the database alone opens no block. If $PREFECT_HOME is set, it is used as it is.
"""

import os
from base64 import urlsafe_b64encode
from hashlib import blake2b
from pathlib import Path

from vitalfew.configs.loading import ConfigError
from vitalfew.storage import files


def home(store: Path) -> Path:
    """The directory of Prefect's database and of the logs: $PREFECT_HOME, or the store's in the state directory."""
    if own := os.environ.get("PREFECT_HOME"):
        return Path(own).expanduser().absolute()
    path = files.absolute(store)
    digest = blake2b(os.fsencode(str(path)), digest_size=6).hexdigest()
    given = Path(os.environ.get("XDG_STATE_HOME") or "")
    state = given if given.is_absolute() else Path.home() / ".local" / "state"
    return state / "vitalfew" / f"{path.name[:60]}-{digest}"


def prepare(store: Path) -> None:
    """Make the home, closed to other users. Raises ConfigError if $PREFECT_HOME is in the store."""
    folder = home(store)
    if files.absolute(folder).is_relative_to(files.absolute(store)):
        raise ConfigError(
            f"PREFECT_HOME={folder} is in the store, so its secrets could be published with it: unset PREFECT_HOME"
        )
    if os.environ.get("PREFECT_HOME"):
        files.make_folder(folder)
    else:
        files.make_private_folder(folder.parent)
        files.make_private_folder(folder)


def encryption_key(folder: Path) -> str | None:
    """The key of the Secret blocks in a home's database, from a separate file; None if the user has set one."""
    own = ("PREFECT_HOME", "PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
    if any(os.environ.get(name) for name in ("PREFECT_SERVER_ENCRYPTION_KEY", "ORION_ENCRYPTION_KEY", *own)):
        return None
    file = folder.parent / "keys" / f"{folder.name}.key"
    files.make_private_folder(file.parent)
    if not files.exists(file):
        files.write_private(file, urlsafe_b64encode(os.urandom(32)).decode())
    return files.read_text(file)
