"""Methods that belong together: those that differ in α alone, and names for such families."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult
from vitalfew.tasks.reports.shown.tables import setting_text
from vitalfew.tasks.reports.shown.text import one_line


def families(methods: Sequence[MethodResult]) -> tuple[list[str], list[int]]:
    """Names of the groups of methods that differ in α alone, and the group of every method."""
    rests = [settings_but_alpha(method) for method in methods]
    groups = [*{repr(rest): rest for rest in rests}.values()]
    return family_names(groups), [groups.index(rest) for rest in rests]


def alpha_of(method: MethodResult) -> float | None:
    value = next((value for key, value in method.settings.items() if _is_alpha(key)), None)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def settings_but_alpha(method: MethodResult) -> dict[str, Any]:
    return {key: value for key, value in sorted(method.settings.items()) if not _is_alpha(key)}


def _is_alpha(key: str) -> bool:
    return key.rpartition(".")[2] == "alpha"


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
