"""The USD that the requests of a command may cost, for all of its threads and processes together.

Before a request is sent, the most that it may cost is reserved: a token for every byte of its prompt, and the longest
answer. With the answer the reservation becomes what the server counted. So what is paid and reserved never passes the
budget. A server that answers with an error charges nothing. One that answers too late, hangs up, or does not count may
charge: the whole reservation is then paid.

A thread without room for its request waits for the other requests of its process, and only then raises CapReached. It
does not wait for other processes, which may be killed: what such a process had reserved counts as paid.

A token's price is that of the model as the ledger names it (configs/prices.yaml). The time of machines is not capped,
nor are models on them.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from threading import Condition
from typing import Any, Self

from vitalfew.configs.loading import ConfigError
from vitalfew.storage.costs import OWN_PRICES, prices_file, read_prices
from vitalfew.tasks.models.within import within

ROUNDING = 1e-9
"""The share of a budget by which sums may miss it: of thousands of prices, added and taken off."""


def dollars(usd: float) -> str:
    """A price for people: '0.5000 USD', with two more digits if it is small."""
    return f"{usd:.6f} USD" if 0 < usd < 0.01 else f"{usd:,.4f} USD"


class CapReached(ValueError):
    """There is no room for the next request. `paid`, `most`, `due`: USD that are paid, that may be paid, and that the
    request may cost; `said`: what is done and what is left. `rows`: of the stage, as far as they are done."""

    rows = 0

    def __init__(self, paid: float, most: float, due: float, said: str = "") -> None:
        super().__init__(paid, most, due, said)  # by which it travels between processes
        self.paid, self.most, self.due, self.said = paid, most, due, said

    def __str__(self) -> str:
        return (
            f"the cap of {dollars(self.most)} is reached: {dollars(self.paid)} are paid, and the next request may "
            f"cost {dollars(self.due)}. {self.said or 'Allow more to continue: --max-usd'}"
        )


class NoPrice(ConfigError):
    """A model whose price nobody knows cannot be capped."""


def price_of(model: str | None) -> float:
    """USD per token of a model, today. Raises NoPrice."""
    price = read_prices(datetime.now(UTC).date()).listed(model)
    if price is None:
        raise NoPrice(
            f"max_usd needs the price of {model}: {prices_file()} lacks it. Add it there, or to a copy that "
            f'{OWN_PRICES} names. Write USD per million tokens, as in million_tokens: {{"{model}": 0.40}}; 0 for a '
            "server that is free"
        )
    return price / 1e6


class Budget:
    """The money of a command, which its threads share. As a Ray actor it counts for several processes (ray_pool.py)."""

    def __init__(self, most: float) -> None:
        """`most`: USD. Raises ConfigError for what is not an amount."""
        if not (isfinite(most) and most >= 0):
            raise ConfigError(f"max_usd must be an amount of USD, at least 0, got {most}")
        self.most = most
        self._paid = self._reserved = 0.0
        self._under_way = 0
        self._changed = Condition()

    def reserve(self, usd: float) -> bool:
        """Reserve so much; return false where that would pass the budget."""
        with self._changed:
            if self._paid + self._reserved + usd > self.most * (1 - ROUNDING):
                return False
            self._reserved += usd
            return True

    def settle(self, reserved: float, paid: float) -> None:
        """Give back what was reserved, and count what was paid of it."""
        with self._changed:
            self._reserved -= reserved
            self._paid += paid

    def paid(self) -> float:
        """USD so far."""
        return self._paid

    def set(self, paid: float) -> None:
        """Begin from what was paid elsewhere, with nothing reserved; what is reserved elsewhere still is paid."""
        with self._changed:
            self._paid, self._reserved = paid, 0.0

    def spent(self) -> float:
        """USD so far, with what is still reserved: by processes that are gone."""
        return self._paid + max(0.0, self._reserved)

    def hold(self, usd: float) -> None:
        """Reserve so much; wait for requests of this process where there is no room. Raises CapReached."""
        with self._changed:
            while not self.reserve(usd):
                if not self._under_way:
                    raise CapReached(self.paid(), self.most, usd)
                self._changed.wait()
            self._under_way += 1

    def release(self, held: float, paid: float) -> None:
        """Count what was paid of what was held."""
        with self._changed:
            self.settle(held, paid)
            self._under_way -= 1
            self._changed.notify_all()


class Payment:
    """The payment for a request, which may take several attempts: within the block the most that it may cost is held,
    and behind it, it is paid for."""

    def __init__(self, budget: Budget, price: float, most_tokens: int) -> None:
        """`price`: USD per token; `most_tokens`: that the request may take."""
        self.budget, self.price, self.most = budget, price, most_tokens * price
        self._held = self._sent = False
        self._tokens: int | None = None

    def __enter__(self) -> Self:
        """Raises CapReached."""
        self._hold()
        self._before = _payment.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _payment.reset(self._before)
        if self._held:
            unknown = self.most if self._sent or self._tokens == 0 else 0.0
            self._pay(self._tokens * self.price if self._tokens else unknown)

    def sent(self) -> None:
        """An attempt goes out now. The server may charge for the one before too, if that was not `free`. Raises
        CapReached where there is no room for both."""
        if self._sent:
            self._pay(self.most)
            self._hold()
        self._sent = True

    def free(self) -> None:
        """The attempt is not charged for."""
        self._sent = False

    def answered(self, tokens: int) -> None:
        """The server counted so many tokens; 0: it does not say how many."""
        self._tokens = tokens

    def _hold(self) -> None:
        self.budget.hold(self.most)
        self._held, self._sent = True, False

    def _pay(self, usd: float) -> None:
        self._held = False
        self.budget.release(self.most, usd)


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)
_model: ContextVar[str | None] = ContextVar("model", default=None)
_payment: ContextVar[Payment | None] = ContextVar("payment", default=None)


def spending(budget: Budget | None) -> AbstractContextManager[Any]:
    """In this block, what this thread asks of servers is paid from a budget. None: nothing is capped."""
    return within(_budget, budget)


def capped(most: float | None) -> AbstractContextManager[Any]:
    """In this block requests cost at most so many USD together. Within another one it changes nothing: a command has
    one budget. Raises ConfigError."""
    return nullcontext() if most is None or _budget.get() else spending(Budget(most))


def charging(model: str | None) -> AbstractContextManager[Any]:
    """In this block tokens cost what those of this model do, named as the ledger names it."""
    return within(_model, model)


def budget_now() -> Budget | None:
    """The budget of the block that this thread is in."""
    return _budget.get()


def payments_now() -> Callable[[int], Payment] | None:
    """Return a function that makes the payment for a request of this thread, by the most tokens that it may take; None
    where requests are free or not capped. Raises NoPrice."""
    budget = _budget.get()
    price = price_of(_model.get()) if budget else 0.0
    return partial(Payment, budget, price) if budget and price else None


def payment_now() -> Payment | None:
    """The payment for the request that this thread makes now."""
    return _payment.get()
