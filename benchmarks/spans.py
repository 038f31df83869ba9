"""`make bench-spans`: are spans ever worse? The experiment `spans/never_worse` on every corpus, beside its goals.

Every corpus is indexed titled, with keywords and the default context mode, and answered by the bundled reader: SQuAD
(the test half of the questions on articles that the reader was not trained on), NQ (test half) and HotpotQA's sample,
each among 2WikiMultihopQA's passages, Python's manual (test half), and two on which nothing was set: QMSum, whose
meetings are asked for summaries, so that the share of the supporting facts that is shown stands for accuracy, and
Celery's documentation (celery_docs.py).

At 60, 120, 240 and 480 tokens spans are compared with every rival, and with the rival that is best there, by the paired
difference (95 %, bootstrap over the questions). Oreo has its own length, and is compared at the budget nearest to it.
The goal is a lower bound of -0.02 on every corpus at every budget, and of 0 over all corpora. The best rival is chosen
on the questions that it is compared on, so that chance favours it: its difference lies too low, and says more than is
claimed where it reaches the goal.

Over all corpora the questions are drawn together, or within every corpus, for the mean of the corpora's differences.

`make bench-methods` runs `all_methods` in its place, and `make bench-spans-llm MODEL=DIR` asks a causal language model,
which no method knows, how likely it finds the gold answer by the contexts of 120 tokens (`--primary answer_likelihood`,
in nats, for which there is no goal).

    python -m benchmarks.spans [--store DIR] [--experiment NAME] [--questions N] [--set KEY=VALUE] [CORPUS ...]
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np

from benchmarks.celery_docs import QUESTIONS, documentation, specification
from benchmarks.common import DATA, NQ, REAL, evaluated, goal, held_out, index, options, show, sql_list
from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import merged, parse_assignments
from vitalfew.flows.pipelines.experiments import find
from vitalfew.storage.runs import Run
from vitalfew.tasks.reports.runs import Values, read_manifest, read_question_scores
from vitalfew.tasks.reports.statistics.paired import Difference, paired_bootstrap

BUILD = Path("build/bench/spans")
NAME, OURS, BEST = "spans/never_worse", "spans", "the best rival"
MARGIN, OVER_ALL = -0.02, 0.0
"""The lowest bounds of a difference that reach the goals: of a corpus, and of all."""
LIKELIHOOD = "answer_likelihood"
PRIMARY = ("accuracy", LIKELIHOOD, f"{LIKELIHOOD}_per_token")
FACTS = "sp_recall"
TOKENS = "context_tokens"
RESAMPLES = 10_000

Way = tuple[str, int | None]
"""A method and its budget in tokens; None: its own length."""


@dataclass(frozen=True)
class Corpus:
    """A corpus of its `datasets`; `where` and `half` choose questions, `primary` is the metric of right and wrong.
    `questions`: the data set of its questions, where that is none of them."""

    datasets: tuple[str, ...]
    where: str = "len(answers) > 0"
    half: str | None = None
    primary: str = "accuracy"
    questions: str | None = None


@dataclass(frozen=True)
class Scored:
    """A metric on a corpus. `values`, `tokens`: by way, float64 (questions,), the same questions in the same order."""

    corpus: str
    metric: str
    values: dict[Way, Values]
    tokens: dict[Way, Values]

    @property
    def has_goal(self) -> bool:
        """Return whether the metric is a share, of which the goals are."""
        return not self.metric.startswith(LIKELIHOOD)

    @property
    def questions(self) -> int:
        return int((~np.isnan(self.values[OURS, self.budgets[0]])).sum())

    @property
    def budgets(self) -> list[int]:
        return sorted({budget for method, budget in self.values if method == OURS and budget})

    @property
    def methods(self) -> list[str]:
        return [*dict.fromkeys(method for method, _ in self.values)]

    def budget_of(self, way: Way) -> int:
        """Return the budget of spans that a way is compared with: its own, or else the nearest to its mean length."""
        length = np.nanmean(self.tokens[way])
        return way[1] or min(self.budgets, key=lambda budget: abs(budget - length))

    def rivals(self, budget: int) -> list[Way]:
        return [way for way in self.values if way[0] != OURS and self.budget_of(way) == budget]

    def best(self, budget: int) -> Way:
        return max(self.rivals(budget), key=lambda way: np.nanmean(self.values[way]))

    def gaps(self) -> dict[Way, Values]:
        """Return ours minus every rival, and minus the best of a budget, question by question."""
        found = {
            way: self.values[OURS, self.budget_of(way)] - values
            for way, values in self.values.items()
            if way[0] != OURS
        }
        return found | {(BEST, budget): found[self.best(budget)] for budget in self.budgets}


def corpora(celery: Path) -> dict[str, Corpus]:
    """Return the corpora by name; `celery`: the folder of Celery's documentation."""
    wiki = f"titletext:{REAL['titletext']}"
    unseen = f"len(list_intersect(titles, {sql_list(held_out())})) > 0"
    return {
        "SQuAD": Corpus((f"squad:{REAL['squad']}",), unseen, half="test"),
        "HotpotQA": Corpus((f"hotpotqa:{REAL['hotpotqa']}", wiki)),
        "NQ": Corpus((f"ctxs:{NQ}", wiki), half="test"),
        "Python manual": Corpus(("python_manual:",), half="test"),
        "QMSum": Corpus((f"qmsum:{DATA / 'qmsum' / 'val.jsonl'}",), "len(supporting_facts) > 0", primary=FACTS),
        "Celery": Corpus((specification(celery),), questions=f"jsonl:{QUESTIONS}"),
    }


def indexed(store: Path, name: str, corpus: Corpus, suffix: str = "", **settings: Any) -> str:
    """Index a corpus with these settings, and return the name of the index."""
    corpus_index = name.lower().replace(" ", "-") + suffix
    index(datasets=corpus.datasets, name=corpus_index, store=store, **settings)
    return corpus_index


def run(
    store: Path, experiment: str, name: str, corpus: Corpus, questions: int | None, given: Mapping[str, Any]
) -> Run:
    """Index a corpus and evaluate an experiment on it; `given`: settings that replace those of the experiment. Where a
    metric of facts decides, nothing is answered, and methods that choose among answers are left out."""
    corpus_index = indexed(store, name, corpus, bm25={"enabled": True})
    asked = {"dataset": corpus.questions, "where": corpus.where, "half": corpus.half, "sample": questions}
    settings: dict[str, Any] = {"questions": asked, "primary": corpus.primary}
    label, own = find(experiment)
    if corpus.primary == FACTS:
        methods = {method: each for method, each in own["methods"].items() if "critique" not in (each or {})}
        own = {**own, "methods": methods, "generate": None}
        given = {key: value for key, value in given.items() if key != "generate"}
        settings["score"] = {"metrics": ["supporting_facts", "tokens"]}
    elif corpus.primary.startswith(LIKELIHOOD):
        settings["score"] = {"metrics": [*own["score"]["metrics"], LIKELIHOOD]}
    return evaluated(label, own, store, index=corpus_index, **merged(settings, given)).run


def scored(store: Path, name: str, of_run: Run, primary: str) -> list[Scored]:
    """Read the primary metric, and the share of the facts that is shown, where a corpus names facts."""
    budgets = {method.name: method.refine.max_tokens for method in Evaluate.model_validate(of_run.config).methods}
    values: dict[str, dict[Way, Values]] = {metric: {} for metric in (primary, FACTS, TOKENS)}
    for method, artifacts in of_run.methods.items():
        way = method.removesuffix(f" max_tokens={budgets[method]}"), budgets[method]
        asked, scores = (read_manifest(store, artifacts[table]) for table in ("asked", "scores"))
        found = read_question_scores(store, asked, [scores])
        for metric, own in values.items():
            own[way] = found.of(metric, found.ids)
    made = [Scored(name, metric, values[metric], values[TOKENS]) for metric in dict.fromkeys((primary, FACTS))]
    return [each for each in made if each.questions]


def compared(gaps: Mapping[Way, Values]) -> dict[Way, Difference]:
    """Return the mean of every row of paired differences with its interval; all have the same questions."""
    table = np.stack([*gaps.values()])
    return dict(zip(gaps, paired_bootstrap(np.zeros(table.shape[1]), table, resamples=RESAMPLES), strict=True))


def together(of_corpora: Sequence[Scored]) -> dict[Way, Difference]:
    """Compare the questions of all corpora together."""
    rows: dict[Way, list[Values]] = {}
    for each in of_corpora:
        for way, values in each.gaps().items():
            rows.setdefault(way, []).append(values)
    return {way: next(iter(compared({way: np.concatenate(parts)}).values())) for way, parts in rows.items()}


def mean_of_corpora(of_corpora: Sequence[Scored]) -> dict[Way, tuple[float, float, float]]:
    """Return the mean over corpora of the mean differences, with the percentiles of resamples within every corpus."""
    generator = np.random.default_rng(0)
    means: dict[Way, list[float]] = {}
    drawn: dict[Way, list[Values]] = {}
    for each in of_corpora:
        gaps = each.gaps()
        table = np.stack([*gaps.values()], axis=1)
        table = table[~np.isnan(table).any(axis=1)]
        counts = (generator.multinomial(len(table), np.full(len(table), 1 / len(table))) for _ in range(RESAMPLES))
        resampled = np.stack([count @ table for count in counts]) / len(table)
        for place, way in enumerate(gaps):
            means.setdefault(way, []).append(float(table[:, place].mean()))
            drawn.setdefault(way, []).append(resampled[:, place])
    ends = {way: np.quantile(np.mean(parts, axis=0), (0.025, 0.975)) for way, parts in drawn.items()}
    return {way: (float(np.mean(means[way])), float(low), float(high)) for way, (low, high) in ends.items()}


def by_budget(of_corpora: Sequence[Scored]) -> Iterator[Sequence[str]]:
    """Yield every method's figures, with the mean tokens of its contexts."""
    methods = methods_of(of_corpora)
    for each in of_corpora:
        for budget in each.budgets:
            at = {way[0]: way for way in [(OURS, budget), *each.rivals(budget)]}
            cells = (
                f"{np.nanmean(each.values[at[method]]):.3f} ({np.nanmean(each.tokens[at[method]]):.0f})"
                if method in at
                else ""
                for method in methods
            )
            yield f"{each.corpus}, {each.metric}", f"{each.questions:,}", f"{budget}", *cells


def by_rival(of_corpora: Sequence[Scored]) -> Iterator[Sequence[str]]:
    """Yield ours minus every rival of a budget, and minus the best, beside the goal."""
    rivals = methods_of(of_corpora)[1:]
    for each in of_corpora:
        found = compared(each.gaps())
        least = MARGIN if each.has_goal else -np.inf
        for budget in each.budgets:
            at = {way[0]: found[way] for way in each.rivals(budget)}
            cells = (shown(at[rival], least) if rival in at else "" for rival in rivals)
            best = found[BEST, budget]
            verdict = goal(best.low if best.low is not None else -1.0, least) if each.has_goal else ""
            yield (
                *(f"{each.corpus}, {each.metric}", f"{each.questions:,}", f"{budget}", *cells),
                *(f"{each.best(budget)[0]}, {shown(best, least)}", verdict),
            )


def over_all(of_corpora: Sequence[Scored]) -> Iterator[Sequence[str]]:
    """Yield ours minus every rival by budget, all questions together and as the mean of the corpora."""
    rivals = [*methods_of(of_corpora)[1:], BEST]
    whole, means = together(of_corpora), mean_of_corpora(of_corpora)
    least = OVER_ALL if of_corpora[0].has_goal else -np.inf
    for budget in [*of_corpora[0].budgets, None]:
        cells = (shown(whole[rival, budget], least) if (rival, budget) in whole else "" for rival in rivals)
        yield length(budget), "questions", *cells
        cells = (interval(*means[rival, budget], least) if (rival, budget) in means else "" for rival in rivals)
        yield length(budget), "corpora", *cells


def methods_of(of_corpora: Sequence[Scored]) -> list[str]:
    """Return the methods of all corpora, ours first."""
    return [OURS, *dict.fromkeys(method for each in of_corpora for method in each.methods if method != OURS)]


def length(budget: int | None) -> str:
    return "own" if budget is None else f"{budget}"


def shown(found: Difference, least: float) -> str:
    return interval(found.mean_difference, found.low, found.high, least)


def interval(mean: float | None, low: float | None, high: float | None, least: float) -> str:
    """Return a difference with its interval, marked where its lower bound does not reach the goal."""
    if mean is None or low is None or high is None:
        return "" if mean is None else f"{mean:+.3f}"
    return f"{mean:+.3f} ({low:+.3f} to {high:+.3f}){'' if low >= least else ' MISSED'}"


def figures(of_corpora: Sequence[Scored], pools: Mapping[str, Sequence[Scored]]) -> dict[str, Any]:
    """Return all figures, for JSON: a cell per corpus, metric and way, and a difference per pool and way."""
    cells = []
    for each in of_corpora:
        found = compared(each.gaps())
        for way, values in each.values.items():
            about = {"corpus": each.corpus, "metric": each.metric, "questions": each.questions}
            mean = {"mean": float(np.nanmean(values)), "tokens": float(np.nanmean(each.tokens[way]))}
            cells.append({**about, "method": way[0], "budget": way[1], **mean, **_difference(found.get(way))})
        for budget in each.budgets:
            best = {"method": BEST, "budget": budget, "is": each.best(budget)[0]}
            cells.append({**about, **best, **_difference(found[BEST, budget])})
    return {"cells": cells, "pools": {name: _pool(own) for name, own in pools.items()}}


def _difference(found: Difference | None) -> dict[str, Any]:
    return {"spans_minus_it": asdict(found)} if found else {}


def _pool(of_corpora: Sequence[Scored]) -> list[dict[str, Any]]:
    means = mean_of_corpora(of_corpora)
    return [
        {
            **{"method": way[0], "budget": way[1], "corpora": [each.corpus for each in of_corpora]},
            **_difference(found),
            "mean_of_corpora": dict(zip(("mean_difference", "low", "high"), means[way], strict=True)),
        }
        for way, found in together(of_corpora).items()
    ]


def pooled(of_corpora: Sequence[Scored], known: Mapping[str, Corpus]) -> dict[str, list[Scored]]:
    """Return the corpora that are answered, and all of them, each by its primary metric."""
    primary = [each for each in of_corpora if each.metric == known[each.corpus].primary]
    answered = [each for each in primary if each.metric != FACTS]
    pools = {answered[0].metric: answered} if answered else {}
    if len(primary) > len(answered) and all(each.has_goal for each in answered):  # shares alone have a common mean
        pools["accuracy, and facts recall where nothing is answered"] = primary
    return pools


def measured(
    store: Path, experiment: str, name: str, corpus: Corpus, questions: int | None, given: Mapping[str, Any]
) -> list[Scored]:
    began = time.process_time()
    found = scored(store, name, run(store, experiment, name, corpus, questions, given), corpus.primary)
    seconds = time.process_time() - began
    print(f"{name}: {found[0].questions:,} questions, {seconds:,.0f} CPU seconds", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = options(__doc__, BUILD / "store")
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help=f"of {', '.join(corpora(Path()))}; default: all")
    parser.add_argument("--experiment", default=NAME, help=f"{NAME}, or another one whose method `spans` is compared")
    parser.add_argument("--questions", type=int, help="of a corpus, at most; default: all")
    parser.add_argument(
        "--primary", default=PRIMARY[0], choices=PRIMARY, help="the metric, where questions are answered"
    )
    parser.add_argument("--exact", action="store_true", help="index with encode.context=exact too, for methods with it")
    parser.add_argument("--celery", type=Path, help="the folder docs of celery 5.7.0; default: fetched")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the experiment")
    parser.add_argument("--json", type=Path, default=BUILD / "figures.json", help="all figures, for a program")
    given = parser.parse_args()
    names = given.corpora or [*corpora(Path())]
    celery = documentation(BUILD) if "Celery" in names and not given.celery else given.celery or Path()
    known = {
        name: replace(corpus, primary=given.primary) if corpus.primary == PRIMARY[0] else corpus
        for name, corpus in corpora(celery).items()
    }
    settings = parse_assignments(given.set)
    if OURS not in find(given.experiment)[1]["methods"]:
        parser.error(
            f"experiment {given.experiment} has no method {OURS!r}: run `vitalfew evaluate {given.experiment}`"
        )
    for name in names if given.exact else ():
        indexed(given.store, name, known[name], "-exact", encode={"context": "exact"})
    found = [
        each
        for name in names
        for each in measured(given.store, given.experiment, name, known[name], given.questions, settings)
    ]
    pools = pooled(found, known)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({"set": given.set, **figures(found, pools)}, indent=1), encoding="utf-8")
    methods = methods_of(found)
    show(["corpus", "questions", "budget", *(f"{method} (tokens)" for method in methods)], by_budget(found))
    print(f"\nSpans minus a rival; MISSED: the lower bound is below {MARGIN}\n")
    show(["corpus", "questions", "budget", *methods[1:], BEST, "goal"], by_rival(found))
    for name, own in pools.items():
        print(f"\nOver {', '.join(each.corpus for each in own)}: {name}; MISSED: the lower bound is below 0\n")
        show(["budget", "drawn", *methods_of(own)[1:], BEST], over_all(own))


if __name__ == "__main__":
    main()
