"""The copier: what it writes are words of its texts, whatever their order, and decoding agrees with itself."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from tests.support.tiny_models import bert
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.small.copied import CopiedRun
from vitalfew.tasks.models.small.copier import Copier
from vitalfew.tasks.models.small.policy import Sampling, beams, greedy, sample

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


@LENIENT
@given(texts_of, st.integers(0, 20), st.integers(1, 30))
def test_a_target_is_written_again(copier: Copier, texts: list[str], start: int, length: int) -> None:
    source = copier.read(["Who?"], [texts])[0]
    part = texts[0][start : start + length]
    actions = copier.target(source, part, [CopiedRun(0, start, start + length)])
    assert actions[-1:] in ([], [copier.end])
    if part.strip(" .,:;("):
        assert part.strip(" .,:;(") in copier.write(source, actions).text


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


def test_rows_that_end_early_change_nothing_for_the_others(copier: Copier) -> None:
    questions = [f"Who{'?' * (1 + number % 3)}" for number in range(12)]
    sources = copier.read(questions, [TEXTS[: 1 + number % 3] for number in range(12)])
    with torch.no_grad():
        memory = copier.encode(sources)
        together = sample(copier, memory, range(12), 24, Sampling(40, 1.0))
        assert len({len(one.actions) for one in together}) > 3  # or nothing is left out
        alone = [
            sample(copier, copier.encode([source]), [seed], 24, Sampling(40, 1.0))[0]
            for seed, source in enumerate(sources)
        ]
        assert [one.actions for one in together] == [one.actions for one in alone]
        assert [one.logprob for one in together] == pytest.approx([one.logprob for one in alone], abs=1e-4)
        both = greedy(copier, memory, 8, texts=2)
        assert [one.actions for one in both] == [
            greedy(copier, copier.encode([source]), 8, texts=2)[0].actions for source in sources
        ]


def test_one_beam_is_greedy_and_more_find_nothing_worse(copier: Copier) -> None:
    sources = copier.read(["Who?", "Where is it?"], [TEXTS[:2], TEXTS[2:3]])
    with torch.no_grad():
        memory = copier.encode(sources)
        single = beams(copier, memory, 2, 6, 1)
        assert [own[0].actions for own in single] == [one.actions for one in greedy(copier, memory, 6)]
        several = beams(copier, memory, 2, 6, 4)
        for own in several:
            assert len(own) == 4
            assert len({tuple(one.actions) for one in own}) == 4
            logprobs, _, _ = copier.log_probabilities(memory.of([several.index(own)] * 4), [one.actions for one in own])
            assert logprobs.sum(1).tolist() == pytest.approx([one.logprob for one in own], abs=1e-4)


def test_a_further_text_is_of_words_that_are_left(copier: Copier) -> None:
    sources = copier.read(["Who?", "Where is it?"], [TEXTS[:2], TEXTS[2:3]])
    memory = copier.encode(sources)
    once, twice = greedy(copier, memory, 6, least=2), greedy(copier, memory, 6, least=2, texts=2)
    for one, both in zip(once, twice, strict=True):
        assert both.actions[: len(one.actions)] == one.actions
        copied = [action for action in both.actions if action != copier.end]
        assert len(copied) == len({*copied}) > sum(action != copier.end for action in one.actions)


def test_what_is_too_long_loses_its_last_texts(copier: Copier) -> None:
    source = copier.read(["Who?"], [["a mill " * 60, "a river " * 60, "a hill"]])[0]
    assert (len(source.texts), source.cut) == (1, 2)
    long = copier.read(["why " * 200], [["a river " * 90]])[0]
    assert all(len(window.ids) <= 256 for window in long.content.windows)
    assert len(long.content.runs) == 180


def test_only_the_decoder_learns_when_the_encoder_is_frozen(tmp_path: Path) -> None:
    copier = updated(tmp_path)
    assert copier.decoder().keys() == {
        name for name in copier.decoder() if name.split(".")[0] not in ("encoder", "head")
    }
    sources = copier.read(["Who?"], [TEXTS])
    learnt = copier.encode(sources).states
    assert learnt.requires_grad
    copier.freeze()
    frozen = copier.encode(sources).states
    assert not frozen.requires_grad
    assert torch.allclose(frozen, learnt, atol=1e-5)


@pytest.mark.parametrize("openvino", [True, False])
def test_the_last_layers_learn_alone(openvino: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not openvino:  # as on a GPU, or where OpenVINO is not
        monkeypatch.setattr("vitalfew.tasks.models.compiled.is_usable", lambda: False)
    copier = updated(tmp_path)
    sources = copier.read(["Who?", "Where?"], [TEXTS, TEXTS[:1]])
    whole = copier.encode(sources).states
    copier.learn_last(1)
    states = copier.encode(sources).states
    assert torch.allclose(states, whole, atol=1e-5)
    states.sum().backward()
    assert {name for name, own in copier.trained().items() if own.grad is not None} <= copier.learning().keys()
    assert any(name.startswith("encoder.encoder.layer.1.") for name in copier.learning())
    assert not any(name.startswith(("encoder.encoder.layer.0.", "encoder.embeddings.")) for name in copier.learning())
    with pytest.raises(ConfigError, match="must be at most 2, the number of the encoder's layers"):
        copier.learn_last(3)


def updated(base: Path) -> Copier:
    """A copier in training whose updates are not zero."""
    copier = Copier(bert(base, 256), torch.float32, limit=200, batch_tokens=256).eval()
    copier.prepare_for_training(2)
    for name, parameter in copier.trained().items():
        if name.endswith(".b"):
            nn.init.normal_(parameter, std=0.1)
    return copier


def test_held_weights_give_the_same_gradients(tmp_path: Path) -> None:
    copier = updated(tmp_path)
    sources = copier.read(["Who built the mill?"] * 2, [["A mill by the river."], ["Anna built it in 1742."]])
    found = []
    for context in (nullcontext, copier.held):
        copier.zero_grad()
        with context():
            for source, actions in zip(sources, ([1, 2, 0], [2, 3, 0]), strict=True):
                logprobs, _, _ = copier.log_probabilities(copier.encode([source]), [actions])
                logprobs.sum().backward()
        found.append({name: own.grad.clone() for name, own in copier.trained().items() if own.grad is not None})
    assert set(found[0]) == set(found[1])
    assert any(name.endswith(".a") for name in found[0])
    for name, gradient in found[0].items():
        assert torch.allclose(gradient, found[1][name], atol=1e-5), name
