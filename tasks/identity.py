"""What a method works with, by its identity: the same when it works as when its stage was planned."""

from collections.abc import Iterator, Mapping
from typing import Any


class MethodChanged(ValueError):
    """What a method works with is not what it was when its stage was planned: the message names it."""


def compare(who: str, planned: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises MethodChanged where two identities differ."""
    if now == planned:
        return
    what = ", ".join([*_differences(planned, now)][:3])
    raise MethodChanged(
        f"{who}: {what} changed since this run was planned, or differs on this machine. Run the same command again to "
        "plan with what is there now; if the machines differ, set device and precision in the settings"
    )


def _differences(planned: Any, now: Any, path: str = "") -> Iterator[str]:
    """Where they differ: files/model.safetensors."""
    if isinstance(planned, Mapping) and isinstance(now, Mapping):
        for key in sorted({*planned, *now}):
            yield from _differences(planned.get(key), now.get(key), f"{path}/{key}".lstrip("/"))
    elif planned != now:
        yield path
