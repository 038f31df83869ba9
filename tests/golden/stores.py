"""The stores of the golden tests, each made once in a test run, and short ways to show what lies in them as text."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import vitalfew as vf
from tests.golden import cases
from tests.golden.valley import write_valley
from tests.support.shared import shared

FP32: dict[str, Any] = {"encode": {"precision": "fp32"}, "bm25": {"enabled": True}}
"""Settings of an index whose vectors are the same on every processor, with keywords."""

ANSWERING = {"generate": {"precision": "fp32"}, "critique": {"precision": "fp32"}}
"""Settings of an evaluation by bundled models, the same on every processor."""


def valley() -> Path:
    """A folder with `valley.json` and `store`, which has its index `valley`. Read it, or copy the store."""
    return shared("golden-valley", _make_valley)


def _make_valley(folder: Path) -> None:
    folder.mkdir()
    indexed(folder / "store", "valley", f"squad:{write_valley(folder / 'valley.json')}")


def indexed(store: Path, name: str, dataset: str, **settings: Any) -> vf.Store:
    """A store with an index of the data set, made in this process."""
    opened = vf.Store(store, progress=False)
    opened.index(name, dataset, runner="serial", settings={**FP32, **settings})
    return opened


def rows(store: vf.Store, query: str, **given: object) -> list[tuple[Any, ...]]:
    """The rows of a query in SQL."""
    return store.sql(query.format(**given)).rows()


def lines(found: Iterable[Sequence[Any]]) -> str:
    """A line per row: its values, numbers with three decimals, separated by bars."""
    return "".join(" | ".join(map(shown, row)) + "\n" for row in found)


def shown(value: Any) -> str:
    """A value as it stands in an expected file; signs that a line cannot show are escaped."""
    if isinstance(value, float):
        return f"{value + 0.0:.3f}".replace("-0.000", "0.000")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shown(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    text = "" if value is None else str(value)
    return "".join(sign.encode("unicode_escape").decode() if _is_hidden(sign) else sign for sign in text)


def _is_hidden(sign: str) -> bool:
    """Whether a reader of the file would not see the sign, or not which one it is."""
    return not sign.isprintable() or sign == "\N{REPLACEMENT CHARACTER}"


def odd() -> Path:
    """A folder with `store`, which has the indexes `documents`, `languages`, `judged` and `stop`. Read it, or copy the
    store."""
    return shared("golden-odd", _make_odd)


def _make_odd(folder: Path) -> None:
    folder.mkdir()
    store = folder / "store"
    indexed(store, "documents", f"folder:{cases.write_documents(folder / 'documents')}?words=120")
    indexed(store, "languages", f"jsonl:{cases.write_languages(folder / 'languages.jsonl')}")
    indexed(store, "judged", f"beir:{cases.write_judged(folder / 'judged')}")
    indexed(store, "stop", f"jsonl:{cases.write_stop_words(folder / 'stop.jsonl')}")
