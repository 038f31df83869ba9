"""`Index`: a named index, and its search."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, overload

from vitalfew.configs.loading import build
from vitalfew.configs.schema import Search
from vitalfew.storage import generations
from vitalfew.tasks.datasets.base import InputError, check_question
from vitalfew.tasks.registry import with_options
from vitalfew.tasks.splitters.tokens import count_tokens

if TYPE_CHECKING:
    import polars as pl

    from vitalfew.tasks.retrieve import Hit, Searcher


class Hits(Sequence["Hit"]):
    """The hits of a question, best first. A notebook shows them as a table."""

    def __init__(self, hits: Sequence["Hit"]) -> None:
        self._hits = tuple(hits)

    @overload
    def __getitem__(self, place: int) -> "Hit": ...
    @overload
    def __getitem__(self, place: slice) -> "Hits": ...
    def __getitem__(self, place: int | slice) -> "Hit | Hits":
        return Hits(self._hits[place]) if isinstance(place, slice) else self._hits[place]

    def __len__(self) -> int:
        return len(self._hits)

    @property
    def tokens(self) -> int:
        """Words and punctuation marks of all texts."""
        return sum(count_tokens(hit.text) for hit in self._hits)

    def within(self, max_tokens: int) -> "Hits":
        """The best hits that have at most so many words and punctuation marks together."""
        kept: list[Hit] = []
        for hit in self._hits:
            max_tokens -= count_tokens(hit.text)
            if max_tokens < 0:
                break
            kept.append(hit)
        return Hits(kept)

    def pl(self) -> "pl.DataFrame":
        """A row per hit, with the columns rank, score, core, context, title, source_id, text, passage and others."""
        import polars as pl

        return pl.DataFrame([vars(hit) for hit in self._hits], infer_schema_length=None)

    def __repr__(self) -> str:
        lines = (f"{hit.rank:3}  {hit.score:.3f}  {hit.title}: {hit.text}" for hit in self._hits)
        return "\n".join(lines) or "no hits"

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><td>{hit.rank}</td><td>{hit.score:.3f}</td><td>{escape(hit.title)}</td><td>{escape(hit.text)}</td></tr>"
            for hit in self._hits
        )
        heading = "<tr><th>rank</th><th>score</th><th>title</th><th>text</th></tr>"
        return f"<table>{heading}{''.join(rows)}</table>"


class Index:
    """A named index as it was when it was opened; a name that moves is opened again by `store.index(name)`.

    Searches from several threads take turns.
    """

    def __init__(self, store: Path, name: str) -> None:
        """Raises IndexNotFound."""
        self.store, self.named = store, generations.named(store, name)
        self._lock = Lock()

    def __deepcopy__(self, memo: Any) -> "Index":
        """An index does not change and is shared by threads: the copy of what holds it, such as a chain, shares it."""
        return self

    @property
    def name(self) -> str:
        return self.named.name

    @cached_property
    def _searcher(self) -> "Searcher":
        from vitalfew.storage.indexes.opened import OpenedIndex
        from vitalfew.tasks.retrieve import Searcher

        return Searcher(OpenedIndex(self.name, self.named.located(self.store)))

    def search(
        self,
        question: str,
        *,
        max_tokens: int | None = None,
        top_k: int | None = None,
        alpha: float | None = None,
        retriever: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Hits:
        """The best units for a question; the defaults are those of `vitalfew search`.

        `max_tokens`: words and punctuation marks of all hits together, at most; `settings`: further ones of the
        section `retrieve`. Raises InputError, ConfigError, UnknownName, IndexMismatch, Damaged.
        """
        check_question(question)
        if max_tokens is not None and max_tokens < 1:
            raise InputError(f"max_tokens must be at least 1, got {max_tokens}")
        given = {"top_k": top_k, "alpha": alpha, "retriever": retriever}
        own = {key: value for key, value in given.items() if value is not None}
        request = with_options(build(Search, {"retrieve": {**own, **(settings or {})}}).retrieve, "retrieve")
        with self._lock:
            hits = Hits(self._searcher.hits(question, request))
        return hits if max_tokens is None else hits.within(max_tokens)

    async def asearch(self, question: str, **options: Any) -> Hits:
        """`search` in a thread, for an event loop."""
        return await asyncio.to_thread(self.search, question, **options)

    def passage(self, passage_id: int) -> dict[str, Any]:
        """A row of `passages`: title, text, and where it is from. Raises KeyError."""
        from vitalfew.storage.indexes.units import Passages

        with self._lock:
            return Passages(self.named.located(self.store)["passages"]).row(passage_id)

    def __repr__(self) -> str:
        return f"Index({self.name!r}, run {self.named.run_id}, in {self.store})"
