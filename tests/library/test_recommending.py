"""No method is advised where nothing was answered right; what a limit of words makes wrong is said."""

from pathlib import Path

import pytest

import vitalfew as vf
from tests.support.towns import TOWNS

EXPERIMENT = """
generate: {generator: "tests.support.fakes:FirstWords"}
score: {metrics: [accuracy, answer_words, tokens]}
baseline: whole
methods:
  whole: {retrieve: {retriever: passage, top_k: 3}}
  short: {retrieve: {retriever: passage, top_k: 1}, refine: {max_tokens: 4}}
"""


@pytest.fixture
def experiment(tmp_path: Path) -> str:
    file = tmp_path / "wrong.yaml"
    file.write_text(EXPERIMENT)
    return str(file)


def asked(number: int, answer: str) -> list[dict[str, object]]:
    return [{"question": f"Who founded town {place}?", "answers": [answer]} for place in range(number)]


@pytest.mark.parametrize("questions", [20, 40])
def test_answers_that_are_all_wrong_recommend_nothing(own: vf.Store, experiment: str, questions: int) -> None:
    report = own.evaluate(experiment, "towns", asked(questions, "nobody at all"), runner="serial")
    said = report.recommendation
    assert said.startswith(
        f"No method answered a question right.\nAccuracy is 0 for 2 methods on {questions} questions. Read some answers"
    )
    for shown in (str(report), report.page.read_text()):
        assert "No method answered a question right." in " ".join(shown.split())
        assert "Begin with" not in shown


def test_a_limit_of_words_says_what_it_zeroes_and_none_is_usual(own: vf.Store, experiment: str) -> None:
    """The fake answers with the first three words of a passage, such as "Velmar lies on"."""
    questions = [
        {"question": f"Where does {town} lie? {place}", "answers": [town]} for place in range(6) for town in TOWNS
    ]
    usual = own.evaluate(experiment, "towns", questions, runner="serial")
    limited = own.evaluate(experiment, "towns", questions, settings={"score": {"max_words": 1}}, runner="serial")
    (right,) = usual.methods.filter(method="whole")["accuracy"]
    assert right > 0
    assert limited.methods["accuracy"].to_list() == [0.0, 0.0]
    assert f"whole {round(right * len(questions))} of {len(questions)}" in " ".join(str(limited).split())
    assert "score.max_words=null accepts them" in limited.recommendation
    length = usual.summaries.filter(method="whole", metric="answer_words")
    assert length["low"].item() <= length["value"].item() <= length["high"].item()
