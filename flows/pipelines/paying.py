"""Requests to servers: which stages make them, by which keys, and what is left to pay where `max_usd` stops a run.

The time of machines is not capped.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import ceil

from vitalfew.configs.section import Section
from vitalfew.storage import journals
from vitalfew.storage.costs import Quote, read_prices
from vitalfew.tasks.models.causal.engines.budget import CapReached, budget_now, dollars, price_of
from vitalfew.tasks.registry import resolve, with_options
from vitalfew.tasks.stage import Stage


def asks_servers(stage: Stage) -> bool:
    """Return whether a stage's method, or one that it is made of, asks a server that may need a key."""
    if stage.model_name is None:  # it reads what another stage was answered
        return False
    return isinstance(stage.config, Section) and bool(secrets(stage.config, stage.section))


def secrets(section: Section, path: str) -> dict[str, str]:
    """Environment variables with secrets of a section's method, its engine or the methods that it is made of, and the
    names of the Prefect blocks that may hold them instead. Raises UnknownName, ConfigError."""
    options = with_options(section, path)
    engine = getattr(options, "engine", None)
    readers = [resolve(section.kind, section.methods[0]), *([resolve("engine", engine)] if engine else [])]
    known = [reader.secrets() for reader in readers if hasattr(reader, "secrets")]
    known += [secrets(part, f"{path}.{name}") for name, part in options if isinstance(part, Section)]
    return {variable: block for blocks in known for variable, block in blocks.items()}


def check_prices(stages: Iterable[Stage]) -> bool:
    """Return whether any of the stages asks a server. Raises NoPrice."""
    asking = [*filter(asks_servers, stages)]
    for stage in asking:
        price_of(stage.model_name)
    return bool(asking)


def of_requests(stage: Stage, quote: Quote) -> float:
    """The part of a stage's estimate, in USD, that is for requests to servers."""
    return quote.tokens * _price(stage) if asks_servers(stage) else 0.0


def _price(stage: Stage) -> float:
    """USD per token; 0 without a price."""
    return read_prices(datetime.now(UTC).date()).of_tokens(stage.model_name) / 1e6


def stopped(
    error: CapReached, stages: Iterable[Stage], missing: Sequence[Stage], run_id: str, quoted: float | None
) -> CapReached:
    """The error of a run that stopped at its cap, with what is done and left. `missing`: the stages that were at work;
    `quoted`: USD of the whole run."""
    stage = next((each for each in missing if not each.artifact.manifest()), missing[-1])
    budget = budget_now()
    paid = budget.paid() if budget else error.paid  # other threads may have found room since
    said, left = _progress(stage, error.rows, run_id)
    if quoted is not None:
        left = max(left or 0.0, quoted - paid)
    if left is not None:
        said.append(f"the rest is estimated at {dollars(left)}")
    before = sum(_tokens(each) * _price(each) for each in stages if asks_servers(each)) - paid
    if before > 1e-6:
        said.append(f"earlier runs have paid {dollars(before)} for this")
    more = f"--max-usd {up(left + error.due)} or more" if left else "a higher --max-usd"
    told = f"{'; '.join(said)}. All answers are kept: run the same command with {more} to continue"
    return CapReached(paid, error.most, error.due, f"{told[0].upper()}{told[1:]}")


def _progress(stage: Stage, rows: int, run_id: str) -> tuple[list[str], float | None]:
    """Say how much of a stage is answered, and estimate the USD of its rest, at the price of the prompts so far; None:
    nothing is known. `rows`: done by this run."""
    if type(stage).prepare is not Stage.prepare and not stage.is_prepared():
        return [f"{stage.name} was being prepared"], None
    finished = (record for record in stage.artifact.records() if record.run_id != run_id)
    earlier = sum(max(record.rows_in, record.rows(stage.table)) for record in finished)
    total = stage.total_rows()
    done = min(total, earlier + rows)
    usd = _tokens(stage) * _price(stage)
    left = usd / done * (total - done) if done else None
    return [f"{stage.name}: {done:,} of {total:,} prompts are answered"], left


def _tokens(stage: Stage) -> int:
    """The tokens that all runs have paid for: of shards that are done, and in the journals of the others."""
    artifact = stage.artifact
    done = sum(record.cost.tokens for record in artifact.records())
    return done + sum(record.cost.tokens for record in journals.unfinished(artifact, stage.model_name))


def up(usd: float) -> str:
    """An amount as an option takes it, rounded up to its second digit, or to cents."""
    digits = 2
    while digits < 8 and usd < 10 ** (1 - digits):
        digits += 1
    return f"{ceil(usd * 10**digits - 1e-6) / 10**digits:.{digits}f}"
