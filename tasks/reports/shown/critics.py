"""How much a critic leaves to choose, and how far off its probabilities are, in sentences."""

from vitalfew.tasks.reports.contents import CriticResult, Report
from vitalfew.tasks.reports.shown.text import listed, one_line

_SHOWN = 3


def critics(report: Report) -> list[str]:
    """A sentence or two for every set of critiqued candidates."""
    return [_line(critic) for critic in report.critics if critic.front is not None]


def _line(critic: CriticResult) -> str:
    correlation = "unknown" if critic.correlation is None else f"{critic.correlation:.2f}"
    methods = listed([*map(one_line, critic.methods)], _SHOWN)
    line = (
        f"Critic {one_line(critic.critic)} ({methods}): {critic.front:.2f} of {critic.candidates:.1f} candidates per "
        f"question are on the Pareto front; the rank correlation of F1 and F2 within a question is {correlation}."
    )
    if not critic.errors:
        return line
    errors = ", ".join(
        f"{aspect.upper()} {error:.3f} ({candidates:,})" for aspect, (error, candidates) in critic.errors.items()
    )
    return (
        f"{line} Expected calibration error by gold data, with the number of candidates (ISSUP: relevant contexts with "
        f"the answer): "
        f"{errors}."
    )
