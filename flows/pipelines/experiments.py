"""Experiments: from a YAML file and `--set` to the methods that are compared.

A list in place of a single value is a grid: `--set retrieve.alpha=[0.5,0.8]` turns every method that uses alpha into
two methods. A list in `choose` is a grid too, of which one method is left (flows/pipelines/choice.py).
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

from vitalfew.configs.evaluation import SECTIONS, STAGES, Choose, Evaluate, Experiment, Method, Option, ScoreConfig
from vitalfew.configs.loading import ConfigError, build, few, flat, merged, read_yaml
from vitalfew.configs.paths import beside
from vitalfew.configs.section import Section
from vitalfew.tasks.registry import (
    UnknownName,
    completed,
    nearest,
    resolve,
    settings_of,
    stage_options,
    where,
    with_options,
)

logger = logging.getLogger("vitalfew")

FIELDS = tuple(section for section in SECTIONS if section not in STAGES)
KINDS: dict[str, type[Section]] = {
    name: kind
    for name, type_ in {**{name: field.annotation for name, field in Method.model_fields.items()}, **STAGES}.items()
    for kind in (type_, *get_args(type_))
    if isinstance(kind, type) and issubclass(kind, Section)
}
"""The sections that name a method with further options."""
Place = tuple[str, ...]
"""Where a setting stands: ("retrieve", "alpha")."""


@dataclass(frozen=True)
class Draft:
    """The settings of a method; a list of values gives a grid of methods, of which those at `chosen` places are options
    of one method."""

    label: str
    settings: Mapping[str, Any]
    chosen: Collection[Place] = ()


def expand(draft: Draft) -> Iterator[Option]:
    """Every point of a draft's grid, as an option of the method of the table that has the point's values but those to
    choose. Raises ConfigError, which names the method and the setting."""
    lists = [(path, [*values]) for path, values in _paths(draft.settings) if isinstance(values, (list, tuple))]
    if empty := [path[-1] for path, values in lists if not values]:
        raise ConfigError(f"setting {empty[0]!r}: the list must not be empty")
    single = _without_lists(draft.settings)
    several = {path for path, values in lists if len(values) > 1}
    named = {path[0] for path, _ in lists if path[0] in KINDS and path[1:] == (KINDS[path[0]].field(),)}
    points: set[str] = set()
    for values in product(*(values for _, values in lists)):
        point = {path: value for (path, _), value in zip(lists, values, strict=True)}
        settings = with_values(single, point)
        point = {path: value for path, value in point.items() if _matters(settings, path)}
        if repr(point) in points:
            continue
        points.add(repr(point))
        chosen = {path: value for path, value in point.items() if path in draft.chosen}
        whole = with_values(single, point)
        whole |= {section: fitting(section, whole[section]) for section in named}  # of one method, not of all
        with naming(draft.label):
            method = build(Method, {**whole, "name": draft.label + _suffix(point, several)})
        row = draft.label + _suffix(point, several - chosen.keys())
        yield Option(of=row, values={".".join(path): value for path, value in chosen.items()}, method=method)


def _suffix(point: Mapping[Place, Any], shown: Collection[Place]) -> str:
    """Return the part of the name that a point's values add; a setting that is left to its default (null) adds
    nothing."""
    return "".join(f" {path[-1]}={value}" for path, value in point.items() if path in shown and value is not None)


def _paths(settings: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Every value with its place."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from (((key, *path), own) for path, own in _paths(value))
        else:
            yield (key,), value


def _without_lists(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without the axes of the grid: a method that does not use an axis keeps its default."""
    return {
        key: _without_lists(value) if isinstance(value, Mapping) else value
        for key, value in settings.items()
        if not isinstance(value, (list, tuple))
    }


def _matters(settings: Mapping[str, Any], path: Place) -> bool:
    """Return whether a method uses a setting: a sweep over alpha does not change naive RAG."""
    section = path[0]
    needs_hits = "hits" in resolve("stage", section).reads if section in STAGES else section in ("variant", "refine")
    if needs_hits and settings["retrieve"] is None:
        return False
    if path == ("variant", "encode", "context"):  # without alpha the context has no weight
        section, path = "retrieve", ("retrieve", "alpha")
    return section not in KINDS or path[1] in fields(KINDS[section], settings[section])


def with_values(settings: Mapping[str, Any], values: Mapping[Place, Any]) -> dict[str, Any]:
    """The settings with these values at their places."""
    result = dict(settings)
    for path, value in values.items():
        nested: Any = value
        for key in reversed(path):
            nested = {key: nested}
        result = merged(result, nested)
    return result


def leaves(settings: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Every setting with its place; `retrieve.alpha` and `retrieve: {alpha}` are the same place."""
    return ((tuple(path.split(".")), value) for path, value in flat(settings))


def fitting(section: str, settings: Any) -> Any:
    """The settings without those of other methods of the kind."""
    if section not in KINDS or not isinstance(settings, Mapping):
        return settings
    known = fields(KINDS[section], settings)
    return {key: value for key, value in settings.items() if key in known}


def method_names(kind: type[Section], settings: Mapping[str, Any]) -> list[str]:
    """The method, or the methods if the settings have a list."""
    named = settings.get(kind.field(), kind.model_fields[kind.field()].default)
    return list(named) if isinstance(named, (list, tuple)) else [named]


def fields(kind: type[Section], settings: Mapping[str, Any]) -> set[str]:
    """The options of the methods that the settings name. Raises UnknownName."""
    return {field for name in method_names(kind, settings) for field in settings_of(build(kind, {kind.field(): name}))}


@contextmanager
def naming(label: str) -> Iterator[None]:
    """Adds the method's name to a ConfigError."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError("\n".join(f"method {label}: {line}" for line in str(error).splitlines())) from None


JUDGED = ("judged_correct", "supported")
"""The metrics that show a judge's verdicts, beside those of an experiment that names none of them."""
FOLDER = Path(__file__).parents[2] / "configs" / "experiments"
USUAL_STORE: Path = Experiment.model_fields["store"].default


def experiments(store: Path = USUAL_STORE) -> dict[str, Path]:
    """The files of all experiments by name; the directory `experiments` beside the store takes precedence."""
    folders = (FOLDER, beside(store, "experiments"))
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for folder in folders
        for path in sorted(folder.rglob("*.yaml"))
    }


def names(store: Path = USUAL_STORE) -> list[str]:
    return sorted(experiments(store))


def find(name: str, store: Path = USUAL_STORE) -> tuple[str, dict[str, Any]]:
    """An experiment's name and settings: one of configs/experiments, one beside the store, or a file. Raises
    UnknownName, ConfigError."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path.stem, read_yaml(path)
    known = experiments(store)
    if name not in known:
        raise UnknownName("experiment", name, sorted(known))
    return name, read_yaml(known[name])


def evaluation(name: str, settings: Mapping[str, Any], *given: Mapping[str, Any]) -> Evaluate:
    """An experiment's settings as parameters of the flow. `given` takes precedence, also over the settings of single
    methods.

    A setting for all methods applies to those that have such an option. If none has it, a warning says so of a given
    one that other methods of the kind have, as one that is given to several experiments; else that raises ConfigError,
    as does an option that is set for a method alone and that it lacks.
    """
    layer: dict[str, Any] = {}
    for part in given:
        layer = merged(layer, part)
    layer = _apart(layer)
    wins = {section: layer.pop(section) for section in SECTIONS[1:] if section in layer}
    for section, value in wins.items():
        if value is not None and not isinstance(value, (Mapping, list)):
            raise ConfigError(f"{section} is a section: set {section}.KEY=VALUE, or {section}=null (got {value!r})")
    score = _score(settings.get("score") or {}, layer.pop("score", {}))
    experiment = build(Experiment, settings, layer).of_only()
    axes = _axes(experiment.choose or {}, wins)
    # A stage is there where it is set; one that names no method also with its defaults, by which it changes nothing.
    there = ("perturb", *wins)
    stages: dict[str, Any] = {section: {} if section in there else None for section in STAGES}
    given_to_all = {**stages, **_apart({section: getattr(experiment, section) for section in FIELDS})}
    defaults = {section: given_to_all[section] for section in SECTIONS}
    # choose=null, if it is given, also holds for methods that choose by themselves.
    nothing = {"choose": None} if layer.get("choose", {}) is None else {}
    methods = {label: {**_apart(own or {}), **nothing} for label, own in experiment.methods.items()}
    drafts = [_draft(label, defaults, own, wins, axes) for label, own in methods.items()]
    rows: dict[tuple[str, str], list[Option]] = {}
    """The options of every method of the table, by the method of the file and the name; mostly there is one."""
    for draft in drafts:
        for option in expand(draft):
            rows.setdefault((draft.label, option.of), []).append(option)
    for path in axes:
        if not any(path in draft.chosen for draft in drafts):
            section, key = path[0], ".".join(path[1:])
            if section in KINDS and not any(key in (draft.settings[section] or {}) for draft in drafts):
                raise ConfigError(f"choose: {_nobody_has(name, section, key, KINDS[section], drafts)}")
            already = f"every method of {name} that has a setting {section}.{key} already sets a value"
            raise ConfigError(f"choose: {already}; remove one of the values")
    _check_used(name, defaults, wins, drafts)
    own = ("name", "methods", "score", "choose", "chosen", "left_out")
    shared = {key: getattr(experiment, key) for key in Evaluate.model_fields if key not in own}
    shown = [options[0].method.model_copy(update={"name": row}) for (_, row), options in rows.items()]
    several = [option for options in rows.values() if len(options) > 1 for option in options]
    by = {key: value for key, value in (experiment.choose or {}).items() if key == "by"}
    choose = build(Choose, {**by, "options": several}) if several else None
    if any(method.stages.get("judge") for method in shown) and not {*score.metrics} & {*JUDGED}:
        score = score.model_copy(update={"metrics": (*JUDGED, *score.metrics)})
    return complete(build(Evaluate, {**shared, "score": score, "name": name, "methods": shown, "choose": choose}))


def _apart(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the stages of `STAGES` as sections."""
    stages = dict(settings.get("stages") or {})
    own = {name: stages.pop(name) for name in STAGES if name in stages}
    return {**settings, **own, "stages": stages} if own else dict(settings)


def complete(parameters: Evaluate) -> Evaluate:
    """The parameters with complete sections, as the Options of their methods. Raises UnknownName, and ConfigError,
    which names the method."""
    choose = parameters.choose
    if choose:
        options = [each.model_copy(update={"method": _complete(each.method)}) for each in choose.options]
        choose = choose.model_copy(update={"options": tuple(options)})
    methods = tuple(map(_complete, parameters.methods))
    return completed(parameters).model_copy(update={"methods": methods, "choose": choose})


def _complete(method: Method) -> Method:
    with naming(method.name):
        stages = {name: None if own is None else stage_options(name, own) for name, own in method.stages.items()}
        return completed(method).model_copy(update={"stages": stages})


def _score(settings: Mapping[str, Any], given: Mapping[str, Any]) -> ScoreConfig:
    """`given` takes precedence; if it names other metrics, options of the experiment's metrics alone are dropped."""
    if "metrics" not in given:
        return build(ScoreConfig, settings, given)
    usual = with_options(build(ScoreConfig, settings), "score")
    chosen = build(ScoreConfig, settings, given)
    return chosen.without(usual.given().keys() - given.keys() - settings_of(chosen).keys())


def _axes(choose: Mapping[str, Any], wins: Mapping[str, Any]) -> dict[Place, list[Any]]:
    """The settings to choose, with their values; without those that are given, which leaves nothing to choose.
    Raises ConfigError for one that is not a list."""
    axes = {path: value for path, value in leaves(choose) if path not in (("by",), ("on",))}
    for path, values in axes.items():
        if path[0] not in SECTIONS or not isinstance(values, (list, tuple)) or not values:
            raise ConfigError(
                f"choose.{'.'.join(path)} must be a method's setting with a list of values, such as retrieve.alpha: "
                f"[0.3, 0.5, 0.8]; got {values!r}. To set the metric, use choose.by"
            )
    if (on := choose.get("on", "development")) != "development":
        raise ConfigError(f"choose.on must be 'development', got {on!r}")
    given = {path for path, _ in leaves(wins)}
    return {path: [*values] for path, values in axes.items() if path not in given}


def _check_used(name: str, defaults: Mapping[str, Any], wins: Mapping[str, Any], drafts: Sequence[Draft]) -> None:
    """Raises ConfigError for a setting for all methods that none of them has; a given one that other methods have gets
    a warning."""
    for section, kind in KINDS.items():
        own, given = defaults[section] or {}, wins.get(section) or {}
        # Where another method is given (generate.generator=reader), the experiment's settings are of the one it had.
        names_a_method = _names_a_method(section, given)
        for key in given if names_a_method else {**own, **given}:
            if any(key in (draft.settings[section] or {}) for draft in drafts):
                continue
            owners = where(kind(), section, key)
            is_there = any(draft.settings[section] is not None for draft in drafts)
            # Beside the name of a method that lacks it, it is a mistake.
            if not (key in given and is_there and not names_a_method and owners):
                raise ConfigError(_nobody_has(name, section, key, kind, drafts))
            logger.warning("%s.%s changes nothing, as no method of %s has it: %s", section, key, name, owners)
    for section in wins.keys() - KINDS.keys() - {"variant"}:
        if all(draft.settings[section] is None for draft in drafts):
            raise ConfigError(_nobody_does(name, section, next(iter(wins[section] or {}), "")))


def _draft(
    label: str,
    defaults: Mapping[str, Any],
    own: Mapping[str, Any],
    wins: Mapping[str, Any],
    axes: Mapping[Place, list[Any]],
) -> Draft:
    """Merge the experiment's settings that this method has, the method's settings, and those that take precedence."""
    set_by_itself = {path for path, _ in leaves(own)}
    own_axes = _axes(own.get("choose") or {}, wins)
    own = {key: value for key, value in own.items() if key != "choose"}
    settings = merged(defaults, own)
    for section, kind in KINDS.items():
        if (special := own.get(section)) and isinstance(special, Mapping):
            with naming(label):
                _check_own(section, kind, settings[section], special)
    chosen = {path: values for path, values in axes.items() if path not in set_by_itself} | own_axes
    chosen = {path: values for path, values in chosen.items() if settings.get(path[0], {}) is not None}
    if _is_elsewhere(settings["generate"], wins):
        if own.get("retrieve"):
            raise ConfigError(f"method {label}: its generator finds contexts by itself; remove `retrieve`")
        settings = {**settings, "retrieve": None}
    settings = with_values(settings, chosen)
    # A section that a method omits (null) takes no settings.
    settings = merged(settings, {key: value for key, value in wins.items() if settings.get(key, {}) is not None})
    settings = {section: fitting(section, value) for section, value in settings.items()}
    there = {path for path, _ in leaves(settings)}
    # Where another method is given, the method's settings to choose are of the one it had.
    named = {section for section, given in wins.items() if given is None or _names_a_method(section, given)}
    if missing := {path for path in own_axes.keys() - there if path[0] not in named}:
        raise ConfigError(f"method {label}: choose: the method has no setting {'.'.join(min(missing))}")
    return Draft(label, settings, chosen.keys() & there)


def _is_elsewhere(generate: Mapping[str, Any] | None, wins: Mapping[str, Any]) -> bool:
    """Return whether another system answers, which finds contexts by itself."""
    given = {**(generate or {}), **(wins.get("generate") or {})}
    named = method_names(KINDS["generate"], given) if generate is not None else []
    return any(getattr(resolve("generator", name), "elsewhere", False) for name in named)


def _names_a_method(section: str, settings: Mapping[str, Any]) -> bool:
    """Return whether settings of a section name its method."""
    return section in KINDS and KINDS[section].field() in settings


def _check_own(section: str, kind: type[Section], settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raises ConfigError, UnknownName for a setting that the method itself lacks."""
    known = fields(kind, settings)
    if unknown := {key: value for key, value in own.items() if key not in known}:
        with_options(build(kind, {kind.field(): method_names(kind, settings)[0], **unknown}), section)


def _nobody_has(name: str, section: str, key: str, kind: type[Section], drafts: Sequence[Draft]) -> str:
    """The error message for a setting that no method of an experiment has."""
    used = [draft.settings[section] for draft in drafts if draft.settings[section] is not None]
    if not used:
        return _nobody_does(name, section, key)
    known = sorted({field for settings in used for field in fields(kind, settings)})
    owners = where(kind(), section, key)
    close = "" if owners else nearest(f"{section}.{key}", [f"{section}.{field}" for field in known])
    reason = owners or f"known: {few(key, known, '--help')}"
    return f"unknown setting '{section}.{key}'{close} for the methods of {name}; {reason}"


def _nobody_does(name: str, section: str, key: str) -> str:
    others = ((other, evaluation(*find(other), {"index": "any"}).methods) for other in names())
    able = [other for other, methods in others if any(method.sections()[section] for method in methods)]
    return f"{section}.{key}: no method of {name} has a section `{section}`; try {', '.join(able)}"
