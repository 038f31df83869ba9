"""`sparse_rag` and `rate_then_prompt`: what is kept, that order changes nothing, and what is refused."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tiny_models import llama, lora, t5_generator
from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.generators.base import Prompt, Stepwise
from vitalfew.tasks.generators.local import TransformersGenerator
from vitalfew.tasks.generators.prompts import render, source
from vitalfew.tasks.generators.sparse_rag import SparseRag
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.registry import make

QUESTION = "Who founded the mill?"
CONTEXTS = (
    "The river rises in the hills and runs for 120 km.",
    "Its mill still stands.",
    "Who founded it?",
    "The sea is to the hills.",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llama(tmp_path_factory.mktemp("writer"), positions=512, tokens=("yes", "no"))


def generator(model: Path, **options: Any) -> SparseRag:
    given = {"temperature": 0.0, "max_tokens": 6, "precision": "fp32", "device": "cpu", **options}
    made: SparseRag = make(GenerateConfig(generator="sparse_rag", model=str(model), **given), "generate")
    return made


def prompt(*contexts: str, question: str = QUESTION) -> Prompt:
    return Prompt(render(source("sparse_rag"), question, contexts), question, contexts)


def answer(model: Path, *contexts: str, **options: Any) -> Stepwise:
    [completion] = generator(model, **options).generate([prompt(*contexts)])
    assert isinstance(completion, Stepwise), completion.error
    return completion


def test_it_answers_as_the_generator_transformers_where_it_reads_the_same(model: Path) -> None:
    given = {"temperature": 1.0, "max_tokens": 6, "precision": "fp32", "device": "cpu"}
    plain = TransformersGenerator(TransformersGenerator.Options(model=str(model), **given))
    for count, chosen in ((1, {"attention": "block"}), (4, {"attention": "full", "threshold": None})):
        [expected] = plain.generate([prompt(*CONTEXTS[:count])])
        own = answer(model, *CONTEXTS[:count], temperature=1.0, **chosen)
        assert (own.text, own.completion_tokens) == (expected.text, expected.completion_tokens)
        assert own.logprob == pytest.approx(expected.logprob, abs=1e-4)


@settings(max_examples=6)
@given(order=st.permutations(CONTEXTS), attention=st.sampled_from(["block", "full"]))
def test_the_order_changes_no_score_and_with_blocks_no_answer(model: Path, order: list[str], attention: str) -> None:
    first = answer(model, *CONTEXTS, at_least=2, attention=attention)
    turned = answer(model, *order, at_least=2, attention=attention)
    scores = {context: rating.score for context, rating in zip(CONTEXTS, first.ratings, strict=True)}
    assert scores == {context: rating.score for context, rating in zip(order, turned.ratings, strict=True)}
    if attention == "block":
        assert (first.text, first.logprob) == (turned.text, turned.logprob)


def test_the_cache_has_the_question_and_what_was_kept(model: Path) -> None:
    sparse = answer(model, *CONTEXTS, at_least=3)
    cut = generator(model).cut
    question = len(cut.segments(QUESTION, ()).prefix)
    assert sparse.kv_tokens == question + sum(rating.tokens for rating in sparse.ratings if rating.kept)
    everything = question + sum(rating.tokens for rating in sparse.ratings)
    assert sparse.prompt_tokens == everything + len(cut.generate)
    assert sparse.prefill_tokens == everything + 4 * len(cut.assess) + len(cut.generate)  # the question once


def test_what_is_kept_follows_the_settings(model: Path, tmp_path: Path) -> None:
    scores = [rating.score for rating in answer(model, *CONTEXTS).ratings]
    best = sorted(scores, reverse=True)
    for options, count in (
        ({"threshold": best[1]}, 2),
        ({"threshold": 1.0}, 1),
        ({"threshold": 1.0, "at_least": 0}, 0),
        ({"threshold": 0.0, "at_most": 3}, 3),
    ):
        ratings = answer(model, *CONTEXTS, **options).ratings
        assert [rating.score for rating in ratings if rating.kept] == [s for s in scores if s in best[:count]]
    made = generator(model, adapter=str(lora(tmp_path / "lora", model)))
    assert [rating.score for rating in made.generate([prompt(*CONTEXTS)])[0].ratings] != scores
    assert made.identity()["ratings"] != generator(model).identity()["ratings"]


def test_a_prompt_that_cannot_be_read_is_an_error_row(model: Path) -> None:
    made = generator(model, threshold=0.0)
    long, many = "hills " * 600, ["The river runs for 120 km. " * 5 + str(number) for number in range(12)]
    fine, too_long, too_many = made.generate([prompt(*CONTEXTS), prompt(CONTEXTS[0], long), prompt(*many)])
    assert not fine.error
    assert "the longest context has" in too_long.error
    assert "12 kept contexts need" in too_many.error


def test_what_cannot_work_is_refused_before_anything_is_read(model: Path, tmp_path: Path) -> None:
    for options, message in (
        ({"yes": "certainly"}, "yes must be one token of the model, got 'certainly'"),
        ({"at_least": 3, "at_most": 2}, "at_most must be at least .*at_least, got 2 and 3"),
    ):
        with pytest.raises(ConfigError, match=message):
            generator(model, **options)
    with pytest.raises(EngineUnavailable, match="encoder-decoder"):
        generator(t5_generator(tmp_path / "t5"))


# --- `rate_then_prompt`: the same ratings, then one ordinary prompt


def rated_then_prompted(model: Path, *prompts: Prompt, engine: str = "transformers") -> list[Any]:
    given = {"temperature": 0.0, "max_tokens": 6, "precision": "fp32", "device": "cpu", "at_least": 2, "engine": engine}
    made = make(GenerateConfig(generator="rate_then_prompt", model=str(model), **given), "generate")
    try:
        return made.generate(prompts)
    finally:
        getattr(made.engine, "close", lambda: None)()  # of its processes, if it has some


def test_rate_then_prompt_is_full_attention_with_a_threshold(model: Path) -> None:
    one_pass = answer(model, *CONTEXTS, attention="full", at_least=2)
    prompts = [Prompt("", QUESTION, CONTEXTS), Prompt("", QUESTION), Prompt("", QUESTION, ("hills " * 600,))]
    rated, bare, failed = rated_then_prompted(model, *prompts)
    assert rated.text == one_pass.text
    assert rated.logprob == pytest.approx(one_pass.logprob, abs=1e-4)
    for own, other in zip(rated.ratings, one_pass.ratings, strict=True):
        assert (own.rank, own.kept, own.tokens) == (other.rank, other.kept, other.tokens)
        assert own.score == pytest.approx(other.score, rel=1e-3)
    assert (bare.error, bare.ratings) == ("", ())
    assert failed.error.startswith("context 1 could not be rated: the prompt has")


@pytest.mark.vllm
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed (make setup-vllm)")
def test_rate_then_prompt_on_vllm(model: Path) -> None:
    prompt = Prompt("", QUESTION, CONTEXTS)
    [own] = rated_then_prompted(model, prompt, engine="vllm")
    [other] = rated_then_prompted(model, prompt)
    assert own.text == other.text
    assert [rating.score for rating in own.ratings] == pytest.approx([r.score for r in other.ratings], rel=1e-2)


def test_what_was_dropped_might_never_have_been_read(model: Path) -> None:
    """Bit for bit, where every row is alone in its batch."""
    alone = {"batch_tokens": 16, "temperature": 1.0}
    sparse = answer(model, *CONTEXTS, at_least=2, **alone)
    kept = [CONTEXTS[rating.rank - 1] for rating in sparse.ratings if rating.kept]
    assert len(kept) == 2
    only = answer(model, *kept, at_least=2, **alone)
    assert (sparse.text, sparse.logprob) == (only.text, only.logprob)
