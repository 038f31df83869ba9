"""The copier writes the same, whatever the order of its texts."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.tiny_models import bert
from vitalfew.tasks.models.small.copier import Copier
from vitalfew.tasks.models.small.policy import Sampling, greedy, sample

TEXTS = ["Velmar: The mill was built in 1742, by Ada.", "A river runs here", "Kessin lies (far) away.", "U.S. mills"]


@pytest.fixture(scope="module")
def copier(tmp_path_factory: pytest.TempPathFactory) -> Copier:
    base = bert(tmp_path_factory.mktemp("bert"), 256)
    torch.manual_seed(5)
    policy = Copier(base, torch.float32, limit=200, batch_tokens=256).eval()
    with torch.no_grad():
        policy.near.normal_(0, 2)
    return policy


def written(copier: Copier, texts: Sequence[str], limit: int = 6) -> str:
    sources = copier.read(["Who built the mill?"], [texts])
    with torch.no_grad():
        drawn = greedy(copier, copier.encode(sources), limit, least=limit - 1)
    return copier.write(sources[0], drawn[0].actions).text


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.permutations(TEXTS), st.integers(1, len(TEXTS)))
def test_permuted_texts_give_the_same_text(copier: Copier, texts: list[str], count: int) -> None:
    assert written(copier, texts[:count]) == written(copier, sorted(texts[:count])) != ""


def test_steps_agree_with_decoding_all_at_once(copier: Copier) -> None:
    sources = copier.read(["Who?", "Where is it?"], [TEXTS[:2], TEXTS[2:3]])
    with torch.no_grad():
        memory = copier.encode(sources)
        drawn = sample(copier, memory, [1, 2], 8, Sampling(4, 0.95), least=3)
        logprobs, present, _ = copier.log_probabilities(memory, [one.actions for one in drawn])
        assert present.sum(1).tolist() == [len(one.actions) for one in drawn]
        assert logprobs.sum(1).tolist() == pytest.approx([one.logprob for one in drawn], abs=1e-4)
        alone = copier.encode(sources[1:])
        assert sample(copier, alone, [2], 8, Sampling(4, 0.95), least=3)[0].actions == drawn[1].actions
    for one in drawn:
        copied = [action for action in one.actions if action != copier.end]
        assert len(copied) == len({*copied}) >= 3


def test_fixed_layers_learn_nothing_and_are_stored_with_the_others(tmp_path: Path) -> None:
    policy = Copier(bert(tmp_path, 256), torch.float32, limit=200, batch_tokens=256, dropout=0.5)
    policy.prepare_for_training(2)
    stored = policy.trained().keys()
    policy.learn_last(1)
    policy.train().encode(policy.read(["Who?"], [TEXTS])).states.sum().backward()
    learnt = {name for name, own in policy.trained().items() if own.grad is not None}
    assert policy.trained().keys() == stored
    assert any(name.startswith("encoder.encoder.layer.1.") for name in learnt)
    assert not any(name.startswith(("encoder.embeddings.", "encoder.encoder.layer.0.")) for name in learnt)
