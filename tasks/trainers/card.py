"""The files beside trained weights: the card for people; figures, recipe and held-out titles for programs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from vitalfew.configs.training import TrainConfig
from vitalfew.storage.artifacts import FIGURES
from vitalfew.tasks.trainers.articles import Material

CARD, HELD_OUT, RECIPE = "README.md", "held_out.txt", "recipe.yaml"

Sources = tuple[Sequence[str], Sequence[str]]
"""FORMAT:FILE of the questions' data sets, and of the data sets with more passages."""


class Split(NamedTuple):
    """Titles of the articles that are held out, and of the articles that choose the weights."""

    held_out: Sequence[str]
    choosing: Sequence[str]


def data_section(sources: Sources, material: Material, split: Split, seed: int, drawn: str) -> str:
    """The card's section on data and split. `drawn`: what the passages give besides the questions."""
    learnt = material.without([*split.held_out, *split.choosing])
    titles = {material.passages[asked.passage].article for asked in learnt.questions}
    files = ", ".join(source.partition(":")[2] for source in (*sources[0], *sources[1]))
    return f"""## Data and split
{files}:

- {len(learnt.questions):,} questions of {len(titles)} articles to learn from;
- those of {len(split.choosing)} more articles to choose the weights: {", ".join(split.choosing)};
- {len(split.held_out)} articles held out, a random choice of titles with seed {seed}: `{HELD_OUT}`;
- {len(learnt.passages):,} passages as the source of {drawn}. The model sees no titles."""


def again_section(sources: Sources) -> str:
    """The card's section on repeating the training."""
    more = "".join(f" --passages {source}" for source in sources[1])
    return f"""## Training it again

    vitalfew train {RECIPE} {" ".join(sources[0])}{more} --out DIR

The weights inherit the licences of the data they were trained on (SQuAD: CC BY-SA 4.0) and of their encoder
(Apache-2.0)."""


def card_files(
    options: TrainConfig, dtype: str, split: Split, figures: Sequence[Mapping[str, Any]], card: str, **more: Any
) -> dict[str, bytes]:
    """The files beside the weights, by name. `dtype`: of the matrix products, as settings have it (bf16); `more`:
    besides the figures, for their file."""
    settings = {**options.identity(), "precision": dtype}
    files = {
        CARD: card,
        FIGURES: json.dumps({"figures": figures, **more, "settings": settings}, indent=1, ensure_ascii=False) + "\n",
        HELD_OUT: "".join(f"{title}\n" for title in split.held_out),
        RECIPE: yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
    }
    return {name: text.encode() for name, text in files.items()}
