"""Hand-made results for the tests of the report: what a run of `evaluate` might leave, without one."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.tasks.metrics.base import Column
from vitalfew.tasks.registry import METHODS, make
from vitalfew.tasks.reports.contents import (
    Answered,
    AskedQuestions,
    Differing,
    DifferingQuestion,
    MethodResult,
    MetricSummary,
    Pair,
    Report,
    StageCost,
)
from vitalfew.tasks.reports.statistics.paired import Difference

METRICS = (name for name in METHODS["metric"] if name != "mauve")
COLUMNS = {column.name: column for name in METRICS for column in make(ScoreConfig(metrics=(name,)), "score").columns()}
"""What the metrics declare, by column; MAUVE's is named after a model."""
ASKED = AskedQuestions(1000, "squad:train-v1.1.json", "len(answers) > 0", 100)


def report(*methods: MethodResult, asked: AskedQuestions = ASKED, experiment: str = "quickstart") -> Report:
    """The first method is the baseline of the others."""
    when = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
    compared = tuple(replace(method, against=0 if place else None) for place, method in enumerate(methods))
    return Report(experiment, "20261121-150000-abcdef", when, "store", asked, compared)


def summaries(questions: int = 1000, left_out: int = 0, **values: float | None) -> dict[str, MetricSummary]:
    """By metric; `recall_5` stands for passage_recall@5; a name that no metric has is one of the user's own."""
    named = {name.replace("recall_", "passage_recall@"): value for name, value in values.items()}
    return {
        name: MetricSummary(
            COLUMNS.get(name, Column(name, name)),
            value,
            0 if value is None else questions - left_out,
            questions if value is None else left_out,
        )
        for name, value in named.items()
    }


def costs(retrieve: float = 2.0, generate: float = 30.0, reused: bool = False) -> tuple[StageCost, ...]:
    stages = (
        StageCost("retrieve", 10_000, 12_000, retrieve, retrieve * 1.1, retrieve * 1e-5, 800 << 20, reused),
        StageCost("refine", 10_000, 0, 0.4, 0.4, 4e-6, 300 << 20),
        StageCost("generate", 1000, 900_000, generate, generate * 1.2, generate * 1e-5, 900 << 20),
        StageCost("score", 24_000, 0, 1.5, 1.5, 1.5e-5, 300 << 20),
    )
    return tuple(
        replace(cost, whole_seconds=cost.wall_seconds, whole_usd=cost.usd, paid_usd=0.0 if cost.reused else cost.usd)
        for cost in stages
    )


def paretorag(name: str, top_k: int = 10) -> MethodResult:
    settings: dict[str, Any] = {"retriever": "core_context", "alpha": 0.8, "top_k": top_k}
    values = summaries(
        accuracy=0.517 + top_k / 1000, exact_match=0.397, f1=0.497, recall_1=0.447, recall_5=0.618, recall_10=0.7,
        prompt_tokens=top_k * 42.0 + 48, completion_tokens=3.2, contexts=float(top_k), seconds=0.012 + top_k / 4000,
        usd=0.0000004 * top_k,
    )  # fmt: skip
    return MethodResult(name, settings, values, costs(2.5, top_k * 1.2))


def three() -> Report:
    """No retrieval, naive RAG, ParetoRAG: what `make demo` ends with."""
    bare = MethodResult(
        "no retrieval",
        {"retriever": None},
        summaries(
            accuracy=0.081, exact_match=0.05, f1=0.103, recall_1=None, recall_5=None, recall_10=None,
            prompt_tokens=21.3, completion_tokens=2.9, contexts=0.0, seconds=0.003, usd=0.0000001,
        ),
        costs(0.0, 3.0)[2:],
    )  # fmt: skip
    naive = MethodResult(
        "naive top-10",
        {"retriever": "passage", "top_k": 10},
        summaries(
            left_out=12, accuracy=0.53, exact_match=0.42, f1=0.502, recall_1=0.51, recall_5=0.71, recall_10=0.78,
            prompt_tokens=1480.2, completion_tokens=3.3, contexts=10.0, seconds=0.051, usd=0.0000061,
        ),
        costs(1.9, 51.0, reused=True),
        3,
        ("prompt of 9,120 tokens is longer than the 8,192 that the model takes", "HTTP 500 <b>oops</b>"),
        {"summaries": "aaaa1111", "candidates": "bbbb2222", "scores": "cccc3333"},
    )  # fmt: skip
    return report(bare, naive, paretorag("ParetoRAG top-10"), paretorag("ParetoRAG top-30", 30))


def one() -> Report:
    return report(paretorag("ParetoRAG"))


def nothing_scored() -> Report:
    nothing = summaries(accuracy=None, f1=None, prompt_tokens=None, recall_5=None)
    return report(MethodResult("a", {}, nothing), MethodResult("b", {"alpha": 1.0}, nothing))


def no_questions() -> Report:
    nothing = summaries(0, accuracy=None, prompt_tokens=None)
    return report(MethodResult("a", {}, nothing, costs()), asked=AskedQuestions(0, "jsonl:empty.jsonl"))


def errors_only() -> Report:
    nothing = summaries(accuracy=None, prompt_tokens=None)
    return report(
        MethodResult("works", {}, summaries(accuracy=0.4, prompt_tokens=100.0)),
        MethodResult("server", {}, nothing, costs(), 1000, ("HTTP 429: slow down\n\x1b[31mretry",)),
    )


def strange_names() -> Report:
    """Long, foreign, hostile: all that a YAML may call a method."""
    names = (
        "a name that goes on and on, " * 12,
        "ニューヨークの検索拡張生成と帕累托前沿",
        "<script>alert('x')</script> & \"quotes\" $x^2$ | pipe _under_ \x1b[31mred\x07",
        '_underscore id="x" url(#y) #010203',
        "שלום עולם 🎉 α→β",
        "line\nbreak\ttab",
    )
    hostile = "<b>*x* | y</b>"
    answered = tuple(
        Answered(name, (hostile,), value, 3, 2, hostile) for name, value in zip(names, (1.0, 0.0), strict=False)
    )
    shown = (DifferingQuestion(f"Who {hostile}?", (hostile,), answered),)
    made = report(
        *(
            MethodResult(
                name,
                {"alpha": (number % 3) / 2, "generator": name, "flags": [1, "</svg>"], "deep": {"<b>": None}},
                summaries(accuracy=0.3 + number / 20, prompt_tokens=300.0 - 7 * number, recall_5=0.5 + number / 30),
                costs(1.0 + number),
                1,
                ("</script><img src=x onerror=alert(1)>",),
            )
            for number, name in enumerate(names)
        ),
        asked=AskedQuestions(7, "<i>source</i>", "text <> '</pre>'", 1),
        experiment="<title>&amp;",
    )
    return replace(made, differing=Differing(9, 1, names[:2], shown))


def no_methods() -> Report:
    return report()


RIVALS = (
    "all passages", "reranked passages", "MMR", "sentences", "DSLR", "CRAG", "EXIT", "Selective-Context", "LLMLingua",
    "LongLLMLingua", "CXMI", "RECOMP, extractive", "Oreo", "ParetoRAG",
)  # fmt: skip


def rivals(names: Sequence[str] = RIVALS, budgets: Sequence[int | None] = (60, 120, 240, 480, None)) -> Report:
    """Ways to pass on less, each at every budget, compared each with each at the second one."""
    methods = []
    for number, name in enumerate(names):
        for budget in budgets:
            tokens = float(budget or 90 + 40 * number)
            accuracy = 0.25 + 0.02 * number + 0.0004 * tokens * (1 - number / 20)
            values = summaries(
                accuracy=accuracy, context_tokens=tokens, refine_seconds=0.1 * number, refine_cpu_seconds=0.2 * number,
                total_seconds=0.1 * number + 0.05,
            )  # fmt: skip
            values["accuracy"] = replace(values["accuracy"], low=accuracy - 0.05, high=accuracy + 0.05)
            settings = {"refine.refiner": name, "refine.max_tokens": budget}
            label = name + (f" max_tokens={budget}" if budget else "")
            methods.append(MethodResult(label, settings, values, costs(), budget=budget))
    made = report(*methods, experiment="rivals")
    alike = [place for place, method in enumerate(methods) if method.settings["refine.max_tokens"] == budgets[1]]
    pairs = tuple(_pair(methods, one, other) for one, other in combinations(alike, 2))
    return replace(made, primary="accuracy", pairwise={"refine.max_tokens": budgets[1]}, pairs=pairs)


def few_rivals() -> Report:
    return rivals(RIVALS[:4], (60, 120, None))


def _pair(methods: Sequence[MethodResult], one: int, other: int) -> Pair:
    mean = (methods[one].summaries["accuracy"].value or 0) - (methods[other].summaries["accuracy"].value or 0)
    p = 0.001 if abs(mean) > 0.1 else 0.4
    return Pair(one, other, Difference(mean, mean - 0.08, mean + 0.08, p, 0.4, mean / 0.4, 1000, 300, 200, 500, p))


ALL = (three, nothing_scored, no_questions, errors_only, strange_names, no_methods, few_rivals)
