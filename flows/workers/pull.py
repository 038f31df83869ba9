"""The pull steps of deployments: one sets the secrets of a run, one writes the user's files where the store is in a
bucket.

Prefect calls them in the process of a run, before the flow; `flows/workers/deploy.py` puts them into the deployments.
"""

import atexit
import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp

from vitalfew.storage import files


def packed(folders: Mapping[str, Path]) -> dict[str, str]:
    """The texts of all YAML files in folders, by the folder's name for a run and the path in it.

    A text is JSON in which `{` is an escape: Prefect fills in what is between double braces, as prompts have them.
    """
    found = {
        f"{name}/{path.relative_to(folder).as_posix()}": path
        for name, folder in folders.items()
        for path in files.find(folder, "**/*.yaml")
    }
    return {name: json.dumps(files.read_text(path)).replace("{", "\\u007b") for name, path in found.items()}


def set_environment(variables: Mapping[str, str]) -> None:
    """Set environment variables of the run, whose values Prefect has taken from its Secret blocks."""
    os.environ.update(variables)


def write_files(packed: Mapping[str, str]) -> dict[str, str]:
    """Write what `packed` returned into a new folder, which becomes the working directory of the run and goes with
    it."""
    folder = Path(mkdtemp(prefix="vitalfew-"))
    atexit.register(files.remove_tree, folder)
    for name, text in packed.items():
        path = folder / name
        files.make_folder(path.parent)
        files.write_text(path, json.loads(text))
    return {"directory": str(folder)}
