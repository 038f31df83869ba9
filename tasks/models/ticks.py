"""The callbacks by which methods report progress: how many more rows are done, and how many tokens that took."""

from collections.abc import Callable

Tick = Callable[[int, int], None]
"""Called with how many more rows are done and how many tokens were computed for them."""
TextTick = Callable[[int, float], None]
"""Called with the tokens encoded since the last call, and with the share of the texts (0 to 1) that this is."""


def no_tick(*counts: float) -> None:
    """Report nothing."""


def tokens_of(tick: Tick) -> Tick:
    """A `Tick` that passes on the tokens; somebody else reports the rows."""
    return lambda rows, tokens: tick(0, tokens)


class Counted:
    """A `Tick` that passes calls on and adds up the tokens."""

    def __init__(self, tick: Tick) -> None:
        self.tick, self.tokens = tick, 0

    def __call__(self, rows: int, tokens: int) -> None:
        self.tokens += tokens
        self.tick(rows, tokens)


class Watched:
    """A `Tick` of pairs that reports questions: the same share of them."""

    def __init__(self, tick: Tick, questions: int, pairs: int) -> None:
        self.tick, self.questions, self.pairs = tick, questions, pairs
        self.read = self.reported = self.tokens = 0

    def __call__(self, pairs: int, tokens: int) -> None:
        self.read += pairs
        self.tokens += tokens
        share = self.questions * self.read // max(1, self.pairs)
        self.tick(share - self.reported, tokens)
        self.reported = share

    def finish(self) -> None:
        self.tick(self.questions - self.reported, 0)


class Share:
    """Reports a share of some rows to a `Tick`, in whole rows."""

    def __init__(self, rows: int, tick: Tick) -> None:
        self.rows, self.tick = rows, tick
        self.share, self.reported = 0.0, 0

    def reach(self, share: float, tokens: int = 0) -> None:
        self.share = share
        more = int(self.rows * min(share, 1.0)) - self.reported
        self.reported += more
        self.tick(more, tokens)

    def __call__(self, tokens: int, share: float) -> None:
        """Add a share, as a `TextTick`."""
        self.reach(self.share + share, tokens)
