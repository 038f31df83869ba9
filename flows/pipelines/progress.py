"""Live progress of a stage: a bar on a terminal, log lines elsewhere, and a hook for other displays."""

import logging
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

logger = logging.getLogger("vitalfew")
console = Console(stderr=True)

LOG_EVERY = 10.0
HOOK_EVERY = 3.0


class StageProgress:
    """Counts the rows and tokens of one stage: `with StageProgress("encode", total) as progress: progress.add(...)`.

    `hook(percent, line)` is called every few seconds; `line` has rows, tokens per second and the time left.
    """

    def __init__(self, stage: str, hook: Callable[[float, str], None] | None = None, unit: str = "rows") -> None:
        self.stage, self.hook, self.unit = stage, hook, unit
        self.total = self.rows = self.tokens = 0
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        self._began = self._logged = self._hooked = time.monotonic()
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description:<8}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(self.unit),
                TextColumn("{task.fields[speed]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=console,
            )
            self._task = self._bar.add_task(self.stage, total=None, speed="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if error is None and self.hook:
            self.hook(100.0, self.line())

    def expect(self, total: int) -> None:
        """Restart the count, towards `total` rows."""
        self.total, self.rows, self.tokens = total, 0, 0
        self._began = time.monotonic()
        if self._bar:
            self._bar.reset(self._task, total=total, speed="")

    def reach(self, rows: int, total: int) -> None:
        """So many of `total` rows are done."""
        if rows < self.rows or total != self.total:
            self.expect(total)
        self.add(rows - self.rows, 0)

    def add(self, rows: int, tokens: int) -> None:
        self.rows += rows
        self.tokens += tokens
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._task, advance=rows, speed=self._speed())
        elif now - self._logged >= LOG_EVERY:
            self._logged = now
            logger.info("%s: %s", self.stage, self.line())
        if self.hook and now - self._hooked >= HOOK_EVERY:
            self._hooked = now
            self.hook(100.0 * self.rows / self.total if self.total else 0.0, self.line())

    def line(self) -> str:
        """'1,024 of 9,179 rows, 16,204 tokens/s, 38 s left'."""
        parts = [f"{self.rows:,} of {self.total:,} {self.unit}" if self.total else f"{self.rows:,} {self.unit}"]
        if self.tokens:
            parts.append(self._speed())
        if 0 < self.rows < self.total:
            left = (time.monotonic() - self._began) * (self.total - self.rows) / self.rows
            parts.append(f"{left:,.0f} s left")
        return ", ".join(parts)

    def _speed(self) -> str:
        seconds = time.monotonic() - self._began
        return f"{self.tokens / seconds:,.0f} tokens/s" if self.tokens and seconds > 0 else ""
