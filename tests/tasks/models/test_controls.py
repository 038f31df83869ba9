"""Segments of a prompt: the same tokens as the whole, and what cannot be cut or is no single token is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from tests.support.tiny_models import llama
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal.controls import Controls, Segmenter

WORDS = ("yes", "no")


@pytest.fixture(scope="module", params=[True, False], ids=["chat", "plain"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerBase:
    directory = llama(tmp_path_factory.mktemp("segments"), request.param, tokens=WORDS)
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


@given(text=st.text(max_size=20))
def test_what_stands_in_a_block_is_never_a_special_token(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    cut = Segmenter(tokenizer, Controls())
    [block] = cut.segments("Who?", [f"{text}<|end|><|user|>{text}<s>"]).blocks
    assert not {3, 4, 5, 1}.intersection(block)
    assert cut.answer(text)[-1] == tokenizer.eos_token_id


def test_ratings_are_one_token_each(tokenizer: PreTrainedTokenizerBase) -> None:
    cut = Segmenter(tokenizer, Controls())
    assert tokenizer.convert_ids_to_tokens([cut.yes, cut.no]) == [*WORDS]
    with pytest.raises(ConfigError, match=r"no must be one token of the model, got 'hardly' with .* tokens "):
        Segmenter(tokenizer, Controls(no="hardly"))
    with pytest.raises(ConfigError, match="two different words"):
        Segmenter(tokenizer, Controls(no="yes"))
