"""The estimate of a run beside `max_usd`: a run whose requests to servers will cost more asks first, or does not begin.

A training has no estimate: it begins, and stops at the cap.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.paying import check_prices, up
from vitalfew.flows.pipelines.run import Plan
from vitalfew.tasks.models.causal.engines.budget import dollars

_SAMPLE = "--set questions.sample=N"
_LESS = {"write_questions": "--n N"}
"""The option that makes a run smaller, by flow."""
Ask = Callable[[str], bool]
"""Asks whoever is there a question; true is yes."""


class AboveCap(ConfigError):
    """The estimate is above the cap, and nobody said to go on."""


def check_cap(plan: Plan, ask: Ask | None = None, quoting: AbstractContextManager[Any] | None = None) -> None:
    """Compare the estimate of a run with `max_usd`, once. `ask`: asks whether to begin although it is above; `quoting`
    is entered while the run is estimated, for up to a minute.

    Raises NoPrice, and AboveCap."""
    most = plan.parameters.max_usd
    if most is None or plan.is_allowed or plan.done():
        return
    plan.is_allowed = True
    stages = plan.missing() or plan.stages  # of a choice, whose other half is left
    if not check_prices(stages) or plan.parameters.until_cap:
        return
    with quoting or nullcontext():
        plan.quoted_usd = quoted = requests_usd(plan)
    if quoted is None or quoted <= most:
        return
    told = f"the estimate is {dollars(quoted)} for requests to servers, above the cap of {dollars(most)}"
    if not (ask and ask(f"{told[0].upper()}{told[1:]}. Begin, and stop at the cap?")):
        raise AboveCap(
            f"{told}. Nothing was sent. Allow more (--max-usd {up(quoted)}), ask for less "
            f"({_LESS.get(plan.flow, _SAMPLE)}), or begin and stop at the cap: --yes"
        )


def requests_usd(plan: Plan) -> float | None:
    """Estimate a run's requests to servers, in USD; None for a run that cannot be estimated."""
    whole: Any = plan
    match plan.flow:
        case "evaluate":
            from vitalfew.flows.pipelines.quote.evaluation import quote_evaluation

            return quote_evaluation(whole).requests_usd
        case "index_corpus":
            from vitalfew.flows.pipelines.quote.corpus import quote

            return quote(whole).requests_usd
        case "write_questions":
            return whole.requests_usd()
    return None
