"""A view of the page Results: all of one question, with what every method retrieved, kept and answered."""

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl
from nicegui import ui

from vitalfew.library.explorer import Explorer
from vitalfew.library.story import MethodStory, SourcePassage, Story, StoryContext
from vitalfew.pages import addresses, parts
from vitalfew.pages.addresses import changed, results
from vitalfew.pages.questions import above, cut, explored, filtered, judging_metric, pair
from vitalfew.pages.site import Site
from vitalfew.tasks.metrics.base import SCALE
from vitalfew.tasks.reports.shown.columns import figure
from vitalfew.tasks.reports.shown.text import one_line, shortened

_STYLE = """
.method { border-left: 3px solid color-mix(in srgb, currentColor 35%, transparent); padding-left: 0.75rem }
.beside { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)) }
"""


def draw(site: Site, wanted: Mapping[str, str]) -> None:
    """All of one question: what every method retrieved, kept and answered, and why."""
    ui.add_css(_STYLE)
    listed = changed(wanted, question=None, view="questions")
    above(wanted["run"], ("The questions", results(**listed)))

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
        with ui.element("div").classes("row"):
            for text, other in (("← Question before", before), ("Next question →", after)):
                if other is not None:
                    parts.link(text, results(**changed(wanted, question=other)))
        parts.hint(f"Gold answers: {cut(' | '.join(story.gold_answers)) or 'none'}. Data set: {one_line(story.source)}")
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
    first = pair(explorer, wanted)
    told = sorted(story.methods, key=lambda own: first.index(own.method) if own.method in first else len(first))
    shown = [own for own in told if own.method in first]
    with ui.element("div").classes("beside"):
        for own in shown:
            with parts.stack(0.5):
                made = parts.heading(f"{one_line(own.method)}: {_verdict(own)}", 3)
                made.classes("text").style("font-size: 1.1rem")
                _draw_method(explorer, story, own)
    for own in told[len(shown) :]:
        label = f"{one_line(own.method)}: {_verdict(own)}. {shortened(cut(own.answer), 100)}"
        parts.folded(label, partial(_draw_method, explorer, story, own))


def _verdict(own: MethodStory) -> str:
    if own.error:
        return "no answer"
    return "no verdict" if own.is_right is None else "right" if own.is_right else "wrong"


def _draw_method(explorer: Explorer, story: Story, own: MethodStory) -> None:
    with ui.element("div").classes("method"), parts.stack(0.5):
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
        return
    titles = ", ".join(dict.fromkeys(one_line(source.title) for source in sources))
    parts.Words(f"As it stood in the prompt{f'; from: {titles}' if titles else ''}").classes("text")
    parts.long_text(context.text)


def _passage(passage: SourcePassage, spans: Sequence[tuple[int, int]] | None) -> None:
    """A passage with these spans marked, or all of it without marks; the sentence with the fact is underlined."""
    is_whole = spans is None or any(start <= 0 and end >= len(passage.text.rstrip()) for start, end in spans)
    with ui.element("div"):
        title = f"{passage.title or 'untitled'}{' (the whole passage)' if is_whole else ''}"
        parts.Words(title).classes("text").style("font-weight: 600")
        parts.marked(passage.text, None if is_whole else spans, passage.fact)


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
        *parts.numbers(parts.figure(), rank="rank"),
        *parts.numbers(parts.figure(3), score="score (of the search)"),
        *parts.texts(gold="gold passage"),
        parts.Shown("title", "title", cut),
        parts.Shown("text", "text", cut),
    ]
    parts.frame_table(f"Hits of {one_line(own.method)}", columns, pl.DataFrame(rows), nothing="Nothing was retrieved.")
