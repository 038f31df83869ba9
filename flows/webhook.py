"""Reports a failed run, or a generation that its gate did not promote: a POST of JSON to the URL in
VITALFEW_WEBHOOK."""

import json
import logging
import os
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

logger = logging.getLogger("vitalfew")

WEBHOOK = "VITALFEW_WEBHOOK"
SECONDS = 10.0
NOT_PROMOTED = ("Rejected", "In Doubt", "Held")
"""Names of the final state of a run whose generation was not promoted."""


def tell_held(flow: Any, flow_run: Any, state: Any) -> None:
    """A hook of flows that completed: report a generation that was not promoted, once."""
    if state.name in NOT_PROMOTED:
        tell(flow, flow_run, state)


def tell(flow: Any, flow_run: Any, state: Any) -> None:
    """A hook of flows for a final state: report the run, its parameters, and the reason.

    The URL is often a secret and is never logged. A webhook that does not answer does not fail the run.
    """
    url = os.environ.get(WEBHOOK)
    if not url:
        return
    report = {
        "flow": flow.name,
        "run": flow_run.name,
        "run_id": str(flow_run.id),
        "state": state.name,
        "message": state.message or "",
        "parameters": flow_run.parameters,
    }
    body = json.dumps(report, default=str).encode()
    try:
        with urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=SECONDS):
            logger.info("Sent to the webhook: %s is %s", flow_run.name, state.name)
    except (OSError, ValueError, HTTPException) as error:
        status = f" {error.code}" if isinstance(error, HTTPError) else ""
        logger.warning("Could not send the report to the webhook in %s: %s%s", WEBHOOK, type(error).__name__, status)
