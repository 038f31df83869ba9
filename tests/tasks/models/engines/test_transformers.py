"""The engine `transformers` on tiny models: batches, limits, sampling, faults, adapters."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from tests.support import tiny_models
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable
from vitalfew.tasks.models.causal.engines.transformers import Transformers
from vitalfew.tasks.models.causal.sampling import RowSampler

TEXTS = ["Who founded it?", "Where does the river rise? " * 3, "The mill", "120 km to the sea; " * 6, "hills", ""]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"))


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


@pytest.mark.parametrize(("model", "temperature"), [("llama", 1.0), ("bart", 0.0), ("t5", 1.0)])
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


def test_sampling_follows_the_seed_and_the_distribution(llama: Path) -> None:
    first, again = (make(llama, temperature=1.0).complete(TEXTS) for _ in range(2))
    other = make(llama, temperature=1.0, seed=1).complete(TEXTS)
    assert content(first) == content(again)
    assert content(first) != content(other)
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2, 0.0]])).repeat(4000, 1)
    sampler = RowSampler(1.0, range(4000), torch.device("cpu"), [])
    shares = torch.bincount(sampler(torch.empty(0), logits).argmax(-1), minlength=4) / 4000
    assert shares.tolist() == pytest.approx([0.5, 0.3, 0.2, 0.0], abs=0.03)


def test_a_prompt_that_is_too_long_is_a_row(llama: Path, bart: Path, t5: Path) -> None:
    long = "mill " * 400
    answers = make(llama).complete(["hills", long, "sea"])
    assert [bool(each.error) for each in answers] == [False, True, False]
    assert "at most 244" in answers[1].error  # 256 positions less 12 of the answer
    assert (answers[1].finish_reason, answers[1].text) == ("error", "")
    assert answers[1].prompt_tokens > 400
    assert "at most 64" in make(bart).complete([long])[0].error
    assert not make(t5).complete([long])[0].error  # relative positions


def test_a_failing_batch_is_split(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make(llama, temperature=0)
    expected = engine.complete(TEXTS)
    whole, sizes = engine._batch, []
    [poison] = engine.local.encode([TEXTS[2]])

    def fail(ids: list[list[int]], *rest: Any) -> list[Completion]:
        sizes.append(len(ids))
        if poison in ids:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(ids, *rest)

    monkeypatch.setattr(engine, "_batch", fail)
    answers = engine.complete(TEXTS)
    assert "CUDA out of memory" in answers[2].error
    assert answers[2].prompt_tokens == len(poison)
    rest = [place for place in range(len(TEXTS)) if place != 2]
    assert content([answers[place] for place in rest]) == content([expected[place] for place in rest])
    assert sizes[0] == len(TEXTS)


def test_identity_follows_weights_and_chat_template(tmp_path: Path) -> None:
    model = tiny_models.llama(tmp_path / "model")
    before = make(model).identity()
    assert {"model.safetensors", "chat_template.jinja", "tokenizer.json", "config.json"} <= set(before["files"])
    assert make(model).identity() == before
    assert make(model, precision="bf16").identity() != before
    template = model / "chat_template.jinja"
    template.write_text(template.read_text() + " ")
    assert make(model).identity() != before


@pytest.fixture(scope="module")
def lora(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("peft")
    return tiny_models.lora(tmp_path_factory.mktemp("lora"), llama)


def test_answers_are_those_of_the_merged_weights(llama: Path, lora: Path, tmp_path: Path) -> None:
    adapted = make(llama, temperature=0, adapter=str(lora)).complete(TEXTS)
    expected = make(tiny_models.merged(tmp_path / "merged", llama, lora), temperature=0).complete(TEXTS)
    assert [each.text for each in adapted] == [each.text for each in expected]
    assert [each.logprob for each in adapted] == pytest.approx([each.logprob for each in expected], abs=1e-3)
    assert [each.text for each in adapted] != [each.text for each in make(llama, temperature=0).complete(TEXTS)]
    identity = make(llama, adapter=str(lora)).identity()
    assert identity["adapter"].keys() == {"adapter_config.json", "adapter_model.safetensors"}
    other = tiny_models.lora(tmp_path / "other", llama, lora_alpha=4)
    assert make(llama, adapter=str(other)).identity() != identity


def test_an_adapter_of_another_model_is_refused(llama: Path, lora: Path, tmp_path: Path) -> None:
    folder = tiny_models.lora(tmp_path / "less", llama)
    weights = load_file(lora / "adapter_model.safetensors")
    save_file(dict([*weights.items()][1:]), folder / "adapter_model.safetensors")
    with pytest.raises(EngineUnavailable, match=r"an adapter for someone/tiny-llama.*1 weights are missing"):
        make(llama, adapter=str(folder)).complete(TEXTS)
    with pytest.raises(EngineUnavailable, match=r"Ori/llama-2-13b-peft-nq-retrobust is not on .*generate\.adapter"):
        make(llama, adapter="retrobust-nq")
