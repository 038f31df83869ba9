"""Which questions a training learns from, which choose its weights, and which are held out: by article, question, file.

Questions are put into groups, and a group is in one part. By `article`, a group is the questions on an article, which
the title of the first gold passage names; passages of the articles that are not learnt from are not read in training
either. By `question`, a group is a question's text, whatever its answers: for data sets without gold passages (PopQA,
TriviaQA), or with an article for nearly every question (HotpotQA). By `file`, too, and the groups that are held out are
the questions of another data set; a question that is in both is held out, and so are that data set's passages.

Questions are chosen in the order of a hash of seed and text, so that with more questions most keep their part.
"""

import hashlib
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from vitalfew.configs.training import SplitBy, SplitOptions
from vitalfew.tasks.datasets.base import InputError

HELD_OUT, CHOOSING = "held_out", "choosing"


class TrainingSplit(NamedTuple):
    """The groups that are held out of the training, and the groups that choose the weights; `by`: what a group is."""

    held_out: tuple[str, ...]
    choosing: tuple[str, ...]
    by: SplitBy = "article"

    @property
    def unseen(self) -> set[str]:
        """The groups that the training does not learn from."""
        return {*self.held_out, *self.choosing}


@dataclass(frozen=True)
class Apart:
    """The content of the data sets that are not learnt from: questions by their group and passages by their id, with
    their part (`held_out`, `choosing`)."""

    questions: Mapping[str, str] = field(default_factory=dict)
    passages: Mapping[int, str] = field(default_factory=dict)


def question_group(text: str) -> str:
    """The group of a question where questions are split: its text in one line."""
    return " ".join(text.split())


class SplitRule:
    """The groups of questions and passages, and their split, by the options of a trainer or collector."""

    def __init__(
        self,
        options: SplitOptions,
        seed: int,
        apart: Apart | None = None,
        section: str = "",
        unseen: Collection[str] = (),
    ) -> None:
        """`apart`: for split=file; `section`: of the options, for messages; `unseen`: groups that an earlier training
        held out, which are held out before any other."""
        self.by: SplitBy = options.split or "article"
        self.options, self.seed, self.apart = options, seed, apart or Apart()
        self.path = f"{section}." if section else ""
        self.unseen = frozenset(unseen)

    def group(self, question: str, article: str) -> str:
        """A question's group; "" if there is none. `article`: the title of its first gold passage, or ""."""
        return article if self.by == "article" else question_group(question)

    def is_apart(self, passage: int, article: str, split: TrainingSplit) -> bool:
        """Whether a passage is not read in training."""
        return article in split.unseen if self.by == "article" else passage in self.apart.passages

    def split(self, groups: Iterable[str]) -> TrainingSplit:
        """Choose groups.

        `groups`: of all questions, in any order and repeated or not. Raises InputError if there are none of this kind,
        or too few are left to learn from.
        """
        known = sorted({*groups} - {""})
        if not known:
            raise InputError(
                "no question names a gold passage of an article with a title, so the questions cannot be split by "
                f"article. Use --set {self.path}split=question, or {self.path}split=file with "
                f"{self.path}held_out=FORMAT:PATH"
            )
        if self.by == "file":
            return self._by_file(known)
        if self.by == "article":
            random.Random(self.seed).shuffle(known)
        else:
            known = self._hashed(known)
        before = [group for group in known if group in self.unseen]
        others = [group for group in known if group not in self.unseen]
        return self._counted(others, max(0, int(self.options.held_out) - len(before)), before)

    def _by_file(self, known: list[str]) -> TrainingSplit:
        parts = self.apart.questions
        held_out = sorted(group for group in known if parts.get(group) == HELD_OUT)
        if not held_out:
            raise InputError(
                f"{self.path}held_out={self.options.held_out} has no question that can be used in this training; name "
                "another data set"
            )
        choosing = sorted(group for group in known if parts.get(group) == CHOOSING)
        learnt = self._hashed(group for group in known if group not in parts)
        if isinstance(self.options.choosing, int):
            return self._counted(learnt, 0, held_out)
        if not choosing or not learnt:
            raise InputError(
                f"split=file: {len(learnt)} questions to learn from, {len(choosing)} to choose the weights: every "
                "data set needs questions that the others do not have"
            )
        return TrainingSplit(tuple(held_out), tuple(choosing), self.by)

    def _counted(self, known: list[str], held_out: int, others: list[str]) -> TrainingSplit:
        """The first of `known` are held out, the next choose; `others` are held out besides."""
        last = held_out + int(self.options.choosing)
        if len(known) <= last:
            what = {"article": "articles have questions", "question": "different questions", "file": "questions"}
            fewer = f"{self.path}choosing=1" if self.by == "file" else f"{self.path}held_out=1 {self.path}choosing=1"
            unit = "article" if self.by == "article" else "question"
            total = len(known) if self.by == "file" else len(known) + len(others)
            raise InputError(
                f"{total} {what[self.by]}, {held_out + len(others)} are held out and {self.options.choosing} "
                f"choose the weights: no {unit} is left to learn from. Use --set {fewer}, or name more data"
            )
        return TrainingSplit(tuple(sorted(known[:held_out] + others)), tuple(sorted(known[held_out:last])), self.by)

    def _hashed(self, groups: Iterable[str]) -> list[str]:
        return sorted(groups, key=lambda group: hashlib.blake2b(f"{self.seed}/{group}".encode()).digest())
