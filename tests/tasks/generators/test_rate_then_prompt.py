"""Rate, then prompt: the same ratings as in one pass, a token each, and the answer of an ordinary prompt."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiny_models import llama
from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.tasks.generators.base import Prompt, Stepwise
from vitalfew.tasks.registry import make

QUESTION, CONTEXTS = "Who founded the mill?", ("The river rises in the hills.", "Its mill stands.", "The sea is still.")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llama(tmp_path_factory.mktemp("rater"), positions=512, tokens=("yes", "no"))


def answers(model: Path, generator: str, *prompts: Prompt, **options: Any) -> list[Any]:
    """Of a generator, whose processes, if it has some, are ended."""
    given = {"temperature": 0.0, "max_tokens": 6, "precision": "fp32", "device": "cpu", "at_least": 2, **options}
    made = make(GenerateConfig(generator=generator, model=str(model), **given), "generate")
    try:
        return made.generate(prompts)
    finally:
        getattr(made.engine, "close", lambda: None)()


def test_it_is_full_attention_with_a_threshold(model: Path) -> None:
    prompt = Prompt("", QUESTION, CONTEXTS)
    [one_pass] = answers(model, "sparse_rag", prompt, attention="full")
    [rated] = answers(model, "rate_then_prompt", prompt, engine="transformers")
    assert rated.text == one_pass.text
    assert rated.logprob == pytest.approx(one_pass.logprob, abs=1e-4)
    for own, other in zip(rated.ratings, one_pass.ratings, strict=True):
        assert (own.rank, own.kept, own.tokens) == (other.rank, other.kept, other.tokens)
        assert own.score == pytest.approx(other.score, rel=1e-3)


def test_remembered_ratings_failures_and_no_contexts(model: Path) -> None:
    prompts = [Prompt("", QUESTION, CONTEXTS), Prompt("", QUESTION), Prompt("", QUESTION, ("hills " * 600,))]
    fine, bare, failed = answers(model, "rate_then_prompt", *prompts, engine="transformers")
    assert isinstance(fine, Stepwise)
    assert (bare.error, bare.ratings) == ("", ())
    assert failed.error.startswith("context 1 could not be rated: the prompt has")
    again = Prompt("", QUESTION, CONTEXTS, remembered=fine.ratings)
    assert answers(model, "rate_then_prompt", again, engine="transformers")[0].ratings == fine.ratings


@pytest.mark.vllm
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed (make setup-vllm)")
def test_on_vllm(model: Path) -> None:
    prompt = Prompt("", QUESTION, CONTEXTS)
    [own] = answers(model, "rate_then_prompt", prompt, engine="vllm", precision="fp32")
    [other] = answers(model, "rate_then_prompt", prompt, engine="transformers")
    assert own.text == other.text
    assert [rating.score for rating in own.ratings] == pytest.approx([r.score for r in other.ratings], rel=1e-2)
