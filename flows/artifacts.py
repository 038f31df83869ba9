"""The artifacts of a run in Prefect's UI besides the stages' progress: report, plots, and costs beside the quote."""

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect.artifacts import create_image_artifact, create_markdown_artifact, create_table_artifact

from vitalfew.flows.pipelines.run import Outcome
from vitalfew.storage import files
from vitalfew.storage.artifacts import Manifest
from vitalfew.storage.costs import find_quote
from vitalfew.tasks.report import Written
from vitalfew.tasks.reports.costs import ledger_of
from vitalfew.tasks.reports.plots.drawing import data_uri
from vitalfew.tasks.reports.shown.markdown import markdown_report

logger = logging.getLogger("vitalfew")


def show_report(written: Written) -> None:
    """Show the table of an evaluation as Markdown with the path of its page, and its plots as images."""
    report, page = written.report, files.absolute(written.html)
    copied = f"`vitalfew report {report.run_id}` prints the path of a local copy"
    where = copied if files.is_in_bucket(page) else "open it in a browser on that machine"
    create_markdown_artifact(
        f"{markdown_report(report)}\n\nPlots and all figures: `{page}` ({where})",
        key="report",
        description=report.experiment,
    )
    for plot in written.plots:
        create_image_artifact(data_uri(plot.svg), key=f"plot-{_key(plot.title)}", description=plot.caption)
    logger.info("Report: %s", page)


def show_figures(recipe: str, figures: Sequence[Mapping[str, Any]]) -> None:
    """Show the measurements of a training on the held-out part."""
    create_table_artifact(
        [{**row} for row in figures], key=f"figures-{_key(recipe)}", description="Measured on held-out data"
    )


def show_costs(store: Path, outcome: Outcome, methods: Mapping[str, Sequence[str]] | None = None) -> None:
    """Show a row per artifact of a run: its costs and, if `vitalfew plan` ran before, its quote.

    `methods`: for an evaluation, the methods that use an artifact, by artifact.
    """
    rows = []
    for manifest in outcome.manifests:
        used = {"methods": ", ".join(methods[manifest.artifact])} if methods else {}
        there = manifest.artifact in outcome.reused
        rows.append({"stage": manifest.stage, **used, **_costs(store, manifest, there)})
    create_table_artifact(
        rows, key="costs", description="Costs of every stage and its quote; USD at the prices in prices.yaml"
    )


def _costs(store: Path, manifest: Manifest, there: bool) -> dict[str, Any]:
    paid = ledger_of(store, manifest)
    quote = None if there else find_quote(store, manifest.artifact.split("/")[1])
    return {
        "made by": "an earlier run" if there else "this run",
        "rows": sum(manifest.rows.values()),
        "tokens": sum(row["tokens"] for row in paid),
        "quoted tokens": quote.tokens if quote else "",
        "wall s": round(sum(row["wall_seconds"] for row in paid), 2),
        "quoted wall s": round(quote.wall_seconds, 2) if quote else "",
        "USD": round(sum(row["usd"] for row in paid), 6),
        "quoted USD": round(quote.usd, 6) if quote else "",
        "artifact": manifest.artifact,
    }


def _key(title: str) -> str:
    """A valid key of a Prefect artifact: small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
