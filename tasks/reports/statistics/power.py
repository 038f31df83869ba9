"""How many questions show a difference of a given size (Cohen, Statistical Power Analysis, 1988, chapter 2).

For a two-sided paired test of a mean difference, by the normal approximation: n = ((z_confidence + z_power) · sd / d)².
With fewer than about 30 questions Student's t asks for two or three more. The standard deviation is that of the
paired differences, as measured in a run (`Difference.sd`), not that of one method's values.
"""

import math

from scipy import special


def questions_needed(
    sd_of_differences: float, difference: float, power: float = 0.8, confidence: float = 0.95
) -> int | None:
    """Questions that show a true mean difference so large with this probability; None where the difference is 0."""
    factor = _factor(sd_of_differences, power, confidence)
    if not difference:
        return None
    return max(1, math.ceil((factor * sd_of_differences / difference) ** 2))


def visible_difference(
    sd_of_differences: float, questions: int, power: float = 0.8, confidence: float = 0.95
) -> float | None:
    """The smallest true mean difference that so many questions show with this probability; None without questions."""
    factor = _factor(sd_of_differences, power, confidence)
    return factor * sd_of_differences / math.sqrt(questions) if questions > 0 else None


def _factor(sd: float, power: float, confidence: float) -> float:
    if not 0 < power < 1 or not 0 < confidence < 1:
        raise ValueError(f"power and confidence must be between 0 and 1, got {power} and {confidence}")
    if not sd >= 0:
        raise ValueError(f"a standard deviation cannot be {sd}")
    return float(special.ndtri((1 + confidence) / 2) + special.ndtri(power))
