"""docs/papers.md: the papers' tables and figures, the experiments that repeat them, their runs here and the claims."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from docs.markdown import anchor, cell, table
from docs.measured import Measured, measured
from vitalfew.configs.paper import Item, Paper, papers

ABOUT = (
    "Every table and figure of the four papers: the experiment that repeats it (`vitalfew evaluate NAME --index "
    "INDEX`), where it ran, and whether the paper's claim holds there. *Holds* and *does not hold* refer to our "
    "corpus, encoder and reader, never to the paper's language models: no model of 7 or 13 billion parameters was run. "
    "A figure that shows a method and no measurement is *a drawing*. The papers' printed figures are in "
    "`configs/papers/`, cell by cell; `python -m docs.measured` records the results of runs."
)
ARXIV = re.compile(r"arXiv ([\d.]+\d)")


def papers_page() -> Iterator[str]:
    by_experiment: dict[str, list[Measured]] = {}
    for each in measured():
        by_experiment.setdefault(each.experiment, []).append(each)
    yield from paper_sections(papers().values(), by_experiment)
    yield from (
        "## Ours, beside the four: spans",
        "From single sentences to whole passages, whichever a question needs: [the method, its measurements and their "
        "limits](spans.md). `spans/never_worse` compares it with naive RAG, ParetoRAG, keywords, a critic, CXMI and "
        "Oreo at equal tokens, `spans/ablations` takes its parts away one by one, `spans/compositions` puts it before "
        "or behind the papers' methods, and `spans/joined` says what showing the sentences of a passage together does "
        "by itself. The papers' experiments keep every sentence apart, as the papers have it (`refine.group: "
        "apart`); new ones join them.",
        "",
        "## Experiments without a paper",
        "`quickstart` (naive RAG, ParetoRAG, spans, PFE-Self-RAG and Oreo side by side), `paretorag/front` (quality "
        "against tokens over every method without a checkpoint), `paretorag/keywords` (BM25 and its fusion with "
        "vectors) and `paretorag/when` (where sentences pay, and where not) do not repeat a paper.",
    )


def paper_sections(listed: Iterable[Paper], runs: dict[str, list[Measured]]) -> Iterator[str]:
    """Yield a section for every paper, first for those that experiments repeat."""
    for paper in sorted(listed, key=lambda paper: not paper.experiments):
        cited = ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", paper.paper)
        yield from (f"## {paper.paper.partition(' (')[0]}", f"{cited}.", "")
        settings = f"The paper's settings: {paper.settings}." if paper.settings else ""
        chosen = f"**Choice of settings.** {paper.chosen}" if paper.chosen else ""
        for about in filter(None, (paper.about, settings, chosen)):
            yield from (about, "")
        rows = (_row(item, [run for each in item.experiments for run in runs.get(each, ())]) for item in paper.items)
        yield from table("paper", "experiment", "runs here", "the paper's claims", of=rows)
        if paper.contradictions:
            yield from ("Contradictions within the paper:", "", *(f"- {each}" for each in paper.contradictions), "")
        for experiment in dict.fromkeys(each for item in paper.items for each in item.experiments):
            for run in runs.get(experiment, ()):
                yield from _measured(paper, run)


def _row(item: Item, runs: list[Measured]) -> tuple[str, ...]:
    ran = [f"[{_corpus(run)}](#{anchor(_heading(run))}), n = {run.n:,}" for run in runs]
    why = [] if ran else [item.why_not or ("" if item.noted else "not run on real data")]
    said = [_claims(run) for run in runs]
    return (
        item.what,
        ", ".join(f"`{name}`" for name in item.experiments) or "–",
        ". ".join(filter(None, [*ran, *why, item.noted])),
        "; ".join(dict.fromkeys(filter(None, said))) or item.holds or "–",
    )


def _claims(run: Measured) -> str:
    """Count a run's claims by verdict, in the report's words."""
    counted = Counter(line.verdict.partition(":")[0] for line in run.lines if line.verdict)
    return ", ".join(f"{number} {verdict}" for verdict, number in counted.items())


def _corpus(run: Measured) -> str:
    name = run.corpus.partition(":")[0]
    return f"{run.asked} among {name}" if run.asked else name


def _heading(run: Measured) -> str:
    models = f", {', '.join(run.models)}" if run.models else ""
    return f"{run.experiment} on {_corpus(run)}{models}"


def _measured(paper: Paper, run: Measured) -> Iterator[str]:
    yield from (f"### {_heading(run)}", f"*{run.machine} · {run.date} · {run.commit}*", "")
    yield from (f"{cell(run.questions)}. Corpus: {run.corpus}.", "")
    lines = ((line.what, line.printed, line.ours, line.interval, line.verdict or "–") for line in run.lines)
    yield from table("figure", "paper", "ours", "95 % interval", "claim", of=lines)
    repeated = paper.experiments.get(run.experiment)
    said = [*run.notes, *(repeated.deviations if repeated else ())]
    yield from (*(f"- {each}" for each in said), *([""] if said else []))
