"""What reinforcement learns, step by step: the mean reward of a training's texts, and how far they went (Oreo).

Of the table `training_steps`, whose losses have `reward` and `kl` (trainers/oreo/ppo.py). A line through the
means of a twentieth of the steps shows what single steps, of few questions each, hide.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.tasks.reports.plots.drawing import COLOURS, axes_grid, ground, standing_alone, svg

SHARE = 20
"""The line is the mean of so small a part of the steps."""
PLOTTED = {"reward": "mean reward per step", "kl": "KL per text (nats)"}


def learning_plot(steps: Sequence[Mapping[str, Any]]) -> str | None:
    """An SVG that stands alone, of rows of `training_steps` in their order; None of a training without rewards."""
    losses = [dict(row["losses"]) for row in steps]
    if not losses or any(name not in one for one in losses for name in PLOTTED):
        return None
    numbers = [row["step"] for row in steps]
    width = max(1, len(steps) // SHARE)
    with ground("learning"):
        drawing, every = axes_grid(1, 2, (7.4, 2.8))
        told = []
        for axes, (name, label), colour in zip(every, PLOTTED.items(), COLOURS, strict=False):
            values = [one[name] for one in losses]
            line = smoothed(values, width)
            axes.plot(numbers, values, ls="", marker=".", ms=3, color=colour, alpha=0.4)
            axes.plot(numbers[width - 1 :], line, color=colour)
            axes.set_xlabel("step")
            axes.set_ylabel(label)
            told.append(f"{label}: {line[0]:.3f} at the start, {line[-1]:.3f} at the end")
        return standing_alone(svg(drawing, "learning", "Reward and KL by step", f"{'; '.join(told)}."))


def smoothed(values: Sequence[float], width: int) -> list[float]:
    """The mean of each `width` values in a row."""
    return [sum(values[start : start + width]) / width for start in range(len(values) - width + 1)]
