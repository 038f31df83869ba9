"""Look-alikes: passages that are worded like real ones and say something else, to make a pool harder to search.

    python -m benchmarks.lookalikes DATASET ... [--count N] [--seed N] [--out build/bench/lookalikes.json]

writes a corpus of look-alikes of the gold passages of the data sets' questions, to be indexed beside the data sets:
`vitalfew index DATASET ... titletext:build/bench/lookalikes.json`.

A look-alike is a piece of a real passage whose names and numbers are exchanged for others that stand in real passages:
a run of capitalised words for another one of its kind and length, a number for another one of its shape. What is
exchanged is the same throughout a look-alike, and a part of a name ("Tesla" of "Nikola Tesla") becomes a part of the
other. All else stays: the wording of the topic. There are two sorts:

- *the same subject*: the title and the names in it stay, as in another passage of the article; all else changes;
- *another subject* (one in OTHERS): the title changes too, for another one of its kind ("… (film)").

A name or number of a kind of which there are few stays.

None contains a gold answer of a question that is asked of its original, neither by the normalisation of the metric
`accuracy` nor by that of `answer_recall`: one that would is drawn anew some times, and else left out. So it is never a
right passage and never answers its question. What it says is not true. All follows from the seed.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

from benchmarks.common import options
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import Passage, Question
from vitalfew.tasks.datasets.specification import parse_dataset
from vitalfew.tasks.metrics.answers import has_answer
from vitalfew.tasks.metrics.ranking import first_correct

MOST_WORDS, LEAST_WORDS = 40, 25
"""Words of a look-alike: at most, and at least, where its original has so many."""
DRAWS, TURNS = 4, 1000
"""How often a look-alike is drawn before its original is passed over, and how often originals have a turn, at most."""
OTHERS = 4
FEW = 5
"""Names of a kind, at least; and how many are drawn, of which the first that is not in the look-alike yet is taken."""

_WORD = r"(?:(?:[A-Z]\.){2,}|[A-Z]\.(?= [A-Z])|[A-ZÀ-ÖØ-Þ](?:\w|[’'-](?!s\b)(?=\w))*)"
_LINKS = ("of the", "of", "de", "von", "van")
_NAME = re.compile(rf"\b{_WORD}(?: (?:(?:{'|'.join(_LINKS)}) )?{_WORD})*")
_NUMBER = re.compile(r"\b\d+(?:[.,:]\d+)*\w*")
_EITHER = re.compile(f"{_NAME.pattern}|{_NUMBER.pattern}")
_INSIDE = re.compile(rf"(?<=[\w,;:] )(?:{_WORD}|[a-zß-ÿ]\w*)")
"""A word within a sentence, where a capital letter means a name."""
_END = re.compile(r"(?:(?<=[^A-Z\s][.!?])|(?<=[.!?][\"”)]))\s+(?=[\"“(]?[A-ZÀ-ÖØ-Þ\d])")
_DETAIL = re.compile(r"\s*\((.*)\)$|, .*$")
_NARROW = {
    "month": re.compile(r"January|February|March|April|May|June|July|August|September|October|November|December"),
    "day": re.compile(r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"),
    "people": re.compile(r"\w{3,}(?:ish|ese|[iae]ans?|ch)"),
    "letters": re.compile(r"[A-Z]{2,}"),
}
Kind = tuple[str, int]


@dataclass(frozen=True)
class Original:
    """A real passage; `answers`: the gold answers of all questions that are asked of it."""

    title: str
    text: str
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class LookAlike:
    """`original`: the number of its original. `exchanged`: what stands for the names and numbers of that."""

    title: str
    text: str
    original: int
    exchanged: dict[str, str]


def read_originals(datasets: Iterable[str]) -> dict[int, Original]:
    """Return the distinct passages of data sets by id. Raises InputError for a file that is not there."""
    passages: dict[int, Passage] = {}
    answers: dict[int, dict[str, None]] = defaultdict(dict)
    for dataset in datasets:
        for _, record in parse_dataset(dataset)[1].records():
            if isinstance(record, Passage):
                passages.setdefault(passage_id(record.text), record)
            elif isinstance(record, Question):
                for gold in record.gold_passages:
                    answers[gold].update(dict.fromkeys(record.answers))
    return {key: Original(each.title, each.text, tuple(answers[key])) for key, each in passages.items()}


def lookalikes(originals: Sequence[Original], stock: "Stock", count: int, seed: int) -> Iterator[LookAlike]:
    """Yield that many look-alikes, no two alike, one of every original in turn; fewer where TURNS do not do.

    Those of an original do not depend on the others, nor on the count."""
    known = {each.text for each in originals}
    for turn, (number, original) in product(range(TURNS), enumerate(originals)):
        if not count:
            return
        for draw in range(DRAWS):
            made = stock.exchanged(
                original, number, bool(turn % OTHERS), Random(f"{seed} {turn} {draw} {original.text}")
            )
            if made.exchanged and made.text not in known and not gives(made, original.answers):
                known.add(made.text)
                count -= 1
                yield made
                break


def gives(made: LookAlike, answers: Sequence[str]) -> bool:
    """Return whether a look-alike contains one of the answers."""
    text = f"{made.title}: {made.text}"
    return has_answer(text, answers) or bool(first_correct(answers, [text]))


def piece(text: str, chance: Random) -> str:
    """Return some sentences in a row, or the beginning of one, of MOST_WORDS words at most."""
    sentences = _END.split(text)
    sizes = [len(sentence.split()) for sentence in sentences]
    starts = [place for place in range(len(sizes)) if sum(sizes[place:]) >= LEAST_WORDS]
    start = chance.choice(starts) if sum(sizes) > MOST_WORDS else 0
    end = start + 1
    while end < len(sizes) and sum(sizes[start : end + 1]) <= MOST_WORDS:
        end += 1
    return " ".join(" ".join(sentences[start:end]).split()[:MOST_WORDS])


class Stock:
    """The names, numbers and titles of some passages, by kind."""

    def __init__(self, passages: Sequence[Original]) -> None:
        inside = Counter(word for each in passages for word in _INSIDE.findall(each.text))
        self._common = {word for word, count in inside.items() if word.islower() and count >= inside[word.capitalize()]}
        names = (each.text[start:end] for each in passages for start, end in self.names(each.text))
        self._names = _by_kind(names, _kinds)
        self._titles = _by_kind((each.title for each in passages), _kinds_of_title)

    def names(self, text: str, title: str = "") -> Iterator[tuple[int, int]]:
        """Yield the ranges of the names and numbers of a text, in its order, and of its title, whatever its case."""
        place = 0
        for match in re.finditer(rf"\b{re.escape(title)}\b", text, re.IGNORECASE) if title else ():
            yield from self._names_in(text, place, match.start())
            yield match.span()
            place = match.end()
        yield from self._names_in(text, place, len(text))

    def _names_in(self, text: str, place: int, end: int) -> Iterator[tuple[int, int]]:
        while match := _EITHER.search(text, place, end):
            first = match[0].partition(" ")[0]
            place = match.end()
            if first.lower() in self._common:
                place = match.start() + len(first)  # "The Beatles" are Beatles
            else:
                yield match.span()

    def exchanged(self, original: Original, number: int, keeps_title: bool, chance: Random) -> LookAlike:
        """Return a look-alike, whatever it contains."""
        text, title, subject = piece(original.text, chance), original.title, _DETAIL.sub("", original.title)
        if not keeps_title:
            title = self._other(title, self._titles, _kinds_of_title, (), chance)
        ranges = [*self.names(text, subject)]
        names = {text[start:end] for start, end in ranges}
        became = {subject: _DETAIL.sub("", title)}
        for name in sorted(names, key=lambda name: (-name.count(" "), name)):
            if name.lower() == subject.lower():
                became[name] = became[subject]
            else:
                taken = {subject, *names, *became.values()}
                became[name] = _part(name, became) or self._other(name, self._names, _kinds, taken, chance)
        changed = {name: other for name, other in became.items() if name in names and name != other}
        return LookAlike(title, _with(text, ranges, became), number, changed)

    @staticmethod
    def _other(
        name: str,
        names: Mapping[Kind, Sequence[str]],
        kinds_of: Callable[[str], Iterator[Kind]],
        taken: Collection[str],
        chance: Random,
    ) -> str:
        """Draw another name of the kind, or of a wider one where that has few; the same one where there is no other."""
        for kind in kinds_of(name):
            others = names.get(kind, ())
            if len(others) >= FEW:
                drawn = chance.sample(others, FEW)
                return next((other for other in drawn if other != name and other not in taken), name)
        return name


def _with(text: str, ranges: Iterable[tuple[int, int]], became: Mapping[str, str]) -> str:
    """Return a text with what stands for the names at these ranges."""
    parts, place = [], 0
    for start, end in ranges:
        parts += [text[place:start], became[text[start:end]]]
        place = end
    return "".join([*parts, text[place:]])


def _part(name: str, became: Mapping[str, str]) -> str | None:
    """Return what stands for a part of a longer name; None where it is part of none."""
    words = name.split(" ")
    for whole, other in became.items():
        longer, instead = whole.split(" "), other.split(" ")
        for start in range(len(longer) - len(words) + 1):
            end = start + len(words)
            if longer[start:end] == words:
                inner = instead[start:end] if end < len(longer) else []
                return " ".join(inner or instead[-len(words) :])
    return None


def _kinds(name: str) -> Iterator[Kind]:
    """Yield the kinds of a name or a number, the narrowest first."""
    if name[0].isdigit():
        yield re.sub(r"\d", "0", name), 0
        return
    for kind, pattern in _NARROW.items():
        if pattern.fullmatch(name):
            yield kind, 1
            return
    yield "", min(name.count(" "), 3)


def _kinds_of_title(title: str) -> Iterator[Kind]:
    """Yield the kinds of a title: by its detail, "film", and by the number of its words."""
    detail = _DETAIL.search(title)
    if detail:
        yield re.sub(r"\d", "0", detail[1] or ","), 0
    yield "", min(_DETAIL.sub("", title).count(" "), 3)


def _by_kind(names: Iterable[str], kinds_of: Callable[[str], Iterator[Kind]]) -> dict[Kind, list[str]]:
    found: dict[Kind, set[str]] = defaultdict(set)
    for name in names:
        for kind in kinds_of(name):
            found[kind].add(name)
    return {kind: sorted(of_kind) for kind, of_kind in found.items()}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("datasets", nargs="+", metavar="DATASET", help="such as squad:dev-v1.1.json")
    parser.add_argument("--count", type=int, default=100_000, help="look-alikes, at most; 100000")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/bench/lookalikes.json"))
    given = parser.parse_args()
    known = read_originals(given.datasets)
    gold = [known[key] for key in sorted(known) if known[key].answers]
    made = [*lookalikes(gold, Stock([*known.values()]), given.count, given.seed)]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps([{"title": each.title, "text": each.text} for each in made]), encoding="utf-8")
    print(f"{len(made):,} look-alikes of {len(gold):,} passages: titletext:{given.out}")


if __name__ == "__main__":
    main()
