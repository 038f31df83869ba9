"""Parts that all adapters share: the metadata of hits and of refined contexts, and the error of a missing framework."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vitalfew.configs.installing import install_command
from vitalfew.flows.pipelines.answering import RagContext
from vitalfew.flows.pipelines.refining import refine
from vitalfew.tasks.datasets.base import InputError

if TYPE_CHECKING:
    from vitalfew.tasks.retrieve import Hit

UNPROMPTED = ("source", "passage_id", "span", "sources")
"""Keys of metadata that say where a text is from, and that no prompt needs."""


def missing(package: str, extra: str, error: ImportError) -> ImportError:
    """The error of a module whose framework cannot be imported, with the remedy."""
    return ImportError(f"this needs {package} ({error}): {install_command(extra)}")


def metadata_of(hit: "Hit") -> dict[str, Any]:
    """title, source (a file and the heading in it, say), passage_id and, unless a model rewrote the text, its span in
    the passage: [start, end] in code points, half-open."""
    span = {"span": [hit.start, hit.end]} if hit.end > hit.start else {}
    return {"title": hit.title, "source": hit.source_id, "passage_id": hit.passage_id, **span}


def refined(
    refiner: str,
    question: str,
    texts: Sequence[str | None],
    metadata: Sequence[Mapping[str, Any]],
    max_tokens: int | None,
    settings: Mapping[str, Any],
) -> list[RagContext]:
    """`vitalfew.refine` of texts, with the titles that their metadata have. Calls from several threads take turns."""
    passages = []
    for number, (text, own) in enumerate(zip(texts, metadata, strict=True)):
        if text is None:
            raise InputError(f"document {number} has no text; only texts can be refined")
        title = own.get("title")
        passages.append({"text": text, "title": title if isinstance(title, str) else ""})
    options = settings if max_tokens is None else {**settings, "max_tokens": max_tokens}
    return refine(refiner, question, passages, **options)


def places(context: RagContext, count: int) -> list[int]:
    """The places of the documents, of `count` given ones, that a context comes from; all, if a model rewrote them."""
    return list(dict.fromkeys(source.passage_id for source in context.sources)) or list(range(count))


def metadata_kept(context: RagContext, given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The metadata that all documents have in common that a context comes from, which is everything where it is one
    document; and `sources`: a list of {"document": its place among those given, "start", "end"}.

    A `span` within a passage is moved along with the text, and left out where it is not one span that was kept.
    """
    first, *others = [given[place] for place in places(context, len(given))]
    kept = {key: value for key, value in first.items() if all(_same(key, value, other) for other in others)}
    match kept.get("span"):
        case [int(start), int()]:
            del kept["span"]
            if len(context.sources) == 1:
                (source,) = context.sources
                kept["span"] = [start + source.start, start + source.end]
    spans = [{"document": each.passage_id, "start": each.start, "end": each.end} for each in context.sources]
    return {**kept, "sources": spans}


def best_score(context: RagContext, scores: Sequence[Any]) -> float | None:
    """The highest score of the documents that a context comes from; None where none has one."""
    found = (scores[place] for place in places(context, len(scores)))
    return max((score for score in found if isinstance(score, int | float)), default=None)


def _same(key: str, value: Any, other: Mapping[str, Any]) -> bool:
    try:
        return key in other and bool(other[key] == value)
    except ValueError:  # arrays
        return False
