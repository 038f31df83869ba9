"""What a record may have at most, so that memory follows the settings, whatever a source holds."""

from vitalfew.configs.schema import LoadConfig
from vitalfew.tasks.datasets.base import Passage, Question, Record, Reject

MOST_DETAIL = 2_000
"""Characters of a reject's detail."""


def checked(record: Record, config: LoadConfig) -> Record:
    """The record, or a Reject that names the field that is too long, and the setting."""
    fault = _fault(record, config)
    return Reject("over_long", fault) if fault else record


def _fault(record: Record, config: LoadConfig) -> str | None:
    match record:
        case Passage(title, text, source_id):
            sizes = {"text": len(text), "title": len(title), "source_id": len(source_id)}
            return _longest(sizes, config)
        case Question():
            sizes = {"text": len(record.text), "answers": sum(map(len, record.answers))}
            lists = ("answers", "gold_passages", "supporting_facts")
            counts = {name: len(getattr(record, name)) for name in lists}
            return _longest(sizes | {"source_id": len(record.source_id)}, config) or _most(counts, config)
    return None


def _longest(sizes: dict[str, int], config: LoadConfig) -> str | None:
    for name, size in sizes.items():
        setting = "max_name_chars" if name in ("title", "source_id") else "max_chars"
        if size > (limit := getattr(config, setting)):
            return f"{name}: {size:,} characters; load.{setting} is {limit:,}"
    return None


def _most(counts: dict[str, int], config: LoadConfig) -> str | None:
    for name, count in counts.items():
        if count > config.max_items:
            return f"{name}: {count:,} items; load.max_items is {config.max_items:,}"
    return None
