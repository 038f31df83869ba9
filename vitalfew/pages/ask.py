"""The page Ask: one question, one to four methods side by side.

The address has the question, the methods and the index (`?question=…&method=…&method=…&index=…`), so that it can be
shared. Answers come from `answering`.
"""

import asyncio
import json
import shlex
from collections.abc import Sequence

from nicegui import ui
from nicegui.events import GenericEventArguments

from vitalfew.configs.schema import METHOD
from vitalfew.flows.pipelines.answering import RagAnswer, RagPassage
from vitalfew.library.askable import Askable
from vitalfew.pages import parts
from vitalfew.pages.addresses import link, results
from vitalfew.pages.answering import STOPPED, Answered, Asked, Refused
from vitalfew.pages.site import Site

AT_ONCE = 10
"""Dropped passages that are shown at once."""


def draw_answer(site: Site, asked: Asked, found: Answered) -> None:
    answer = found.answer
    if answer.error:
        parts.problem(f"No answer: {answer.error}")
    else:
        with ui.element("div").classes("answer"):
            parts.long_text(answer.text)
    _figures(answer)
    _elsewhere(site, asked)
    _contexts(answer, found.passages)


def _figures(answer: RagAnswer) -> None:
    slowest = max(answer.seconds, key=lambda step: answer.seconds[step])
    rows = {
        "context, tokens (words)": f"{answer.context_tokens:,}",
        "saved against whole passages, tokens (words)": f"{answer.tokens_saved:,}",
        "prompt, the model's tokens": f"{answer.prompt_tokens:,}",
        "answer, the model's tokens": f"{answer.completion_tokens:,}",
        f"seconds (most of them: {slowest})": f"{sum(answer.seconds.values()):.2f}",
        "USD, of machine and servers": parts.usd(answer.usd),
    }
    with ui.element("dl").classes("figures"):
        for name, value in rows.items():
            parts.Words(name, "dt")
            parts.Words(value, "dd")


def _contexts(answer: RagAnswer, passages: Sequence[RagPassage]) -> None:
    by_id = {passage.passage_id: passage for passage in passages}
    parts.heading(f"It read {parts.count(len(answer.contexts), 'context')}", 3)
    if answer.kept is not None:
        parts.hint(
            f"The model rated them while it read them, and answered from the {len(answer.kept):,} that it kept in its "
            "cache. The tokens above count all of them."
        )
    for number, context in enumerate(answer.contexts, 1):
        is_kept = answer.kept is None or context.rank in answer.kept
        of = [by_id[each] for each in dict.fromkeys(source.passage_id for source in context.sources) if each in by_id]
        with ui.element("div").classes("context"):
            score = "" if context.score is None else f", score {context.score:.3f}"
            verdict = "" if is_kept else ", dropped by the model"
            parts.hint(f"Context {number}: {context.tokens:,} tokens (words){score}{verdict}")
            if not of:  # a model wrote it
                parts.long_text(context.text)
            for passage in of:
                _passage(passage, is_kept)
    if dropped := [passage for passage in passages if not passage.kept]:
        parts.heading(f"{parts.count(len(dropped), 'passage')} retrieved and dropped", 3)
        with ui.element("div").style("display: grid; gap: 0.75rem") as place:
            parts.further("Show them", lambda: _dropped(place, dropped))


def _passage(passage: RagPassage, is_kept: bool = True) -> None:
    source = f"{passage.source_id} · " if passage.source_id else ""
    about = f"{source}best hit: rank {passage.rank}, score {passage.score:.3f}"
    parts.passage(passage.title, passage.text, passage.kept if is_kept else (), about=about)


def _dropped(place: ui.element, passages: Sequence[RagPassage]) -> None:
    with place:
        for passage in passages[:AT_ONCE]:
            with ui.element("div").classes("context"):
                _passage(passage)
        if left := passages[AT_ONCE:]:
            parts.further(f"Show more ({len(left):,} are left)", lambda: _dropped(place, left))


def _elsewhere(site: Site, asked: Asked) -> None:
    """The same answer in Python, and from a server."""
    with ui.element("details"):
        parts.Words("The same in Python and curl", "summary")
        for name, text in (("Python", _python(str(site.place), asked)), ("curl", _curl(str(site.place), asked))):
            with parts.row().style("justify-content: space-between; margin-top: 0.5rem"):
                parts.Words(name)
                literal = json.dumps(text).replace("<", "\\u003c")
                copied = f"() => navigator.clipboard.writeText({literal})"
                ui.button("Copy").props(f'flat dense no-caps aria-label="Copy {name}"').on("click", js_handler=copied)
            with ui.element("pre"):
                parts.Words(text, "code").classes("text")


def _python(store: str, asked: Asked) -> str:
    index = f", index={asked.index!r}" if asked.index else ""
    usd = f", max_usd={asked.max_usd!r}" if asked.max_usd else ""
    own = {"alpha": asked.alpha, "max_tokens": asked.max_tokens}
    settings = "".join(f", {name}={value!r}" for name, value in own.items() if value is not None)
    return (
        f"import vitalfew as vf\n\nrag = vf.Store({store!r}).rag({asked.method!r}{index}{usd})\n"
        f"print(rag.answer({asked.question!r}{settings}))"
    )


def _curl(store: str, asked: Asked) -> str:
    own = {"retrieve.alpha": asked.alpha, "refine.max_tokens": asked.max_tokens}
    given = [asked.method, *(["--index", asked.index] if asked.index else [])]
    given += [part for name, value in own.items() if value is not None for part in ("--set", f"{name}={value}")]
    given += ["--max-usd", f"{asked.max_usd:g}"] if asked.max_usd else []
    body = json.dumps({"question": asked.question}, ensure_ascii=False)
    return (
        f"vitalfew serve {shlex.join([*given, '--store', store])}\n"
        "# in another terminal, when it is ready:\n"
        f"curl http://127.0.0.1:8765/answer -H 'Content-Type: application/json' -d {shlex.quote(body)}"
    )


MOST = 4
"""Methods side by side."""
FIRST = ("naive RAG", METHOD.partition(":")[2], "ParetoRAG")
"""The methods of the latest evaluation that a page begins with, where they are there."""
PAUSE = 0.2
"""Seconds that a slider rests before the question is asked again."""
_SLIDERS = {
    "alpha": "alpha {:.2f}: weight of the sentence itself against its context",
    "max_tokens": "at most {:,.0f} tokens (words) of context",
}
_DRAFT = "vitalfew.question"
_KEEP = f"text => localStorage.setItem('{_DRAFT}', JSON.stringify([location.search, text]))"
_RESTORE = f"""
const input = document.querySelector('.question input');
const [at, text] = JSON.parse(localStorage.getItem('{_DRAFT}') ?? '["", ""]');
if (text && at === location.search && document.activeElement !== input) {{
  input.value = text;
  input.dispatchEvent(new Event('input', {{bubbles: true}}));
}}
"""
"""Puts the draft of this address back, unless somebody types already."""
_NOTHING = (
    "This store has no index yet, so there is nothing to search. Index a folder of documents on the page Corpora "
    "and indexes, or run in a terminal: vitalfew start FOLDER, or vitalfew index folder:FOLDER --name NAME"
)


def draw(site: Site) -> None:
    asked = ui.context.client.request.query_params
    question, index, methods = asked.get("question", ""), asked.get("index", ""), asked.getlist("method")

    def drawn(found: tuple[list[str], list[Askable]]) -> None:
        indexes, known = found
        if indexes:
            Page(site, indexes, known, question, index, methods[:MOST]).draw()
        else:
            parts.hint(_NOTHING)
            parts.link("Corpora and indexes", link("/corpora"))

    parts.later(lambda: (site.store.indexes(), site.store.methods()), drawn)


class Page:
    """The page of one browser. `known`: the methods of the store; `question`, `index`, `methods`: of its address."""

    def __init__(
        self, site: Site, indexes: list[str], known: list[Askable], question: str, index: str, methods: list[str]
    ) -> None:
        self.site, self.indexes, self.known, self.question = site, indexes, known, question
        evaluated = (each.index for each in known if each.index in indexes)
        self.index = index or next(evaluated, indexes[0])
        self.methods = methods

    def _first(self) -> list[str]:
        options = self.options()
        usual = [name for name in options if name.partition(":")[2] in FIRST]
        latest = [name for name in usual if name.partition(":")[0] == usual[0].partition(":")[0]]
        return latest or [*options][:1]

    def options(self) -> dict[str, Askable]:
        """The methods that the index can be asked by, those that were evaluated on it first."""
        options: dict[str, Askable] = {}
        for each in self.known:
            if each.index in ("", self.index):
                options.setdefault(each.name, each)
        return options

    def draw(self) -> None:
        with parts.row():
            box = ui.input("Question", value=self.question).classes("question").style("flex: 1 1 20rem")
            box.props("outlined maxlength=20000").on("keydown.enter", lambda: self.ask(box.value))
            box.on("update:model-value", js_handler=_KEEP)
            if self.index not in self.indexes:
                self.indexes.append(self.index)  # of the address; to ask it says what there is
            parts.Choice("Index", {name: name for name in self.indexes}, self.index, self._choose_index)
            parts.button("Ask", lambda: self.ask(box.value), "unelevated")
            self.add = parts.button("Add a method", self._add)
        self.place = ui.element("div").classes("methods")
        with self.place:
            self.columns = [Column(self, method) for method in self.methods or self._first()]
        self._settle()
        ui.run_javascript(_RESTORE)
        if self.question.strip():
            ui.timer(0, lambda: self.ask(self.question), once=True)

    async def ask(self, question: str) -> None:
        """Ask all methods; they answer in turn."""
        self.question = question
        if not question.strip():
            ui.notify("Type a question first.")
            return
        ui.run_javascript(f"localStorage.removeItem('{_DRAFT}')")
        self._settle()
        await asyncio.gather(*(column.ask() for column in self.columns))

    async def _choose_index(self, index: str) -> None:
        self.index = index
        for column in self.columns:
            column.draw()
        self._settle()
        await asyncio.gather(*(column.ask() for column in self.columns))

    async def _add(self) -> None:
        taken = {column.method for column in self.columns}
        free = [name for name in self.options() if name not in taken]
        with self.place:
            column = Column(self, (free or [*self.options()])[0])
        self.columns.append(column)
        self._settle()
        await column.ask()

    def remove(self, column: "Column") -> None:
        self.columns.remove(column)
        column.number += 1
        column.place.delete()
        self._settle()

    def _settle(self) -> None:
        """Let the address and the buttons say what there is."""
        self.add.set_visibility(len(self.columns) < MOST)
        for column in self.columns:
            column.removing.set_visibility(len(self.columns) > 1)
        if self.question:
            with self.place:  # the handler that runs may belong to a column that is removed by now
                methods = [column.method for column in self.columns]
                ui.navigate.history.replace(link("/ask", question=self.question, method=methods, index=self.index))


class Column:
    """A method of a page, its settings and its answer."""

    def __init__(self, page: Page, method: str) -> None:
        self.page, self.method = page, method
        self.number = 0
        """The number of the latest question; earlier ones that still wait are no longer wanted."""
        self.place = ui.element("section").classes("method")
        self.draw()

    def draw(self) -> None:
        """Draw it as it is before its first answer."""
        self.number += 1
        self.alpha: float | None = None
        self.max_tokens: int | None = None
        self.max_usd = 0.0
        self.there: Answered | None = None
        self.about: ui.label | None = None
        options = self.page.options()
        names = {name: name.partition(":")[2] or name for name in (*options, self.method)}

        def experiment(name: str) -> str:
            evaluated = name in options and options[name].run
            return name.partition(":")[0] + (", evaluated" if evaluated else "")

        with parts.anew(self.place):
            with parts.row().style("flex-wrap: nowrap; justify-content: space-between"):
                parts.Choice("Method", names, self.method, self._choose, experiment)
                self.removing = parts.button("Remove", lambda: self.page.remove(self), "flat dense")
            self._describe(options.get(self.method))
            self.settings = ui.element("div").classes("settings").style("display: grid; gap: 0.5rem")
            self.result = ui.element("div").style("display: grid; gap: 0.75rem; min-width: 0").props("aria-live=polite")

    def _describe(self, known: Askable | None) -> None:
        if known is None:
            return
        experiment, _, method = known.name.partition(":")
        with ui.element("div").classes("hint"):
            parts.Words(f"{experiment}: ").classes("text")
            if known.run:
                parts.link("its evaluation", results(run=known.run, method=method))
            else:
                parts.Words("not evaluated on this index")
            self.about = ui.label(known.about).classes("text")

    async def _choose(self, method: str) -> None:
        self.method = method
        self.draw()
        self.page._settle()
        await self.ask()

    def asked(self) -> Asked:
        known = self.page.options().get(self.method)
        retrieves = known is None or known.index or not known.run
        index = self.page.index if retrieves else None
        return Asked(self.page.question, self.method, index, self.alpha, self.max_tokens, self.max_usd)

    async def ask(self) -> None:
        if not self.page.question.strip():
            return
        self.number += 1
        number, answers = self.number, self.page.site.answers
        asked = self.asked()
        if self.there is None:
            with parts.anew(self.result):
                parts.waiting("Loading models, and answering" if answers.pid is None else "Answering")
                parts.button("Stop", lambda: self._stop(asked), "flat dense")
        else:
            self.result.classes("dropped")
        found = await answers.answer(asked, lambda: number == self.number)
        if found is None or number != self.number or self.place.is_deleted:
            return
        self._show(found, asked)

    def _stop(self, asked: Asked) -> None:
        if not self.page.site.answers.stop(asked):  # it waits for its turn
            self.number += 1
            self._show(Refused(STOPPED), asked)

    def _show(self, found: Answered | Refused, asked: Asked) -> None:
        self.result.classes(remove="dropped").clear()
        if isinstance(found, Refused):
            self.there = None
            with self.result:
                parts.problem(found.reason, None if found.costs else self.ask)
                if found.costs:
                    self._cap()
            return
        if self.there is None:
            self._sliders(found)
        self.there = found
        known = self.page.options().get(self.method)
        if known and self.about:
            alpha = found.alpha if asked.alpha is None else asked.alpha
            self.about.set_text(known.described(alpha, asked.max_tokens or found.max_tokens))
        with self.result:
            draw_answer(self.page.site, asked, found)

    def _cap(self) -> None:
        """Ask how much an answer may cost; the default spends nothing."""
        box = ui.number("Most that this answer may cost (USD)", value=self.max_usd or None, min=0, format="%.4f")
        box.props("outlined dense").style("max-width: 20rem")

        async def again() -> None:
            self.max_usd = max(0.0, float(box.value or 0))
            await self.ask()

        parts.button("Ask, and pay at most this", again, "outline dense")

    def _sliders(self, found: Answered) -> None:
        with parts.anew(self.settings):
            if found.alpha is not None:
                value = found.alpha if self.alpha is None else self.alpha
                self._slider("alpha", value, (0, 1, 0.05))
            if found.max_tokens is not None:
                most = max(600, 2 * found.max_tokens)
                self._slider("max_tokens", self.max_tokens or found.max_tokens, (10, most, 10))

    def _slider(self, name: str, value: float, bounds: tuple[float, float, float]) -> None:
        """A slider of the browser for a setting; the question is asked again when it rests."""
        with ui.element("label").classes("field"):
            label = parts.Words(_SLIDERS[name].format(value))
            made = ui.element("input").mark(name)
            made.props["type"] = "range"
            made.props.update(zip(("min", "max", "step"), bounds, strict=True))
            made.props["^value"] = value  # the attribute, where it begins; the property is the user's

        async def moved(event: GenericEventArguments) -> None:
            setattr(self, name, type(value)(event.args))
            label.set_text(_SLIDERS[name].format(event.args))
            self.number += 1
            number = self.number
            await asyncio.sleep(PAUSE)
            if number == self.number:
                await self.ask()

        made.on("input", moved, js_handler="event => emit(Number(event.target.value))")
