"""`make bench-spans-llm MODEL=DIR`: how likely a language model that no method knows finds the gold answer by each way.

Reads the contexts that `make bench-spans` left at 120 tokens, the very same, and asks a causal language model, a
directory of Hugging Face, for the logarithm of the probability of the gold answer, the first that is accepted, after
the prompt of generator `transformers`: one pass, and a figure that says something where few answers are right. What it
read stands in a file beside the store, so that the benchmark goes on where it was stopped.

Reports the mean in nats, and spans minus every other way: nats a question, nats a token of the answer, and the share of
the questions where spans are better, with paired intervals (95 %, bootstrap over the questions).

    python -m benchmarks.spans_llm --model DIR [--store DIR] [--questions N] [--precision fp32] [CORPUS ...]
"""

import json
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import polars as pl

from benchmarks.celery_docs import documentation
from benchmarks.common import one_core, options, show
from benchmarks.spans import BUILD, NAME, OURS, compared, corpora, interval, run
from vitalfew.configs.loading import build, parse_assignments
from vitalfew.configs.options import CausalModel
from vitalfew.storage.artifacts import fingerprint
from vitalfew.storage.ids import content_id
from vitalfew.storage.runs import Run
from vitalfew.tasks.generators import prompts
from vitalfew.tasks.generators.base import Generator
from vitalfew.tasks.models.causal.surprise import Surprise
from vitalfew.tasks.reports.runs import Values, read_rows

BUDGET = 120
METHODS = (OURS, "naive RAG", "ParetoRAG", "hybrid sentences", "reranked sentences", "CXMI")
QUESTIONS, SEED = 500, 100
TOGETHER = 64
"""Prompts that are sorted by length together, and written down together."""


class Asked(NamedTuple):
    """A prompt and the answer whose probability after it is asked for."""

    prompt: str
    answer: str


class Likelihood(NamedTuple):
    """The logarithm of an answer's probability in nats, and its tokens."""

    nats: float
    tokens: int


class Judge:
    """A causal language model; `log`: the file of what it has read."""

    def __init__(self, model: Path, precision: str, folder: Path) -> None:
        """Raises ConfigError, EngineUnavailable."""
        chosen = build(CausalModel, {"model": str(model), "precision": precision})
        self.surprise = Surprise(chosen.model, chosen, "generate")
        self.log = folder / f"likelihood-{fingerprint(model=self.surprise.identity())}.jsonl"
        self.known: dict[int, Likelihood] = {}
        if self.log.exists():
            for line in self.log.read_text(encoding="utf-8").splitlines():
                if line.endswith("}"):  # a run that was killed leaves half a line
                    row = json.loads(line)
                    self.known[row["key"]] = Likelihood(row["nats"], row["tokens"])

    def read(self, asked: Sequence[Asked]) -> list[Likelihood]:
        """Return the likelihood of every answer; what is new is read in batches of similar length."""
        due = {content_id(*each): each for each in asked}
        due = {key: each for key, each in due.items() if key not in self.known}
        keys = sorted(due, key=lambda key: len(due[key].prompt))
        began = time.process_time()
        for start in range(0, len(keys), TOGETHER):
            some = keys[start : start + TOGETHER]
            found = dict(zip(some, self._read([due[key] for key in some]), strict=True))
            self.known |= found
            with self.log.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({"key": key, **own._asdict()}) + "\n" for key, own in found.items())
            seconds = time.process_time() - began
            done = start + len(some)
            print(f"  {done:,} of {len(keys):,} prompts, {seconds / done:.2f} CPU s each", file=sys.stderr, flush=True)
        return [self.known[content_id(*each)] for each in asked]

    def _read(self, asked: Sequence[Asked]) -> Iterator[Likelihood]:
        before = self.surprise.engine.local.encode([each.prompt for each in asked])
        answers = self.surprise.encode([each.answer for each in asked])
        # The chat template has the model's own beginning.
        found = self.surprise.of([*zip(before, answers, strict=True)], lambda tokens: None, started=False)
        return (Likelihood(-float(own.sum(dtype=np.float64)), len(own)) for own in found)


def prompts_of(store: Path, of_run: Run, most: int) -> dict[str, list[Asked]]:
    """Return the prompts of every method, of the same questions in the same order: at most so many, drawn by a seed."""
    rows = read_rows(store, of_run, named(METHODS[0]), "asked").sort("question_id")
    rows = rows.filter(pl.col("answers").list.len() > 0)
    # Drawn in one order, so that more questions contain the fewer of an earlier run.
    chosen = sorted(random.Random(SEED).sample(range(len(rows)), len(rows))[:most])
    asked = rows[chosen].select("question_id", "text", "answers").to_dicts()
    methods = [method for method in METHODS if named(method) in of_run.methods]
    return {method: [*_prompts(asked, contexts(store, of_run, method))] for method in methods}


def named(method: str) -> str:
    return f"{method} max_tokens={BUDGET}"


def contexts(store: Path, of_run: Run, method: str) -> dict[int, tuple[str, ...]]:
    """Return the contexts of every question that has any."""
    rows = read_rows(store, of_run, named(method), "evidence").sort("question_id", "rank")
    groups = rows.group_by("question_id", maintain_order=True).agg("text")
    return {question: tuple(texts) for question, texts in groups.iter_rows()}


def _prompts(asked: Sequence[Mapping[str, Any]], shown: Mapping[int, tuple[str, ...]]) -> Iterator[Asked]:
    templates = {True: prompts.source(Generator.prompt), False: prompts.source(Generator.prompt_without_contexts)}
    for row in asked:
        own = shown.get(row["question_id"], ())
        yield Asked(prompts.render(templates[bool(own)], row["text"], own), row["answers"][0])


Judged = dict[str, list[Likelihood]]
"""By method, the same questions in the same order."""


def rows_of(judged: Mapping[str, Judged]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield corpora, and all of them together, with the figures of every method."""
    together: Judged = {}
    for corpus, by_method in judged.items():
        yield from ((corpus, row) for row in figures(by_method))
        for method, own in by_method.items():
            together.setdefault(method, []).extend(own)
    if len(judged) > 1:
        yield from (("all", row) for row in figures(together))


def figures(judged: Judged) -> Iterator[dict[str, Any]]:
    nats = {method: np.array([each.nats for each in own]) for method, own in judged.items()}
    per_token = {method: np.array([each.nats / each.tokens for each in own]) for method, own in judged.items()}
    for method, own in nats.items():
        row = {"method": method, "questions": len(own), "nats": float(own.mean())}
        if method != OURS:
            row |= _against(nats[OURS] - own, per_token[OURS] - per_token[method])
        yield row


def _against(nats: Values, per_token: Values) -> dict[str, Any]:
    found = compared({("nats", None): nats, ("per token", None): per_token})
    better = {"share_better": float((nats > 0).mean()), "share_worse": float((nats < 0).mean())}
    return {"spans_minus_it": asdict(found["nats", None]), "per_token": asdict(found["per token", None]), **better}


def cells(corpus: str, row: Mapping[str, Any]) -> Sequence[str]:
    least = -np.inf
    differences = [
        interval(*(row[name][end] for end in ("mean_difference", "low", "high")), least) if name in row else ""
        for name in ("spans_minus_it", "per_token")
    ]
    shares = f"{row['share_better']:.2f}, {row['share_worse']:.2f}" if "share_better" in row else ""
    return corpus, f"{row['questions']:,}", row["method"], f"{row['nats']:.2f}", *differences, shares


def main() -> None:
    known = [name for name, corpus in corpora(Path()).items() if corpus.primary == "accuracy"]
    parser = options(__doc__, BUILD / "store")
    parser.add_argument(
        "--model", type=Path, required=True, help="the directory of a causal language model of Hugging Face"
    )
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help=f"of a corpus, at most; {QUESTIONS}")
    parser.add_argument("--of", type=int, help="--questions of bench-spans, where it was given")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as given to bench-spans")
    parser.add_argument("--celery", type=Path, help="the folder docs of celery 5.7.0; default: fetched")
    parser.add_argument("--precision", default="fp32", help="fp32 or bf16, which is slower on processors without AMX")
    parser.add_argument("--json", type=Path, default=BUILD / "likelihood.json", help="all figures, for a program")
    given = parser.parse_args()
    one_core()
    names, settings = given.corpora or known, parse_assignments(given.set)
    celery = documentation(BUILD) if "Celery" in names and not given.celery else given.celery or Path()
    judge = Judge(given.model, given.precision, given.store.parent)
    judged: dict[str, Judged] = {}
    for name in names:
        of_run = run(given.store, NAME, name, corpora(celery)[name], given.of, settings)
        asked = prompts_of(given.store, of_run, given.questions)
        print(f"{name}: {len(asked[OURS]):,} questions", file=sys.stderr, flush=True)
        found = iter(judge.read([each for own in asked.values() for each in own]))
        judged[name] = {method: [next(found) for _ in own] for method, own in asked.items()}
    shown = [*rows_of(judged)]
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps([{"corpus": corpus, **row} for corpus, row in shown], indent=1), encoding="utf-8")
    heads = ["corpus", "questions", "method", "nats", "spans minus it", "a token", "better, worse"]
    show(heads, (cells(corpus, row) for corpus, row in shown))


if __name__ == "__main__":
    main()
