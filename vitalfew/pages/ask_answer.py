"""An answer of the page Ask: its text, figures and contexts, and the same in Python and curl."""

import json
import shlex
from collections.abc import Sequence

from nicegui import ui

from vitalfew.flows.pipelines.answering import RagAnswer, RagContext, RagPassage
from vitalfew.pages import parts
from vitalfew.pages.answering import Answered, Asked
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
        of = [by_id[each] for each in dict.fromkeys(source.passage_id for source in context.sources) if each in by_id]
        with ui.element("div").classes("context"):
            score = "" if context.score is None else f", score {context.score:.3f}"
            verdict = ", dropped by the model" if not _is_kept(context, answer) else ""
            parts.hint(f"Context {number}: {context.tokens:,} tokens (words){score}{verdict}")
            if not of:  # a model wrote it
                parts.long_text(context.text)
            for passage in of:
                _passage(passage, _is_kept(context, answer))
    if dropped := [passage for passage in passages if not passage.kept]:
        _dropped(dropped)


def _is_kept(context: RagContext, answer: RagAnswer) -> bool:
    return answer.kept is None or context.rank in answer.kept


def _passage(passage: RagPassage, is_kept: bool = True) -> None:
    with ui.element("div").style("font-size: 0.9rem; font-weight: 600"):
        parts.Words(passage.title or "(no title)").classes("text")
    source = f"{passage.source_id} · " if passage.source_id else ""
    parts.hint(f"{source}best hit: rank {passage.rank}, score {passage.score:.3f}")
    parts.marked(passage.text, passage.kept if is_kept else ())


def _dropped(passages: Sequence[RagPassage]) -> None:
    parts.heading(f"{parts.count(len(passages), 'passage')} retrieved and dropped", 3)
    place = ui.element("div").style("display: grid; gap: 0.75rem")

    def show(start: int) -> None:
        with place:
            for passage in passages[start : start + AT_ONCE]:
                with ui.element("div").classes("context"):
                    _passage(passage)
            if (left := len(passages) - start - AT_ONCE) > 0:
                parts.further(f"Show more ({left:,} are left)", lambda: show(start + AT_ONCE))

    with place:
        parts.further("Show them", lambda: show(0))


def _elsewhere(site: Site, asked: Asked) -> None:
    """The same answer in Python, and from a server."""
    with ui.element("details"):
        parts.Words("The same in Python and curl", "summary")
        for name, text in (("Python", _python(str(site.place), asked)), ("curl", _curl(str(site.place), asked))):
            with ui.element("div").classes("row").style("justify-content: space-between; margin-top: 0.5rem"):
                parts.Words(name)
                copied = f"() => navigator.clipboard.writeText({_script(text)})"
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


def _script(text: str) -> str:
    """A text as a literal of JavaScript."""
    return json.dumps(text).replace("<", "\\u003c")
