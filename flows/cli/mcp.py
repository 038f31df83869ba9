"""The command `mcp`: tools for agents on standard input and output."""

from typing import Annotated

from typer import Argument

from vitalfew.configs.loading import parse_assignments
from vitalfew.flows.cli import options
from vitalfew.flows.cli.answer import USUAL
from vitalfew.flows.cli.terminal import prepare


def mcp(
    method: Annotated[str, Argument(metavar="EXPERIMENT:METHOD", help="A method of `vitalfew experiments`.")] = USUAL,
    index: options.Index = None,
    max_usd: options.MaxUsd = None,
    store: options.Store = options.STORE,
    assignments: options.Assignments = None,
) -> None:
    """Give an agent the tools search, answer and read (Model Context Protocol), on standard input and output.

    An agent's program starts the command itself, and ends it. No result is longer than the tool's `max_tokens`.

        vitalfew mcp quickstart:ParetoRAG --index handbook
    """
    prepare(False)

    from vitalfew.flows.pipelines.answering import Answering, configured
    from vitalfew.flows.serving.agents import Doors, agents_server
    from vitalfew.tasks.models.causal.engines.cap import Purse

    chosen = configured(store, method, index, parse_assignments(assignments or []))
    purse = None if max_usd is None else Purse.of(max_usd)
    agents_server(Doors.of(Answering(store, chosen, purse))).run()
