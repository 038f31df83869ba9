"""BERT's tokenizer without transformers is the one that it makes, and all others are left to it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from tests.support import tiny_models
from vitalfew.tasks.models.encoder.tokenizer import read_tokenizer
from vitalfew.tasks.models.files import minilm_directory


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.bert(tmp_path_factory.mktemp("bert"))


@pytest.mark.parametrize("folder", [minilm_directory, None])
def test_the_tokenizer_is_that_of_transformers(tiny: Path, folder: Callable[[], Path] | None) -> None:
    directory = folder() if folder else tiny
    expected = AutoTokenizer.from_pretrained(directory)
    read = read_tokenizer(directory)
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
    ("file", "changes"),
    [
        ("tokenizer_config.json", {"do_lower_case": False}),
        ("tokenizer.json", {"normalizer": None}),
    ],
    ids=str,
)
def test_another_tokenizer_is_left_to_transformers(
    tiny: Path, tmp_path: Path, file: str, changes: dict[str, Any]
) -> None:
    assert read_tokenizer(_edited(tiny, tmp_path / "copy", file, **changes)) is None
