"""The one callback by which methods report progress: how many more rows are done, and how many tokens that took."""

from collections.abc import Callable

Tick = Callable[[int, int], None]
"""Called with how many more rows are done and how many tokens were computed for them."""


def no_tick(rows: int, tokens: int) -> None:
    """Report nothing."""


class Counted:
    """A `Tick` that passes calls on and adds up the tokens."""

    def __init__(self, tick: Tick) -> None:
        self.tick, self.tokens = tick, 0

    def __call__(self, rows: int, tokens: int) -> None:
        self.tokens += tokens
        self.tick(rows, tokens)
