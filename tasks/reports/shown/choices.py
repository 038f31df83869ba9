"""What was chosen from what, by which metric, on how many questions."""

from collections.abc import Iterator, Mapping
from typing import Any

from vitalfew.configs.chosen import Chosen, Tried
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.shown.columns import figure
from vitalfew.tasks.reports.shown.tables import setting_text
from vitalfew.tasks.reports.shown.text import one_line


def halves(questions: int, hashed: int) -> str:
    """What decided in which half a question is. `hashed`: so many of the questions by a hash."""
    if not hashed:
        return "halves of the data set"
    part = "" if hashed == questions else f"{hashed:,} of them "
    return f"{part}halved by a hash of the question's id"


def choices(report: Report) -> list[str]:
    """Sentences on the choice, a line per method; none where nothing was chosen."""
    return [*_lines(report.chosen)] if report.chosen else []


def _lines(chosen: Chosen) -> Iterator[str]:
    yield (
        f"Chosen by {chosen.heading} on {chosen.questions:,} development questions "
        f"({halves(chosen.questions, chosen.hashed)}), which no figure here uses. A tie goes to the value listed first:"
    )
    for method, tried in by_method(chosen).items():
        taken = next(option for option in tried if option.taken)
        all_tried = ", ".join(f"{_bare(option.values)} → {figure(option.figure, chosen.unit)}" for option in tried)
        yield f"{one_line(method)}: {values(taken.values)} (tried: {all_tried})"


def by_method(chosen: Chosen) -> dict[str, list[Tried]]:
    """What was tried of every method."""
    methods: dict[str, list[Tried]] = {}
    for tried in chosen.tried:
        methods.setdefault(tried.method, []).append(tried)
    return methods


def _bare(settings: Mapping[str, Any]) -> str:
    """The values alone."""
    texts = [one_line(setting_text(value)) for value in settings.values()]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def values(settings: Mapping[str, Any]) -> str:
    """Settings with their values, as `--set` takes them."""
    return one_line(" ".join(f"{key}={setting_text(value)}" for key, value in settings.items()))
