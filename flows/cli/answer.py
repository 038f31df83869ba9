"""The commands `answer` and `mcp`: answers of an evaluated method at a terminal, and tools for agents."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from typer import Argument

from vitalfew.configs.schema import METHOD
from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import out, prepare, say, table

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.answering import Configured, RagAnswer


def answer(
    question: Annotated[str, Argument(metavar="QUESTION", help="Question to answer.")],
    method: options.Method = METHOD,
    index: options.Index = None,
    model: options.Model = None,
    form: options.Format = "table",
    max_usd: options.MaxUsd = None,
    store: options.Store = options.STORE,
    assignments: options.MethodSettings = None,
    verbose: options.Verbose = False,
) -> None:
    """Answer a question, and show its sources.

    The method has the settings and the generator of its last evaluation in this store. If it was not evaluated here,
    it has those of the experiment. A run's id in place of the experiment's name names one evaluation: `vitalfew runs`
    lists them.

        vitalfew answer "Who approves a trip?" --index handbook
        vitalfew answer "Who approves a trip?" quickstart:ParetoRAG
        vitalfew answer "Who approves a trip?" --model openai:NAME
    """
    prepare(verbose)
    from vitalfew.flows.pipelines.answering import Answering, configured
    from vitalfew.tasks.models.causal.engines.budget import Budget

    chosen = configured(store, method, index, options.answering(model, assignments))
    budget = None if max_usd is None else Budget(max_usd)
    found = Answering(store, chosen, budget).answer([question])[0]
    if form == "json":
        print(json.dumps({**asdict(found), "run": chosen.run}, ensure_ascii=False, indent=1))
    else:
        _show(found, chosen)
    if found.error:
        raise typer.Exit(1)


def _show(found: "RagAnswer", chosen: "Configured") -> None:
    """Print the answer, its sources and what it took."""
    from vitalfew.tasks.reports.shown.sections import READER
    from vitalfew.tasks.reports.shown.text import significant

    text = f"[red]No answer:[/] {escape(found.error)}" if found.error else f"Answer: [bold]{escape(found.text)}[/]"
    out.print(text)
    shown = table("from", "kept text", padding=(1, 2, 0, 0))
    for context in found.contexts:
        names = (name for source in context.sources for name in (source.title, source.source_id, *source.also))
        shown.add_row(escape("\n".join(dict.fromkeys(filter(None, names)))) or "-", escape(context.text))
    out.print(shown)
    seconds = sum(found.seconds.values())
    saved = f"{found.tokens_saved:,} less than the whole passages" if found.tokens_saved else "the whole passages"
    out.print(
        f"\n{found.context_tokens:,} context tokens, {saved}; {found.prompt_tokens:,} prompt tokens; "
        f"{seconds:.2f} s, {significant(found.usd)} USD",
    )
    searched = f"index {chosen.index.name}, " if chosen.index else ""
    about = f"{chosen.experiment}:{chosen.method.name}, {searched}{chosen.whose}; configuration {found.fingerprint}"
    say(escape(about))
    if chosen.method.generate and chosen.method.generate.generator == READER:
        say("The bundled reader copies a few words and never abstains. --model openai:NAME asks a language model.")


def mcp(
    method: options.Method = METHOD,
    index: options.Index = None,
    model: options.Model = None,
    max_usd: options.MaxUsd = None,
    store: options.Store = options.STORE,
    assignments: options.MethodSettings = None,
) -> None:
    """Give agents search and answers over MCP.

    The tools are search, answer and read. The Model Context Protocol uses standard input and output: an agent's
    program starts and ends the command. No result is longer than the tool's `max_tokens`.

        vitalfew mcp quickstart:ParetoRAG --index handbook
    """
    prepare(False)
    from vitalfew.flows.pipelines.answering import Answering, configured
    from vitalfew.flows.serving.agents import Doors, agents_server
    from vitalfew.tasks.models.causal.engines.budget import Budget

    chosen = configured(store, method, index, options.answering(model, assignments))
    budget = None if max_usd is None else Budget(max_usd)
    agents_server(Doors.of(Answering(store, chosen, budget))).run()
