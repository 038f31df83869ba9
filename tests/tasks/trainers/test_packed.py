"""Sparse RAG's prompt in segments; an example in one pass says what separate passes say of it: each rating alone, and
the answer behind all blocks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from tests.support.tiny_models import llama
from vitalfew.tasks.models.causal.adapters import CausalLora
from vitalfew.tasks.models.causal.controls import Controls, Segmenter
from vitalfew.tasks.trainers.retrieved import Attention, PackedExample, RetrievedExample, pack

WORDS = st.lists(st.sampled_from(["river", "mill", "hills", "sea", "founded"]), min_size=1, max_size=12).map(" ".join)
CONTROLS = Controls(assess_control="\nuse?", generate_control="\nsay:", yes=".", no="?")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[CausalLora, Segmenter]:
    base = llama(tmp_path_factory.mktemp("base"), chat=False)
    model = CausalLora(base, torch.device("cpu"), torch.float32, 2, 4, 0.0, ("all-linear",))
    for number, weight in enumerate(model.trained().values()):
        torch.nn.init.normal_(weight.data, std=0.1, generator=torch.Generator().manual_seed(number))
    model.model.eval()
    return model, Segmenter(AutoTokenizer.from_pretrained(base), CONTROLS)


def logits(model: CausalLora, packed: PackedExample) -> torch.Tensor:
    with torch.no_grad():
        return model.logits(packed.ids, packed.positions, packed.layout, packed.places)


def example(contexts: list[str], answer: str, relevant: list[bool] | None = None) -> RetrievedExample:
    return RetrievedExample("Who?", tuple(contexts), tuple(relevant or ()), answer)


def plain(model: CausalLora, ids: list[int], places: list[int]) -> torch.Tensor:
    """One text, as transformers runs it."""
    own, model.model.config._attn_implementation = model.model.config._attn_implementation, "eager"
    try:
        with torch.no_grad():
            return model.model(input_ids=torch.tensor([ids])).logits[0, places]
    finally:
        model.model.config._attn_implementation = own


@settings(max_examples=15)
@given(st.lists(WORDS, min_size=1, max_size=3), st.sampled_from(["block", "full"]), st.booleans())
def test_one_pass_is_as_good_as_many(
    tuned: tuple[CausalLora, Segmenter], contexts: list[str], attention: Attention, rated: bool
) -> None:
    model, segmenter = tuned
    relevant = [number % 2 == 0 for number in range(len(contexts))] if rated else None
    packed = pack(segmenter, example(contexts, "the mill", relevant), rated, attention)
    found = logits(model, packed)
    prompt = segmenter.segments("Who?", contexts)
    assert [token == segmenter.yes for _, token in packed.ratings] == (relevant or [])
    for number in range(len(packed.ratings)):
        alone = plain(model, [*prompt.prefix, *prompt.blocks[number], *segmenter.assess], [-1])
        torch.testing.assert_close(found[number], alone[0], atol=1e-4, rtol=1e-4)
    said = segmenter.answer("the mill")
    assert [token for _, token in packed.answer] == said
    if attention == "full" or len(contexts) == 1:
        ids = [*prompt.prefix, *(token for block in prompt.blocks for token in block), *segmenter.generate, *said]
        places = list(range(len(ids) - len(said) - 1, len(ids) - 1))
        torch.testing.assert_close(found[len(packed.ratings) :], plain(model, ids, places), atol=1e-4, rtol=1e-4)


def test_the_order_of_blocks_changes_nothing(tuned: tuple[CausalLora, Segmenter]) -> None:
    model, segmenter = tuned
    contexts = ["river", "the mill stands", "hills"]
    examples = [example(given, "mill") for given in (contexts, contexts[::-1])]
    one, other = (pack(segmenter, each, ratings=False) for each in examples)
    torch.testing.assert_close(logits(model, one), logits(model, other), atol=1e-4, rtol=1e-4)
    full = [pack(segmenter, each, ratings=False, attention="full") for each in examples]
    assert (logits(model, full[0]) - logits(model, full[1])).abs().max() > 1e-3


@pytest.fixture(scope="module", params=[True, False], ids=["chat", "plain"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerBase:
    directory = llama(tmp_path_factory.mktemp("segments"), request.param, tokens=("yes", "no"))
    return AutoTokenizer.from_pretrained(directory)


def test_segments_together_are_the_whole_prompt(tokenizer: PreTrainedTokenizerBase) -> None:
    cut = Segmenter(tokenizer, Controls())
    prompt = cut.segments("Who founded it?", ["The mill still stands.", "The river runs."])
    text = "Question: Who founded it?\n\nPassage: The mill still stands.\n\nPassage: The river runs.\n"
    text += "\nAnswer in a few words:"
    if tokenizer.chat_template:
        chat = [{"role": "user", "content": text}]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    whole = tokenizer(text, add_special_tokens=not tokenizer.chat_template)["input_ids"]
    assert [*prompt.prefix, *prompt.blocks[0], *prompt.blocks[1], *cut.generate] == whole


@settings(max_examples=50)
@given(text=st.text(max_size=20))
def test_what_stands_in_a_block_is_never_a_special_token(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    cut = Segmenter(tokenizer, Controls())
    [block] = cut.segments("Who?", [f"{text}<|end|><|user|>{text}<s>"]).blocks
    assert not {3, 4, 5, 1}.intersection(block)
    assert cut.answer(text)[-1] == tokenizer.eos_token_id
