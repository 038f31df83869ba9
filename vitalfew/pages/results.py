"""The page Results: the evaluations of a store, and the figures and plots of one.

Its views, by the parameters of the address: none, the list; `run`, an evaluation; with `view=questions`, its questions;
with `question`, one of them; with `other`, two evaluations or methods side by side.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl
from nicegui import ui

from vitalfew.flows.server.reports import report_path
from vitalfew.library.explorer import Explorer
from vitalfew.library.report import Report
from vitalfew.library.story import MethodStory, Story, StoryContext
from vitalfew.pages import parts, questions
from vitalfew.pages.addresses import go, link, parameters, results
from vitalfew.pages.questions import above, explored, filtered, judging_metric, pair
from vitalfew.pages.site import Site, View
from vitalfew.tasks.metrics.base import SCALE
from vitalfew.tasks.reports.advice import advice
from vitalfew.tasks.reports.shown.columns import figure, signed
from vitalfew.tasks.reports.shown.sections import first
from vitalfew.tasks.reports.shown.text import one_line, shortened

if TYPE_CHECKING:
    from vitalfew.tasks.reports.plots.drawing import Plot

_START = (
    "There is no evaluation yet. Start one on the page Corpora and indexes, or in a terminal: "
    "vitalfew evaluate quickstart --index NAME"
)


def view(given: Mapping[str, str]) -> View | None:
    """A view with its title; None for the list. That of an evaluation also has its name, once it is read."""
    if "run" not in given:
        return None
    if "question" in given:
        return f"Question {given['question']} of {given['run']}", lambda site: _draw_question(site, given)
    if given.get("view") == "questions":
        return f"Questions of {given['run']}", lambda site: questions.draw_list(site, given)
    if "other" in given:
        title = f"{given['other']} compared with {given['run']}"
        return title, lambda site: questions.draw_comparison(site, given)
    return f"Evaluation {given['run']}", lambda site: _evaluation(site, given)


_PART = "^gate/|/development$"
"""The names of evaluations that are a part of other work."""


def draw(site: Site) -> None:
    is_all = "all" in parameters()

    def drawn(runs: pl.DataFrame) -> None:
        if runs.is_empty():
            parts.hint(_START)
            return
        columns = [
            parts.Shown("name", "experiment", link=lambda row: results(run=row["run_id"])),
            *parts.states(said="state"),
            parts.Shown("started", "started (UTC)", lambda moment: f"{moment:%Y-%m-%d %H:%M:%S}"),
            *parts.numbers(parts.figure(), questions="questions", methods="methods"),
            *parts.texts(run_id="run"),
        ]
        own = runs if is_all else runs.filter(~pl.col("name").str.contains(_PART))
        parts.table("Evaluations", columns, own, "started", True)
        if hidden := len(runs) - len(own):
            parts.link(f"Show also {parts.count(hidden, 'run')} of gates and of tuning", results(all=1))
        if len(done := own.filter(state="completed")) > 1:
            _pick_two(done)

    parts.later(lambda: _evaluations(site), drawn)


def _evaluations(site: Site) -> pl.DataFrame:
    """The runs of evaluations, with their state and its reason in words; none where there is no store."""
    try:
        runs = site.store.runs()
    except FileNotFoundError:
        runs = pl.DataFrame(schema={"flow": pl.String, "state": pl.String, "error": pl.String})
    said = [
        f"{state}: {shortened(one_line(error), 300)}" if error else state
        for state, error in runs.select("state", "error").iter_rows()
    ]
    return runs.with_columns(pl.Series("said", said, pl.String)).filter(flow="evaluate")


def _pick_two(runs: pl.DataFrame) -> None:
    """Choose two evaluations, and compare them."""
    names = {run: f"{name}, {run}" for run, name in runs.select("run_id", "name").iter_rows()}
    again = runs.filter(pl.col("name").is_duplicated())  # of one experiment: what a change has done
    chosen = (again if len(again) else runs)["run_id"].head(2).to_list()
    parts.heading("Compare two evaluations")
    with parts.row():
        one, other = parts.Choice("A", names, chosen[1]), parts.Choice("B", names, chosen[0])
        parts.button("Compare", lambda: go("/results", run=one.value, other=other.value), "unelevated")


def _evaluation(site: Site, wanted: Mapping[str, str]) -> None:
    def read() -> tuple[Explorer, str, pl.DataFrame, pl.DataFrame]:
        explorer = site.explorer(wanted["run"])
        metric = wanted.get("metric") or explorer.primary or next(iter(explorer.metrics), "")
        judging = metric if metric in explorer.judging(detail=True) else explorer.primary
        key = "outcomes", explorer.run.run_id, judging
        return explorer, metric, explorer.figures, site.once(key, lambda: explorer.outcomes(judging))

    def draw(found: tuple[Explorer, str, pl.DataFrame, pl.DataFrame]) -> None:
        explorer, metric, figures, outcomes = found
        run = explorer.run
        parts.retitle(explorer.title)
        parts.hint(f"Experiment {one_line(run.name)}, run {run.run_id}, {run.started[:16].replace('T', ' ')} UTC")

        def report() -> Report:
            return site.once(("report", run.run_id), lambda: site.store.report(run.run_id))

        parts.later(report, _report, "Reading the report")
        _table(explorer, metric, figures, outcomes)
        parts.link("The whole report, with settings, costs and how to ask with SQL", report_path(run.run_id))
        parts.downloads(f"{run.run_id}-figures", lambda: figures)
        questions.draw_explorer(explorer, wanted)
        parts.folded("More plots", lambda: parts.later(lambda: report().plots[1:], _plots, "Drawing the plots"))

    parts.later(read, draw)


def _report(report: Report) -> None:
    """What a report begins with: the advice, and the sections that are not folded."""
    made = advice(report.results)
    for text, look in ((made.headline, "font-weight: 600"), (made.why, ""), (made.caveat, "font-style: italic")):
        if text:
            ui.label(text).classes("text").style(look)
    for place, section in enumerate(first(report.results)):
        if place == 1:
            parts.later(lambda: report.plots[:1], _plots, "Drawing the plot")
        parts.heading(section.title)
        for grid in section.grids:
            if grid.rows:
                parts.grid(section.title, grid)
        for line in section.lines:
            ui.label(line).classes("text")


def _table(explorer: Explorer, metric: str, figures: pl.DataFrame, outcomes: pl.DataFrame) -> None:
    """A row per method: a metric with its interval and its difference to the baseline, and the questions that it loses
    and wins."""
    parts.heading("Questions lost and won")
    metrics = sorted(explorer.metrics.items(), key=lambda own: own[1].detail)
    names = {name: f"{own.heading} ({own.unit}){', a detail' if own.detail else ''}" for name, own in metrics}
    if metric not in names:
        parts.hint(f"No question has a value of {metric!r}.")
        return
    with parts.row():
        parts.pick("Metric", "metric", names, metric, "/results", {"run": explorer.run.run_id})
    if said := questions.definition(explorer, metric):
        parts.hint(said)
    judging = metric if metric in explorer.judging(detail=True) else explorer.primary
    columns, rows = _columns(explorer, metric, judging), _rows(explorer, metric, figures, outcomes)
    parts.table(f"Methods by {explorer.metrics[metric].heading}", columns, rows)
    parts.hint(
        f"Intervals hold the true value in 95 of 100 samples. A difference is the method minus {explorer.baseline}, on "
        "the same questions. p is corrected for the number of comparisons (Holm), intervals are not. Lost: questions "
        f"that {explorer.baseline} answers right and the method wrong; won: the reverse."
    )


def _columns(explorer: Explorer, metric: str, judging: str | None) -> list[parts.Shown]:
    heading, unit = explorer.metrics[metric].heading, explorer.metrics[metric].unit
    base = {"run": explorer.run.run_id, "view": "questions", "method": explorer.baseline, "metric": judging or ""}

    def to_questions(cell: str) -> Callable[[Mapping[str, Any]], str]:
        return lambda row: results(base, other=row["method"], cell=cell)

    judged = explorer.metrics[judging].heading if judging else heading
    by = "" if judged == heading else f" by {judged}"
    return [
        parts.Shown("method", "method", one_line),
        parts.Shown("value", f"{heading} ({unit})", lambda value: figure(value, unit), True),
        parts.Shown("ends", "95 % interval", number=True, sortable=False),
        parts.Shown("difference", f"difference to {one_line(explorer.baseline)}", signed, True),
        parts.Shown("apart", "95 % interval of the difference", number=True, sortable=False),
        parts.Shown("p_holm", "p (Holm)", parts.p_value, True),
        parts.Shown("lost", f"questions lost{by}", parts.figure(), True, to_questions("one")),
        parts.Shown("won", f"questions won{by}", parts.figure(), True, to_questions("other")),
    ]


def _rows(explorer: Explorer, metric: str, figures: pl.DataFrame, outcomes: pl.DataFrame) -> list[dict[str, Any]]:
    def between(low: float | None, high: float | None, write: Callable[[float], str]) -> str:
        return "" if low is None or high is None else f"{write(low)} to {write(high)}"

    methods, unit = pl.DataFrame({"method": [*explorer.methods]}), explorer.metrics[metric].unit
    for own in (figures.filter(metric=metric), outcomes):
        methods = methods.join(own, "method", "left", maintain_order="left")
    return [
        row
        | {"ends": between(row["low"], row["high"], lambda value: figure(value, unit))}
        | {"apart": between(row["difference_low"], row["difference_high"], signed)}
        for row in methods.to_dicts()
    ]


def _plots(plots: "list[Plot]") -> None:
    from vitalfew.tasks.reports.plots.drawing import data_uri

    with parts.row("beside").style("--least: 30rem"):
        for plot in plots:
            with ui.element("figure").style("margin: 0"):
                image = ui.element("img").style("max-width: 100%; height: auto; border-radius: 4px")
                image.props["src"], image.props["alt"] = data_uri(plot.svg), plot.title
                parts.Words(f"{plot.title}. {plot.caption}", "figcaption").classes("hint")
    if not plots:
        parts.hint("The evaluation has no ground for a plot.")


def _draw_question(site: Site, wanted: Mapping[str, str]) -> None:
    """All of one question: what every method retrieved, kept and answered, and why."""
    above(wanted["run"], ("The questions", results(wanted, question="", view="questions")))

    def read() -> tuple[Explorer, Story, tuple[int | None, int | None]]:
        explorer = explored(site, wanted["run"])
        number = int(wanted["question"]) if wanted["question"].lstrip("-").isdecimal() else 0
        story = explorer.question(number)
        around = filtered(explorer, wanted).around(number) if judging_metric(explorer, wanted) else (None, None)
        return explorer, story, around

    def draw(found: tuple[Explorer, Story, tuple[int | None, int | None]]) -> None:
        explorer, story, (before, after) = found
        parts.heading(shortened(one_line(story.question[:2000]), 400)).classes("text").style("font-size: 1.25rem")
        if len(story.question) > 400:
            parts.long_text(story.question)
        around = (("← Question before", before), ("Next question →", after))
        parts.links(*((text, results(wanted, question=other)) for text, other in around if other is not None))
        parts.hint(
            f"Gold answers: {parts.cut(' | '.join(story.gold_answers)) or 'none'}. Data set: {one_line(story.source)}"
        )
        parts.hint(
            "Marked: what the prompt had of a passage; grey: what it left out; underlined: the sentence with the fact, "
            "where the data set names one. A passage without marks stood in the prompt as a whole."
        )
        if story.gold_passages:
            parts.folded(f"Gold passages ({len(story.gold_passages)})", lambda: _gold(story))
        _draw_methods(explorer, story, wanted)

    parts.later(read, draw)


def _gold(story: Story) -> None:
    for number in story.gold_passages:
        passage = story.passages.get(number)
        if passage is None:
            parts.hint("A gold passage is in no index of the store.")
        else:
            parts.passage(passage.title or "untitled", passage.text, None, passage.fact)


def _draw_methods(explorer: Explorer, story: Story, wanted: Mapping[str, str]) -> None:
    """The two methods of the address first, the others folded."""
    first = pair(explorer, wanted)
    told = sorted(story.methods, key=lambda own: first.index(own.method) if own.method in first else len(first))
    shown = [own for own in told if own.method in first]
    with parts.row("beside"):
        for own in shown:
            with parts.stack(0.5):
                parts.heading(f"{one_line(own.method)}: {_verdict(own)}", 3).classes("text")
                _draw_method(explorer, story, own)
    for own in told[len(shown) :]:
        label = f"{one_line(own.method)}: {_verdict(own)}. {shortened(parts.cut(own.answer), 100)}"
        parts.folded(label, partial(_draw_method, explorer, story, own))


def _verdict(own: MethodStory) -> str:
    if own.error:
        return "no answer"
    return "no verdict" if own.is_right is None else "right" if own.is_right else "wrong"


def _draw_method(explorer: Explorer, story: Story, own: MethodStory) -> None:
    with ui.element("div").classes("context"), parts.stack(0.5):
        parts.part("Answer", own.answer, "(no answer)")
        parts.part("Why", own.why)
        _values(explorer, own)
        for number, rank in own.gold_ranks.items():
            passage = story.passages.get(number)
            title = shortened(one_line(passage.title), 80) if passage else f"passage {number}"
            parts.Words(f"Gold passage “{title}”: {f'rank {rank}' if rank else 'not retrieved'}").classes("text")
        _contexts(story, own)
        parts.folded(f"Hits of the search ({len(own.hits)})", lambda: _hits(own))
        asked = link("/ask", question=story.question[:2000], method=f"{explorer.run.name}:{own.method}")
        parts.link("Ask this question now", asked)


def _values(explorer: Explorer, own: MethodStory) -> None:
    """Its metrics: those from 0 to 1, and the others with their units."""
    shares, others = [], []
    for name, column in explorer.metrics.items():
        value = own.values.get(name)
        if value is None or column.detail:
            continue
        said = f"{column.heading} {figure(value, column.unit)}"
        if column.unit == SCALE:
            shares.append(said)
        else:
            others.append(said if column.unit in column.heading else f"{said} {column.unit}")
    if shares:
        parts.hint(f"From 0 to 1: {' · '.join(shares)}")
    if others:
        parts.hint(" · ".join(others))


def _contexts(story: Story, own: MethodStory) -> None:
    """The contexts that come from a gold passage or hold a gold answer, and the others folded."""
    count = sum(context.tokens for context in own.contexts)
    parts.Words(f"The prompt had {len(own.contexts)} contexts, {count:,} words.").style("font-weight: 600")
    gold = {*story.gold_passages}
    first = [context for context in own.contexts if context.holds_answer or gold & {*context.sources}]
    others = [context for context in own.contexts if context not in first]
    _draw_contexts(story, first)
    if others:
        label = f"Contexts without a gold passage or a gold answer ({len(others)})"
        parts.folded(label, lambda: _draw_contexts(story, others))


def _draw_contexts(story: Story, contexts: Sequence[StoryContext]) -> None:
    for context in contexts:
        sources = [story.passages[number] for number in context.sources if number in story.passages]
        about = [f"Context {context.place}, {context.tokens:,} words"]
        about += ["from a gold passage"] if {*context.sources} & {*story.gold_passages} else []
        about += ["holds a gold answer"] if context.holds_answer else []
        parts.hint(f"{', '.join(about)}:")
        if context.kept and all(len(source.text) <= parts.LONG for source in sources):
            for source in sources:
                parts.passage(source.title or "untitled", source.text, context.kept[source.passage_id], source.fact)
        else:
            titles = ", ".join(dict.fromkeys(one_line(source.title) for source in sources))
            parts.Words(f"As it stood in the prompt{f'; from: {titles}' if titles else ''}").classes("text")
            parts.long_text(context.text)


def _hits(own: MethodStory) -> None:
    rows = [
        {**asdict(hit), "gold": ("gold, with the fact" if hit.has_fact else "gold") if hit.is_gold else ""}
        for hit in own.hits
    ]
    columns = [
        *parts.numbers(parts.figure(), rank="rank"),
        *parts.numbers(parts.figure(3), score="score (of the search)"),
        *parts.texts(gold="gold passage"),
        parts.Shown("title", "title", parts.cut),
        parts.Shown("text", "text", parts.cut),
    ]
    parts.table(f"Hits of {one_line(own.method)}", columns, rows, nothing="Nothing was retrieved.")
