"""Views of the page Results: the questions of an evaluation by who is right, and all of one question."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
from nicegui import ui

from vitalfew.library.explored import RIGHT, QuestionFilter
from vitalfew.library.explorer import Explorer
from vitalfew.library.story import MethodStory, SourcePassage, Story, StoryContext
from vitalfew.pages import addresses, parts
from vitalfew.pages.addresses import changed, going, results
from vitalfew.pages.site import Site
from vitalfew.tasks.metrics.base import SCALE
from vitalfew.tasks.reports.shown.columns import figure
from vitalfew.tasks.reports.shown.text import one_line, shortened

CELLS = {"both": (True, True), "one": (True, False), "other": (False, True), "neither": (False, False)}
"""By the parameter `cell`: whether the first and the second method are right."""
_STYLE = """
.cells { display: flex; flex-wrap: wrap; gap: 0.5rem }
.cells a { color: inherit; text-decoration: none; padding: 0.4rem 0.75rem; border-radius: 4px;
  border: 1px solid color-mix(in srgb, currentColor 45%, transparent) }
.cells a[aria-current] { outline: 3px solid #1d4ed8; font-weight: 600 }
.method { border-left: 3px solid color-mix(in srgb, currentColor 35%, transparent); padding-left: 0.75rem }
.beside { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)) }
"""
_CUT = 200
"""Characters of a text in a table."""


def _cut(text: str | None) -> str:
    return shortened(one_line((text or "")[: 4 * _CUT]), _CUT)


def _pair(explorer: Explorer, wanted: Mapping[str, str]) -> tuple[str, str]:
    """The two methods of the address: the baseline, and the first other one, where it names none."""
    names = [*explorer.methods]
    one = wanted.get("method") or explorer.baseline
    return one, wanted.get("other") or next((name for name in names if name != one), "")


def _metric(explorer: Explorer, wanted: Mapping[str, str]) -> str:
    judging = explorer.judging()
    fallback = explorer.primary if explorer.primary in judging else next(iter(judging), "")
    named = wanted.get("metric", "")
    return named if named in explorer.judging(detail=True) else fallback or ""


def _filter(explorer: Explorer, wanted: Mapping[str, str]) -> QuestionFilter:
    one, other = _pair(explorer, wanted)
    right, other_right = CELLS.get(wanted.get("cell", ""), (None, None))
    return explorer.questions(
        one, other, metric=_metric(explorer, wanted), right=right, other_right=other_right if other else None,
        source=wanted.get("source", ""), containing=wanted.get("text", ""),
    )  # fmt: skip


def draw_explorer(explorer: Explorer, wanted: Mapping[str, str]) -> None:
    """Choose two methods and a metric, and see on how many questions which of them is right; a click lists them."""
    ui.add_css(_STYLE)
    parts.heading("Questions: who is right, and who is not")
    if not _metric(explorer, wanted):
        parts.hint("No metric of this evaluation says of a question how right its answer is.")
        return
    base = {**wanted, "run": explorer.run.run_id, "view": "questions"}
    base.pop("question", None)
    _controls(explorer, base, is_listed="view" in wanted)

    def draw(found: tuple[pl.DataFrame, list[str]]) -> None:
        _draw_cells(base, found[0], is_listed="view" in wanted)
        _draw_sources(base, found[1])

    parts.later(
        lambda: (_filter(explorer, base).cells(), explorer.sources()),
        draw,
        "Counting",
    )


def _controls(explorer: Explorer, base: Mapping[str, str], is_listed: bool) -> None:
    one, other = _pair(explorer, base)
    names = {name: one_line(name) for name in explorer.methods}
    metrics = explorer.judging() | explorer.judging(detail=True)
    metric = _metric(explorer, base)

    def go(**given: str) -> None:
        going(**changed(base, **{"method": one, "other": other, "metric": metric, **given}))

    with ui.element("div").classes("row"):
        parts.choice("Method A", names, one, lambda value: go(method=value))
        parts.choice("Method B", names, other, lambda value: go(other=value))
        parts.choice("Metric that says who is right", metrics, metric, lambda value: go(metric=value))
        with ui.element("label").classes("field"):
            parts.Words("Words in the question, then Enter")
            made = ui.element("input").props("type=search").mark("Words in the question")
            made.props["value"] = base.get("text", "")
            made.on("change", lambda event: go(text=event.args), js_handler="event => emit(event.target.value)")
    heading = explorer.metrics[metric].heading
    defined = definition(explorer, metric) if is_listed else ""  # else it stands above
    parts.hint(f"Right: {heading} is at least {RIGHT:g}, on a scale from 0 to 1. {defined}")
    run = explorer.run.run_id
    parts.link(
        "All metrics of A and B, with the interval of their difference",
        results(run=f"{run}:{one}", other=f"{run}:{other}"),
    )


def definition(explorer: Explorer, metric: str) -> str:
    """A sentence that says how a metric is defined, if one does."""
    about = explorer.meaning(metric).replace("`", "")
    return (
        f"{explorer.metrics[metric].heading[:1].upper()}{explorer.metrics[metric].heading[1:]}: {about}"
        if about
        else ""
    )


def _draw_cells(base: Mapping[str, str], cells: pl.DataFrame, is_listed: bool) -> None:
    counted = {(left, right): count for left, right, count in cells.rows()}
    unknown = sum(count for (left, right), count in counted.items() if left is None or right is None)
    texts = {
        "one": "only A right",
        "other": "only B right",
        "both": "both right",
        "neither": "both wrong",
    }
    with ui.element("nav").props('aria-label="Questions by who is right"').classes("cells"):
        for cell, text in {**texts, "": "all"}.items():
            count = counted.get(CELLS[cell], 0) if cell else cells["questions"].sum()
            made = parts.Words(f"{text}: {count:,}", "a").classes("text")
            made.props["href"] = results(**changed(base, cell=cell))
            if is_listed and base.get("cell", "") == cell:
                made.props["aria-current"] = "true"
    if unknown:
        parts.hint(f"{unknown:,} questions have no value of the metric for one of the two, and are in none but all.")


def _draw_sources(base: Mapping[str, str], sources: list[str]) -> None:
    if len(sources) > 1:
        names = {"": "all"} | {source: one_line(source) for source in sources}
        parts.choice("Data set", names, base.get("source", ""), lambda value: going(**changed(base, source=value)))


def draw_list(site: Site, wanted: Mapping[str, str]) -> None:
    """The questions that fit the address."""
    parts.trail([("All evaluations", results()), ("The evaluation", results(run=wanted["run"]))])

    def draw(explorer: Explorer) -> None:
        draw_explorer(explorer, wanted)
        if not _metric(explorer, wanted):
            return
        fitting = _filter(explorer, wanted)
        question_table(
            fitting,
            lambda row: results(**changed(wanted, question=row["question_id"])),
            explorer.metrics[fitting.metric].unit,
        )
        parts.downloads(f"{explorer.run.run_id}-questions", lambda: flat(fitting.pl()))

    parts.later(lambda: _explored(site, wanted["run"]), draw)


def _explored(site: Site, run: str) -> Explorer:
    """An evaluation whose metrics are read. Raises NoReport."""
    explorer = site.explorer(run)
    _ = explorer.metrics
    return explorer


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Questions for a file: gold answers in one text."""
    return frame.with_columns(pl.col("gold_answers").list.join(" | "))


def question_table(
    fitting: QuestionFilter,
    link: Any,
    unit: str,
    second: str = "",
    nothing: str = "No question fits: choose another kind above, or other words.",
) -> None:
    """A page at a time of the questions, both answers and both values. `second`: the run of B where it is another."""
    names = [shortened(one_line(side.name), 30) for side in fitting.sides]
    columns = [
        parts.Shown("question", "question", _cut, link=link),
        parts.Shown("gold_answers", "gold answers", lambda texts: _cut(" | ".join(texts)), sortable=False),
        parts.Shown("answer", f"answer of A: {names[0]}", _cut, sortable=False),
        parts.Shown("value", f"A ({unit})", lambda value: figure(value, unit), True),
    ]
    if len(names) > 1:
        columns += [
            parts.Shown("other_answer", f"answer of B: {names[1]}", _cut, sortable=False),
            parts.Shown("other_value", f"B ({unit})", lambda value: figure(value, unit), True),
        ]

    if second:

        def to_second(row: Mapping[str, Any]) -> str:
            return results(run=second, question=row["question_id"], method=fitting.sides[1].name)

        columns.append(parts.Shown("source", "in the run of B", lambda _: "open", link=to_second, sortable=False))

    def read(wanted: parts.Slice) -> tuple[parts.Rows, int]:
        order, down = (wanted.order, wanted.descending) if wanted.order else ("difference", True)
        return fitting.pl(order, down, wanted.limit, wanted.offset).to_dicts(), len(fitting)

    parts.table("Questions", columns, read, nothing=nothing)


def draw_question(site: Site, wanted: Mapping[str, str]) -> None:
    """All of one question: what every method retrieved, kept and answered, and why."""
    ui.add_css(_STYLE)
    listed = changed(wanted, question=None, view="questions")
    above = [("All evaluations", results()), ("The evaluation", results(run=wanted["run"]))]
    parts.trail([*above, ("The questions", results(**listed))])

    def read() -> tuple[Explorer, Story, tuple[int | None, int | None]]:
        explorer = _explored(site, wanted["run"])
        number = int(wanted["question"]) if wanted["question"].lstrip("-").isdecimal() else 0
        story = explorer.question(number)
        around = _filter(explorer, wanted).around(number) if _metric(explorer, wanted) else (None, None)
        return explorer, story, around

    def draw(found: tuple[Explorer, Story, tuple[int | None, int | None]]) -> None:
        explorer, story, (before, after) = found
        ui.label(shortened(one_line(story.question[:2000]), 400)).classes("text").props(
            'role="heading" aria-level="2"'
        ).style("font-size: 1.25rem; font-weight: 600; line-height: 1.4")
        if len(story.question) > 400:
            parts.long_text(story.question)
        with ui.element("div").classes("row"):
            for text, other in (("← Question before", before), ("Next question →", after)):
                if other is not None:
                    parts.link(text, results(**changed(wanted, question=other)))
        parts.hint(
            f"Gold answers: {_cut(' | '.join(story.gold_answers)) or 'none'}. Data set: {one_line(story.source)}"
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
            _passage(passage, None)


def _draw_methods(explorer: Explorer, story: Story, wanted: Mapping[str, str]) -> None:
    """The two methods of the address first, the others folded."""
    first = _pair(explorer, wanted)
    told = sorted(story.methods, key=lambda own: first.index(own.method) if own.method in first else len(first))
    shown = [own for own in told if own.method in first]
    with ui.element("div").classes("beside"):
        for own in shown:
            with ui.column().style("gap: 0.5rem; align-items: stretch; min-width: 0"):
                made = ui.label(f"{one_line(own.method)}: {_verdict(own)}").classes("text")
                made.props('role="heading" aria-level="3"').style("font-size: 1.1rem; font-weight: 600")
                _draw_method(explorer, story, own)
    for own in told[len(shown) :]:
        label = f"{one_line(own.method)}: {_verdict(own)}. {shortened(_cut(own.answer), 100)}"
        parts.folded(label, partial(_draw_method, explorer, story, own))


def _verdict(own: MethodStory) -> str:
    if own.error:
        return "no answer"
    return "no verdict" if own.is_right is None else "right" if own.is_right else "wrong"


def _draw_method(explorer: Explorer, story: Story, own: MethodStory) -> None:
    with ui.element("div").classes("method"), ui.column().classes("w-full").style("gap: 0.5rem; align-items: stretch"):
        with ui.element("div"):
            parts.Words("Answer: ").style("font-weight: 600")
            parts.long_text(own.answer, "(no answer)")
        with ui.element("div"):
            parts.Words("Why: ").style("font-weight: 600")
            parts.Words(own.why).classes("text")
        _values(explorer, own)
        for number, rank in own.gold_ranks.items():
            passage = story.passages.get(number)
            title = shortened(one_line(passage.title), 80) if passage else f"passage {number}"
            parts.Words(f"Gold passage “{title}”: {f'rank {rank}' if rank else 'not retrieved'}").classes("text")
        _contexts(story, own)
        parts.folded(f"Hits of the search ({len(own.hits)})", lambda: _hits(own))
        parts.link("Ask this question now", addresses.ask(story.question[:2000], f"{explorer.run.name}:{own.method}"))


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
    for context in first:
        _context(story, context)
    if others:
        label = f"Contexts without a gold passage or a gold answer ({len(others)})"

        def draw() -> None:
            for context in others:
                _context(story, context)

        parts.folded(label, draw)


def _context(story: Story, context: StoryContext) -> None:
    sources = [story.passages[number] for number in context.sources if number in story.passages]
    about = [f"Context {context.place}, {context.tokens:,} words"]
    about += ["from a gold passage"] if {*context.sources} & {*story.gold_passages} else []
    about += ["holds a gold answer"] if context.holds_answer else []
    parts.hint(f"{', '.join(about)}:")
    if context.kept and all(len(source.text) <= parts.LONG for source in sources):
        for source in sources:
            _passage(source, context.kept[source.passage_id])
    else:
        _as_written(context, sources)


def _passage(passage: SourcePassage, spans: Sequence[tuple[int, int]] | None) -> None:
    """A passage with these spans marked, or all of it without marks; the sentence with the fact is underlined."""
    is_whole = spans is None or any(start <= 0 and end >= len(passage.text.rstrip()) for start, end in spans)
    with ui.element("div"):
        title = f"{passage.title or 'untitled'}{' (the whole passage)' if is_whole else ''}"
        parts.Words(title).classes("text").style("font-weight: 600")
        parts.marked(passage.text, None if is_whole else spans, passage.fact)


def _as_written(context: StoryContext, sources: list[SourcePassage]) -> None:
    titles = ", ".join(dict.fromkeys(one_line(source.title) for source in sources))
    parts.Words(f"As it stood in the prompt{f'; from: {titles}' if titles else ''}").classes("text")
    parts.long_text(context.text)


def _hits(own: MethodStory) -> None:
    rows = [
        {
            "rank": hit.rank,
            "score": hit.score,
            "title": hit.title,
            "text": hit.text,
            "gold": "gold, with the fact" if hit.is_gold and hit.has_fact else "gold" if hit.is_gold else "",
        }
        for hit in own.hits
    ]
    columns = [
        parts.Shown("rank", "rank", number=True),
        parts.Shown("score", "score (of the search)", parts.figure(3), True),
        parts.Shown("gold", "gold passage"),
        parts.Shown("title", "title", _cut),
        parts.Shown("text", "text", _cut),
    ]
    nothing = "Nothing was retrieved."
    parts.frame_table(f"Hits of {one_line(own.method)}", columns, pl.DataFrame(rows), nothing=nothing)
