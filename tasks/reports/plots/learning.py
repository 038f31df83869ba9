"""The progress of reinforcement by step: the mean reward of a training's texts, and how far they went (Oreo).

Both are losses `reward` and `kl` of the table `training_steps` (trainers/oreo/ppo.py). A line through the means of a
twentieth of the steps shows what single steps, of few questions, hide.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.tasks.reports.plots.drawing import COLOURS, canvas, standing_alone

SHARE = 20
"""The line is the mean of so small a part of the steps."""
PLOTTED = {"reward": "mean reward per step", "kl": "KL per text (nats)"}


def learning_plot(steps: Sequence[Mapping[str, Any]]) -> str | None:
    """Plot rows of `training_steps`, in their order, as an SVG that stands alone; None without rewards."""
    losses = [dict(row["losses"]) for row in steps]
    if not losses or any(name not in one for one in losses for name in PLOTTED):
        return None
    numbers = [row["step"] for row in steps]
    width = max(1, len(steps) // SHARE)
    with canvas("learning", (7.4, 2.8), columns=2) as drawing:
        words = []
        for axes, (name, label), colour in zip(drawing.axes, PLOTTED.items(), COLOURS, strict=False):
            values = [one[name] for one in losses]
            line = [sum(values[start : start + width]) / width for start in range(len(values) - width + 1)]
            axes.plot(numbers, values, ls="", marker=".", ms=3, color=colour, alpha=0.4)
            axes.plot(numbers[width - 1 :], line, color=colour)
            axes.set(xlabel="step", ylabel=label)
            words.append(f"{label}: {line[0]:.3f} at the start, {line[-1]:.3f} at the end")
        return standing_alone(drawing.plot("Reward and KL by step", "", f"{'; '.join(words)}.").svg)
