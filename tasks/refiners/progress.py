"""From a model's progress to a refiner's: a refiner tells questions and tokens (base.Tick)."""

from vitalfew.tasks.refiners.base import Tick


class Watched:
    """Tells questions where a model tells pairs: a share of the pairs is the same share of the questions."""

    def __init__(self, tick: Tick, questions: int, pairs: int) -> None:
        self.tick, self.questions, self.pairs = tick, questions, pairs
        self.read = self.told = self.tokens = 0

    def __call__(self, pairs: int, tokens: int) -> None:
        self.read += pairs
        self.tokens += tokens
        share = self.questions * self.read // max(1, self.pairs)
        self.tick(share - self.told, tokens)
        self.told = share

    def finish(self) -> None:
        self.tick(self.questions - self.told, 0)


class Counted:
    """Passes on the tokens that a model tells, and counts them; the questions are told by who asks it."""

    def __init__(self, tick: Tick) -> None:
        self.tick, self.tokens = tick, 0

    def __call__(self, tokens: int) -> None:
        self.tokens += tokens
        self.tick(0, tokens)
