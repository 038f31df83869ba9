"""The critic `judge` on a tiny Llama and on a server, against probabilities taken from the model itself."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.support import tiny_models
from tests.support.fakes import ChatServer, Reply, completion
from vitalfew.configs.evaluation import CritiqueConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.raters.asked import CRITIQUING, ProbabilityJudge
from vitalfew.tasks.raters.base import RatedContext
from vitalfew.tasks.registry import make

BATCH = [
    RatedContext("Who founded it?", "The mill still stands.", "hills"),
    RatedContext("Where does the {river} rise?", "", "the sea"),
    RatedContext("Who?", "", ""),
]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("judge"), positions=1024, tokens=("Yes", "No"))


def judge(model: str | Path, **settings: object) -> ProbabilityJudge:
    section = CritiqueConfig(critic="judge", model=str(model), **{"precision": "fp32", "device": "cpu", **settings})
    critic: ProbabilityJudge = make(section, "critique")
    return critic


def by_hand(model: Path, asked: str, values: dict[str, float]) -> float:
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": asked}], tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer(chat, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        probabilities = network(torch.tensor([ids])).logits[0, -1].softmax(-1)
    vocabulary = tokenizer.get_vocab()
    weights = {
        answer: sum(probabilities[vocabulary[f]].item() for f in (answer, f"Ġ{answer}") if f in vocabulary)
        for answer in values
    }
    return sum(weights[answer] * value for answer, value in values.items()) / sum(weights.values())


def test_scores_are_the_probabilities_of_the_answers(llama: Path) -> None:
    told: list[tuple[int, int]] = []
    found = judge(llama).rate(BATCH, lambda *done: told.append(done))
    assert sum(rows for rows, _ in told) == len(BATCH)
    assert sum(tokens for _, tokens in told) > 0
    grades = {str(grade): (grade - 1) / 4 for grade in range(1, 6)}
    for each, critique in zip(BATCH, found, strict=True):
        assert critique.error == ""
        known = {"question": each.question, "context": each.context, "answer": each.answer}
        assert critique["isuse"] == pytest.approx(by_hand(llama, CRITIQUING["isuse"].format(**known), grades), rel=1e-3)
        for name in ("isrel", "issup"):
            asked = CRITIQUING[name].format(**known)
            due = by_hand(llama, asked, {"Yes": 1.0, "No": 0.0}) if each.context else 0.0
            assert critique[name] == pytest.approx(due, rel=1e-3)
    assert judge(llama).rate([]) == []


def test_what_cannot_judge_is_named(tmp_path: Path, llama: Path) -> None:
    with pytest.raises(ConfigError, match="needs a model"):
        make(CritiqueConfig(critic="judge"), "critique")
    lacking = tiny_models.llama(tmp_path / "lacking", tokens=("No",))
    with pytest.raises(ConfigError, match="lacks the token 'Yes'"):
        judge(lacking).rate(BATCH)
    long = [RatedContext("Who?", "the mill " * 2000, "Ada")]
    (critique,) = judge(llama).rate(long)
    assert "isrel: the prompt has" in critique.error


def test_a_server_is_asked_for_its_most_probable_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def behave(path: str, body: Any, attempt: int) -> Reply:
        asked = body["messages"][0]["content"] if body and "messages" in body else ""
        known = {"Hm": 0.9} if "mute" in asked else {"5": 0.6, "1": 0.2, "Yes": 0.3, "No": 0.1}
        top = [{"token": token, "logprob": math.log(value)} for token, value in known.items()]
        return completion("Yes", logprobs={"content": [{**top[0], "top_logprobs": top}]})

    with ChatServer(behave) as server:
        critic = judge("some-model", engine="openai", base_url=server.url, precision="auto", device="auto")
        found = critic.rate([RatedContext("Who?", "Ada", "Ada"), RatedContext("Who?", "", "mute")])
    assert (found[0]["isrel"], found[0]["issup"], found[0]["isuse"]) == pytest.approx((0.75, 0.75, 0.75))
    assert "isuse: the model gives no probability to any of 1, 2, 3, 4, 5" in found[1].error
