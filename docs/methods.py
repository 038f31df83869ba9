"""Records how methods compare with naive RAG: `python -m docs.methods --store STORE --machine … --command … RUN...`.

docs/results/methods.json keeps a record for every corpus, answerer, method and budget, the latest; `make reference`
makes the tables of docs/results/index.md of them. A RUN (an id, or an experiment's name) is a finished run of any
experiment with a method `naive RAG`, such as `all_methods` or `spans/never_worse`; of its budgets those are recorded
that the page shows, and methods without a budget.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from pydantic import TypeAdapter

from docs.measured import ROOT, code_state
from vitalfew.configs.evaluation import Evaluate, Method
from vitalfew.configs.section import Config
from vitalfew.storage.runs import Run
from vitalfew.tasks.reports.runs import Values, find_run, read_manifest, read_question_scores
from vitalfew.tasks.reports.statistics.paired import paired_bootstrap

RECORDS = ROOT / "docs" / "results" / "methods.json"
NAIVE = "naive RAG"
BUDGETS = (120, 300)
"""The budgets in `refine.max_tokens`, words and punctuation marks of the contexts, that the page shows."""
TOKENS, FACTS = "context_tokens", "sp_recall"
NOBODY = "nobody"
"""The answerer where nothing was answered, or the metric is the share of the facts that the contexts show."""
CORPORA = ("SQuAD", "NQ", "HotpotQA", "Python manual", "Celery", "QMSum")
"""The corpora as the page names and orders them; those of other indexes follow by the names of these."""
DIGITS = 6


class Compared(Config):
    """A method on a corpus. `budget`: in tokens; None: its own length. `mean`: of `metric` over all `questions`,
    `tokens`: mean of the contexts. `minus`: the paired difference to naive RAG at `against` tokens with its 95 %
    interval, none for naive RAG itself. `commit`: the version of the code that read the run, with + if it was not
    committed."""

    corpus: str
    answerer: str
    method: str
    budget: int | None = None
    metric: str
    mean: float
    tokens: float
    questions: int
    against: int
    minus: float | None = None
    low: float | None = None
    high: float | None = None
    experiment: str
    date: str
    commit: str
    machine: str
    command: str

    def key(self) -> tuple[str, str, str, int]:
        """The key by which a later record replaces this one."""
        return self.corpus, self.answerer, self.method, self.budget or 0

    @property
    def is_ahead(self) -> bool:
        return self.low is not None and self.low > 0

    @property
    def is_behind(self) -> bool:
        return self.high is not None and self.high < 0


_LIST = TypeAdapter(list[Compared])


def compared(path: Path = RECORDS) -> list[Compared]:
    """Read the records, by their keys; empty without a file."""
    return _LIST.validate_json(path.read_bytes()) if path.exists() else []


def write(records: list[Compared], path: Path = RECORDS) -> None:
    """Add records to the file, a line for each; a later one replaces an earlier one of the same key."""
    kept = {each.key(): each for each in [*compared(path), *records]}
    rows = (kept[key].model_dump(mode="json", exclude_defaults=True) for key in sorted(kept))
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


class _Scored(NamedTuple):
    """A method of a run. `values`, `tokens`: float64 (questions,), of the same questions for all methods."""

    name: str
    budget: int | None
    answerer: str
    values: Values
    tokens: Values


def records_of(store: Path, run: Run, corpus: str, **about: str) -> Iterator[Compared]:
    """Yield a record for every method and budget; `corpus`: its name, or '' for that of the index; `about`: machine,
    command and commit. Raises LookupError where nothing is comparable, NoReport where an artifact was removed."""
    parameters = Evaluate.model_validate(run.config)
    metric = parameters.primary or "accuracy"
    scored = [_scored(store, run, method, metric) for method in parameters.methods]
    naive = {each.budget: each for each in scored if each.name == NAIVE and each.budget in BUDGETS}
    if not naive:
        raise LookupError(f"run {run.run_id} has no method {NAIVE!r} with a budget of {_listed(BUDGETS)} tokens")
    corpus = corpus or _corpus(next(method.index for method in parameters.methods if method.index) or "")
    for each in scored:
        if each.budget not in (*BUDGETS, None):
            continue
        against = each.budget or _nearest([budget for budget in naive if budget], float(np.nanmean(each.tokens)))
        if against not in naive:
            raise LookupError(f"run {run.run_id}: {each.name} has {against} tokens, and {NAIVE} does not")
        if np.isnan(each.values).all():
            raise LookupError(f"run {run.run_id} has no {metric} of {each.name}; it is the run's primary metric")
        yield Compared(
            corpus=corpus,
            answerer=each.answerer,
            method=each.name,
            budget=each.budget,
            metric=metric,
            mean=_rounded(np.nanmean(each.values)),
            tokens=round(float(np.nanmean(each.tokens)), 1),
            questions=int((~np.isnan(each.values)).sum()),
            against=against,
            **(_minus(naive[against].values, each.values) if each.name != NAIVE else {}),
            experiment=run.name,
            date=run.started[:10],
            **about,
        )


def _scored(store: Path, run: Run, method: Method, metric: str) -> _Scored:
    budget = method.refine.max_tokens
    asked, scores = (read_manifest(store, run.methods[method.name][table]) for table in ("asked", "scores"))
    found = read_question_scores(store, asked, [scores])
    values, tokens = (found.of(name, found.ids) for name in (metric, TOKENS))
    name = method.name.removesuffix(f" max_tokens={budget}")
    return _Scored(name, budget, _answerer(method, metric), values, tokens)


def _answerer(method: Method, metric: str) -> str:
    """The name of a language model, or of the generator."""
    if not method.generate or metric == FACTS:
        return NOBODY
    model = getattr(method.generate, "model", None)
    return Path(model).name if model else method.generate.generator


def _corpus(index: str) -> str:
    return next((name for name in CORPORA if name.lower().replace(" ", "-") == index), index)


def _nearest(budgets: list[int], tokens: float) -> int:
    """The lowest budget that is not below a length, else the largest."""
    return min((budget for budget in budgets if budget >= tokens), default=max(budgets))


def _minus(baseline: Values, values: Values) -> dict[str, float]:
    [found] = paired_bootstrap(baseline, values[None])
    ends = {"minus": found.mean_difference, "low": found.low, "high": found.high}
    return {name: _rounded(value) for name, value in ends.items() if value is not None}


def _rounded(value: float) -> float:
    return round(float(value), DIGITS) + 0.0


def _listed(numbers: tuple[int, ...]) -> str:
    return " or ".join(map(str, numbers))


def main(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...")],
    machine: Annotated[str, typer.Option(help="Machine that the runs ran on, in words.")],
    command: Annotated[str, typer.Option(help="Command that made the runs; CORPUS stands for the corpus.")],
    store: Annotated[Path, typer.Option(exists=True, file_okay=False)] = Path("store"),
    corpus: Annotated[str, typer.Option(help="Name of the corpus; default: by the index.")] = "",
    records: Annotated[Path, typer.Option(help="File that the records are added to.")] = RECORDS,
) -> None:
    """Record how the methods of finished runs compare with naive RAG."""
    about = {"machine": machine, "command": command, "commit": code_state()}
    for run in runs:
        made = list(records_of(store, find_run(store, run), corpus, **about))
        write(made, records)
        typer.echo(f"{made[0].corpus}, {made[0].answerer}: {len(made)} records, {made[0].questions:,} questions")


if __name__ == "__main__":
    typer.run(main)
