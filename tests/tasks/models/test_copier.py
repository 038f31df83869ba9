"""The copier: what it writes are words of its texts, whatever their order, and decoding agrees with itself."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.tiny_models import bert
from vitalfew.tasks.models.small.copier import Copier
from vitalfew.tasks.models.small.policy import Sampling, greedy, sample

TEXTS = ["Velmar: The mill was built in 1742, by Ada.", "A river runs here", "Kessin lies (far) away.", "U.S. mills"]
texts_of = st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4, unique=True)
LENIENT = settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])


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


@LENIENT
@given(texts_of, st.randoms(use_true_random=False))
def test_permuted_texts_give_the_same_text(copier: Copier, texts: list[str], draw: object) -> None:
    other = list(texts)
    draw.shuffle(other)  # type: ignore[attr-defined]
    assert written(copier, other) == written(copier, texts)


@LENIENT
@given(texts_of, st.lists(st.integers(1, 40), max_size=12))
def test_every_word_stands_in_the_texts(copier: Copier, texts: list[str], actions: list[int]) -> None:
    source = copier.read(["Who?"], [texts])[0]
    words = {word.strip(".,:;()") for text in texts for word in text.split()}
    pieces = {text[run.start : run.end] for text in texts for run in source.content.runs if run.end <= len(text)}
    inside = [action for action in dict.fromkeys(actions) if action <= len(source.content.runs)]
    text, runs = copier.write(source, inside)
    assert all(word.strip(".,:;()") in words | pieces | {""} for word in text.split())
    assert all(source.texts[run.chunk][run.start : run.end] in text for run in runs)


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
