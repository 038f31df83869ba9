"""The generator `self_rag` on a tiny Llama with reflection tokens: probabilities, and on demand."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.support import tiny_models
from tests.support.evaluating import copied, evaluated
from tests.support.indexing import sql
from tests.support.shared import indexed
from vitalfew.configs.evaluation import CritiqueConfig, GenerateConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.tasks.generators.base import Prompt
from vitalfew.tasks.generators.self_rag import ON_DEMAND, OTHERS, RELEVANCE, RETRIEVAL, SUPPORT, UTILITY, SelfRag
from vitalfew.tasks.raters.base import RatedContext
from vitalfew.tasks.raters.recorded import Reflection
from vitalfew.tasks.registry import make

TOKENS = (*RETRIEVAL, *RELEVANCE, *SUPPORT, *UTILITY, *OTHERS)
TEXTS = [f"### Instruction:\n{text}\n\n### Response:\n[Retrieval]<paragraph>The mill stands.</paragraph>" for text in (
    "Who founded it?", "Where does the river rise?", "The mill", "Which hills?", "What runs to the sea?", "a", "b", "c",
)]  # fmt: skip


@pytest.fixture(scope="module")
def selfrag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("selfrag"), chat=False, positions=1024, tokens=TOKENS)


def config(model: Path, **settings: Any) -> GenerateConfig:
    chosen = {"precision": "fp32", "device": "cpu", "max_tokens": 40, "temperature": 1.0, **settings}
    return GenerateConfig(generator="self_rag", model=str(model), **chosen)


def self_rag(model: Path, **settings: Any) -> SelfRag:
    generator: SelfRag = make(config(model, **settings), "generate")
    return generator


def by_hand(model: Path, text: str) -> dict[str, float]:
    """Probabilities of each group where it was written first, from logits of one forward pass at a time."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    ids, found = tokenizer(text)["input_ids"], dict[str, float]()
    for _ in range(40):
        with torch.inference_mode():
            logits = network(torch.tensor([ids])).logits[0, -1]
        token = int(logits.argmax())
        for group in (RELEVANCE, SUPPORT, UTILITY):
            numbers = tokenizer.convert_tokens_to_ids([*group])
            if token in numbers and group[0] not in found:
                found |= zip(group, logits.softmax(-1)[numbers].tolist(), strict=True)
        ids.append(token)
        if token == tokenizer.eos_token_id:
            break
    return found


def test_a_group_is_read_where_it_was_written(selfrag: Path) -> None:
    answers = self_rag(selfrag, temperature=0.0).generate([Prompt(text, text) for text in TEXTS])
    groups = 0
    for text, answer in zip(TEXTS, answers, strict=True):
        due = by_hand(selfrag, text)
        assert dict(answer.probabilities) == pytest.approx(due, rel=1e-3)
        groups += len(due) > 0
    assert groups > 2


def test_scores_are_expectations_over_each_group() -> None:
    probabilities = {
        "[Relevant]": 0.3, "[Irrelevant]": 0.1, "[Fully supported]": 0.2, "[Partially supported]": 0.2,
        "[No support / Contradictory]": 0.4, "[Utility:1]": 0.0, "[Utility:2]": 0.1, "[Utility:3]": 0.0,
        "[Utility:4]": 0.0, "[Utility:5]": 0.3,
    }  # fmt: skip
    critic = Reflection(CritiqueConfig(critic="reflection"))
    half = {"[Relevant]": 0.5, "[Irrelevant]": 0.5}
    judged = [RatedContext("q", "c", "a", each) for each in (probabilities, half, {})]
    whole, cut, none = critic.rate(judged)
    assert (whole["isrel"], whole["issup"], whole["isuse"]) == pytest.approx((0.75, 0.375, (0.25 * 0.1 + 0.3) / 0.4))
    assert (cut["isrel"], cut["issup"], cut["isuse"], cut.error) == (0.5, 0.0, 0.5, "")
    assert "no probabilities of reflection tokens" in none.error


def test_an_evaluation_with_reflection_on_demand(tmp_path: Path, selfrag: Path) -> None:
    store = copied(indexed("synthetic:passages=40,questions=8,seed=3"), tmp_path / "store")
    engine = self_rag(selfrag).engine
    questions = [text for (text,) in sql(store, "SELECT text FROM questions")]
    prompts = [f"### Instruction:\n{text}\n\n### Response:\n" for text in questions]
    found = [each.probabilities for each in engine.complete(prompts, ON_DEMAND)]
    wanting = sorted(each["[Retrieval]"] / (each["[Retrieval]"] + each["[No Retrieval]"]) for each in found)
    threshold = math.fsum(wanting[3:5]) / 2
    settings = {
        "index": "test",
        "questions": {"batch": 8},
        "retrieve": {"retriever": "passage", "top_k": 3},
        "generate": {**config(selfrag).model_dump(), "per_context": True},
        "critique": {"critic": "reflection"},
        "select": {"selector": "pareto_set"},
        "methods": {
            name: {"generate": {"retrieval": name, "threshold": threshold}} for name in ("always", "never", "adaptive")
        },
    }
    outcome = evaluated(evaluation("trial", settings, {"store": store, "runner": "serial"}))
    counts = {name: each["generate"].rows["candidates"] for name, each in outcome.methods.items()}
    assert counts == {"always": 24, "never": 8, "adaptive": 4 * 3 + 4}
    rows = sql(
        store,
        "SELECT text, len(contexts), critiques.error FROM candidates JOIN methods USING (fingerprint) "
        "JOIN (SELECT * FROM critiques JOIN methods USING (fingerprint)) AS critiques "
        "USING (question_id, candidate, method) WHERE method = 'always'",
    )
    assert len(rows) == 24
    assert not all(error for _, _, error in rows)
    assert not any(token in text for text, _, _ in rows for token in TOKENS)
    assert {count for _, count, _ in rows} == {1}
    with pytest.raises(ConfigError, match=r"critic 'reflection' needs generator 'self_rag'"):
        evaluation("trial", {**settings, "methods": {"a": {"generate": {"generator": "transformers"}}}})
