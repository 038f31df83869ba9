"""The content of a corpus, from one pass over its sources: the number of distinct passages, and a fair sample.

The passages with the smallest ids are kept (a bottom-k sketch: Beyer et al., "On Synopses for Distinct-Value
Estimation", SIGMOD 2007). Ids are hashes of the texts, so these are a uniform sample of the distinct passages, however
often and wherever a text occurs in the sources, and the k-th smallest id gives an estimate of their number.
"""

import heapq
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeVar

from vitalfew.configs.schema import LoadConfig
from vitalfew.storage import files
from vitalfew.storage.ids import ID_RANGE, passage_id
from vitalfew.tasks.datasets.base import Dataset, Passage, Question, Record, Reject
from vitalfew.tasks.datasets.limits import checked
from vitalfew.tasks.datasets.reading import bytes_read

SKETCH = 1 << 16
"""Ids kept for counting: up to this number the count is exact, beyond it the standard error is 0.4 %."""

Value = TypeVar("Value")


@dataclass
class BottomK(Generic[Value]):
    """The k values with the smallest keys; the keys are distinct."""

    k: int
    values: dict[int, Value] = field(default_factory=dict)
    _largest: list[int] = field(default_factory=list)

    def add(self, key: int, value: Value) -> None:
        if key in self.values or (len(self.values) == self.k and key > -self._largest[0]):
            return
        heapq.heappush(self._largest, -key)
        self.values[key] = value
        if len(self.values) > self.k:
            del self.values[-heapq.heappop(self._largest)]

    def distinct(self) -> float:
        """Estimate of the number of distinct keys, drawn evenly from 0 to 2**63; exact if there are fewer than k."""
        if len(self.values) < self.k:
            return len(self.values)
        return (self.k - 1) * ID_RANGE / (-self._largest[0] + 1)


@dataclass(frozen=True)
class Survey:
    """`share` of the sources was read (1: all of them) in `seconds`; the counts are of the whole, extrapolated.

    `other_bytes`: the size of all records except passages, as a multiple of the passages' size."""

    share: float
    seconds: float
    records: float
    passages: float
    questions: float
    other_bytes: float
    sample: list[tuple[int, Passage]]

    @property
    def complete(self) -> bool:
        return self.share >= 1


def survey(datasets: Sequence[Dataset], config: LoadConfig, sample: int, seconds: float) -> Survey:
    """Read for at most `seconds` (but always the first `sample` records), and count. Raises InputError."""
    sketch: BottomK[None] = BottomK(SKETCH)
    chosen: BottomK[Passage] = BottomK(sample)
    questions: BottomK[None] = BottomK(SKETCH)
    sizes = {Passage: 1, Question: 0, Reject: 0}
    totals = [dataset.total_records() for dataset in datasets]
    size = sum(files.status(path).size for dataset in datasets for path in dataset.files())
    began, bytes_before, records, share = time.perf_counter(), bytes_read(), 0, 1.0
    for _, record in chain.from_iterable(dataset.records() for dataset in datasets):
        records += 1
        record = checked(record, config)
        sizes[type(record)] += _bytes(record)
        _note(record, sketch, chosen, questions)
        if records % 256 == 0 and records >= sample and time.perf_counter() - began > seconds:
            known = _share(records, totals, bytes_read() - bytes_before, size)
            if known is not None:
                share = known
                break
    return Survey(
        share=share,
        seconds=(time.perf_counter() - began) / share,
        records=records / share,
        passages=sketch.distinct() / share,
        questions=questions.distinct() / share,
        other_bytes=(sizes[Question] + sizes[Reject]) / max(1, sizes[Passage]),
        sample=sorted(chosen.values.items()),
    )


def _note(
    record: Record,
    sketch: BottomK[None],
    chosen: BottomK[Passage],
    questions: BottomK[None],
) -> None:
    if isinstance(record, Passage):
        key = passage_id(record.text)
        sketch.add(key, None)
        chosen.add(key, record)
    elif isinstance(record, Question):
        questions.add(passage_id(record.text), None)


def _bytes(record: Record) -> int:
    """The approximate size of a record's texts and numbers."""
    match record:
        case Passage():
            return len(record.text) + len(record.title) + 8
        case Question():
            return len(record.text) + sum(map(len, record.answers)) + 8 * len(record.gold_passages) + _facts(record)
        case Reject():
            return len(record.reason) + len(record.detail)


def _facts(question: Question) -> int:
    return 16 * len(question.supporting_facts)


def _share(records: int, totals: Sequence[int | None], read: int, size: int) -> float | None:
    """The share of the sources in `records`: by the total number if known, else by bytes; None if unknown."""
    if all(total is not None for total in totals):
        return min(1.0, records / max(1, sum(filter(None, totals))))
    return min(1.0, read / size) if read and size else None
