"""What `vitalfew doctor` checks about Prefect: server, work pool and worker, corpora, webhook."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

if TYPE_CHECKING:
    from vitalfew.flows.server.access import Server

POOL = "vitalfew"


@dataclass(frozen=True)
class Check:
    """The result of one check; `needed` is False if a run can do without it."""

    what: str
    fine: bool
    found: str
    needed: bool = True


def operations(store: Path) -> list[Check]:
    """Check only what the user has set up: a run needs neither a server nor a pool."""
    from vitalfew.flows.server.access import named, running

    service, elsewhere = running(store), os.environ.get("PREFECT_API_URL", "")
    server = service or (named(store, elsewhere) if elsewhere else None)
    others = [*_leftover(store), *_corpora(store), *_webhook()]
    if not server:
        remedy = "not running; every run starts a temporary one. `vitalfew ui` starts one with UI and schedules"
        return [Check("Prefect server", False, remedy, needed=False), *others]
    if not server.answers():
        remedy = "start `vitalfew ui` again" if service else "start it, or unset PREFECT_API_URL"
        return [Check("Prefect server", False, f"{server.address} does not answer; {remedy}"), *others]
    if server.status("/api/version") == 401:
        remedy = "set PREFECT_API_AUTH_STRING to its secret"
        return [Check("Prefect server", False, f"{server.address} refuses access; {remedy}"), *others]
    return [Check("Prefect server", True, f"{server.address} answers"), *_pool(server), *others]


def _leftover(store: Path) -> list[Check]:
    """Check that no home of Prefect's lies in the store, as earlier versions had it."""
    from vitalfew.flows.server.home import leftover
    from vitalfew.storage import files

    old = store / ".prefect"
    remedy = f"`vitalfew ui` moves it unless there is a newer one; {leftover(old)}"
    return [Check("secrets", False, remedy, needed=False)] if files.is_folder(old) else []


def _pool(server: "Server") -> list[Check]:
    """Check the work pool of prefect.yaml and its workers, for schedules that outlive `vitalfew ui`."""
    try:
        _ask(server, f"/api/work_pools/{POOL}")
    except HTTPError as error:
        remedy = f"`prefect work-pool create {POOL} --type process` if runs must outlive `vitalfew ui`"
        message = f"there is no work pool {POOL}; {remedy}" if error.code == 404 else f"work pool {POOL}: {error}"
        return [Check("work pool", False, message, needed=False)]
    workers = _ask(server, f"/api/work_pools/{POOL}/workers/filter", {})
    online = sorted(worker["name"] for worker in workers if worker["status"] == "ONLINE")
    message = ", ".join(online) or f"not online; run `prefect worker start --pool {POOL}`"
    return [Check("work pool", True, POOL), Check("worker", bool(online), message, needed=False)]


def _ask(server: "Server", path: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    with urlopen(server.request(path, content), timeout=5) as answer:
        return json.load(answer)


def _corpora(store: Path) -> list[Check]:
    """Check the file of every corpus and say when the corpus is re-encoded."""
    from vitalfew.configs.loading import ConfigError
    from vitalfew.flows.pipelines.corpora import corpora, find_corpus

    checks = []
    for name in corpora(store):
        try:
            cron = find_corpus(name, store).cron
            checks.append(Check(f"corpus {name}", True, f"re-encoded at {cron}" if cron else "re-encoded on request"))
        except ConfigError as error:
            checks.append(Check(f"corpus {name}", False, str(error), needed=False))
    return checks


def _webhook() -> list[Check]:
    """Check the webhook and show only its host: the rest of the URL is often a secret."""
    from vitalfew.flows.webhook import WEBHOOK

    url = os.environ.get(WEBHOOK)
    if not url:
        return []
    parts = urlsplit(url)
    fine = parts.scheme in ("http", "https") and bool(parts.hostname)
    return [Check("webhook", fine, f"{parts.hostname}" if fine else f"{WEBHOOK} must be an http(s) URL")]
