"""Limits of a record, and the number of shards for a corpus: memory follows the settings, whatever a source holds."""

import math
from typing import NamedTuple

from vitalfew.configs.schema import LoadConfig
from vitalfew.tasks.datasets.base import Passage, Question, Record, Reject

MOST_DETAIL = 2_000
"""Characters of a reject's detail."""


def checked(record: Record, config: LoadConfig) -> Record:
    """Return the record, or a Reject that names the field that is too long, and the setting."""
    if isinstance(record, Reject):
        return record
    sizes = {"text": len(record.text)}
    counts = {}
    if isinstance(record, Passage):
        sizes |= {"title": len(record.title), "metadata": len(record.metadata)}
    else:
        sizes["answers"] = sum(map(len, record.answers))
        sizes["gold_places"] = sum(len(place.source) + len(place.quote) for place in record.gold_places)
        lists = ("answers", "gold_passages", "supporting_facts", "gold_places")
        counts = {name: len(getattr(record, name)) for name in lists}
    for name, size in (sizes | {"source_id": len(record.source_id)}).items():
        setting = "max_name_chars" if name in ("title", "source_id") else "max_chars"
        if size > (limit := getattr(config, setting)):
            return Reject("over_long", f"{name}: {size:,} characters; load.{setting} is {limit:,}")
    for name, count in counts.items():
        if count > config.max_items:
            return Reject("over_long", f"{name}: {count:,} items; load.max_items is {config.max_items:,}")
    return record


# A small corpus has up to FEW_SHARDS shards of at least SMALL_SHARD passages, so that workers share its work.
FEW_SHARDS = 8
SMALL_SHARD = 256
# A large one has MOST_SHARDS, and shards that grow with it from SHARD_PASSAGES to LARGE_SHARD. A kill loses the shards
# that were at work: to encode 2,048 passages with MiniLM takes a core about a minute. It is a number and no measurement
# of the machine: every machine cuts the same shards.
MOST_SHARDS = 4096
SHARD_PASSAGES = 2048
LARGE_SHARD = 32_768
# Long rows, or many sentences, make more shards: on average none has more bytes (UTF-8) or ends of sentences.
SHARD_BYTES = 64 << 20
SHARD_SENTENCES = 1 << 18
ROW_BYTES = 64
"""Bytes of a row besides its texts."""


class CorpusSize(NamedTuple):
    """The measures that set the number of shards: passages, bytes of all rows (UTF-8), ends of sentences."""

    passages: float
    bytes: float
    sentences: float


def size_of(record: Record) -> CorpusSize:
    """Return the size of a record. Punctuation bounds its number of sentences from above and is quick to count."""
    match record:
        case Passage(title, text, source_id):
            sentences = 1 + sum(map(text.count, ".!?")) + text.count("\n") // 2
            return CorpusSize(1, ROW_BYTES + sum(map(_utf8, (text, title, source_id, record.metadata))), sentences)
        case Question():
            numbers = 8 * len(record.gold_passages) + 16 * len(record.supporting_facts)
            places = [text for place in record.gold_places for text in (place.source, place.quote)]
            texts = (record.text, record.source_id, *record.answers, *places)
            return CorpusSize(0, ROW_BYTES + numbers + sum(map(_utf8, texts)), 0)
        case Reject(reason, detail):
            return CorpusSize(0, ROW_BYTES + len(reason) + len(detail), 0)


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def shard_count(size: CorpusSize, config: LoadConfig) -> int:
    """Return a power of two, so that when a corpus grows, a new shard is a half of an old one."""
    most = config.shard_passages or min(max(SHARD_PASSAGES, size.passages / MOST_SHARDS), LARGE_SHARD)
    wanted = max(
        size.passages / most,
        min(FEW_SHARDS, size.passages / SMALL_SHARD),
        size.bytes / SHARD_BYTES,
        size.sentences / SHARD_SENTENCES,
        1,
    )
    return 1 << math.ceil(math.log2(wanted))
