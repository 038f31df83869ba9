"""The pull step of deployments whose store is in a bucket: it writes the user's files that a run needs.

Prefect calls it in the process of a run, before the flow; `flows/workers/deploy.py` puts it into the deployments.
"""

import atexit
import json
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
