"""docs/papers.md: the papers' tables and figures, the experiments that repeat them, their runs here and the claims."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from docs.markdown import anchor, cell, table
from docs.measured import Measured, measured
from vitalfew.configs.paper import Figure, Item, Paper, Repeated, papers
from vitalfew.tasks.reports.papers import VERDICTS, Beside, compared
from vitalfew.tasks.reports.statistics.bootstrap import Interval

ABOUT = (
    "Every table and figure of the four papers: the experiment that repeats it (`vitalfew evaluate NAME --index "
    "INDEX`), where it ran, and the verdicts on what the paper claims of it.\n\n"
    "*Replicated*: our whole 95 % interval lies on the side of no difference that the paper claims, and the paper's "
    "size is within it; *same direction*: it lies on that side, but the size is not within it, or the paper prints "
    "none. *No worse*: it lies above no difference less a margin that was set beforehand; *contradicted*: it lies on "
    "the other side; *open*: it says neither. What holds by construction (ten sentences have fewer tokens than ten "
    "passages) and what the paper does not claim have no verdict and are counted nowhere.\n\n"
    "Verdicts refer to our corpus, encoder and generator, never to the paper's language models: no model of 7 or 13 "
    "billion parameters was run. A figure that shows a method and no measurement is *a drawing*. The papers' printed "
    "figures are in `configs/papers/`, cell by cell; `python -m docs.measured` records the numbers of runs."
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
        "`quickstart` (naive RAG, ParetoRAG, spans, PFE-Self-RAG and Oreo side by side), `all_methods` (every method "
        "that the bundled models can run, [on every corpus](results/index.md#all-methods-on-all-corpora)), "
        "`paretorag/front` (quality against tokens over every method without a checkpoint), `paretorag/keywords` (BM25 "
        "and its fusion with vectors) and `paretorag/when` (where sentences pay, and where not) do not repeat a paper.",
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
        rows = (
            _row(paper, item, [run for each in item.experiments for run in runs.get(each, ())]) for item in paper.items
        )
        yield from table("paper", "experiment", "runs here", "the paper's claims", of=rows)
        if paper.contradictions:
            yield from ("Contradictions within the paper:", "", *(f"- {each}" for each in paper.contradictions), "")
        for experiment in dict.fromkeys(each for item in paper.items for each in item.experiments):
            for run in runs.get(experiment, ()):
                yield from _measured(paper, run)


def _row(paper: Paper, item: Item, runs: list[Measured]) -> tuple[str, ...]:
    ran = [f"[{_corpus(run)}](#{anchor(_heading(run))}), n = {run.n:,}" for run in runs]
    why = [] if ran else [item.why_not or ("" if item.noted else "not run on real data")]
    said = [_claims(paper, run) for run in runs]
    return (
        item.what,
        ", ".join(f"`{name}`" for name in item.experiments) or "–",
        ". ".join(filter(None, [*ran, *why, item.noted])),
        item.verdict or "; ".join(dict.fromkeys(filter(None, said))) or "–",
    )


def _claims(paper: Paper, run: Measured) -> str:
    """Count a run's claims by verdict, in the report's words."""
    found = sorted(
        (row.verdict.partition(":")[0] for row in beside(paper, run) if row.verdict),
        key=lambda said: VERDICTS.index(said.partition(",")[0]),
    )
    return ", ".join(f"{number} {said}" for said, number in Counter(found).items())


def beside(paper: Paper, run: Measured) -> Iterator[Beside]:
    """Yield a row for every figure that the experiment repeats, '–' where the run has no counterpart, and for every
    further one that was recorded, without a claim."""
    lines = {line.ours: line for line in run.lines}
    for figure in (paper.experiments.get(run.experiment) or Repeated()).figures:
        line = lines.pop(figure.ours, None)
        ours = line.interval() if line else Interval(None, None, None, 0)
        yield compared(paper, figure, ours, line.unit if line else "")
    for line in lines.values():
        recorded = Figure(what=line.what, printed=line.printed, source="recorded", ours=line.ours)
        yield compared(paper, recorded, line.interval(), line.unit)


def _corpus(run: Measured) -> str:
    name = run.corpus.partition(":")[0]
    return f"{run.asked} among {name}" if run.asked else name


def _heading(run: Measured) -> str:
    models = f", {', '.join(run.models)}" if run.models else ""
    return f"{run.experiment} on {_corpus(run)}{models}"


def _measured(paper: Paper, run: Measured) -> Iterator[str]:
    yield from (f"### {_heading(run)}", f"*{run.machine} · {run.date} · {run.commit}*", "")
    yield from (f"{cell(run.questions)}. Corpus: {run.corpus}.", "")
    rows = (row for row in beside(paper, run) if (row.printed, row.ours) != ("–", "–"))
    lines = ((row.what, row.printed, row.ours, row.interval, row.verdict or "–") for row in rows)
    yield from table("figure", "paper", "ours", "95 % interval", "claim", of=lines)
    repeated = paper.experiments.get(run.experiment)
    said = [*run.notes, *(repeated.deviations if repeated else ())]
    yield from (*(f"- {each}" for each in said), *([""] if said else []))
