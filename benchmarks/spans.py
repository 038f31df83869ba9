"""All methods on all corpora at equal tokens, and spans minus each of them: `make bench-methods`, `make bench-spans`.

Every corpus is indexed titled, with keywords and the default context mode, and answered by the bundled reader: SQuAD
(the test half of the questions on articles that the reader was not trained on), NQ (test half) and HotpotQA's sample,
each among 2WikiMultihopQA's passages, Python's manual (test half), and two on which nothing was set: QMSum, whose
meetings are asked for summaries, so that the share of the supporting facts that is shown stands for accuracy, and
Celery's: docs/ of the source distribution of celery 5.7.0 (2 MB, BSD licence), fetched once from the Python package
index, or from the one that PIP_INDEX_URL names, and checked. celery_questions.jsonl has the questions on it.

Spans are compared with every other method at its budget by the paired difference (95 %, bootstrap over the questions).
A method of its own length, such as Oreo, is compared at the budget nearest to it. Over all corpora the questions are
drawn together. `--json` has a record per corpus, metric, method and budget, as docs/results/methods.json has them.

`make bench-spans-llm MODEL=DIR` asks a causal language model, which no method knows, how likely it finds the gold
answer by the contexts of 120 tokens (`--primary answer_likelihood`, in nats).

    python -m benchmarks.spans [--store DIR] [--experiment NAME] [--questions N] [--set KEY=VALUE] [CORPUS ...]
"""

import hashlib
import json
import os
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urljoin
from urllib.request import Request, urlopen

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import polars as pl

from benchmarks.common import DATA, NQ, REAL, evaluated, held_out, index, options, show, sql_list
from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import merged, parse_assignments
from vitalfew.flows.pipelines.experiments import find
from vitalfew.storage.runs import Run
from vitalfew.tasks.reports.runs import EvaluatedMethod
from vitalfew.tasks.reports.statistics.paired import paired_bootstrap

BUILD = Path("build/bench/spans")
NAME, OURS, EVERY = "spans/never_worse", "spans", "all corpora"
ACCURACY, FACTS, TOKENS, LIKELIHOOD = "accuracy", "sp_recall", "context_tokens", "answer_likelihood"
PRIMARY = (ACCURACY, LIKELIHOOD, f"{LIKELIHOOD}_per_token")

QUESTIONS = Path(__file__).with_name("celery_questions.jsonl")
FOLDER, ARCHIVE = "celery-5.7.0", "celery-5.7.0.tar.gz"
SHA256 = "6a5dfcf6662287204f009a02002b9e66c83d4105e47ebabdc7079108772fc6f0"
JSON = "application/vnd.pypi.simple.v1+json"
SECONDS = 60
"""Until a server that says nothing is given up."""


@dataclass(frozen=True)
class Corpus:
    """A corpus of its `datasets`; `where` and `half` choose questions. `questions`: the data set of its questions,
    where that is none of them; `is_answered`: else the shown facts count."""

    datasets: tuple[str, ...]
    where: str = "len(answers) > 0"
    half: str | None = None
    questions: str | None = None
    is_answered: bool = True


def corpora(celery: Path) -> dict[str, Corpus]:
    """Return the corpora by name; `celery`: the folder of Celery's documentation."""
    wiki = f"titletext:{REAL['titletext']}"
    unseen = f"len(list_intersect(titles, {sql_list(held_out())})) > 0"
    return {
        "SQuAD": Corpus((f"squad:{REAL['squad']}",), unseen, half="test"),
        "HotpotQA": Corpus((f"hotpotqa:{REAL['hotpotqa']}", wiki)),
        "NQ": Corpus((f"ctxs:{NQ}", wiki), half="test"),
        "Python manual": Corpus(("python_manual:",), half="test"),
        "QMSum": Corpus((f"qmsum:{DATA / 'qmsum' / 'val.jsonl'}",), "len(supporting_facts) > 0", is_answered=False),
        "Celery": Corpus((f"folder:{celery}?glob=**/*.rst",), questions=f"jsonl:{QUESTIONS}"),
    }


def documentation(build: Path) -> Path:
    """Return the folder of the documentation, unpacked into `build` if it is not there. Raises OSError where the index
    cannot be reached, ValueError for another archive than was measured on."""
    docs = build / FOLDER / "docs"
    if not docs.is_dir():
        build.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=BytesIO(_archive())) as archive, TemporaryDirectory(dir=build) as partial:
            inside = [member for member in archive.getmembers() if member.name.startswith(f"{FOLDER}/docs/")]
            archive.extractall(partial, inside, filter="data")
            Path(partial, FOLDER).rename(build / FOLDER)
    return docs


def _archive() -> bytes:
    page = f"{os.environ.get('PIP_INDEX_URL', 'https://pypi.org/simple').rstrip('/')}/celery/"
    with urlopen(Request(page, headers={"Accept": JSON}), timeout=SECONDS) as answer:
        files = json.load(answer)["files"]
    address = next((file["url"] for file in files if file["filename"] == ARCHIVE), None)
    if address is None:
        raise ValueError(f"{page} has no {ARCHIVE}; give its folder docs: --celery DIR")
    with urlopen(urljoin(page, address), timeout=SECONDS) as answer:
        content: bytes = answer.read()
    if (found := hashlib.sha256(content).hexdigest()) != SHA256:
        raise ValueError(f"{address} has the checksum {found}, and figures are of {SHA256}")
    return content


def indexed(store: Path, name: str, corpus: Corpus, suffix: str = "", **settings: Any) -> str:
    """Index a corpus with these settings, and return the name of the index."""
    corpus_index = name.lower().replace(" ", "-") + suffix
    index(datasets=corpus.datasets, name=corpus_index, store=store, **settings)
    return corpus_index


def run(store: Path, name: str, corpus: Corpus, given: Any) -> Run:
    """Index a corpus and evaluate the experiment on it. Where facts decide, nothing is answered, and methods that
    choose among answers are left out."""
    corpus_index = indexed(store, name, corpus, bm25={"enabled": True})
    asked = {"dataset": corpus.questions, "where": corpus.where, "half": corpus.half, "sample": given.questions}
    label, own = find(given.experiment)
    chosen = parse_assignments(given.set)
    settings: dict[str, Any] = {"questions": asked, "primary": given.primary if corpus.is_answered else FACTS}
    if not corpus.is_answered:
        methods = {method: each for method, each in own["methods"].items() if "critique" not in (each or {})}
        own = {**own, "methods": methods, "generate": None}
        chosen.pop("generate", None)
        settings["score"] = {"metrics": ["supporting_facts", "tokens"]}
    elif given.primary != ACCURACY:
        settings["score"] = {"metrics": [*own["score"]["metrics"], LIKELIHOOD]}
    return evaluated(label, own, store, index=corpus_index, **merged(settings, chosen)).run


def scored(store: Path, name: str, of_run: Run) -> pl.DataFrame:
    """A row per question, method, budget (null: its own length) and metric: the primary one, and the facts shown."""
    parameters = Evaluate.model_validate(of_run.config)
    rows = []
    for method in parameters.methods:
        own, budget = EvaluatedMethod.of(store, of_run, method.name, [method.name]).scores, method.refine.max_tokens
        for metric in dict.fromkeys((str(parameters.primary), FACTS)):
            columns = {"question": own.ids, "value": own.of(metric, own.ids), "tokens": own.of(TOKENS, own.ids)}
            label = method.name.removesuffix(f" max_tokens={budget}")
            named = pl.DataFrame(columns, nan_to_null=True).with_columns(
                corpus=pl.lit(name), metric=pl.lit(metric), method=pl.lit(label), budget=pl.lit(budget, pl.Int64)
            )
            rows.append(named)
    return pl.concat(rows).filter(pl.col("value").is_not_null().any().over("metric"))


def records(scores: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the figures of every method on every corpus, with the difference of spans of the nearest budget to it."""
    for (corpus, metric), rows in scores.group_by("corpus", "metric", maintain_order=True):
        ours = {budget: own for (_, budget), own in _ways(rows.filter(method=OURS))}
        for (method, budget), own in _ways(rows):
            length = float(own["tokens"].mean() or 0.0)  # type: ignore[arg-type]
            against = budget if budget in ours else min(ours, key=lambda each, length=length: abs((each or 0) - length))
            both = own.join(ours[against], ["corpus", "question"], suffix="_ours")
            [found] = paired_bootstrap(both["value"].to_numpy(), both["value_ours"].to_numpy()[np.newaxis])
            known = own["value"].drop_nulls()
            about = {"corpus": corpus, "metric": metric, "method": method, "budget": budget, "against": against}
            yield {
                **about, "mean": known.mean(), "tokens": length, "questions": len(known),
                "minus": found.mean_difference, "low": found.low, "high": found.high,
            }  # fmt: skip


def _ways(rows: pl.DataFrame) -> Iterator[tuple[tuple[Any, ...], pl.DataFrame]]:
    yield from rows.group_by("method", "budget", maintain_order=True)


def shown(record: Mapping[str, Any]) -> tuple[str, ...]:
    interval = (
        "" if record["low"] is None else f"{record['minus']:+.3f} ({record['low']:+.3f} to {record['high']:+.3f})"
    )
    figures = (f"{record['mean']:.3f}", f"{record['tokens']:.0f}", f"{record['questions']:,}")
    return (record["corpus"], record["metric"], record["method"], f"{record['budget'] or 'own'}", *figures, interval)


def main() -> None:
    parser = options(__doc__, BUILD / "store")
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help=f"of {', '.join(corpora(Path()))}; default: all")
    parser.add_argument("--experiment", default=NAME, help=f"{NAME}, or another one whose method `spans` is compared")
    parser.add_argument("--questions", type=int, help="of a corpus, at most; default: all")
    parser.add_argument("--primary", default=ACCURACY, choices=PRIMARY, help="the metric, where questions are answered")
    parser.add_argument("--exact", action="store_true", help="index with encode.context=exact too, for methods with it")
    parser.add_argument("--celery", type=Path, help="the folder docs of celery 5.7.0; default: fetched")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the experiment")
    parser.add_argument("--json", type=Path, default=BUILD / "figures.json", help="all figures, for a program")
    given = parser.parse_args()
    names = given.corpora or [*corpora(Path())]
    celery = documentation(BUILD) if "Celery" in names and not given.celery else given.celery or Path()
    known, parts = corpora(celery), []
    for name in names:
        began = time.process_time()
        if given.exact:
            indexed(given.store, name, known[name], "-exact", encode={"context": "exact"})
        parts.append(scored(given.store, name, run(given.store, name, known[name], given)))
        print(f"{name}: {time.process_time() - began:,.0f} CPU seconds", file=sys.stderr, flush=True)
    every = pl.concat(parts)
    together = every.filter(metric=given.primary)
    found = [
        *records(every),
        *({**record, "corpus": EVERY} for record in records(together.with_columns(corpus=pl.lit(EVERY)))),
    ]
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({"set": given.set, "records": found}, indent=1), encoding="utf-8")
    heads = ["corpus", "metric", "method", "budget", "mean", "tokens", "questions", f"{OURS} minus it"]
    show(heads, map(shown, found))


if __name__ == "__main__":
    main()
