"""The weights that a training finished with: files of its artifact, which can be copied to a directory of their own."""

from pathlib import Path
from typing import Any

from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, File

WEIGHTS = "weights"
"""The directory within the artifact, and what its files go by in the manifest."""
FIGURES = "figures.json"


def weights_folder(artifact: Path) -> Path:
    """Where the weights lie in a training's artifact; of a store in a bucket, what a setting can name its model by."""
    return artifact / WEIGHTS


def weight_files(artifact: Artifact) -> list[File]:
    """Weights, card and figures. Raises FileNotFoundError where the training is not complete."""
    return [file for file in artifact.completed().files() if file.table == WEIGHTS]


def figures(artifact: Artifact) -> list[dict[str, Any]]:
    """What a finished training measured on what was held out, a row each. Raises FileNotFoundError."""
    rows: list[dict[str, Any]] = files.read_json(weights_folder(artifact.directory) / FIGURES)["figures"]
    return rows


def export(artifact: Artifact, directory: Path) -> None:
    """Copy the weights with their card to a directory; files of those names are replaced."""
    for file in weight_files(artifact):
        source = artifact.store / file.path
        files.write_bytes(directory / source.name, files.read_bytes(source))
