"""Methods that belong together: those that differ in one setting alone, and names for such families."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult
from vitalfew.tasks.reports.shown.tables import setting_text
from vitalfew.tasks.reports.shown.text import one_line

ALPHA = "alpha"
"""The setting of this name, in whatever section."""


def differing_in(key: str, methods: Sequence[MethodResult]) -> list[list[MethodResult]]:
    """Groups of methods that differ in the setting `key` alone, in the order in which they first come."""
    groups: dict[str, list[MethodResult]] = {}
    for method in methods:
        groups.setdefault(repr(settings_but(key, method)), []).append(method)
    return [*groups.values()]


def settings_but(key: str, method: MethodResult) -> dict[str, Any]:
    """The settings of a method without one, sorted by their keys."""
    return {name: value for name, value in sorted(method.settings.items()) if not _is(name, key)}


def families(methods: Sequence[MethodResult]) -> tuple[list[str], list[int]]:
    """Names of the groups of methods that differ in α alone, and the group of every method."""
    groups = differing_in(ALPHA, methods)
    names = family_names([settings_but(ALPHA, members[0]) for members in groups])
    of_method = {id(method): number for number, members in enumerate(groups) for method in members}
    return names, [of_method[id(method)] for method in methods]


def alpha_of(method: MethodResult) -> float | None:
    value = next((value for key, value in method.settings.items() if _is(key, ALPHA)), None)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _is(name: str, key: str) -> bool:
    """True if a setting is called `key`, in full or without its section."""
    return name == key or name.rpartition(".")[2] == key


def family_names(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for every group: the settings in which they differ. '' where there is but one; never one name twice."""
    keys = [*dict.fromkeys(key for group in groups for key in group)]
    differing = [key for key in keys if len({repr(group.get(key)) for group in groups}) > 1]
    names: list[str] = []
    for group in groups:
        settings = ((key.rpartition(".")[2], setting_text(group.get(key)) or "none") for key in differing)
        name = one_line(", ".join(f"{key}={value}" for key, value in settings))
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    return names
