"""The stage `likelihood` and its metric, on tiny models: how probable the gold answer is behind a prompt."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.support import tiny_models
from tests.support.evaluating import copied, evaluated, parameters, values
from tests.support.indexing import sql
from tests.support.shared import indexed
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.answering import Answering, configured
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.tasks.generators import prompts
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable

ANSWERS = {"generator": "tests.support.fakes:FirstWords"}
COMPUTING: dict[str, Any] = {"device": "cpu", "precision": "fp32", "batch_tokens": 900}
METRICS = {"metrics": ["answer_likelihood", "tokens"]}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"), positions=2048)


def settings(model: Path, **methods: Any) -> dict[str, Any]:
    return {
        "index": "test",
        "questions": {"sample": 4, "batch": 2},
        "retrieve": {"retriever": "passage", "top_k": 2},
        "generate": ANSWERS,
        "likelihood": {"model": str(model), **COMPUTING},
        "methods": methods or {"two": {}},
        "score": METRICS,
    }


def run(store: Path, given: dict[str, Any], **own: Any) -> Evaluated:
    return evaluated(parameters(store, given, **own))


def directly(directory: Path, prompt: str, answer: str) -> tuple[float, int]:
    """With transformers alone, token by token: nats, and tokens of the answer."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(directory).eval(), AutoTokenizer.from_pretrained(directory)
    if tokenizer.chat_template:
        chat = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        before = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        before, answer = tokenizer(prompt)["input_ids"], f" {answer}"
    own = tokenizer(answer, add_special_tokens=False)["input_ids"]
    nats = 0.0
    for place, token in enumerate(own):
        with torch.inference_mode():
            logits = model(torch.tensor([[*before, *own[:place]]])).logits[0, -1]
        nats += float(logits.log_softmax(-1)[token])
    return nats, len(own)


@pytest.mark.parametrize("chat", [True, False])
def test_it_is_the_probability_that_the_model_gives_after_the_prompt(chat: bool, tmp_path: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
    model = tiny_models.llama(tmp_path / "model", chat=chat, positions=2048)
    outcome = run(store, settings(model, none={"retrieve": None}, two={}))
    query = (
        "SELECT l.question_id, q.text, l.answer, l.nats, l.tokens, q.answers[1] FROM likelihoods AS l "
        "JOIN methods AS m USING (fingerprint) JOIN asked AS q ON q.question_id = l.question_id "
        "WHERE m.method = '{}' AND q.fingerprint = (SELECT any_value(fingerprint) FROM methods "
        "WHERE table_name = 'asked' AND method = m.method) ORDER BY ALL"
    )
    for method in ("none", "two"):
        rows = sql(store, query.format(method))
        assert len(rows) == 4
        for question, text, answer, nats, tokens, gold in rows[:2]:
            contexts = [
                row[0] for row in sql(store, f"SELECT text FROM evidence WHERE question_id = {question} ORDER BY rank")
            ]
            shown = contexts if method == "two" else []
            prompt = prompts.render(prompts.source("short_answer"), text, tuple(shown))
            assert answer == gold
            assert (nats, tokens) == pytest.approx(directly(model, prompt, answer), rel=1e-3)
        found = values(store, outcome, method)
        assert found["answer_likelihood"] == pytest.approx(sum(row[3] for row in rows) / 4)
        assert found["answer_likelihood_per_token"] == pytest.approx(sum(row[3] / row[4] for row in rows) / 4)


def test_wrong_settings_say_what_is_wrong_and_what_is_served_needs_no_such_model(llama: Path, tmp_path: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
    with pytest.raises(ConfigError, match=r"likelihood\.model is not set"):
        run(store, {**settings(llama), "likelihood": {"precision": "fp32"}})
    with pytest.raises(EngineUnavailable, match=r"--set likelihood\.model=NAME"):
        run(store, settings(tiny_models.t5_generator(tmp_path / "t5")))
    served = Answering(store, configured(store, "quickstart:naive RAG", "test", {"likelihood": {"model": str(llama)}}))
    assert "likelihood" not in [stage.name for stage in served.stages]
