"""`Story`: one question of an evaluation, with what every method retrieved, kept and answered, and why it is right.

The sentence `why` says only what the artifacts show:

1. which gold passages are among the hits, and at which rank, and if that hit is a part of the passage alone, as a
   sentence is; nothing where the data set names no gold passage, or the method searched nothing;
2. of every gold passage that was retrieved, whether a context of the answer's prompt comes from it and, where the data
   set says which sentence holds the fact, whether the kept spans cover it, in part or not at all; a context that a
   model wrote has no spans to tell this by;
3. whether a context of the prompt holds a gold answer, by the rule of the metric answer_recall (its tokens in a row),
   one of a gold passage if there is any;
4. whether the answer is right, by the evaluation's primary metric where that says so, and if a wrong one had all the
   sentences with the facts in its prompt.

It does not say that one caused the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from vitalfew.library.explored import RIGHT
from vitalfew.storage.catalog.database import limited
from vitalfew.tasks.metrics.ranking import first_correct
from vitalfew.tasks.reports.runs import EvaluatedMethod, NoReport

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SourcePassage:
    """A passage of an index; `fact`: the spans (code points, half-open) that the data set names as supporting facts."""

    passage_id: int
    title: str
    text: str
    fact: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class StoryContext:
    """A context as it was in the prompt, at `place`, from 1. `kept`: by passage id the spans it consists of; empty
    where a model wrote it, or put it together of more than these spans. `sources`: the passages that it comes from."""

    place: int
    text: str
    tokens: int
    kept: Mapping[int, tuple[Span, ...]]
    sources: tuple[int, ...]
    holds_answer: bool


@dataclass(frozen=True, slots=True)
class StoryHit:
    """A unit that was retrieved. `is_gold`: it is of a gold passage; `has_fact`: it is, or has, a sentence of it
    that holds the fact."""

    rank: int
    score: float
    title: str
    text: str
    passage_id: int
    is_gold: bool
    has_fact: bool


@dataclass(frozen=True, slots=True)
class MethodStory:
    """A method's part. `values`: by metric, the mean over seeds, None where it has none; `gold_ranks`: by gold passage
    the rank of its first hit, None where it was not retrieved; `is_right`: by the primary metric, None where that does
    not say; `why`: in one sentence or two, see this module."""

    method: str
    answer: str
    error: str
    values: Mapping[str, float | None]
    is_right: bool | None
    hits: tuple[StoryHit, ...]
    contexts: tuple[StoryContext, ...]
    gold_ranks: Mapping[int, int | None]
    why: str


@dataclass(frozen=True, slots=True)
class Story:
    """`passages`: by id, those that are gold or that a context comes from, as far as an index of the store has them."""

    question_id: int
    question: str
    gold_answers: tuple[str, ...]
    source: str
    gold_passages: tuple[int, ...]
    passages: Mapping[int, SourcePassage]
    methods: tuple[MethodStory, ...]


def read_story(sides: Sequence[EvaluatedMethod], metrics: Sequence[str], judged: str | None, question: int) -> Story:
    """Read all of one question. `judged`: the metric that says whether an answer is right, if any does. Raises
    NoReport where the run did not ask it."""
    if question not in sides[0].shards:
        raise NoReport(f"run {sides[0].run.run_id} did not ask question {question}")
    own = sides[0].rows_of("asked", [question]).row(0, named=True)
    facts: dict[int, list[Span]] = {}
    for fact in own["supporting_facts"] or ():
        facts.setdefault(fact["passage_id"], []).append((fact["start"], fact["end"]))
    read = [{table: side.rows_of(table, [question]).to_dicts() for table in _TABLES} for side in sides]
    origins = (span["passage_id"] for tables in read for row in tables["evidence"] for span in row["origin"])
    listed = ", ".join(map(str, sorted({*own["gold_passages"], *origins}))) or "NULL"
    texts = (
        "SELECT passage_id, any_value(title) AS title, any_value(text) AS text FROM all_passages "
        f"WHERE passage_id IN ({listed}) GROUP BY passage_id"
    )
    with limited(sides[0].store, texts) as rows:
        known = rows.fetchall()
    passages = {
        number: SourcePassage(number, title, text, tuple(facts.get(number, ()))) for number, title, text in known
    }
    told = tuple(
        _method(side, _values(side, metrics, question), judged, own, tables, passages)
        for side, tables in zip(sides, read, strict=True)
    )
    gold = tuple(own["gold_passages"])
    return Story(question, own["text"], tuple(own["answers"]), own["source"], gold, passages, told)


_TABLES = ("hits", "evidence", "candidates", "answers")


def _method(
    side: EvaluatedMethod,
    values: Mapping[str, float | None],
    judged: str | None,
    asked: Mapping[str, Any],
    tables: Mapping[str, list[dict[str, Any]]],
    passages: Mapping[int, SourcePassage],
) -> MethodStory:
    gold = {*asked["gold_passages"]}
    hits = tuple(
        StoryHit(
            **{name: row[name] for name in ("rank", "score", "title", "text", "passage_id")},
            is_gold=row["passage_id"] in gold,
            has_fact=_has_fact(row["text"], passages.get(row["passage_id"])),
        )
        for row in sorted(tables["hits"], key=lambda row: row["rank"])
    )
    chosen = next((row for row in tables["answers"] if row["rank"] == 1), None)
    number = chosen["candidate"] if chosen else 0
    candidate = next((row for row in tables["candidates"] if row["candidate"] == number), None)
    answer = chosen or candidate or {"text": "", "error": "the store has no answer of this method"}
    ranks = candidate["contexts"] if candidate else None
    contexts = _contexts(tables["evidence"], ranks, asked["answers"], passages)
    value = values.get(judged) if judged else None
    is_right = None if value is None else value >= RIGHT
    ranked = {passage: next((hit.rank for hit in hits if hit.passage_id == passage), None) for passage in sorted(gold)}
    shown = _Shown(hits if "hits" in side.tables else None, ranked, contexts, passages)
    why = shown.why(bool(asked["answers"]), is_right, answer["error"])
    return MethodStory(side.name, answer["text"], answer["error"], values, is_right, hits, contexts, ranked, why)


def _values(side: EvaluatedMethod, metrics: Sequence[str], question: int) -> dict[str, float | None]:
    """By metric the mean over seeds, None where it has none."""
    scored = pl.concat(side.rows_of("scores", [question], seed) for seed in range(len(side.tables["scores"])))
    means = dict(scored.group_by("metric").agg(pl.col("value").mean()).iter_rows())
    return {metric: means.get(metric) for metric in metrics}


def _contexts(
    rows: Sequence[Mapping[str, Any]],
    ranks: Sequence[int] | None,
    answers: Sequence[str],
    passages: Mapping[int, SourcePassage],
) -> tuple[StoryContext, ...]:
    """The contexts of an answer's prompt, in its order; all that were kept where there is no prompt."""
    by_rank = {row["rank"]: row for row in rows}
    found = []
    for place, rank in enumerate(sorted(by_rank) if ranks is None else ranks, 1):
        if (row := by_rank.get(rank)) is None:
            continue
        spans: dict[int, list[Span]] = {}
        for span in row["origin"]:
            spans.setdefault(span["passage_id"], []).append((span["start"], span["end"]))
        is_cut = all(
            passage in passages and passages[passage].text[start:end].strip() in row["text"]
            for passage, own in spans.items()
            for start, end in own
        )
        kept = {passage: tuple(own) for passage, own in spans.items()} if is_cut else {}
        holds = bool(first_correct(answers, [row["text"]]))
        found.append(StoryContext(place, row["text"], row["tokens"], kept, tuple(spans), holds))
    return tuple(found)


def _has_fact(text: str, source: SourcePassage | None) -> bool:
    facts = (source.text[start:end].strip() for start, end in source.fact) if source else ()
    return any(fact in text or text.strip() in fact for fact in facts)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a method's artifacts show of a question. `hits`: None where it searched nothing; `ranks`: by gold passage
    the rank of its first hit, None where it was not retrieved."""

    hits: Sequence[StoryHit] | None
    ranks: Mapping[int, int | None]
    contexts: Sequence[StoryContext]
    passages: Mapping[int, SourcePassage]

    def why(self, has_gold_answers: bool, is_right: bool | None, error: str) -> str:
        if self.hits is None:
            said = ["It did not search: the model answered alone"]
        else:
            said = [self._retrieved(self.hits), self._kept(self.hits)]
            if has_gold_answers:
                said.append(self._holding())
        verdict = {None: "", True: " The answer counts as right.", False: " The answer counts as wrong"}[is_right]
        if is_right is False:
            verdict += ", although the fact was in the prompt." if self._has_facts() else "."
        return f"{'; '.join(filter(None, said))}.{f' There is no answer: {error}' if error else verdict}"

    def _holding(self) -> str:
        """Say if a context holds a gold answer: one of a gold passage, or else another, which may hold it by chance."""
        holding = [context for context in self.contexts if context.holds_answer]
        if not holding:
            return "no context holds a gold answer"
        of_gold = next((context for context in holding if self.ranks.keys() & {*context.sources}), None)
        if of_gold or not self.ranks:
            return f"a gold answer is in context {(of_gold or holding[0]).place}"
        return f"a gold answer is in context {holding[0].place}, which is from another passage"

    def _has_facts(self) -> bool:
        """Return true if the data set names the sentences with the facts, and contexts have all of them."""
        facts = {number: self.passages[number].fact for number in self.ranks if number in self.passages}
        kept = {number: [span for own in self.contexts for span in own.kept.get(number, ())] for number in facts}
        is_whole = all(fact and _covered(fact, kept[number]) == 1 for number, fact in facts.items())
        return bool(self.ranks) and len(facts) == len(self.ranks) and is_whole

    def _retrieved(self, hits: Sequence[StoryHit]) -> str:
        if not self.ranks:
            return "The data set names no gold passage"
        found = sorted(rank for rank in self.ranks.values() if rank is not None)
        if len(self.ranks) == 1:
            if not found:
                return "The gold passage was not retrieved"
            hit = next(hit for hit in hits if hit.rank == found[0])
            source = self.passages.get(hit.passage_id)
            part = "A part of the" if source and len(hit.text) < len(source.text.strip()) else "The"
            return f"{part} gold passage was retrieved at rank {found[0]}"
        if not found:
            return f"No gold passage was retrieved (there are {len(self.ranks)})"
        places = f"at rank{'s' * (len(found) > 1)} {', '.join(map(str, found))}"
        return f"{len(found)} of {len(self.ranks)} gold passages were retrieved ({places})"

    def _kept(self, hits: Sequence[StoryHit]) -> str:
        """Say if the gold passages that were retrieved were kept, and if the sentences with their facts were."""
        said = {rank: self._kept_of(passage, hits) for passage, rank in self.ranks.items() if rank is not None}
        if len(self.ranks) == 1:
            return "".join(said.values())
        return "; ".join(f"of the one at rank {rank}, {text}" for rank, text in said.items())

    def _kept_of(self, passage: int, hits: Sequence[StoryHit]) -> str:
        source = self.passages.get(passage)
        reading = [context for context in self.contexts if passage in context.sources]
        if not reading:
            where = _fact_rank(passage, hits, source, "the sentence with the fact")
            return f"no context of the prompt comes from it{where}"
        first = reading[0].place
        if not any(context.kept for context in reading):
            return f"a model wrote context {first} from it"
        if source is None or not source.fact:
            return f"context {first} comes from it"
        shares = [(_covered(source.fact, context.kept.get(passage, ())), context.place) for context in reading]
        share, place = max(shares, key=lambda own: (own[0], -own[1]))
        if share:
            return f"the sentence with the fact was kept {'in part ' if share < 1 else ''}in context {place}"
        dropped = f"context {first} comes from it, but the sentence with the fact was dropped"
        return f"{dropped}{_fact_rank(passage, hits, source, 'it')}"


def _fact_rank(passage: int, hits: Sequence[StoryHit], source: SourcePassage | None, named: str) -> str:
    """Say where the sentence with the fact stood among the hits, where these are parts of passages."""
    own = [hit for hit in hits if hit.passage_id == passage]
    if source is None or not source.fact or any(len(hit.text) >= len(source.text.strip()) for hit in own):
        return ""
    rank = next((hit.rank for hit in own if hit.has_fact), None)
    if rank is None:
        return f" ({named} is not among the {len(hits)} hits)"
    return f" ({named} was hit {rank} of {len(hits)})"


def _covered(facts: Sequence[Span], kept: Sequence[Span]) -> float:
    """The share of the facts' characters that was kept; 1 where all but white space and a full stop was."""
    wanted = {place for start, end in facts for place in range(start, end)}
    lost = wanted - {place for start, end in kept for place in range(start, end)}
    return 1.0 if len(lost) <= min(2 * len(facts), len(wanted) - 1) else 1 - len(lost) / len(wanted)
