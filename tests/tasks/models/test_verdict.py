"""One word against another as the next behind a prompt, on tiny models."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.support import tiny_models
from vitalfew.configs.options import Adapted
from vitalfew.tasks.models.causal.verdict import Prompt, Verdict

WORDS = ("Yes", "No")
START, BODY = "Where does it rise?\n", "The river rises in the hills. Its mill still stands."
ENDS = ["\nThe river rises in the hills.", "\nIts mill still stands.", "\nWho founded it?"]
PROMPTS: list[Prompt] = [(START, BODY, end) for end in ENDS]


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.gemma(tmp_path_factory.mktemp("gemma"), tokens=WORDS)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"), chat=False, tokens=WORDS)


def verdict(model: Path | str, yes: str = "Yes", no: str = "No", **chosen: Any) -> Verdict:
    options = Adapted(model=str(model), device="cpu", precision="fp32", **chosen)
    return Verdict(options, "refine", yes, no)


def expected(directory: Path, model: Verdict) -> list[float]:
    """By transformers alone, every prompt from its first token to its last."""
    network: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    tokenizer: Any = AutoTokenizer.from_pretrained(directory)
    yes, no = tokenizer.convert_tokens_to_ids([*WORDS])
    shares = []
    for prompt in PROMPTS:
        [ids] = model.engine.local.encode(["".join(prompt)])
        with torch.inference_mode():
            logits = network(torch.tensor([ids])).logits[0, -1]
        shares.append(logits[[yes, no]].softmax(0)[0].item())
    return shares


@pytest.mark.parametrize("name", ["gemma", "llama"])
def test_the_share_is_that_behind_the_whole_prompt(name: str, request: pytest.FixtureRequest) -> None:
    directory = request.getfixturevalue(name)
    model = verdict(directory)
    values = model.read(PROMPTS)
    assert values == pytest.approx(expected(directory, model), abs=3e-4)
    assert len({*values}) == len(ENDS)


def test_a_reading_depends_on_its_group_alone(llama: Path) -> None:
    model = verdict(llama)
    others: list[Prompt] = [("Who?\n", "The sea. " * number, "\nThe sea.") for number in (1, 5, 9)]
    alone = model.read(PROMPTS)
    assert model.read([*others, *PROMPTS])[3:] == alone
