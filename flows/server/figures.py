"""Figures for Prometheus of the indexes of a store: which generation is served, how old it is, and what waits.

`vitalfew serve` has them in its `/metrics`, and `vitalfew ui` at the same address, for whoever has the secret. Imports
no Prefect.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from vitalfew.flows.server.guard import Answer, Links
from vitalfew.storage.files import BucketError
from vitalfew.storage.freshness import Freshness, FreshnessReader

logger = logging.getLogger("vitalfew")

PATH = "/metrics"
FIGURES: dict[str, tuple[str, Callable[[Freshness], float | None]]] = {
    "generation": ("The generation that searches find", lambda index: index.generation),
    "age_seconds": (
        "Seconds since the generation that searches find was built",
        lambda index: max(0.0, time.time() - index.made.timestamp()) if index.made else None,
    ),
    "indexed_timestamp_seconds": (
        "When a run that indexes the corpus last completed (Unix time)",
        lambda index: index.indexed.timestamp() if index.indexed else None,
    ),
    "held": ("Newer generations that wait for a person", lambda index: index.held),
    "failed": ("Runs that failed or were killed since the last one that completed", lambda index: index.failed),
}
"""The figures of an index, by the end of their name: what they are, and how they are read."""


class IndexFigures(Collector):
    """The figures of a store's indexes. While the store cannot be read there are none, and the log says why."""

    def __init__(self, store: Path) -> None:
        self.reader = FreshnessReader(store)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            found = self.reader.read()
        except (OSError, BucketError) as error:
            logger.warning("the figures of the indexes cannot be read: %s", error)
            return
        for name, (about, figure) in FIGURES.items():
            family = GaugeMetricFamily(f"vitalfew_index_{name}", about, labels=["index"])
            for each in found:
                if (value := figure(each)) is not None:
                    family.add_metric([each.name], value)
            yield family


def figures(store: Path, links: Links) -> dict[str, Answer]:
    """The answer of the address of a store's figures, for whoever has the secret."""
    registry = CollectorRegistry()
    registry.register(IndexFigures(store))

    async def answer(request: Request) -> Response:
        if not links.knows(request.headers.get("Authorization", "")):
            return PlainTextResponse("Unauthorized\n", 401)
        text = await asyncio.to_thread(generate_latest, registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return {PATH: answer}
