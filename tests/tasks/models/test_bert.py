"""A BERT without transformers gives the bytes that it gives with it, and leaves everything else to it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer

from tests.support import tiny_models
from vitalfew.tasks.models.encoder import bert
from vitalfew.tasks.models.files import minilm_directory


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.roberta(tmp_path_factory.mktemp("roberta"))


@settings(max_examples=5, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6), seed=st.integers(0, 99))
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", ["tiny", "roberta"])
def test_states_are_the_bytes_of_transformers(
    request: pytest.FixtureRequest, family: str, attention: Any, dtype: torch.dtype, lengths: list[int], seed: int
) -> None:
    model = request.getfixturevalue(family)
    ours = bert.read_bert(model, attention)
    assert ours is not None
    theirs = AutoModel.from_pretrained(model, attn_implementation=attention).eval()
    for weight in theirs.parameters():  # it maps the file: MKL's last bits depend on where in memory weights begin
        weight.data = weight.data.clone()
    ids = torch.randint(5, 400, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    given_mask = None if mask.all() else mask
    with torch.inference_mode(), torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        found, expected = (model(input_ids=ids, attention_mask=given_mask)[0] for model in (ours.eval(), theirs))
    assert found.dtype == expected.dtype
    assert torch.equal(found[mask.bool()], expected[mask.bool()])


@pytest.mark.parametrize("folder", [minilm_directory, None])
def test_the_tokenizer_is_that_of_transformers(tiny: Path, folder: Callable[[], Path] | None) -> None:
    directory = folder() if folder else tiny
    expected = AutoTokenizer.from_pretrained(directory)
    read = bert.read_tokenizer(directory)
    assert read is not None
    tokenizer, padding = read
    expected.backend_tokenizer.no_padding()
    expected.backend_tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.no_truncation()
    assert json.loads(tokenizer.to_str()) == json.loads(expected.backend_tokenizer.to_str())
    assert padding == expected.pad_token_id


def _edited(source: Path, copy: Path, file: str, **changes: Any) -> Path:
    copy.mkdir()
    for path in source.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (copy / file).write_text(json.dumps(json.loads((copy / file).read_text()) | changes))
    return copy


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "mpnet"}, {"hidden_act": "relu"}, {"is_decoder": True}, {"num_hidden_layers": 3},
        {"hidden_size": 30}, {"auto_map": {"AutoModel": "x.Y"}}, {"position_embedding_type": "relative_key"},
    ],
    ids=str,
)  # fmt: skip
def test_another_architecture_is_left_to_transformers(tiny: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    assert bert.read_bert(_edited(tiny, tmp_path / "copy", "config.json", **changes), "sdpa") is None


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("tokenizer_config.json", {"do_lower_case": False}),
        ("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"}),
        ("tokenizer_config.json", {"cls_token": "[MASK]"}),
        ("tokenizer_config.json", {"pad_token": "[NONE]"}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"99999": {"content": "<new>"}}}),
        ("tokenizer.json", {"normalizer": None}),
        ("tokenizer.json", {"post_processor": None}),
    ],
    ids=str,
)
def test_another_tokenizer_is_left_to_transformers(
    tiny: Path, tmp_path: Path, file: str, changes: dict[str, Any]
) -> None:
    assert bert.read_tokenizer(_edited(tiny, tmp_path / "copy", file, **changes)) is None


def test_a_question_is_encoded_without_transformers() -> None:
    program = (
        "import sys; from vitalfew.configs.schema import EncodeConfig; from vitalfew.tasks.encode import make_encoder; "
        "vectors = make_encoder(EncodeConfig(encoder='minilm')).encode_questions(['Who founded it?']).vectors; "
        "sys.exit(vectors.shape != (1, 384) or 'transformers' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
