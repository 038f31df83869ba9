"""SQuAD's development set, for tests of the weights that come with the project."""

import pickle
from pathlib import Path

from tests.support.real_data import real_data
from tests.support.shared import shared
from vitalfew.tasks.datasets.specification import parse_dataset
from vitalfew.tasks.trainers.articles import Material, read_material


def squad_dev() -> Material:
    """Its questions and its passages in sentences, which take seconds to find."""
    squad = real_data("squad/dev-v1.1.json")

    def make(folder: Path) -> None:
        material = read_material(record for _, record in parse_dataset(f"squad:{squad}")[1].records())
        folder.mkdir()
        (folder / "material.pickle").write_bytes(pickle.dumps(material))

    return pickle.loads((shared("squad-dev", make) / "material.pickle").read_bytes())  # type: ignore[no-any-return]
