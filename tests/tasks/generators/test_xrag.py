"""xRAG: a context's token is what a forward pass by hand has in its place, and what fails is an error row."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import gelu, linear
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from tests.support import tiny_models
from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.tasks.generators.base import Prompt, Stepwise
from vitalfew.tasks.generators.prompts import render, source
from vitalfew.tasks.generators.xrag import XRag
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


def generator(model: Path, encoder: Path, **options: Any) -> XRag:
    given = {"temperature": 0.0, "max_tokens": 6, "precision": "fp32", "device": "cpu", **options}
    section = GenerateConfig(generator="xrag", model=str(model), encoder_model=str(encoder), **given)
    made: XRag = make(section, "generate")
    return made


def prompt(*contexts: str, question: str = QUESTION) -> Prompt:
    return Prompt(render(source("xrag"), question, contexts), question, contexts)


def answer(made: XRag, *contexts: str) -> Stepwise:
    [completion] = made.generate([prompt(*contexts)])
    assert isinstance(completion, Stepwise), completion.error
    return completion


def tokens_of(model: Path, encoder: Path, *contexts: str) -> torch.Tensor:
    """The projected vectors of contexts, (n, 64), by hand."""
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    network = AutoModel.from_pretrained(encoder, dtype=torch.float32).eval()
    weights = load_file(model / "model.safetensors")
    [first, bias, second, last] = [weights[f"projector.{name}"] for name in NAMES]
    made = []
    for context in contexts:
        ids = [*tokenizer(context)["input_ids"], END]
        vector = network(torch.tensor([ids])).last_hidden_state[0, -1]
        made.append(linear(gelu(linear(vector, first, bias)), second, last))
    return torch.stack(made)


@torch.inference_mode()
def by_hand(model: Path, encoder: Path, *contexts: str) -> tuple[str, float, int]:
    """Text, log-probability and prompt tokens of the most probable answer, one forward pass for each token."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    text = f"Background: {' '.join(['<xRAG>'] * len(contexts))}\n\nQuestion: {QUESTION}"
    rendered = f"<|user|>{text}<|end|><|assistant|> The answer is:"
    ids = torch.tensor(tokenizer(rendered, add_special_tokens=False)["input_ids"])
    read = network.get_input_embeddings()(ids)
    read[ids == tokenizer.convert_tokens_to_ids("<xRAG>")] = tokens_of(model, encoder, *contexts)
    written: list[int] = []
    logprob = 0.0
    while len(written) < 6 and END not in written:
        following = network(inputs_embeds=read[None]).logits[0, -1].log_softmax(-1)
        written.append(int(following.argmax()))
        logprob += float(following.max())
        read = torch.cat([read, network.get_input_embeddings()(torch.tensor(written[-1:]))])
    text = tokenizer.decode(written, skip_special_tokens=True).rstrip("\N{REPLACEMENT CHARACTER}").strip()
    return text, logprob, len(ids)


def test_it_answers_as_a_forward_pass_with_the_vectors_in_place(model: Path, encoder: Path) -> None:
    own = answer(generator(model, encoder), *CONTEXTS)
    text, logprob, tokens = by_hand(model, encoder, *CONTEXTS)
    assert (own.text, own.prompt_tokens, own.kv_tokens) == (text, tokens, tokens)
    assert own.logprob == pytest.approx(logprob, abs=1e-4)


def test_an_answer_does_not_depend_on_its_batch(model: Path, encoder: Path) -> None:
    """Bit for bit, where everything is alone in its batch."""
    prompts = [
        prompt(*CONTEXTS), prompt(), prompt(CONTEXTS[1]), prompt(CONTEXTS[0]), prompt(CONTEXTS[1], question="Which?"),
    ]  # fmt: skip
    made = generator(model, encoder, temperature=1.0, batch_tokens=16)
    alone = [made.generate([each])[0] for each in prompts]
    for some in (made.generate(prompts), made.generate(prompts[::-1])[::-1]):
        assert [(each.text, each.logprob) for each in some] == [(each.text, each.logprob) for each in alone]


def test_what_the_models_fail_on_is_an_error_row(model: Path, encoder: Path, tmp_path: Path) -> None:
    question_mark = AutoTokenizer.from_pretrained(encoder)("?")["input_ids"][-1]
    broken = shutil.copytree(encoder, tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    weights["embed_tokens.weight"][question_mark] = torch.nan
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    prompts = [prompt(CONTEXTS[0]), prompt(CONTEXTS[2]), prompt(*CONTEXTS[:2])]
    fine, failed, other = generator(model, broken).generate(prompts)
    assert "NaN" in failed.error
    assert (fine.error, other.error) == ("", "")
    assert fine.logprob == pytest.approx(answer(generator(model, encoder), CONTEXTS[0]).logprob, abs=1e-4)
