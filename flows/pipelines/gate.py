"""The gate of a corpus: a new generation of its index has to show that it is no worse than the current one.

First the corpora are counted (tasks/reports/corpora.py, and gating.py for gold passages): a generation that lost too
many documents, passages or gold passages, or rejected too many rows, is `held`, whatever its answers are.
Then both are asked the same questions, in one evaluation whose methods
name them as INDEX@GENERATION. The verdict is that of the paired intervals (tasks/reports/statistics/gates.py):
`promoted`, `rejected`, or `in doubt`; it is `held` too where nothing could be compared, and where a person decides in
any case. What a person declined no gate promotes. Until a generation is promoted, a search finds the one before. What
was judged by the same terms is not asked again: the answers are artifacts, and the verdict is in the generation's
record. So whatever instant this is killed at, the same command goes on.
"""

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from vitalfew.configs.evaluation import Evaluate, Method
from vitalfew.configs.loading import ConfigError, few
from vitalfew.configs.schema import Corpus, Execution, GateConfig, RetrieveConfig
from vitalfew.flows.pipelines.estimate import quote
from vitalfew.flows.pipelines.evaluate import Evaluated, EvaluationPlan, SearchedIndex
from vitalfew.flows.pipelines.experiments import complete, evaluation, find
from vitalfew.storage import decisions, generations
from vitalfew.storage.artifacts import fingerprint
from vitalfew.storage.decisions import DECLINED, HELD, IN_DOUBT, PROMOTED, REJECTED, By
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.generations import Approval, GateFigure, GateRecord, Generation
from vitalfew.storage.indexes.opened import IndexMismatch
from vitalfew.storage.runs import IndexNotFound, find_index
from vitalfew.storage.version import OtherVersion
from vitalfew.tasks.datasets.base import InputError, Question
from vitalfew.tasks.datasets.specification import parse_dataset
from vitalfew.tasks.datasets.written import located
from vitalfew.tasks.metrics.base import SCALE, Column
from vitalfew.tasks.metrics.tables import make_metrics
from vitalfew.tasks.registry import UnknownName
from vitalfew.tasks.reports.corpora import corpus_changes
from vitalfew.tasks.reports.costs import ledger_of
from vitalfew.tasks.reports.gating import Findings, LostQuestion, findings
from vitalfew.tasks.reports.statistics.gates import NO_WORSE, WORSE, least_margin, likely_margin, questions_for

logger = logging.getLogger("vitalfew")

Ask = Callable[[EvaluationPlan], Evaluated]
"""Executes an evaluation: serially, or as a flow."""


@dataclass(frozen=True)
class Gated:
    """A judged candidate. `generation`: with its verdict, and what that rests on; `is_new`: it was judged now, not
    earlier by the same terms; `lost`: the questions that became worse; `cost`: of what was asked now, in words."""

    generation: Generation
    record: GateRecord
    is_new: bool
    lost: tuple[LostQuestion, ...] = ()
    cost: str = ""

    @property
    def is_promoted(self) -> bool:
        return self.generation.verdict == PROMOTED


def check_gate(corpus: Corpus, gate: GateConfig) -> None:
    """Raises ConfigError where a corpus's gate names what is not there, before anything runs."""
    if gate.questions:
        try:
            parse_dataset(gate.questions)
        except ValueError as error:
            raise ConfigError(f"gate.questions: {error}") from None
    try:
        experiment = _experiment(corpus, gate)
        make_metrics(experiment.score)
    except (UnknownName, ConfigError) as error:
        raise ConfigError(f"gate.experiment: {error}") from None
    if experiment.choose:
        raise ConfigError(
            f"gate.experiment: {gate.experiment} chooses settings on a part of the questions, but a gate asks all of "
            "them with fixed settings. Name an experiment without `choose`"
        )
    if not any(method.retrieve for method in experiment.methods):
        raise ConfigError(f"gate.experiment: no method of {gate.experiment} searches an index; name one that does")
    if varied := [method.name for method in experiment.methods if method.variant]:
        raise ConfigError(f"gate.experiment: {varied[0]} has a `variant`, which needs another index than the candidate")
    columns = _columns(corpus, gate)
    for metric, margin in gate.margins.items():
        if metric not in columns:
            known = few(metric, [*columns], "")
            raise ConfigError(f"gate.margins: {gate.experiment} has no metric {metric!r}; it has: {known}")
        if columns[metric].direction not in ("higher", "lower"):
            raise ConfigError(f"gate.margins: {metric} is neither better high nor low, so it cannot become worse")
        if columns[metric].unit == SCALE and margin >= 1:
            raise ConfigError(f"gate.margins: {metric} goes from 0 to 1: {margin:g} accepts any loss (2 % are 0.02)")


@dataclass(frozen=True)
class GatePower:
    """The power of a gate. `questions`: how many it asks, None where an index has to be built first; `fault`: why it
    can never pass; `doubt`: why it seldom will, or what is not known yet; `shown`: what the questions show."""

    questions: int | None
    fault: str = ""
    doubt: str = ""
    shown: str = ""

    @property
    def said(self) -> str:
        asked = f"its gate asks {self.questions:,} questions. " if self.questions is not None else "its gate: "
        return f"{asked}{self.fault or self.doubt or self.shown}"


def power(corpus: Corpus, gate: GateConfig) -> GatePower:
    """How many questions a gate asks, and which margins they can show: at best, and with a chance of 80 %."""
    try:
        questions = _asked_questions(corpus, gate)
    except (InputError, UnknownName) as error:
        return GatePower(None, f"gate.questions: {error}")
    if questions is None:
        return GatePower(None, doubt="the number of its questions is known once the corpus is indexed")
    if not questions:
        return GatePower(
            0, "It can never pass: set gate.questions: FORMAT:PATH, or write some: vitalfew questions write"
        )
    columns = _columns(corpus, gate)
    shares = {metric: margin for metric, margin in gate.margins.items() if columns[metric].unit == SCALE}
    metric, margin = min(shares.items(), key=lambda each: each[1], default=("", 1.0))
    least, likely = least_margin(questions), likely_margin(questions)
    margin_said = f"the margin of {metric} is {margin:g}"
    enough = f"about {questions_for(margin):,} questions can pass it" if margin else "a margin of 0 can never pass"
    if margin <= least:
        return GatePower(
            questions,
            f"It can never pass: {margin_said}, but this many questions cannot exclude a loss of {least:.3f}, even if "
            f"no answer changes; {enough}",
        )
    if margin < likely:
        return GatePower(
            questions,
            doubt=f"It will often be in doubt: {margin_said}. If 2 % of the answers change, this many questions "
            f"exclude a loss of {likely:.3f} four times in five; {enough}",
        )
    shown = f"If 2 % of the answers change, they exclude a loss above {likely:.3f} four times in five"
    return GatePower(questions, shown=f"{shown}; {margin_said}" if metric else shown)


def _asked_questions(corpus: Corpus, gate: GateConfig) -> int | None:
    """How many questions a gate asks, counted up to 10,000; None where the corpus's own are not counted yet. Raises
    InputError, UnknownName."""
    sample = _experiment(corpus, gate).questions.sample or 10_000
    if gate.questions:
        _, dataset = parse_dataset(located(corpus.store, gate.questions))
        dataset.files()
        records = (record for _, record in dataset.records() if isinstance(record, Question))
        return sum(1 for _ in islice(records, min(sample, 10_000)))
    try:
        passages = find_index(corpus.store, corpus.name).located(corpus.store)["passages"]
        return min(sample, passages.completed().rows.get("questions", 0))
    except (IndexNotFound, FileNotFoundError, OtherVersion, DamagedRecord):  # of the last two others tell
        return None


def check_power(corpus: Corpus, gate: GateConfig) -> GatePower:
    """Raises ConfigError where a gate can never pass, so that no new generation would ever be searched. Where a
    person decides, it is logged."""
    known = power(corpus, gate)
    if known.fault and gate.approve == "never":
        raise ConfigError(f"corpus {corpus.name}: {known.said}. Or let a person decide: gate.approve: on_doubt")
    if known.fault or (known.doubt and known.questions is not None):
        logger.warning("%s: %s", corpus.name, known.said)
    return known


def _columns(corpus: Corpus, gate: GateConfig) -> dict[str, Column]:
    """The columns of the metrics that a gate's experiment scores, by name."""
    metrics = make_metrics(_experiment(corpus, gate).score)
    return {column.name: column for metric in metrics.values() for column in metric.columns()}


def _experiment(corpus: Corpus, gate: GateConfig) -> Evaluate:
    name, settings = find(gate.experiment, corpus.store)
    questions = {"questions": {"dataset": gate.questions}} if gate.questions else {}
    return evaluation(name, settings, {"store": corpus.store, "index": corpus.name, **questions})


def judge(corpus: Corpus, candidate: Generation, how: Execution, ask: Ask, quote: bool = False) -> Gated | None:
    """Judge a candidate by the corpus's gate, and promote it if it is no worse. None where there is nothing to judge:
    the name points at it, or did once.

    `how`: where and how to ask; `quote`: estimate what is asked, also where no model generates. Raises IndexMoved where
    the name was moved meanwhile, CannotPromote where `store gc` removed a generation, and the errors of an evaluation.
    """
    store, name = how.store, corpus.name
    now = find_index(store, name)
    if corpus.gate is None or candidate.number <= now.reached:
        return None
    if declined := generations.declined(store, candidate):
        return _declined(store, candidate, declined, now.generation)
    current = generations.find(store, name, now.generation)
    gated = _Gate(corpus, corpus.gate, current, candidate, how).judged(ask, quote)
    if gated.is_promoted:
        said = gated.record.said
        generations.promote(store, name, candidate.number, instead_of=current.number, note=said, by="gate")
    return gated


def _declined(store: Path, candidate: Generation, earlier: decisions.Decision, current: int) -> Gated:
    """Keep declined what a person has declined, also where the corpus gives it again."""
    if candidate.verdict == DECLINED and candidate.gate:
        return Gated(candidate, candidate.gate, is_new=False)
    reason = f": {earlier.note.rstrip('.')}" if earlier.note else ""
    which = "it" if earlier.generation == candidate.number else f"generation {earlier.generation}, which is the same"
    said = (
        f"{_called(candidate)} is declined: {earlier.decider} declined {which}, on {earlier.time[:10]}{reason}. "
        f"{_remedy(candidate, current)}"
    )
    record = GateRecord(current, "", said[:2000], approval=Approval("", decision=DECLINED, note=earlier.note))
    judged = generations.judge(store, candidate.name, candidate.number, DECLINED, record)
    return Gated(judged, record, is_new=True)


class _Gate:
    """A comparison of two generations."""

    def __init__(
        self, corpus: Corpus, gate: GateConfig, current: Generation, candidate: Generation, how: Execution
    ) -> None:
        self.store, self.name, self.gate = how.store, corpus.name, gate
        self.current, self.candidate = current, candidate
        self.served = f"generation {current.number}"
        changes = corpus_changes(self.store, current, candidate)
        self.losses = changes.losses(gate.max_removed, gate.max_rejects)
        """What the candidate's corpus lost beyond what the gate accepts."""
        self.experiment = _experiment(corpus, gate).model_copy(
            update={"name": f"gate/{corpus.name}", **{key: getattr(how, key) for key in Execution.model_fields}}
        )

    def judged(self, ask: Ask, quote: bool) -> Gated:
        able, why = self._able()
        if not why and not self.experiment.questions.dataset and not any(self._questions()):
            why = (
                f"the data sets of {self.name} have no questions; set gate.questions: FORMAT:PATH in its corpus's file"
            )
        if why:
            return self._held(fingerprint(why=why, losses=self.losses), why)
        plan = EvaluationPlan(complete(self._asked_of_both(able)))
        scored = {name: stages["score"].artifact.name for name, stages in plan.by_method.items()}
        always = {"approve": "always"} if self.gate.approve == "always" else {}
        limits = [self.gate.max_removed, self.gate.max_rejects]
        terms = fingerprint(scores=scored, margins=self.gate.margins, limits=limits, losses=self.losses, **always)
        if known := self._known(terms):
            return known
        if quote or any(method.generate for method in able):
            _log_estimate(self.name, plan)
        try:
            outcome = ask(plan)
        except InputError as error:
            return self._held(terms, str(error))
        ends = self._end(self.current), self._end(self.candidate)
        found = findings(self.store, outcome.run.run_id, ends, self.gate.margins, self.gate.max_removed)
        if found.with_gold and found.vanished / found.with_gold >= self.gate.max_removed:
            share = f"{found.vanished:,} of {found.with_gold:,} questions ({found.vanished / found.with_gold:.0%})"
            self.losses.append(f"lost the gold passages of {share}")
        return self._concluded(terms, outcome, found)

    def _known(self, terms: str) -> Gated | None:
        """The verdict of an earlier run by the same terms."""
        record = self.candidate.gate
        if record and (record.terms, record.against) == (terms, self.current.number):
            return Gated(self.candidate, record, is_new=False)
        return None

    def _able(self) -> tuple[list[Method], str]:
        """The methods that the current index can serve; and why the candidate cannot be compared, if it cannot serve
        one of them."""
        able, why = [], ""
        before, now = (SearchedIndex(each.index, self.store.absolute()) for each in (self.current, self.candidate))
        for method in self.experiment.methods:
            if method.retrieve and not _mismatch(before, method.retrieve):
                able.append(method)
                if mismatch := _mismatch(now, method.retrieve):
                    why = f"it cannot serve the method {method.name}: {mismatch}"
        if not able:
            why = f"the current index serves no method of {self.gate.experiment}"
        return able, why

    def _questions(self) -> list[int]:
        """How many questions the data sets of the current generation and of the candidate have."""
        sides = (self.current.index, self.candidate.index)
        loaded = (side.located(self.store)["passages"].completed() for side in sides)
        return [manifest.rows.get("questions", 0) for manifest in loaded]

    def _asked_of_both(self, able: Iterable[Method]) -> Evaluate:
        """The evaluation. The data sets' questions are those of the current generation, else the candidate's."""
        sides = [self.current, self.candidate]
        if not self.experiment.questions.dataset and not self._questions()[0]:
            sides.reverse()  # the questions are those of the first index
        methods = [
            method.model_copy(update={"name": method.name + self._end(side), "index": f"{self.name}@{side.number}"})
            for side in sides
            for method in able
        ]
        baseline = next(iter(able)).name + self._end(self.current)
        return self.experiment.model_copy(
            update={"methods": tuple(methods), "baseline": baseline, "optional": (), "pairwise": None}
        )

    @staticmethod
    def _end(side: Generation) -> str:
        return f", generation {side.number}"

    def _held(self, terms: str, why: str, run_id: str = "", left_out: int = 0) -> Gated:
        if known := self._known(terms):
            return known
        lost = f": {self._lost_too_much()}. It" if self.losses else ", because it"
        return self._noted(HELD, f"{lost} could not be compared with {self.served}: {why}.", terms, run_id, left_out)

    def _concluded(self, terms: str, outcome: Evaluated, found: Findings) -> Gated:
        run_id = outcome.run.run_id
        if found.decision is None:
            return self._held(terms, f"{found.why}; give it other questions by gate.questions", run_id, found.left_out)
        verdicts: dict[str, decisions.Kind] = {NO_WORSE: PROMOTED, WORSE: REJECTED}
        compared = verdicts.get(found.decision.verdict, IN_DOUBT)
        reason = self._lost_too_much() or self._counted(found)
        waits = compared == PROMOTED and not reason and self.gate.approve == "always"
        verdict: decisions.Kind = HELD if waits or (reason and compared != REJECTED) else compared
        said = self._because(compared, found, reason, waits)
        noted = self._noted(verdict, said, terms, run_id, found.left_out, found.figures)
        return replace(noted, lost=found.lost, cost=_cost(self.store, outcome))

    def _lost_too_much(self) -> str:
        limits = f"max_removed {self.gate.max_removed:.0%}, max_rejects {self.gate.max_rejects:.0%}"
        return f"it {', '.join(self.losses)}; the gate accepts less ({limits})" if self.losses else ""

    def _counted(self, found: Findings) -> str:
        """Say what is not shown to be no worse where vanished questions count as lost; empty if all is."""
        if found.counted is None or found.counted.verdict == NO_WORSE:
            return ""
        figures = [
            f"{each.metric} of {each.method} {each.current_counted:.3f} → {each.candidate_counted:.3f}"
            for each in found.figures
            if each.candidate_counted is not None
            and found.counted.metrics[f"{each.method}, {each.metric}"].verdict != NO_WORSE
        ]
        return (
            f"with the {found.vanished:,} questions that lost their gold passages counted as lost, {'; '.join(figures)}"
        )

    def _noted(
        self,
        verdict: decisions.Kind,
        because: str,
        terms: str,
        run_id: str,
        left_out: int,
        figures: tuple[GateFigure, ...] = (),
    ) -> Gated:
        remedy = "" if verdict == PROMOTED else f" {_remedy(self.candidate, self.current.number, ', or `decline` it')}"
        said = f"{_called(self.candidate)} is {verdict}{because}{remedy}"
        record = GateRecord(self.current.number, terms, said[:2000], run_id, left_out, figures, losses=(*self.losses,))
        generation = generations.judge(self.store, self.name, self.candidate.number, verdict, record)
        return Gated(generation, record, is_new=True)

    def _because(self, compared: str, found: Findings, reason: str, waits: bool) -> str:
        """The rest of the verdict's sentence. `reason`: why it is held whatever the metrics say; `waits`: a person is
        to approve it."""
        on = f"on {found.questions:,} questions" if found.questions != 1 else "on one question"
        if found.left_out:
            on += f" of {found.questions + found.left_out:,} ({found.whose})"
        if compared == PROMOTED:
            begins = f": {reason}. Otherwise" if reason else " until a person approves it:" if waits else ":"
            return f"{begins} no worse than {self.served}, {on}."
        of = WORSE if compared == REJECTED else "in doubt"
        figures = "; ".join(_said(figure) for figure in found.figures if figure.verdict == of)
        needed = found.decision.settled_by if found.decision else None
        settled = ""
        if compared == IN_DOUBT and not reason:  # no question brings back what was lost
            settled = f" About {needed:,} questions" if needed else " No number of questions like these"
            settled += " would settle it."
        return f"{f': {reason}. Otherwise {of}' if reason else ''}, {on}: {figures}.{settled}"


def _log_estimate(name: str, plan: EvaluationPlan) -> None:
    quoted = quote(plan)
    usd, questions = sum(stage.usd for stage in quoted.stages), sum(part.questions for part in quoted.parts)
    logger.info(
        f"The gate of {name} asks {questions:,} questions twice: about {quoted.tokens:,} tokens, "
        f"{quoted.wall_seconds:,.0f} s, {usd:.4f} USD"
    )


def _called(candidate: Generation) -> str:
    return f"Generation {candidate.number} of {candidate.name}"


def _remedy(candidate: Generation, current: int, instead: str = "") -> str:
    return (
        f"Searches still use generation {current}. To promote the other one anyway{instead}: "
        f'vitalfew index promote {candidate.name} {candidate.number} --note "why"'
    )


# A person's decision


_ASKED = r" A person is asked until .{16} UTC\."


def wants_person(gate: GateConfig, gated: Gated) -> bool:
    """Return true if a person is to decide on a candidate and was not asked yet."""
    doubtful = gate.approve == "on_doubt" and gated.generation.verdict in (IN_DOUBT, HELD)
    return gated.record.approval is None and (gate.approve == "always" or doubtful)


def await_person(store: Path, gate: GateConfig, gated: Gated, asked_by: str) -> Gated:
    """Note that a flow run asks a person about a candidate. The current generation stays until there is a decision."""
    until = datetime.now(UTC) + timedelta(hours=gate.approve_hours)
    candidate, record = gated.generation, gated.record
    verdict, remedy_begins, remedy = re.sub(_ASKED, "", record.said).partition(" Searches still use")
    said = f"{verdict} A person is asked until {until:%Y-%m-%d %H:%M} UTC.{remedy_begins}{remedy}"
    asked = replace(record, said=said, approval=Approval(asked_by, until.isoformat()))
    judged = generations.write_verdict(store, candidate.name, candidate.number, candidate.verdict, asked)
    return replace(gated, generation=judged, record=asked, is_new=True)


def decide(store: Path, candidate: Generation, is_approved: bool, note: str = "", by: By = "run") -> Gated:
    """Record a person's decision on a judged candidate, and promote it if it is approved. `by`: where.

    Raises IndexMoved where the name points at another generation than the one that the person compared with, and
    CannotPromote where `store gc` removed the candidate.
    """
    gate = candidate.gate
    assert gate
    reason = f": {note.rstrip('.')}" if note else ""
    if is_approved:
        verdict, said = PROMOTED, f"a person approved it{reason}."
    else:
        verdict, said = DECLINED, f"a person declined it{reason}. {_remedy(candidate, gate.against)}"
    approval = replace(gate.approval or Approval(""), decision="approved" if is_approved else DECLINED, note=note)
    said = f"{_called(candidate)}, which was {candidate.verdict}, is {verdict}: {said}"
    record = replace(gate, said=said[:2000], approval=approval)
    if not is_approved:
        return Gated(generations.decline(store, candidate.name, candidate.number, note, by, record), record, True)
    generations.promote(store, candidate.name, candidate.number, instead_of=gate.against, note=note, by=by)
    judged = generations.write_verdict(store, candidate.name, candidate.number, verdict, record)
    return Gated(judged, record, is_new=True)


def _mismatch(index: SearchedIndex, request: RetrieveConfig) -> str:
    """Why an index cannot serve a method; empty if it can. Raises IndexMismatch where it cannot be opened."""
    searcher = index.searcher
    try:
        searcher.check(request)
    except IndexMismatch as mismatch:
        return str(mismatch)
    return ""


def _said(figure: GateFigure) -> str:
    means = f"{figure.current:.3f} → {figure.candidate:.3f}" if figure.questions else "no value of both"
    ends = [f"{end:+.3f}" if end is not None else "none" for end in (figure.low, figure.high)]
    interval = f"95 % interval of the difference {ends[0]} to {ends[1]}" if any(e != "none" for e in ends) else ""
    margin = f"margin {figure.margin:g}"
    return f"{figure.metric} of {figure.method} {means} ({', '.join(filter(None, [interval, margin]))})"


def _cost(store: Path, outcome: Evaluated) -> str:
    """The cost of what was asked now, in words."""
    paid: Any = ledger_of(store, *outcome.new())
    if not len(paid):
        return "No new question was asked."
    tokens, seconds, usd = (paid[name].sum() for name in ("tokens", "wall_seconds", "usd"))
    return f"Asking took {tokens:,} tokens, {seconds:,.1f} s of work and {usd:.4f} USD."
