"""Methods that differ in one setting alone, as families with names."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult
from vitalfew.tasks.reports.shown.tables import setting_text
from vitalfew.tasks.reports.shown.text import one_line

ALPHA = "alpha"
"""The setting of this name, in whatever section."""


def families(key: str, methods: Sequence[MethodResult]) -> dict[str, list[MethodResult]]:
    """Group methods that differ in the setting `key` alone, by their `family_names`, in order of first appearance."""
    groups: dict[str, list[MethodResult]] = {}
    for method in methods:
        groups.setdefault(repr(settings_but(key, method)), []).append(method)
    names = family_names([settings_but(key, members[0]) for members in groups.values()])
    return dict(zip(names, groups.values(), strict=True))


def settings_but(key: str, method: MethodResult) -> dict[str, Any]:
    """The settings of a method without one, sorted by their keys."""
    return {name: value for name, value in sorted(method.settings.items()) if not _is(name, key)}


def alpha_of(method: MethodResult) -> float | None:
    value = next((value for key, value in method.settings.items() if _is(key, ALPHA)), None)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _is(name: str, key: str) -> bool:
    """True if a setting is called `key`, in full or without its section."""
    return name == key or name.rpartition(".")[2] == key


def family_names(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name groups by the settings in which they differ: '' for a single group, and no name twice."""
    keys = [*dict.fromkeys(key for group in groups for key in group)]
    differing = [key for key in keys if len({repr(group.get(key)) for group in groups}) > 1]
    names: list[str] = []
    for group in groups:
        settings = ((key.rpartition(".")[2], setting_text(group.get(key)) or "none") for key in differing)
        name = one_line(", ".join(f"{key}={value}" for key, value in settings))
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    return names
