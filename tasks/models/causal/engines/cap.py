"""A cap on what the requests to servers cost, for all threads and processes of a command together.

Before a request is sent, the most that it may cost is reserved: a token for every byte of its prompt, and an answer as
long as it may be. With the answer the reservation becomes what the server counted. So what is paid and what is reserved
never pass the cap, however many requests are under way. A server that answers with an error charges nothing. One that
answers too late, or hangs up, may charge, and so may one that does not count: then the whole reservation is paid.

Most requests cost less than was reserved. So a thread without room for its request waits until no other request of its
process is under way, and only then raises CapReached. It does not wait for other processes, which may be killed: what
such a process had reserved counts as paid.

The price of a token is that of the model as the ledger names it (configs/prices.yaml). The time of machines is not
capped, nor are models on them.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from threading import Condition, Lock
from typing import Any, Protocol, Self

from vitalfew.configs.loading import ConfigError
from vitalfew.storage.costs import OWN_PRICES, prices_file, read_prices
from vitalfew.tasks.models.within import within

ROUNDING = 1e-9
"""The share of a cap by which sums may miss it: of thousands of prices, added and taken off."""


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
    today = datetime.now(UTC).date()
    price = read_prices(today).listed(model)
    if price is None:
        raise NoPrice(
            f"max_usd needs the price of {model}: {prices_file()} lacks it. Add it there, or to a copy that "
            f'{OWN_PRICES} names. Write USD per million tokens, as in million_tokens: {{"{model}": 0.40}}; 0 for a '
            "server that is free"
        )
    return price / 1e6


class Till(Protocol):
    """Grants what requests cost: `Cap`, or the way to one in another process."""

    def reserve(self, usd: float) -> bool:
        """Reserve so much; return false where that would pass the cap."""

    def settle(self, reserved: float, paid: float) -> None:
        """Give back what was reserved, and count what was paid of it."""

    def paid(self) -> float:
        """USD so far."""


class Cap:
    """The count itself. Threads share it."""

    def __init__(self, most: float) -> None:
        """`most`: USD. Raises ConfigError for what is not an amount."""
        if not (isfinite(most) and most >= 0):
            raise ConfigError(f"max_usd must be an amount of USD, at least 0, got {most}")
        self.most = most
        self._paid = self._reserved = 0.0
        self._lock = Lock()

    def reserve(self, usd: float) -> bool:
        with self._lock:
            if self._paid + self._reserved + usd > self.most * (1 - ROUNDING):
                return False
            self._reserved += usd
            return True

    def settle(self, reserved: float, paid: float) -> None:
        with self._lock:
            self._reserved -= reserved
            self._paid += paid

    def paid(self) -> float:
        return self._paid

    def set(self, paid: float) -> None:
        """Begin from what was paid elsewhere, with nothing reserved; what is reserved elsewhere still is paid."""
        with self._lock:
            self._paid, self._reserved = paid, 0.0

    def spent(self) -> float:
        """USD so far, with what is still reserved: by processes that are gone."""
        return self._paid + max(0.0, self._reserved)


class Purse:
    """The money of a command, as one of its processes has it. Threads share it."""

    def __init__(self, till: Till, most: float) -> None:
        """`most`: the cap in USD, for messages."""
        self.till, self.most = till, most
        self._under_way = 0
        self._changed = Condition()

    @classmethod
    def of(cls, most: float) -> Self:
        """A purse with a new cap of `most` USD. Raises ConfigError."""
        return cls(Cap(most), most)

    def hold(self, usd: float) -> None:
        """Reserve so much; wait for requests of this process where there is no room. Raises CapReached."""
        with self._changed:
            while not self.till.reserve(usd):
                if not self._under_way:
                    raise CapReached(self.till.paid(), self.most, usd)
                self._changed.wait()
            self._under_way += 1

    def settle(self, reserved: float, paid: float) -> None:
        with self._changed:
            self.till.settle(reserved, paid)
            self._under_way -= 1
            self._changed.notify_all()


class Payment:
    """The payment for a request, which may take several attempts; within the block the most that it may cost is
    reserved. Behind the block it is paid for, and the rest given back."""

    def __init__(self, purse: Purse, price: float, most_tokens: int) -> None:
        """`price`: USD per token; `most_tokens`: that the request may take."""
        self.purse, self.price, self.most = purse, price, most_tokens * price
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
            self._settle(self._tokens * self.price if self._tokens else unknown)

    def sent(self) -> None:
        """An attempt goes out now. The server may charge for the one before too, if that was not `free`. Raises
        CapReached where there is no room for both."""
        if self._sent:
            self._settle(self.most)
            self._hold()
        self._sent = True

    def free(self) -> None:
        """The attempt is not charged for."""
        self._sent = False

    def answered(self, tokens: int) -> None:
        """The server counted so many tokens; 0: it does not say how many."""
        self._tokens = tokens

    def _hold(self) -> None:
        self.purse.hold(self.most)
        self._held, self._sent = True, False

    def _settle(self, paid: float) -> None:
        self._held = False
        self.purse.settle(self.most, paid)


_purse: ContextVar[Purse | None] = ContextVar("purse", default=None)
_model: ContextVar[str | None] = ContextVar("model", default=None)
_payment: ContextVar[Payment | None] = ContextVar("payment", default=None)


def spending(purse: Purse | None) -> AbstractContextManager[Any]:
    """In this block, what this thread asks of servers is paid from a purse. None: nothing is capped."""
    return within(_purse, purse)


def capped(most: float | None) -> AbstractContextManager[Any]:
    """In this block requests cost at most so many USD together. Within another one it changes nothing: a command has
    one cap. Raises ConfigError."""
    return nullcontext() if most is None or _purse.get() else spending(Purse.of(most))


def charging(model: str | None) -> AbstractContextManager[Any]:
    """In this block tokens cost what those of this model do, named as the ledger names it."""
    return within(_model, model)


def purse_now() -> Purse | None:
    return _purse.get()


def payments_now() -> Callable[[int], Payment] | None:
    """Return a function that makes the payment for a request of this thread, by the most tokens that it may take; None
    where requests are free or not capped. Raises NoPrice."""
    purse = _purse.get()
    price = price_of(_model.get()) if purse else 0.0
    return partial(Payment, purse, price) if purse and price else None


def payment_now() -> Payment | None:
    """The payment for the request that this thread makes now."""
    return _payment.get()
