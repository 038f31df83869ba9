"""Recipes: a trainer with its settings, by the name of a file in configs/recipes or by the path of a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitalfew.configs.loading import ConfigError, build, merged, read_yaml
from vitalfew.configs.training import TrainModel, TrainOreo
from vitalfew.tasks.registry import UnknownName

FOLDER = Path(__file__).parents[2] / "configs" / "recipes"
_OF_THE_FLOW = set(TrainModel.model_fields) - {"recipe", "train"}


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find(recipe: str) -> tuple[str, dict[str, Any]]:
    """A recipe's name and settings: one of configs/recipes, or a file. Raises UnknownName, ConfigError."""
    path = Path(recipe)
    if path.suffix not in (".yaml", ".yml"):
        if recipe not in names():
            raise UnknownName("recipe", recipe, names())
        path = FOLDER / f"{recipe}.yaml"
    settings = read_yaml(path)
    settings.pop("about", None)
    if "trainer" not in settings and "sft" not in settings:
        raise ConfigError(f"{path}: the recipe must name its trainer, for example trainer: reader")
    return path.stem, settings


def training(recipe: str, *layers: Mapping[str, Any]) -> TrainModel | TrainOreo:
    """The parameters of the flow. Later layers take precedence. A key that is not a parameter of the flow is a setting
    of the trainer, as all keys of a recipe are; one with several trainings has a section for each. Raises UnknownName,
    ConfigError."""
    name, settings = find(recipe)
    if "trainer" not in settings:
        given = [{key: value for key, value in layer.items() if value != []} for layer in layers]
        return build(TrainOreo, {"recipe": name}, settings, *given)
    flow: dict[str, Any] = {"recipe": name}
    for layer in layers:
        flow = merged(flow, {key: value for key, value in layer.items() if key in _OF_THE_FLOW})
        settings = merged(settings, {key: value for key, value in layer.items() if key not in _OF_THE_FLOW})
    return build(TrainModel, {**flow, "train": settings})
