"""Multiple choice: the option that an output names, as a person would mark it."""

import pytest

from vitalfew.tasks.metrics.answers import Choice, chosen, options
from vitalfew.tasks.metrics.base import Answer, Case

QUESTION = "What moves a sailing boat?\nA: wind\nB: water\nC: sea water\nD: a motor"
NUMBERED = "How far is it?\n1: a mile\n2: two miles\n3: 3,000 km"


@pytest.mark.parametrize(
    ("output", "label"),
    [
        ("A", "A"),
        ("(b)", "B"),
        ("B: water", "B"),
        ("**C**", "C"),
        ("D.", "D"),
        ("A (wind)", "A"),
        ("B - water", "B"),
        ("A\nSails catch it.", "A"),
        ("B is correct", "B"),
        ("B is wrong", None),
        ("The answer is A", "A"),
        ("The answer is A.", "A"),
        ("Answer: (A)", "A"),
        ("The correct answer is **A**, because of its sails.", "A"),
        ("I think that the answer is D.", "D"),
        ("Sails catch it, so the answer is: option A", "A"),
        ("The answer is not A.", None),
        ("I think the answer is A. No, the answer is B.", None),
        ("A motor", "D"),
        ("a boat", None),
        ("It is sea water.", "C"),
        ("wind or water", None),
        ("", None),
    ],
)
def test_an_output_names_an_option(output: str, label: str | None) -> None:
    assert chosen(output, options(QUESTION)) == label


@pytest.mark.parametrize(("output", "label"), [("1", "1"), ("2. Two", "2"), ("1.5 miles", None), ("3,000 km", "3")])
def test_a_number_is_no_label_where_digits_follow(output: str, label: str | None) -> None:
    assert chosen(output, options(NUMBERED)) == label


@pytest.mark.parametrize("gold", [("wind", "A: wind"), ("A: wind", "wind"), ("A",)])
def test_the_right_option_is_named_by_its_text_or_by_its_label(gold: tuple[str, ...]) -> None:
    def score(output: str) -> float | None:
        (value,) = Choice(Choice.Options()).score([asked(output, *gold)])["choice"]
        return value

    assert score("The answer is A") == score("wind") == 1
    assert score("The answer is B") == score("a motor") == score("") == 0


def asked(output: str, *gold: str, question: str = QUESTION) -> Case:
    return Case(question, gold, (), (), answer=Answer(output, 9, 2, 0.1))
