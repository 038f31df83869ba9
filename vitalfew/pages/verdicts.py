"""The verdicts of a gate on an index's generations, in sentences with their intervals, and as a table."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from vitalfew.pages import parts
from vitalfew.pages.parts import figure, numbers, texts

_ANSWERS = {
    "promoted": "It did not get worse.",
    "rejected": "It got worse.",
    "in doubt": "Too few questions to say whether it got worse.",
    "held": "Nothing could be compared, or a person is to decide.",
}


def verdict(gates: pl.DataFrame, newest: int) -> None:
    """Say what the gate found about the newest generation of an index, if it has judged that one."""
    rows = gates.filter(pl.col("generation") == newest).to_dicts()
    if not rows:
        parts.hint(
            f"No gate has judged generation {newest}, the newest. A gate compares a new generation with the one before "
            "it; the form of re-encoding says if the corpus has one, and adds one."
        )
        return
    first, compared = rows[0], [row for row in rows if row["metric"] and row["difference"] is not None]
    which = f"Generation {first['generation']} against generation {first['against']}: {first['verdict']}."
    needed = max((row["settled_by"] or 0 for row in rows), default=0)
    settled = f" About {needed:,} questions would settle it." if first["verdict"] == "in doubt" and needed else ""
    said = parts.Words(f"{which} {_ANSWERS.get(first['verdict'], '')}{settled}", "div")
    said.classes("text").style("font-weight: 600")
    for row in compared:
        parts.Words(_sentence(row), "div").classes("text")
    if not compared or first["approval"]:
        parts.Words(first["said"], "div").classes("text")
    if first["left_out"]:
        parts.hint(f"{first['left_out']:,} questions were left out: their passages are not in both corpora.")
    if first["verdict"] != "promoted":
        parts.hint("The gate left searches with the generation before. The page of the index can promote the new one.")


def _sentence(row: Mapping[str, Any]) -> str:
    ends = " to ".join("unknown" if row[end] is None else f"{row[end]:+.3f}" for end in ("low", "high"))
    return (
        f"{row['metric']} of {row['method']}: {row['current']:.3f} before, {row['candidate']:.3f} now; difference "
        f"{row['difference']:+.3f}, 95 % interval {ends}, accepted loss {row['margin']:g}, on {row['questions']:,} "
        f"questions: {row['metric_verdict']}."
    )


def judged(gates: pl.DataFrame, newest: int) -> None:
    """Say what the gate found about the newest generation of an index, above a table of all its figures."""
    verdict(gates, newest)
    if gates.is_empty():
        return
    ends = [pl.col(end).map_elements(lambda value: f"{value:+.3f}", pl.String) for end in ("low", "high")]
    interval = pl.concat_str(ends, separator=" to ").alias("interval")
    columns = (
        *numbers(figure(), generation="generation", against="against generation"),
        *texts(verdict="verdict of the gate", method="method", metric="metric"),
        *numbers(figure(3), current="before", candidate="new"),
        *numbers(lambda value: "" if value is None else f"{value:+.3f}", difference="difference"),
        *texts(interval="95 % interval"),
        *numbers(figure(3), margin="accepted loss"),
        *numbers(figure(), questions="questions"),
        *texts(metric_verdict="verdict on the metric"),
    )
    parts.frame_table("Figures of the gate", columns, gates.with_columns(interval), "generation", True)
