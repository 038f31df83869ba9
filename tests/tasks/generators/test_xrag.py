"""xRAG: a context's token is what a forward pass by hand has in its place, and what cannot work is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import gelu, linear
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from tests.support import tiny_models
from tests.support.evaluating import run
from tests.support.indexing import index, sql
from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.generators.base import Prompt, Stepwise
from vitalfew.tasks.generators.local import TransformersGenerator
from vitalfew.tasks.generators.prompts import render, source
from vitalfew.tasks.generators.xrag import XRag
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.vectors import NAMES
from vitalfew.tasks.registry import make

QUESTION = "Who founded the mill?"
CONTEXTS = ("The river rises in the hills and runs for 120 km.", "Its mill still stands.", "Who founded it?")
END = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.xrag(tmp_path_factory.mktemp("xrag"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.mistral_embedder(tmp_path_factory.mktemp("encoder"))


def settings(model: Path, encoder: Path, **options: Any) -> dict[str, Any]:
    computing = {"temperature": 0.0, "max_tokens": 6, "precision": "fp32", "device": "cpu"}
    return {"generator": "xrag", "model": str(model), "encoder_model": str(encoder), **computing, **options}


def generator(model: Path, encoder: Path, **options: Any) -> XRag:
    made: XRag = make(GenerateConfig(**settings(model, encoder, **options)), "generate")
    return made


def prompt(*contexts: str, question: str = QUESTION) -> Prompt:
    return Prompt(render(source("xrag"), question, contexts), question, contexts)


def answer(made: XRag, *contexts: str) -> Stepwise:
    [completion] = made.generate([prompt(*contexts)])
    assert isinstance(completion, Stepwise), completion.error
    return completion


def tokens_of(model: Path, encoder: Path, *contexts: str, limit: int = 180) -> torch.Tensor:
    """The projected vectors of contexts, (n, 64), by hand."""
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    network = AutoModel.from_pretrained(encoder, dtype=torch.float32).eval()
    weights = load_file(model / "model.safetensors")
    [first, bias, second, last] = [weights[f"projector.{name}"] for name in NAMES]
    made = []
    for context in contexts:
        ids = [*tokenizer(context)["input_ids"][: limit - 1], END]
        vector = network(torch.tensor([ids])).last_hidden_state[0, -1]
        made.append(linear(gelu(linear(vector, first, bias)), second, last))
    return torch.stack(made)


@torch.inference_mode()
def by_hand(model: Path, encoder: Path, *contexts: str, limit: int = 180) -> tuple[str, float, int]:
    """Text, log-probability and prompt tokens of the most probable answer, one forward pass for each token."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    text = f"Background: {' '.join(['<xRAG>'] * len(contexts))}\n\nQuestion: {QUESTION}"
    rendered = f"<|user|>{text}<|end|><|assistant|> The answer is:"
    ids = torch.tensor(tokenizer(rendered, add_special_tokens=False)["input_ids"])
    read = network.get_input_embeddings()(ids)
    read[ids == tokenizer.convert_tokens_to_ids("<xRAG>")] = tokens_of(model, encoder, *contexts, limit=limit)
    written: list[int] = []
    logprob = 0.0
    while len(written) < 6 and END not in written:
        following = network(inputs_embeds=read[None]).logits[0, -1].log_softmax(-1)
        written.append(int(following.argmax()))
        logprob += float(following.max())
        read = torch.cat([read, network.get_input_embeddings()(torch.tensor(written[-1:]))])
    text = tokenizer.decode(written, skip_special_tokens=True).rstrip("\N{REPLACEMENT CHARACTER}").strip()
    return text, logprob, len(ids)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_it_answers_as_a_forward_pass_with_the_vectors_in_place(model: Path, encoder: Path, count: int) -> None:
    own = answer(generator(model, encoder), *CONTEXTS[:count])
    text, logprob, tokens = by_hand(model, encoder, *CONTEXTS[:count])
    assert (own.text, own.prompt_tokens, own.kv_tokens) == (text, tokens, tokens)
    assert own.logprob == pytest.approx(logprob, abs=1e-4)


def test_a_model_that_sees_a_window_gives_the_same(tmp_path: Path, encoder: Path) -> None:
    """The library's own loop writes the answer then."""
    sliding = tiny_models.xrag(tmp_path / "sliding", sliding_window=12)
    own = answer(generator(sliding, encoder), *CONTEXTS[:2])
    text, logprob, _ = by_hand(sliding, encoder, *CONTEXTS[:2])
    assert own.text == text
    assert own.logprob == pytest.approx(logprob, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_without_contexts_it_is_the_generator_transformers(model: Path, encoder: Path, temperature: float) -> None:
    given = {"temperature": temperature, "max_tokens": 6, "precision": "fp32", "device": "cpu"}
    plain = TransformersGenerator(TransformersGenerator.Options(model=str(model), **given))
    [expected] = plain.generate([prompt()])
    own = answer(generator(model, encoder, answer_begins="", temperature=temperature))
    assert (own.text, own.logprob, own.prompt_tokens) == (expected.text, expected.logprob, expected.prompt_tokens)


def test_a_context_counts_in_its_place_and_takes_one_token(model: Path, encoder: Path) -> None:
    made = generator(model, encoder)
    one, two, turned = (answer(made, *some) for some in (CONTEXTS[:1], CONTEXTS[:2], CONTEXTS[1::-1]))
    assert len({each.logprob for each in (one, two, turned, answer(made, CONTEXTS[2]), answer(made))}) == 5
    longer = answer(made, CONTEXTS[0] + " It still stands." * 5)
    assert longer.prompt_tokens == one.prompt_tokens < two.prompt_tokens
    assert (longer.prefill_tokens or 0) > (one.prefill_tokens or 0) > one.prompt_tokens


def test_an_answer_does_not_depend_on_its_batch(model: Path, encoder: Path) -> None:
    """Bit for bit, where everything is alone in its batch."""
    prompts = [
        prompt(*CONTEXTS), prompt(), prompt(CONTEXTS[1]), prompt(CONTEXTS[0]), prompt(CONTEXTS[1], question="Which?"),
    ]  # fmt: skip
    made = generator(model, encoder, temperature=1.0, batch_tokens=16)
    alone = [made.generate([each])[0] for each in prompts]
    for some in (made.generate(prompts), made.generate(prompts[::-1])[::-1]):
        assert [(each.text, each.logprob) for each in some] == [(each.text, each.logprob) for each in alone]
    together = generator(model, encoder, temperature=1.0).generate(prompts)
    assert [each.text for each in together] == [each.text for each in alone]
    assert [each.logprob for each in together] == pytest.approx([each.logprob for each in alone], abs=1e-4)


def test_a_long_context_is_cut_and_still_ends(model: Path, encoder: Path) -> None:
    made = generator(model, encoder, encoder_tokens=20)
    long = " ".join(CONTEXTS) * 4
    text, logprob, _ = by_hand(model, encoder, long, limit=20)
    assert answer(made, long).logprob == pytest.approx(logprob, abs=1e-4)
    assert answer(made, long).text == text
    assert answer(made, long).logprob == answer(made, long + " And more.").logprob


def test_ticks_have_every_prompt_and_all_tokens(model: Path, encoder: Path) -> None:
    ticked: list[tuple[int, int]] = []
    prompts = [prompt(*CONTEXTS), prompt(CONTEXTS[2]), prompt(CONTEXTS[0], question="hills " * 600)]
    answers = generator(model, encoder).generate(prompts, lambda *done: ticked.append(done))
    assert sum(done for done, _ in ticked) == 3
    assert sum(tokens for _, tokens in ticked) > sum(each.completion_tokens for each in answers)
    assert "the prompt has" in answers[2].error
    assert not answers[0].error


def test_what_the_models_fail_on_is_an_error_row(model: Path, encoder: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(encoder, tmp_path / "broken"))
    weights = load_file(broken / "model.safetensors")
    weights["embed_tokens.weight"][AutoTokenizer.from_pretrained(broken)("?")["input_ids"][-1]] = torch.nan
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    prompts = [prompt(CONTEXTS[0]), prompt(CONTEXTS[2]), prompt(*CONTEXTS[:2])]
    fine, failed, other = generator(model, broken).generate(prompts)
    assert "NaN" in failed.error
    assert (fine.error, other.error) == ("", "")
    assert fine.logprob == pytest.approx(answer(generator(model, encoder), CONTEXTS[0]).logprob, abs=1e-4)


def test_an_encoder_that_fails_on_a_text_spares_the_others(
    model: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, ticked = generator(model, encoder), list[int]()
    encode: Callable[..., Any] = made.encoder.encode

    def failing(texts: list[str]) -> Any:
        if CONTEXTS[1] in texts:
            raise torch.OutOfMemoryError("out of memory")
        return encode(texts)

    monkeypatch.setattr(made.encoder, "encode", failing)
    prompts = [prompt(context) for context in CONTEXTS]
    first, second, third = made.generate(prompts, lambda done, _: ticked.append(done))
    assert "out of memory" in second.error
    assert (first.error, third.error, sum(ticked)) == ("", "", 3)


def test_a_placeholder_in_a_question_is_left_out(model: Path, encoder: Path) -> None:
    made = generator(model, encoder)
    odd, plain = made.generate([prompt(CONTEXTS[0], question=f"<xRAG>{QUESTION}"), prompt(CONTEXTS[0])])
    assert (odd.text, odd.prompt_tokens) == (plain.text, plain.prompt_tokens)
    assert answer(made, "<xRAG>").error == ""


def test_another_prompt_may_be_named_if_it_shows_the_contexts(model: Path, encoder: Path, tmp_path: Path) -> None:
    named = answer(generator(model, encoder, prompt="short_answer"), *CONTEXTS)
    assert named.prompt_tokens > answer(generator(model, encoder), *CONTEXTS).prompt_tokens
    turned = tmp_path / "turned.jinja"
    turned.write_text("{{ contexts | reverse | join }} {{ question }}")
    for lacking in ("no_context", str(turned)):
        with pytest.raises(ConfigError, match="shows every context once, in order"):
            generator(model, encoder, prompt=lacking)


def test_what_a_checkpoint_lacks_is_named(model: Path, encoder: Path, tmp_path: Path) -> None:
    def other(name: str, weights: dict[str, torch.Tensor]) -> Path:
        copy = Path(shutil.copytree(model, tmp_path / name))
        save_file(weights, copy / "model.safetensors", {"format": "pt"})
        return copy

    weights = load_file(model / "model.safetensors")
    bias = f"projector.{NAMES[3]}"
    without = other("without", {name: weight for name, weight in weights.items() if name != bias})
    deeper = other("deeper", {**weights, "projector.projector.4.bias": torch.zeros(64)})
    plain = Path(shutil.copytree(model, tmp_path / "plain"))
    tiny_models.llama(tmp_path / "words")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tmp_path / "words" / name, plain / name)
    for directory, message in (
        (without, r"lacks the weights projector\.projector\.2\.bias: .*--set generate\.model=xrag-7b"),
        (deeper, r"has also projector\.projector\.4\.bias"),
        (tiny_models.xrag(tmp_path / "wide", embedding=48), r"0\.weight must be \(64, 32\) .*, got \(64, 48\)"),
        (plain, "the vocabulary lacks <xRAG>"),
        (tiny_models.llama(tmp_path / "llama"), r"lacks the weights projector\.projector\.0\.bias"),
    ):
        with pytest.raises(EngineUnavailable, match=message):
            generator(directory, encoder)
    for missing, message in (
        ("sfr-embedding-mistral", r"Salesforce/SFR-Embedding-Mistral .*--set generate\.encoder_model="),
        (str(tmp_path / "nowhere"), r"generate\.encoder_model=.*no such directory"),
    ):
        with pytest.raises(EngineUnavailable, match=message):
            generator(model, Path(missing))
    with pytest.raises(EngineUnavailable, match=r"Hannibal046/xrag-7b .*--set generate\.model="):
        generator(Path("xrag-7b"), encoder)


def test_the_identity_has_all_weights(model: Path, encoder: Path, tmp_path: Path) -> None:
    own = json.dumps(generator(model, encoder).identity())
    for source_of, part in ((model, f"projector.{NAMES[0]}"), (model, "lm_head.weight"), (encoder, "norm.weight")):
        copy = Path(shutil.copytree(source_of, tmp_path / part))
        weights = load_file(copy / "model.safetensors")
        weights[part] += 1
        save_file(weights, copy / "model.safetensors", {"format": "pt"})
        pair = (copy, encoder) if source_of is model else (model, copy)
        assert json.dumps(generator(*pair).identity()) != own


def test_an_evaluation_reuses_its_answers(model: Path, encoder: Path, tmp_path: Path) -> None:
    index(tmp_path, "synthetic:passages=40,questions=6,seed=3")
    given = {
        "index": "test",
        "retrieve": {"retriever": "passage", "top_k": 3},
        "generate": settings(model, encoder),
        "methods": {"one": {"refine": {"top_k": 1}}, "none": {"retrieve": None}},
    }
    outcome = run(tmp_path, given)
    assert {name: each["generate"].rows["candidates"] for name, each in outcome.methods.items()} == {
        "one": 6,
        "none": 6,
    }
    rows = "SELECT error, prompt_tokens, prefill_tokens, reused FROM candidates JOIN methods USING (fingerprint)"
    first = sql(tmp_path, f"{rows} WHERE method = 'one'")
    assert all(not error and prefill > prompt for error, prompt, prefill, _ in first)
    again = {**given, "methods": {"two": {"refine": {"top_k": 1, "max_words": 10_000}}}}
    run(tmp_path, again)
    assert all(reused for *_, reused in sql(tmp_path, f"{rows} WHERE method = 'two'"))
