"""`make bench-written MODEL=DIR`: do written questions choose the methods that people's questions choose?

SQuAD's articles that the reader was not trained on, and NQ. The writers get their passages alone; all questions are
asked of the whole corpus (SQuAD's 2,067 passages; NQ's among 2WikiMultihopQA's). People's are the same corpus's test
half. Every method of METHODS reads at most 120 tokens of context, and a causal language model answers that was trained
with none of them.

Kendall's tau-b is that of the methods' means by written and by people's questions. Its interval resamples both sets of
questions. Two sets of people's questions agree imperfectly too: `ceiling` is the mean tau of two random halves of them.
`lost` is what a user loses who takes the method that the written questions choose: its mean on people's questions minus
that of the method that people's questions choose, which chance favours.

    python -m benchmarks.written write CORPUS WRITER [--set write.KEY=VALUE]     questions, as a file
    python -m benchmarks.written answer CORPUS FILE|people [--model DIR]         every method's values, as a file
    python -m benchmarks.written compare                                         the tables
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import scipy

from benchmarks.common import NQ, REAL, held_out, options, show
from benchmarks.spans import indexed, run
from benchmarks.when import Corpus
from benchmarks.when import corpora as every
from vitalfew.configs.loading import build, merged, parse_assignments
from vitalfew.configs.writing import WriteQuestions
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially
from vitalfew.flows.pipelines.write_questions import as_lines, questions_of
from vitalfew.storage.runs import Run
from vitalfew.tasks.datasets.written import written
from vitalfew.tasks.reports.runs import Values, read_manifest, read_question_scores
from vitalfew.tasks.reports.statistics.paired import paired_bootstrap

BUILD = Path("build/bench/written")
EXPERIMENT, BUDGET, PEOPLE = "all_methods", 120, "people"
METHODS = (
    *("naive RAG", "hybrid passages", "reranked passages", "MMR", "CXMI", "Oreo"),
    *("ParetoRAG", "hybrid sentences", "sentence windows", "reranked sentences", "spans"),
)
METRICS = ("accuracy", "answer_kept")
PAIRS = (("accuracy", "accuracy"), ("answer_kept", "answer_kept"), ("answer_kept", "accuracy"))
"""Metrics of the written and of people's questions: cloze questions measure retrieval, not answers."""
CORPORA = ("SQuAD", "NQ")
COLUMNS = (
    *("corpus", "writer", "answered by", "metric by written, by people's", "questions: written, people's"),
    *("Kendall's tau", "ceiling", "best by written", "best by people's", "lost"),
)
RESAMPLES = 2000
ANSWERING = {"generator": "transformers", "temperature": 0, "max_tokens": 24, "lines": 1}


@dataclass(frozen=True)
class Agreement:
    """How a set of written questions ranks methods, beside people's questions; differences are of means."""

    corpus: str
    writer: str
    by: str
    metric: str
    judged: str
    questions: int
    people: int
    tau: float
    low: float
    high: float
    ceiling: float
    best: str
    best_by_people: str
    lost: float
    lost_low: float
    lost_high: float


def passages_of(name: str) -> tuple[str, ...]:
    """Return the data sets whose passages the writers get."""
    if name == "NQ":
        return (f"ctxs:{NQ}",)
    rows = json.loads(REAL["squad"].read_text(encoding="utf-8"))
    titles = set(held_out())
    rows["data"] = [row for row in rows["data"] if row["title"].replace("_", " ").strip() in titles]
    file = BUILD / "squad.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows), encoding="utf-8")
    return (f"squad:{file}",)


def write(store: Path, name: str, writer: str, n: int, given: Sequence[str]) -> None:
    """Write questions into a file."""
    kind, _, model = writer.partition("=")
    source = indexed(store, f"{name} passages", Corpus(passages_of(name)))
    named = f"{name}-{Path(model).name or kind}"
    own = {"writer": kind, "n": n, **({"model": model} if model else {})}
    settings = merged({"store": store, "index": source, "name": named, "write": own}, parse_assignments(given))
    began = time.process_time(), time.monotonic()
    graph(build(WriteQuestions, settings)).run(run_serially)
    took = time.process_time() - began[0], time.monotonic() - began[1]
    artifact = written(store, named)
    rows, refused = questions_of(artifact), artifact.read(0, "rejects").select(["reason", "detail"]).to_pylist()
    (BUILD / f"{named}.jsonl").write_text("".join(as_lines(rows)), encoding="utf-8")
    about = {"kept": len(rows), "cpu_seconds": took[0], "seconds": took[1], "refused": refused}
    (BUILD / f"{named}.written.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
    why = Counter(each["reason"] for each in refused)
    print(f"{named}: {len(rows)} kept, {why}, {took[0]:.0f} CPU s, {took[1]:.0f} s")


def answer(store: Path, name: str, file: str, questions: int, model: str | None, given: Sequence[str]) -> None:
    """Answer questions by every method, and write every question's values into a file."""
    corpus = replace(every()[name], half="test")
    if file != PEOPLE:
        corpus = replace(corpus, questions=f"jsonl:{file}", half=None, where="len(answers) > 0")
    named = f"{name}-{PEOPLE}" if file == PEOPLE else Path(file).stem
    reader = {"generate": {**ANSWERING, "model": model}} if model else {}
    settings = {"only": [*METHODS], "refine": {"max_tokens": BUDGET}, **reader}
    of_run = run(store, EXPERIMENT, name, corpus, questions, merged(settings, parse_assignments(given)))
    values = {metric: values_of(store, of_run, metric) for metric in METRICS}
    by = Path(model).name if model else "reader"
    about = {"corpus": name, "questions": named.partition("-")[2], "by": by, "values": values}
    (BUILD / f"{named}.{by}.values.json").write_text(json.dumps(about), encoding="utf-8")


def values_of(store: Path, of_run: Run, metric: str) -> dict[str, list[float]]:
    """Return the values of a metric by method, a question each, in the same order."""
    values = {}
    for method, artifacts in of_run.methods.items():
        asked, scores = (read_manifest(store, artifacts[table]) for table in ("asked", "scores"))
        found = read_question_scores(store, asked, [scores])
        values[method] = found.of(metric, found.ids).tolist()
    return values


def compare() -> Iterator[Agreement]:
    """Compare every set of written questions with people's, by the same answering model."""
    known = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(BUILD.glob("*.values.json"))]
    for people in (each for each in known if each["questions"] == PEOPLE):
        for own in known:
            if (own["corpus"], own["by"]) == (people["corpus"], people["by"]) and own is not people:
                for metric, judged in PAIRS:
                    yield agreement(own, people, metric, judged)


def agreement(own: Mapping[str, Any], people: Mapping[str, Any], metric: str, judged: str) -> Agreement:
    ours, theirs = table_of(own["values"][metric]), table_of(people["values"][judged])
    generator = np.random.default_rng(0)
    taus = [tau(resampled(ours, generator), resampled(theirs, generator)) for _ in range(RESAMPLES)]
    best, top = int(ours.mean(axis=1).argmax()), int(theirs.mean(axis=1).argmax())
    [lost] = paired_bootstrap(theirs[top], theirs[best][None], resamples=RESAMPLES)
    low, high = np.nanquantile(taus, (0.025, 0.975))
    return Agreement(
        own["corpus"], own["questions"], own["by"], metric, judged, ours.shape[1], theirs.shape[1],
        tau(ours.mean(axis=1), theirs.mean(axis=1)), float(low), float(high), ceiling(theirs, generator),
        METHODS[best], METHODS[top], float(lost.mean_difference or 0), float(lost.low or 0), float(lost.high or 0),
    )  # fmt: skip


def table_of(values: Mapping[str, Sequence[float]]) -> Values:
    """Return the questions that every method has a value of, float64 (methods, questions)."""
    table = np.array([values[name] for name in METHODS], dtype=np.float64)
    return table[:, ~np.isnan(table).any(axis=0)]


def tau(one: Values, other: Values) -> float:
    return float(scipy.stats.kendalltau(one.round(9), other.round(9)).statistic)


def resampled(table: Values, generator: np.random.Generator) -> Values:
    """Return the means of a table's rows over as many of its questions, drawn with replacement."""
    return table[:, generator.integers(table.shape[1], size=table.shape[1])].mean(axis=1)


def ceiling(table: Values, generator: np.random.Generator) -> float:
    """Return the mean agreement of two random halves of the questions."""
    half = table.shape[1] // 2
    orders = (generator.permutation(table.shape[1]) for _ in range(RESAMPLES // 4))
    return float(np.nanmean([tau(table[:, o[:half]].mean(axis=1), table[:, o[half:]].mean(axis=1)) for o in orders]))


def shown(each: Agreement) -> Sequence[str]:
    return (
        each.corpus, each.writer, each.by, f"{each.metric}, {each.judged}", f"{each.questions}, {each.people}",
        f"{each.tau:+.2f} ({each.low:+.2f} to {each.high:+.2f})", f"{each.ceiling:+.2f}", each.best,
        each.best_by_people, f"{each.lost:+.3f} ({each.lost_low:+.3f} to {each.lost_high:+.3f})",
    )  # fmt: skip


def main() -> None:
    parser = options(__doc__, BUILD / "store")
    parser.add_argument("step", choices=("write", "answer", "compare"))
    parser.add_argument("corpus", nargs="?", choices=CORPORA)
    parser.add_argument("of", nargs="?", metavar="WRITER|FILE|people", help="cloze, llm=DIR; a file that was written")
    parser.add_argument("--n", type=int, default=200, help="questions to write, 200; to answer at most")
    parser.add_argument("--model", help="the language model that answers; default: the bundled reader")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the step")
    given = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    if given.step == "write":
        write(given.store, given.corpus, given.of, given.n, given.set)
    elif given.step == "answer":
        answer(given.store, given.corpus, given.of, given.n, given.model, given.set)
    else:
        figures = [*compare()]
        (BUILD / "figures.json").write_text(json.dumps([asdict(each) for each in figures], indent=1), encoding="utf-8")
        show(COLUMNS, map(shown, figures))


if __name__ == "__main__":
    main()
