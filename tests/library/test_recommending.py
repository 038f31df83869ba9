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


def test_answers_that_are_all_wrong_recommend_nothing(own: vf.Store, experiment: str) -> None:
    asked = [{"question": f"Who founded town {place}?", "answers": ["nobody at all"]} for place in range(40)]
    report = own.evaluate(experiment, "towns", asked, runner="serial")
    assert "Read some answers" in report.recommendation
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
