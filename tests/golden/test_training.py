"""Golden: three steps of each recipe that runs on a CPU, with tiny models of random weights: losses and files.

Losses have two decimals: what an optimizer makes of a gradient near 0 differs a little from processor to processor.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import vitalfew as vf
from tests.golden.stores import indexed, rows
from tests.golden.surface import sets, vitalfew
from tests.support.tiny_models import bert, llama
from tests.support.towns import towns

SMALL = ("held_out=1", "choosing=1", "check_questions=2")
STEPS = ("steps=3", "precision=fp32", "device=cpu", "threads=1")
TOKENS = ("batch_tokens=256",)
OREO = ("batch=2", "check_questions=2", "max_new_tokens=12", *TOKENS, *STEPS)
LOSSES = (
    "SELECT stage, step, epoch, rows, tokens, losses FROM training_steps WHERE stage LIKE '{recipe}%' "
    "ORDER BY stage = 'oreo_ppo', stage = 'oreo_contrastive', step"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`towns.json`, a tiny BERT and a tiny Llama; `store`, and `reader`, which three steps have trained."""
    folder = tmp_path_factory.mktemp("trainings")
    towns(folder / "towns.json")
    llama(folder / "llama", positions=1024)
    _train(folder, "reader", f"base={bert(folder / 'bert', 256)}", "rank=4", *SMALL, *STEPS, *TOKENS)
    return folder


def test_training_a_reader(golden: Callable[[str, str], None], place: Path) -> None:
    golden("training/reader.txt", _described(place, "reader"))


@pytest.mark.parametrize("recipe", ["critic", "sparse_rag", pytest.param("cxmi", marks=pytest.mark.slow)])
def test_training(golden: Callable[[str, str], None], recipe: str, place: Path) -> None:
    reader = f"reader={place / 'reader'}"
    given = {
        "critic": (reader, *TOKENS),
        "cxmi": (reader, "least=-1000000000", "epochs=2", *TOKENS),
        "sparse_rag": (f"base={place / 'llama'}", "yes=.", 'no="?"', "contexts=2", "rank=2"),
    }
    _train(place, recipe, *given[recipe], *SMALL, *STEPS)
    golden(f"training/{recipe}.txt", _described(place, recipe))


@pytest.mark.slow
def test_training_oreo(golden: Callable[[str, str], None], place: Path) -> None:
    """Three steps of each of its three trainings, on evidence texts for the bundled reader."""
    indexed(place / "store", "towns", f"squad:{place / 'towns.json'}")
    answering = "{generator: reader, precision: fp32}"
    collected = [f"collect.reader={answering}", "collect.held_out=1", "collect.choosing=1"]
    each = [*OREO, f"generator={answering}", f"base={place / 'reader'}"]
    trained = [f"{part}.{one}" for part in ("sft", "contrastive", "ppo") for one in each]
    _train(place, "oreo", *collected, *trained, "sft.layers=1", "contrastive.beams=2", "contrastive.candidates=3")
    golden("training/oreo.txt", _described(place, "oreo"))


def _train(place: Path, recipe: str, *settings: str) -> None:
    data = ("--index", "towns") if recipe == "oreo" else (f"squad:{place / 'towns.json'}",)
    out = ("--out", place / recipe, "--runner", "serial")
    vitalfew("train", recipe, *data, *out, *sets(*settings), store=place / "store")


def _described(place: Path, recipe: str) -> str:
    """A line per step, and the names of the files that were written."""
    text = ""
    for *step, losses in rows(vf.Store(place / "store", progress=False), LOSSES, recipe=recipe):
        named = [row.values() for row in losses] if isinstance(losses, list) else losses.items()  # Polars 1, 2
        text += " | ".join([*map(str, step), *(f"{name} {value:.2f}" for name, value in named)]) + "\n"
    return f"# steps\n{text}\n# files\n" + "".join(f"{path.name}\n" for path in sorted((place / recipe).iterdir()))
