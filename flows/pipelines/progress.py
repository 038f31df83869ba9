"""Live progress of a stage: a bar on a terminal, log lines elsewhere, and a hook for other displays."""

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection
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

    `hook(percent, line)` is called every few seconds; `line` has rows, tokens per second and the time left, and where
    several nodes of a cluster have worked, the rows of each.
    """

    def __init__(self, stage: str, hook: Callable[[float, str], None] | None = None, unit: str = "rows") -> None:
        self.stage, self.hook, self.unit = stage, hook, unit
        self.total = self.rows = self.tokens = 0
        self.by_node: Counter[str] = Counter()
        """Rows of every node that has worked on this, or does so now."""
        self._at_work: Collection[str] = ()
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
            self.hook(100.0, self._whole_line())

    def expect(self, total: int) -> None:
        """Restart the count, towards `total` rows."""
        self.total, self.rows, self.tokens = total, 0, 0
        self.by_node.clear()
        self._began = time.monotonic()
        if self._bar:
            self._bar.reset(self._task, total=total, speed="")

    def reach(self, rows: int, total: int) -> None:
        """So many of `total` rows are done."""
        if rows < self.rows or total != self.total:
            self.expect(total)
        self.add(rows - self.rows, 0)

    def at_work(self, nodes: Collection[str]) -> None:
        """The nodes of a cluster that work on it now."""
        self._at_work = nodes
        self.by_node.update(dict.fromkeys(nodes, 0))
        self.add(0, 0)

    def add(self, rows: int, tokens: int, node: str = "") -> None:
        """So many more rows are done, by a node of a cluster where one is named."""
        self.rows += rows
        self.tokens += tokens
        if node:
            self.by_node[node] += rows
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._task, advance=rows, speed=", ".join(filter(None, (self._speed(), self._nodes()))))
        elif now - self._logged >= LOG_EVERY:
            self._logged = now
            logger.info("%s: %s", self.stage, self._whole_line())
        if self.hook and now - self._hooked >= HOOK_EVERY:
            self._hooked = now
            self.hook(100.0 * self.rows / self.total if self.total else 0.0, self._whole_line())

    def line(self) -> str:
        """'1,024 of 9,179 rows, 16,204 tokens/s, 38 s left, 3 nodes'."""
        parts = [f"{self.rows:,} of {self.total:,} {self.unit}" if self.total else f"{self.rows:,} {self.unit}"]
        if self.tokens:
            parts.append(self._speed())
        if 0 < self.rows < self.total:
            left = (time.monotonic() - self._began) * (self.total - self.rows) / self.rows
            parts.append(f"{left:,.0f} s left")
        return ", ".join([*parts, *filter(None, [self._nodes()])])

    def _whole_line(self) -> str:
        """With the rows of every node: '…, 2 nodes (ann/1f09ac 620 rows; bob/77e0d2 9 rows, idle)'."""
        if not self._nodes():
            return self.line()
        of_nodes = (
            f"{node} {rows:,} {self.unit}{'' if node in self._at_work or not self._at_work else ', idle'}"
            for node, rows in sorted(self.by_node.items())
        )
        return f"{self.line()} ({'; '.join(of_nodes)})"

    def _nodes(self) -> str:
        """How many nodes work on it, or have worked where none does now; nothing where it has always been one."""
        at_work = len(self._at_work or self.by_node)
        return f"{at_work} node{'s' * (at_work != 1)}" if len(self.by_node) > 1 else ""

    def _speed(self) -> str:
        seconds = time.monotonic() - self._began
        return f"{self.tokens / seconds:,.0f} tokens/s" if self.tokens and seconds > 0 else ""
