"""What models say of a text: read part by part as at once, and one word against another as the next."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.support import tiny_models
from vitalfew.configs.options import Adapted, Batching
from vitalfew.tasks.models.causal.surprise import Running, Surprise
from vitalfew.tasks.models.causal.verdict import Prompt, Verdict
from vitalfew.tasks.models.ticks import no_tick

COMPUTING: dict[str, Any] = {"device": "cpu", "precision": "fp32"}
PARTS = st.lists(st.tuples(st.lists(st.integers(5, 90), min_size=1, max_size=12), st.integers(0, 12)), max_size=5)


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Surprise:
    """The second is of those whose cache is not read on."""
    folder: Path = getattr(tiny_models, request.param)(tmp_path_factory.mktemp(request.param))
    return Surprise(str(folder), Batching(**COMPUTING), "refine")


@settings(max_examples=8)
@given(st.lists(st.integers(5, 90), max_size=4), PARTS)
def test_parts_have_the_surprises_of_the_whole(
    model: Surprise, before: list[int], parts: list[tuple[list[int], int]]
) -> None:
    counted: list[int] = []
    row, kept = Running(model, before, lambda _, tokens: counted.append(tokens)), [*before]
    for ids, keep in parts:
        keep = min(keep, len(ids))
        [due] = model.of([(kept, ids)], no_tick, started=False)
        assert row.of(ids, keep) == pytest.approx(due, abs=1e-4)
        kept += ids[:keep]
    assert sum(counted) >= sum(len(ids) for ids, _ in parts)


WORDS = ("Yes", "No")
START, BODY = "Where does it rise?\n", "The river rises in the hills. Its mill still stands."
ENDS = ["\nThe river rises in the hills.", "\nIts mill still stands.", "\nWho founded it?"]
PROMPTS: list[Prompt] = [(START, BODY, end) for end in ENDS]


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


@pytest.mark.parametrize(("name", "given"), [("gemma", {}), ("llama", {"chat": False})])
def test_the_share_is_that_behind_the_whole_prompt(name: str, given: dict[str, Any], tmp_path: Path) -> None:
    directory = getattr(tiny_models, name)(tmp_path, tokens=WORDS, **given)
    model = Verdict(Adapted(model=str(directory), **COMPUTING), "refine", *WORDS)
    values = model.read(PROMPTS)
    assert values == pytest.approx(expected(directory, model), abs=3e-4)
    assert len({*values}) == len(ENDS)
