"""Corpora and recipes by the names of their YAML files: those of configs/, and the user's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitalfew.configs.loading import ConfigError, build, merged, read_yaml
from vitalfew.configs.parsing import parse
from vitalfew.configs.paths import beside
from vitalfew.configs.schema import Corpus, GateConfig
from vitalfew.configs.training import TrainModel, TrainOreo
from vitalfew.storage import generations
from vitalfew.tasks.registry import UnknownName

CORPORA = Path(__file__).parents[2] / "configs" / "corpora"


def corpora(store: Path, own: Path | None = None) -> dict[str, Path]:
    """The files of all corpora by name; the directory `own` (default: `corpora` beside the store) takes precedence.

    Raises ConfigError if `own` is given and does not exist.
    """
    if own and not own.is_dir():
        raise ConfigError(f"there is no directory {own}; give an existing directory of corpora")
    folders = [CORPORA, own or beside(store, "corpora")]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def find_corpus(name: str, store: Path, own: Path | None = None) -> Corpus:
    """Raises UnknownName, which lists the known corpora, and ConfigError, which names the file."""
    known = corpora(store, own)
    if name not in known:
        raise UnknownName("corpus", name, sorted(known))
    try:
        return _corpus(name, store, read_yaml(known[name]))
    except ConfigError as error:
        text = str(error).removeprefix(f"{known[name]}: ")  # read_yaml names the file itself
        raise ConfigError(f"{known[name]}: {text}") from None


def gate_of(store: Path, name: str) -> GateConfig | None:
    """The gate that a new generation of an index has to pass: that of the user's file of a corpus, or where there is
    none, of its latest generation. Raises ConfigError, DamagedRecord."""
    file = corpora(store).get(name)
    if file and file.parent != CORPORA:
        return find_corpus(name, store).gate
    try:
        gated_by = generations.find(store, name).gated_by
    except generations.CannotPromote:  # it has no generation yet
        return None
    return None if gated_by is None else build(GateConfig, gated_by)


def parse_corpus(name: str, store: Path, text: str) -> Corpus:
    """The corpus of a file with this text. Raises ValueError where it is not YAML, and ConfigError."""
    content = parse(text)
    if not isinstance(content, dict):
        raise ConfigError(f"the file must be a mapping of settings, got {type(content).__name__}")
    return _corpus(name, store, content)


def _corpus(name: str, store: Path, settings: Mapping[str, Any]) -> Corpus:
    if "gate" in settings and settings["gate"] is None:
        raise ConfigError("gate: has no settings. Write `gate: {}` for a gate with the defaults, or remove the line")
    corpus = build(Corpus, {"name": name, "store": store}, settings)
    if corpus.gate:
        from vitalfew.flows.pipelines.gate import check_gate  # a corpus without a gate needs no experiments

        check_gate(corpus, corpus.gate)
    return corpus


def read_corpora(store: Path, own: Path | None = None) -> tuple[dict[str, Corpus], dict[str, str]]:
    """All corpora by name, and the errors of those whose files cannot be read: a bad file disables its corpus alone."""
    read, bad = dict[str, Corpus](), dict[str, str]()
    for name in corpora(store, own):
        try:
            read[name] = find_corpus(name, store, own)
        except ConfigError as error:
            bad[name] = str(error)
    return read, bad


RECIPES = Path(__file__).parents[2] / "configs" / "recipes"
_OF_THE_FLOW = set(TrainModel.model_fields) - {"recipe", "train"}


def recipe_names() -> list[str]:
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def find_recipe(recipe: str) -> tuple[str, dict[str, Any]]:
    """A recipe's name and settings: one of configs/recipes, or a file. Raises UnknownName, ConfigError."""
    path = Path(recipe)
    if path.suffix not in (".yaml", ".yml"):
        if recipe not in recipe_names():
            raise UnknownName("recipe", recipe, recipe_names())
        path = RECIPES / f"{recipe}.yaml"
    settings = read_yaml(path)
    settings.pop("about", None)
    if "trainer" not in settings and "sft" not in settings:
        raise ConfigError(f"{path}: the recipe must name its trainer, for example trainer: reader")
    return path.stem, settings


def training(recipe: str, *layers: Mapping[str, Any]) -> TrainModel | TrainOreo:
    """The parameters of the flow. Later layers take precedence. A key that is not a parameter of the flow is a setting
    of the trainer, as all keys of a recipe are; one with several trainings has a section for each. Raises UnknownName,
    ConfigError."""
    name, settings = find_recipe(recipe)
    if "trainer" not in settings:
        given = [{key: value for key, value in layer.items() if value != []} for layer in layers]
        return build(TrainOreo, {"recipe": name}, settings, *given)
    flow: dict[str, Any] = {"recipe": name}
    for layer in layers:
        flow = merged(flow, {key: value for key, value in layer.items() if key in _OF_THE_FLOW})
        settings = merged(settings, {key: value for key, value in layer.items() if key not in _OF_THE_FLOW})
    return build(TrainModel, {**flow, "train": settings})
