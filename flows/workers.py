"""What runs inside Ray's actors, as plain classes: a worker that imported Prefect and Ray's client would start late."""

from typing import Any

from tasks.stage import Progress, Stage


class Counter:
    """A Ray actor that adds up what the workers have done, so that the driver can show it."""

    def __init__(self) -> None:
        self.rows = self.tokens = 0

    def add(self, rows: int, tokens: int) -> None:
        self.rows += rows
        self.tokens += tokens

    def take(self) -> tuple[int, int]:
        taken = self.rows, self.tokens
        self.rows = self.tokens = 0
        return taken


class Worker:
    """A Ray actor that does shards. Every call brings the stage's small description, so that an actor that was killed
    and started again knows all it needs; what the stage loads is loaded once."""

    def __init__(self) -> None:
        self.opened: Stage | None = None

    def prepare(self, stage: Stage, run_id: str, counter: Any) -> None:
        stage.run_preparation(run_id, _tell(counter))

    def do(self, stage: Stage, run_id: str, counter: Any, shard: int) -> None:
        if self.opened is None or self.opened.artifact != stage.artifact:
            stage.open()
            self.opened = stage
        self.opened.run_shard(shard, run_id, _tell(counter))


def _tell(counter: Any) -> Progress:
    def progress(rows: int, tokens: int) -> None:
        counter.add.remote(rows, tokens)

    return progress
