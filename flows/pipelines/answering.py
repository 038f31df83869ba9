"""Answering in memory: the stages of one configured method, on questions as they come.

They are the stages of an evaluation, with its settings, methods and prompts. Only the questions are in memory, and so
is what the stages make of them. So an answer is the answer that an evaluation would write.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from vitalfew.configs.evaluation import SECTIONS, Evaluate, Method, Questions
from vitalfew.configs.loading import ConfigError, build, flat, merged
from vitalfew.configs.schema import METHOD
from vitalfew.flows.pipelines.evaluate import answering_stages, with_indexes
from vitalfew.flows.pipelines.experiments import KINDS, complete, evaluation, find
from vitalfew.flows.pipelines.paying import check_prices
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact, Held, fingerprint
from vitalfew.storage.costs import charge
from vitalfew.storage.ids import content_id
from vitalfew.storage.indexes.units import Passages
from vitalfew.storage.runs import NamedIndex, Run, read_runs
from vitalfew.tasks.datasets.base import check_question
from vitalfew.tasks.encode import EncodeQuestions
from vitalfew.tasks.models.causal.engines.budget import Budget, charging, spending
from vitalfew.tasks.models.loading import clock, cpu_clock
from vitalfew.tasks.refiners.base import ModelRefiner, Span
from vitalfew.tasks.refiners.base import merged as joined
from vitalfew.tasks.registry import UnknownName, method_named
from vitalfew.tasks.retrieve import Retrieve
from vitalfew.tasks.splitters.tokens import count_tokens
from vitalfew.tasks.stage import MethodStage, Stage

ABOUT_GOLD = ("load", "ask", "likelihood", "judge", "score")
"""The stages of an evaluation that do not answer."""
WARM_UP = "What is this about?"

Row = dict[str, Any]


@dataclass(frozen=True)
class RagSource:
    """A span of a passage (code points, half-open) that a context comes from. `source_id`: the passage's name in its
    source, such as a file and the heading in it; empty for passages that were given. `also`: its further names, where
    the same text stands several times."""

    passage_id: int
    title: str
    start: int
    end: int
    source_id: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class RagContext:
    """A context of the prompt. `tokens`: words and punctuation marks; `sources`: empty if a model rewrote it. `rank`:
    its place among all contexts, from 1. `score`: the best of its hits, by the retriever or a refiner that scored them
    again; None if a model wrote it from several."""

    text: str
    tokens: int
    sources: tuple[RagSource, ...]
    rank: int = 0
    score: float | None = None


@dataclass(frozen=True)
class RagHit:
    """A unit that the retriever passed on: a span of a passage (code points, half-open). `rank`: from 1; `score`: the
    retriever's."""

    passage_id: int
    start: int
    end: int
    rank: int
    score: float


_HIT = tuple(each.name for each in fields(RagHit))


@dataclass(frozen=True)
class RagPassage:
    """A passage that was retrieved for an answer. `kept`: the spans of `text` that contexts come from (code points,
    half-open, ascending); none: all of it was dropped. `rank`, `score`: of its best hit."""

    passage_id: int
    title: str
    source_id: str
    text: str
    rank: int
    score: float
    kept: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class RagAnswer:
    """An answer, and what it was answered from.

    `context_tokens`: words and punctuation marks of all contexts that a model read; `tokens_saved`: how many more the
    whole passages have that these contexts come from. `prompt_tokens`, `completion_tokens`: of all prompts
    of the question, as the model counts them. `seconds`: by step, the question's share of its batch. `usd`: at the
    prices of configs/prices.yaml. `fingerprint`: of the method's settings, models, prompts and index. `others`: the
    further answers of a selector that gives several, best first. `error`: why there is no answer, else empty. `hits`:
    what was retrieved, best first. `kept`: the contexts that the model kept, by their `rank`, where it rated them while
    it read them (Sparse RAG); None where it read all of them. `finish_reason`: why the model stopped: "stop", "length"
    (the limit of tokens cut the answer), or as its server said.
    """

    question: str
    text: str
    contexts: tuple[RagContext, ...]
    prompt_tokens: int
    completion_tokens: int
    context_tokens: int
    tokens_saved: int
    seconds: Mapping[str, float]
    usd: float
    fingerprint: str
    others: tuple[str, ...] = ()
    error: str = ""
    hits: tuple[RagHit, ...] = field(default=(), repr=False)
    kept: tuple[int, ...] | None = None
    finish_reason: str = "stop"


@dataclass(frozen=True)
class Configured:
    """A method with all of its settings, and the index that it searches, if it retrieves. `run`: the evaluation of this
    store whose settings and index these are; empty: it was not evaluated here, or is given other settings. `others`:
    by generator, the last evaluation in which the method answered with that one instead."""

    experiment: str
    method: Method
    index: NamedIndex | None
    run: str
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def whose(self) -> str:
        """Which evaluation fixed its generator, and how to name one with another."""
        if not self.run:
            return f"not evaluated in this store with these settings: vitalfew evaluate {self.experiment} does so"
        said = f"as evaluated in run {self.run}"
        if not self.others or not self.method.generate:
            return said
        said += f", which answered with {_answers_with(self.method.generate.model_dump())}"
        return "; ".join(
            [said, *(f"run {run} with {name}: name it {run}:{self.method.name}" for name, run in self.others.items())]
        )


def configured(
    store: Path, name: str, index: str | None = None, settings: Mapping[str, Any] | None = None
) -> Configured:
    """Find a method by EXPERIMENT:METHOD, with the settings that its last evaluation in this store chose for it, or by
    RUN:METHOD, with those of that evaluation, whatever came later; where it was not evaluated, those of the experiment,
    whose `choose` does not count then.

    `settings` take precedence: {"generate": {"generator": "openai"}}. Raises UnknownName, ConfigError, IndexNotFound,
    IndexMismatch.
    """
    experiment, _, wanted = name.partition(":")
    unknown: UnknownName | None = None
    try:
        title, written = find(experiment, store)
    except UnknownName as error:  # it may have been a file elsewhere; what was evaluated is in the store
        title, unknown = experiment, error
    run = None
    if found := _evaluated(store, title, wanted, index):
        run, parameters = found
        title = run.name
    elif unknown:
        named = f"{unknown}; a method is named EXPERIMENT:METHOD, such as {METHOD}"
        raise unknown if wanted else ConfigError(named)
    else:
        given = {"store": store, "choose": None, **({"index": index} if index else {})}
        parameters = evaluation(title, written, given)
    methods = {method.name: method for method in parameters.methods}
    wanted = method_named(wanted, methods)
    method = methods[wanted] if wanted in methods else _only(experiment, wanted, methods)
    if index and method.retrieve:
        method = method.model_copy(update={"index": index})
    if settings:
        asked = _with(method, settings)
        run, method = (run if asked.model_dump() == method.model_dump() else None), asked
    whole, indexes = with_indexes(complete(_alone(store, title, method)))
    (method,) = whole.methods
    if not method.generate:
        raise ConfigError(f"{experiment}:{method.name} generates no answer; to see what it finds, use search")
    searched = indexes[method.index] if method.index else None
    if run and method.retrieve and searched and not _searched(store, run, method.name, searched):
        run = None
    if run is None:
        return Configured(title, method, searched, "")
    return Configured(title, method, searched, run.run_id, _others(store, run, method))


def _others(store: Path, run: Run, method: Method) -> dict[str, str]:
    """By generator, the last other evaluation in which a method answered with that one, and not with its own."""
    found: dict[str, str] = {}
    for other in reversed(read_runs(store)):
        if (other.flow, other.name, other.state) != (run.flow, run.name, "completed"):
            continue
        for each in other.config["methods"]:
            if each["name"] == method.name and each.get("generate"):
                found.setdefault(_answers_with(each["generate"]), other.run_id)
    if method.generate:
        found.pop(_answers_with(method.generate.model_dump()), None)
    return found


def _answers_with(generate: Mapping[str, Any]) -> str:
    """The generator with its model: "openai (gpt-4o-mini)"."""
    model = generate.get("model")
    return f"{generate['generator']} ({model})" if model else str(generate["generator"])


def _searched(store: Path, run: Run, method: str, index: NamedIndex) -> bool:
    """Return whether the evaluation searched these artifacts: the index's name may stand for others since."""
    hits = Artifact(store, *run.methods[method]["hits"].split("/")).recorded_manifest()
    return hits is not None and {*index.artifacts.items()} <= {*hits.inputs.items()}


def _evaluated(store: Path, experiment: str, method: str, index: str | None) -> tuple[Run, Evaluate] | None:
    """The last finished evaluation that has the method, on this index if one is named; or the one whose run id stands
    for the experiment."""
    for run in reversed(read_runs(store)):
        is_named = run.run_id == experiment
        if run.flow == "evaluate" and (is_named or run.name == experiment) and run.state == "completed":
            try:
                parameters = complete(Evaluate.model_validate(run.config))
            except ValueError:  # a method of the user's has other settings now
                continue
            named = {each.name: each for each in parameters.methods}
            own = named.get(method_named(method, named)) or (
                next(iter(named.values())) if not method and len(named) == 1 else None
            )
            if is_named or (own and (index is None or own.index in (index, None))):
                return run, parameters
    return None


def _only(experiment: str, wanted: str, methods: Mapping[str, Method]) -> Method:
    """The experiment's only method, if none is named. Raises UnknownName, ConfigError."""
    if wanted:
        raise UnknownName(f"method of {experiment}", wanted, [*methods])
    if len(methods) > 1:
        names = ", ".join(repr(f"{experiment}:{name}") for name in methods)
        raise ConfigError(f"{experiment} has several methods; name one of: {names}")
    return next(iter(methods.values()))


def _with(method: Method, settings: Mapping[str, Any]) -> Method:
    """The method with these settings; where they name another generator, refiner or critic, without those of the one it
    had."""
    whole = method.model_dump(mode="json")
    for section, own in settings.items():
        if section not in SECTIONS:
            raise ConfigError(f"{section} is not a section of a method; known: {', '.join(SECTIONS)}")
        before = whole.get(section)
        if isinstance(before, Mapping) and isinstance(own, Mapping):
            field = KINDS[section].field() if section in KINDS else ""
            own = own if before.get(field) != own.get(field, before.get(field)) else merged(before, own)
        whole[section] = own
    return build(Method, whole)


def configuration(stages: Iterable[Stage]) -> str:
    """The fingerprint of a configured method: of its stages' settings, methods and models, and of the artifacts of an
    index that they read. An evaluation's method has the same one."""
    answering = [stage for stage in stages if stage.name not in ABOUT_GOLD]
    made = {stage.artifact.name for stage in answering}
    read = {each.name for stage in answering for each in stage.inputs.values() if each.table != "asked"}
    parts = {stage.name: [stage.version, stage.config_identity(), stage.planned] for stage in answering}
    return fingerprint(stages=parts, index=sorted(read - made))


class Answering:
    """Answers questions by a configured method. Models are loaded by the first question, or by `warm`. Calls from
    several threads take turns."""

    def __init__(self, store: Path, chosen: Configured, budget: Budget | None = None) -> None:
        """`budget`: pays for requests to servers, of which others may too; None: nothing is capped. Raises ConfigError,
        IndexMismatch, NoPrice, and the errors of a method whose model is missing."""
        self.store, self.configured, self.budget = store.absolute(), chosen, budget
        self._asked = Held(self.store, "asked", "memory")
        stages = answering_stages(self.store, chosen.method, self._asked, chosen.index)
        self.stages = [stage for stage in stages if stage.name not in ABOUT_GOLD]
        if any(stage.name == "perturb" for stage in self.stages):
            raise ConfigError(
                f"{chosen.experiment}:{chosen.method.name} adds hits of other questions, which only an evaluation "
                "has. Leave out noise and order of `perturb`"
            )
        if budget:
            check_prices(self.stages)
        self.fingerprint = configuration(self.stages)
        self._lock, self._opened = Lock(), False

    def varied(self, settings: Mapping[str, Any]) -> "Answering":
        """The same method on the same index with other settings ({"retrieve": {"alpha": 0.5}}), with the models that
        are loaded and the same budget. They take turns. Raises ConfigError."""
        chosen = self.configured
        if chosen.method.retrieve is None:
            raise ConfigError(
                f"{chosen.experiment}:{chosen.method.name} retrieves nothing, so that these settings change nothing: "
                f"{', '.join(key for key, _ in flat(settings))}; leave them out"
            )
        (method,) = complete(_alone(self.store, chosen.experiment, _with(chosen.method, settings))).methods
        if method == chosen.method:
            return self
        other = Answering(self.store, replace(chosen, method=method, run=""), self.budget)
        other._lock = self._lock
        for new, old in zip(other.stages, self.stages, strict=True):
            _share(new, old)
        return other

    def passages_of(self, answer: RagAnswer) -> list[RagPassage]:
        """The passages that were retrieved for an answer of this index, the best hit's first."""
        kept: dict[int, list[Span]] = defaultdict(list)
        for source in (source for context in answer.contexts for source in context.sources):
            kept[source.passage_id].append((source.start, source.end))
        best = {hit.passage_id: hit for hit in reversed(answer.hits)}
        with self._lock:
            rows = {hit.passage_id: self._passage(hit.passage_id) for hit in answer.hits}
        return [
            RagPassage(
                identity,
                **{name: row[name] for name in ("title", "source_id", "text")},
                rank=best[identity].rank,
                score=best[identity].score,
                kept=tuple(joined(sorted(kept[identity]))),
            )
            for identity, row in rows.items()
        ]

    def warm(self) -> None:
        """Load every model, by answering a question."""
        self.answer([WARM_UP])

    def answer(self, questions: Sequence[str]) -> list[RagAnswer]:
        """Answer questions together, in this order. Raises InputError for one that is empty or too long, and CapReached
        where the budget has too little for one of them."""
        for question in questions:
            check_question(question)
        if not (texts := [*dict.fromkeys(questions)]):
            return []
        with self._lock:
            if not self._opened:
                for stage in self.stages:
                    stage.open()
                for stage in self._retrieving():
                    stage.hold()
                self._opened = True
            found = dict(zip(texts, self._answers(texts), strict=True))
        return [found[question] for question in questions]

    @cached_property
    def passages(self) -> Passages | None:
        """The passages of the index; None for a method that retrieves nothing."""
        return Passages(found[0].corpus["passages"]) if (found := self._retrieving()) else None

    def _retrieving(self) -> list[Retrieve]:
        return [stage for stage in self.stages if isinstance(stage, Retrieve)]

    def _passage(self, passage_id: int) -> Row:
        """A row of `passages`; one without texts for a passage that the index lacks."""
        row = self.passages.find(passage_id) if self.passages else None
        return row or {**dict.fromkeys(("title", "source_id", "text"), ""), "also": []}

    def _answers(self, texts: Sequence[str]) -> list[RagAnswer]:
        """Let every stage work on the questions, and read the answers in its tables."""
        self._asked.tables["asked"] = _asked(texts)
        rows: dict[str, dict[int, list[Row]]] = {}
        seconds, usd = dict[str, float](), 0.0
        for stage in self.stages:
            began, cpu = clock(), cpu_clock()  # which leave out the loading of a model
            with spending(self.budget), charging(stage.model_name):
                result = stage.work_in_memory()
            took = clock() - began
            seconds[stage.name] = took / len(texts)
            paid = charge(
                cpu_clock() - cpu, took * stage.num_gpus, result.tokens, stage.model_name, cached=result.cached
            )
            usd += paid / len(texts)
            rows |= {name: _by_question(table) for name, table in result.tables.items() if name in _READ}
        passage = lru_cache(maxsize=None)(self._passage)
        answers = []
        for text in texts:
            identity = content_id("asked", text)
            own = {name: rows.get(name, {}).get(identity, []) for name in _READ}
            answers.append(_answer(text, own, passage, seconds=seconds, usd=usd, fingerprint=self.fingerprint))
        return answers


def _alone(store: Path, experiment: str, method: Method) -> Evaluate:
    """Parameters with one method, to complete it."""
    return Evaluate(store=store, name=experiment, questions=Questions(), methods=(method,))


def _share(new: Stage, old: Stage) -> None:
    """Let a stage work with the models that another has loaded, as far as they are the same ones."""
    if isinstance(new, EncodeQuestions) and isinstance(old, EncodeQuestions):
        new.encoder = old.encoder  # of the same index
    if not isinstance(new, MethodStage) or not isinstance(old, MethodStage):
        return
    if new.config == old.config:
        new.method = old.method
    elif isinstance(new.method, ModelRefiner) and new.method.identity() == old.method.identity():
        new.method.model = old.method.model


def _asked(texts: Sequence[str]) -> pa.Table:
    """Rows of `asked`, without gold answers."""
    lists = (field.name for field in schemas.ASKED if pa.types.is_list(field.type))
    gold: Row = {name: [] for name in lists}
    rows = [
        {"question_id": content_id("asked", text), "source": "", "source_id": "", "text": text, **gold}
        for text in texts
    ]
    return pa.Table.from_pylist(rows, schemas.ASKED)


_READ = ("hits", "evidence", "candidates", "answers")
"""The tables of which an answer is made."""


def _by_question(table: pa.Table) -> dict[int, list[Row]]:
    rows = defaultdict[int, list[Row]](list)
    for row in table.to_pylist():
        rows[row["question_id"]].append(row)
    return rows


def _answer(question: str, rows: Mapping[str, list[Row]], passage: Callable[[int], Row], **costs: Any) -> RagAnswer:
    """The answer to a question. `rows`: its own by table; `passage`: a row of `passages`, by its id; `costs`: the other
    fields of the answer."""
    candidates = rows["candidates"]
    best, *others = rows["answers"] or candidates[:1]
    evidence = {row["rank"]: row for row in rows["evidence"]}
    chosen = next(row for row in candidates if row["candidate"] == best["candidate"])
    ratings = chosen["ratings"]
    shown = [evidence[rank] for rank in {rank for row in candidates for rank in row["contexts"]}]
    tokens = sum(row["tokens"] for row in shown)
    read_from = {each["passage_id"] for row in shown for each in row["origin"]}
    whole = sum(count_tokens(passage(identity)["text"]) for identity in read_from)
    return RagAnswer(
        question=question,
        text=best["text"],
        contexts=tuple(_context(evidence[rank], passage) for rank in chosen["contexts"]),
        prompt_tokens=sum(row["prompt_tokens"] or 0 for row in candidates),
        completion_tokens=sum(row["completion_tokens"] or 0 for row in candidates),
        context_tokens=tokens,
        tokens_saved=max(0, whole - tokens),
        others=tuple(row["text"] for row in others if not row["error"]),
        error=best["error"],
        hits=tuple(RagHit(**{name: row[name] for name in _HIT}) for row in rows["hits"]),
        kept=tuple(each["rank"] for each in ratings if each["kept"]) if ratings else None,
        finish_reason=chosen["finish_reason"],
        **costs,
    )


def _context(row: Row, passage: Callable[[int], Row]) -> RagContext:
    sources = []
    for each in row["origin"]:
        own = passage(each["passage_id"])
        sources.append(RagSource(**each, title=own["title"], source_id=own["source_id"], also=tuple(own["also"])))
    return RagContext(row["text"], row["tokens"], tuple(sources), row["rank"], row["score"])
