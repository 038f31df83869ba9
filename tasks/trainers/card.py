"""The files beside trained weights: the card for people; figures, recipe and held-out titles for programs.

A trainer's card is a template of `cards/`, which has its wording and its tables; the trainer gives the data.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from vitalfew.storage.artifacts import FIGURES

if TYPE_CHECKING:
    from vitalfew.tasks.trainers.base import Trainer

CARD, HELD_OUT, RECIPE = "README.md", "held_out.txt", "recipe.yaml"


class Sources(NamedTuple):
    """FORMAT:FILE of the questions' data sets, and of the data sets with more passages."""

    questions: Sequence[str]
    passages: Sequence[str]


NO_SOURCES = Sources((), ())


def card_files(
    template: str, trainer: "Trainer[Any]", stored: Mapping[str, Any], shown: Mapping[str, Any]
) -> dict[str, bytes]:
    """Return the files beside the weights, by name.

    `template`: the card's file in `cards/`; `stored`: the figures, and values that are stored with them, and shown;
    `shown`: other values that the card shows.
    """
    options, split, sources = trainer.options, trainer.split, trainer.sources
    environment = Environment(
        loader=PackageLoader("vitalfew.tasks.trainers", "cards"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    card = environment.get_template(f"{template}.md.jinja").render(
        options=options,
        split=split,
        files=", ".join(source.partition(":")[2] for source in (*sources.questions, *sources.passages)),
        sources=" ".join([*sources.questions, *(f"--passages {source}" for source in sources.passages)]),
        recipe=RECIPE,
        held_out=HELD_OUT,
        learnt=trainer.learnt,
        whole=trainer.whole,
        **stored,
        **shown,
    )
    settings = {**options.recipe(), "precision": trainer.precision}
    files = {
        CARD: card,
        FIGURES: json.dumps({**stored, "settings": settings}, indent=1, ensure_ascii=False) + "\n",
        HELD_OUT: "".join(f"{title}\n" for title in split.held_out),
        RECIPE: yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
    }
    return {name: text.encode() for name, text in files.items()}
