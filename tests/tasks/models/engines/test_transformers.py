"""The engine `transformers` on tiny models: batches, limits, sampling, probabilities, faults."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from tests.support import tiny_models
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable, Probe, sampling_seed
from vitalfew.tasks.models.causal.engines.transformers import Transformers
from vitalfew.tasks.models.causal.engines.vllm import Vllm
from vitalfew.tasks.models.causal.sampling import RowSampler

TEXTS = ["Who founded it?", "Where does the river rise? " * 3, "The mill", "120 km to the sea; " * 6, "hills", ""]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def plain_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("plain"), chat=False)


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.bart(tmp_path_factory.mktemp("bart"))


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.t5_generator(tmp_path_factory.mktemp("t5"))


def make(model: Path | str | None, **settings: Any) -> Transformers:
    chosen = {"precision": "fp32", "device": "cpu", "max_tokens": 12, **settings}
    return Transformers(Transformers.Options(model=model and str(model), **chosen), "generate")


def content(answers: list[Completion]) -> list[tuple[str, int, int, str]]:
    return [(each.text, each.prompt_tokens, each.completion_tokens, each.error) for each in answers]


@pytest.mark.parametrize("model", ["llama", "plain_llama", "bart", "t5"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_batch_answers_as_its_prompts_one_by_one(
    model: str, temperature: float, request: pytest.FixtureRequest
) -> None:
    engine = make(request.getfixturevalue(model), temperature=temperature)
    together = engine.complete(TEXTS)
    apart = [engine.complete([text])[0] for text in TEXTS]
    assert content(together) == content(apart)
    assert [each.logprob for each in together] == pytest.approx([each.logprob for each in apart], abs=1e-4)
    assert len({each.text for each in together}) > 2


def test_greedy_answers_are_those_of_the_library(llama: Path, bart: Path) -> None:
    for model, kind in ((llama, AutoModelForCausalLM), (bart, AutoModelForSeq2SeqLM)):
        [answer] = make(model, temperature=0).complete([TEXTS[1]])
        tokenizer, reference = AutoTokenizer.from_pretrained(model), kind.from_pretrained(model)
        chat = [{"role": "user", "content": TEXTS[1]}]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) if model == llama else ""
        inputs = tokenizer(text or TEXTS[1], return_tensors="pt", add_special_tokens=model == bart)
        inputs.pop("token_type_ids", None)
        plain = {"num_beams": 1, "no_repeat_ngram_size": 0, "repetition_penalty": 1.0, "do_sample": False}
        output = reference.generate(**inputs, **plain, max_new_tokens=12)[0]
        completion = output[1:] if model == bart else output[inputs["input_ids"].shape[1] :]
        assert answer.text == tokenizer.decode(completion, skip_special_tokens=True).rstrip("\ufffd").strip()
        assert answer.completion_tokens == len(completion)
        assert answer.prompt_tokens == inputs["input_ids"].shape[1]


def test_padding_is_on_the_left(llama: Path) -> None:
    inputs = make(llama)._padded([[5, 6, 7], [8]])
    assert inputs["input_ids"].tolist() == [[5, 6, 7], [0, 0, 8]]
    assert inputs["attention_mask"].tolist() == [[1, 1, 1], [0, 0, 1]]


def test_the_logprob_is_that_of_the_whole_completion(llama: Path) -> None:
    engine = make(llama, temperature=1.0)
    [answer] = engine.complete([TEXTS[0]])
    [prompt] = engine.local.encode([TEXTS[0]])
    with torch.inference_mode():
        sampler = RowSampler(1.0, [sampling_seed(100, TEXTS[0])], torch.device("cpu"), [])
        output = engine.model.generate(
            torch.tensor([prompt]), generation_config=engine._settings, logits_processor=[sampler]
        )
        logprobs = engine.model(output).logits[0].log_softmax(-1)
    chosen = output[0, len(prompt) :]
    expected = sum(float(logprobs[len(prompt) - 1 + place, token]) for place, token in enumerate(chosen))
    assert answer.completion_tokens == len(chosen)
    assert answer.logprob == pytest.approx(expected, abs=1e-4)


def test_sampling_follows_the_seed_and_the_distribution(llama: Path) -> None:
    first, again = (make(llama, temperature=1.0).complete(TEXTS) for _ in range(2))
    other = make(llama, temperature=1.0, seed=1).complete(TEXTS)
    assert content(first) == content(again)
    assert content(first) != content(other)
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2, 0.0]])).repeat(4000, 1)
    sampler = RowSampler(1.0, range(4000), torch.device("cpu"), [])
    shares = torch.bincount(sampler(torch.empty(0), logits).argmax(-1), minlength=4) / 4000
    assert shares.tolist() == pytest.approx([0.5, 0.3, 0.2, 0.0], abs=0.03)
    cold = (
        torch.bincount(RowSampler(0.5, range(4000), torch.device("cpu"), [])(torch.empty(0), logits).argmax(-1)) / 4000
    )
    assert cold[0] == pytest.approx(0.25 / 0.38, abs=0.03)


def test_a_prompt_that_is_too_long_is_a_row(llama: Path, bart: Path, t5: Path) -> None:
    long = "mill " * 400
    answers = make(llama).complete(["hills", long, "sea"])
    assert [bool(each.error) for each in answers] == [False, True, False]
    assert "at most 244" in answers[1].error  # 256 positions less 12 of the answer
    assert (answers[1].finish_reason, answers[1].text) == ("error", "")
    assert answers[1].prompt_tokens > 400
    assert "at most 64" in make(bart).complete([long])[0].error
    assert not make(t5).complete([long])[0].error  # relative positions
    [short] = make(llama, max_input_tokens=4).complete(["The river rises in the hills"])
    assert "at most 4 " in short.error
    assert make(llama).complete([]) == []


def test_the_longest_prompt_still_fits(plain_llama: Path) -> None:
    engine = make(plain_llama, temperature=0)
    text = next(text for size in range(400) if len(engine.local.encode([text := "x" * size])[0]) == 244)
    whole, beyond = engine.complete([text, text + "x"])
    assert (whole.error, whole.prompt_tokens) == ("", 244)
    assert "245 tokens" in beyond.error


def test_an_empty_prompt_is_a_row_where_it_has_no_tokens(plain_llama: Path) -> None:
    engine = make(plain_llama)
    engine.local.tokenizer.backend_tokenizer.post_processor = None  # no <s>
    empty, full = engine.complete(["", "hills"])
    assert (empty.error, full.error) == ("the prompt is empty", "")


def test_settings_that_do_not_fit_the_model(llama: Path) -> None:
    with pytest.raises(ConfigError, match="max_tokens=256"):
        make(llama, max_tokens=256).complete(["a"])
    with pytest.raises(ConfigError, match=r"max_input_tokens=250.*244"):
        make(llama, max_input_tokens=250).complete(["a"])


def test_probabilities_of_named_tokens(llama: Path) -> None:
    engine = make(llama, temperature=0)
    tokenizer = engine.local.tokenizer
    every = Probe(tuple(tokenizer.get_vocab()))
    [answer] = engine.complete([TEXTS[0]], every)
    [prompt] = engine.local.encode([TEXTS[0]])
    with torch.inference_mode():
        expected = engine.model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
    numbers = {token: float(expected[number]) for token, number in tokenizer.get_vocab().items()}
    assert answer.probabilities == pytest.approx(numbers, rel=1e-3, abs=1e-7)
    assert 0.5 < sum(answer.probabilities.values()) <= 1
    few = engine.complete(TEXTS, Probe((" mill", "<|end|>", "he"), position=2))
    for each in few:
        assert set(each.probabilities) == {" mill", "<|end|>", "he"}
        assert 0 < sum(each.probabilities.values()) <= 1
    [first] = engine.complete([TEXTS[0]], Probe(("ill",)))
    assert first.probabilities["ill"] == pytest.approx(answer.probabilities["ill"], rel=1e-4)


def test_a_probe_that_cannot_be(llama: Path) -> None:
    engine = make(llama)
    with pytest.raises(ConfigError, match=r"'river bank' must be one token of .*, got "):
        engine.complete(["a"], Probe(("river bank",)))
    with pytest.raises(ConfigError, match=r"position of a probe must be below 12.*got 12"):
        engine.complete(["a"], Probe(("he",), position=12))


def test_an_answer_that_ends_early(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make(llama, temperature=0)
    tokens: list[list[int]] = []
    with monkeypatch.context() as patched:
        patched.setattr(engine.local, "decode", lambda ids: str(tokens.append(ids)))
        [full] = engine.complete([TEXTS[0]])
    assert full.finish_reason == "length"
    assert tokens[0][2] not in tokens[0][:2]
    engine = make(llama, temperature=0)
    engine.model.generation_config.eos_token_id = [3, tokens[0][2]]
    early = engine.complete(TEXTS, Probe(("he",), position=5))
    assert (early[0].finish_reason, early[0].completion_tokens) == ("stop", 3)
    assert early[0].probabilities == {}
    longer = next(each for each in early if each.completion_tokens > 5)
    assert set(longer.probabilities) == {"he"}
    assert math.isfinite(early[0].logprob or math.nan)


@pytest.mark.parametrize("fault", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("one bad prompt")])
def test_a_failing_batch_is_split(llama: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    engine = make(llama, temperature=0)
    expected = engine.complete(TEXTS)
    whole, sizes = engine._batch, []
    [poison] = engine.local.encode([TEXTS[2]])

    def fail(ids: list[list[int]], *rest: Any) -> list[Completion]:
        sizes.append(len(ids))
        if poison in ids:
            raise fault
        return whole(ids, *rest)

    monkeypatch.setattr(engine, "_batch", fail)
    answers = engine.complete(TEXTS)
    assert str(fault) in answers[2].error
    assert answers[2].prompt_tokens == len(poison)
    rest = [place for place in range(len(TEXTS)) if place != 2]
    assert content([answers[place] for place in rest]) == content([expected[place] for place in rest])
    assert sizes[0] == len(TEXTS)


def test_a_model_that_gives_nan_is_a_row(llama: Path) -> None:
    engine = make(llama)
    with torch.no_grad():
        engine.model.lm_head.weight.fill_(math.nan)
    assert all("NaN" in answer.error for answer in engine.complete(TEXTS))


def test_batches_keep_to_their_tokens_and_progress_is_told(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make(llama, batch_tokens=100)
    whole, sizes, seen = engine._batch, [], []

    def watch(ids: list[list[int]], *rest: Any) -> list[Completion]:
        sizes.append((len(ids), max(map(len, ids)) + 12))
        return whole(ids, *rest)

    monkeypatch.setattr(engine, "_batch", watch)
    answers = engine.complete(TEXTS, tick=lambda *done: seen.append(done))
    assert len(sizes) > 1
    assert all(count == 1 or count * length <= 100 for count, length in sizes)
    assert sum(count for count, _ in seen) == len(TEXTS)
    assert sum(tokens for _, tokens in seen) == sum(each.prompt_tokens + each.completion_tokens for each in answers)
    assert all(each.seconds > 0 for each in answers)


def test_identity_follows_weights_and_chat_template(tmp_path: Path) -> None:
    model = tiny_models.llama(tmp_path / "model")
    before = make(model).identity()
    assert {"model.safetensors", "chat_template.jinja", "tokenizer.json", "config.json"} <= set(before["files"])
    assert "precision" not in before
    assert make(model).identity() == before
    assert make(model, precision="bf16").identity() != before
    template = model / "chat_template.jinja"
    template.write_text(template.read_text() + " ")
    assert make(model).identity() != before


def test_what_is_missing_is_named(tmp_path: Path, llama: Path) -> None:
    with pytest.raises(ConfigError, match=r"generate\.model=NAME"):
        make(None)
    with pytest.raises(EngineUnavailable, match=r"not on this machine.*hf download"):
        make("nobody/nothing")
    with pytest.raises(EngineUnavailable, match="pickle"):
        make(tiny_models.pickled(tiny_models.llama(tmp_path / "llama")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(EngineUnavailable, match="no weights"):
        make(tmp_path / "empty")
    bert = tiny_models.bert(tmp_path / "bert")
    with pytest.raises(EngineUnavailable, match=r"weights of .* are missing"):
        make(bert).complete(["a"])
    encoder = tiny_models.t5(tmp_path / "t5")
    with pytest.raises(EngineUnavailable, match="missing"):
        make(encoder).complete(["a"])


def test_without_vllm_the_remedy_is_named(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineUnavailable, match=r"pip install 'vitalfew\[vllm\]'.*make setup-vllm"):
        Vllm(Vllm.Options(model=str(llama)), "generate")


def test_threads_are_as_they_were(llama: Path) -> None:
    torch.set_num_threads(1)
    make(llama).complete(["a"])
    assert torch.get_num_threads() == 1


def test_vicuna_gets_the_roles_of_its_conversations(tmp_path: Path) -> None:
    plain = make(tiny_models.llama(tmp_path / "plain", chat=False))
    vicuna = make(tiny_models.llama(tmp_path / "vicuna-7b-v1.3", chat=False))
    text = vicuna.local.tokenizer.decode(vicuna.local.encode(["Who lit it?"])[0])
    assert text == "<s>USER: Who lit it? ASSISTANT:"
    assert plain.identity() != vicuna.identity()
    own = make(tiny_models.llama(tmp_path / "vicuna-of-my-own"))
    assert own.local.given_template is None


@pytest.mark.parametrize("model", ["vicuna-7b", "vicuna-13b", "llama-2-7b-chat", "llama-2-13b-chat"])
def test_a_preset_that_is_not_here_is_told_by_its_name(model: str) -> None:
    with pytest.raises(
        EngineUnavailable, match=r"the model (lmsys/vicuna|meta-llama/Llama-2).* is not on this machine"
    ):
        make(model)
