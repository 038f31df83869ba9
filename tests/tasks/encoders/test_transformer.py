"""Encoders of other models: as sentence-transformers and transformers compute them, or refused with a reason."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support import tiny_models
from tests.support.indexing import index
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import EncodeConfig, RetrieveConfig
from vitalfew.tasks.encode import make_encoder
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.retrieve import Searcher

TEXTS = [
    "A short one.",
    "The river rises in the hills and runs for 120 km to the sea. " * 3,
    "word " * 400,  # longer than any of these models reads
    "Ünïcödé, 漢字 and 🎈.",
    "Who founded it?",
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny models by name; tests that change one change a copy."""
    from sentence_transformers.base.modules import Dense, Normalize
    from sentence_transformers.sentence_transformer.modules import LayerNorm

    root = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    saved = tiny_models.sentence_transformer
    bert, roberta, t5 = (getattr(tiny_models, name)(root / name) for name in ("bert", "roberta", "t5"))
    ance = [Dense(32, 32, activation_function=torch.nn.Identity()), LayerNorm(32)]
    prompts = {"query": "the question: ", "document": "the passage: "}
    context, question = tiny_models.dpr_pair(root)
    return {
        "bert": bert,
        "roberta": roberta,
        "ance": saved(roberta, root / "ance", *ance, pooling="cls"),
        "prompts": saved(bert, root / "prompts", Dense(32, 16), Normalize(), prompts=prompts, max_seq_length=40),
        "decoder": saved(tiny_models.qwen(root / "qwen"), root / "decoder", pooling="lasttoken"),
        "t5": saved(t5, root / "sentence-t5", Dense(32, 16, bias=False), max_seq_length=48, pooling="max"),
        "dpr": context,
        "dpr-question": question,
    }


def encoder(name: str, model: Path | None = None, **options: Any) -> Any:
    return make_encoder(
        EncodeConfig(encoder=name, model=model and str(model), **{"precision": "fp32", "batch_tokens": 300} | options)
    )


def cosines(found: np.ndarray, reference: np.ndarray) -> np.ndarray:
    return (found * reference).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(reference, axis=1)


@pytest.mark.parametrize(
    ("name", "model", "unit"),
    [
        ("contriever", "bert", False),
        ("ance", "ance", False),
        ("huggingface", "prompts", True),
        ("huggingface", "decoder", True),
        ("huggingface", "t5", True),
    ],
)
def test_float32_is_sentence_transformers(models: dict[str, Path], name: str, model: str, unit: bool) -> None:
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(models[model]), device="cpu")
    ours = encoder(name, models[model])
    for found, expected in (
        (ours.encode(TEXTS).vectors, reference.encode_document(TEXTS)),
        (ours.encode_questions(TEXTS).vectors, reference.encode_query(TEXTS)),
    ):
        assert cosines(expected[:1], expected[1:]).max() < 0.97  # the texts differ at all
        assert cosines(found, expected).min() >= 0.9999
        lengths = np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected / lengths if unit else expected, atol=1e-5)


def test_dpr_is_transformers(models: dict[str, Path]) -> None:
    from transformers import DPRContextEncoder, DPRQuestionEncoder

    ours = encoder("dpr", models["dpr"], question_model=str(models["dpr-question"]))
    for kind, model, found in (
        (DPRContextEncoder, models["dpr"], ours.encode(TEXTS)),
        (DPRQuestionEncoder, models["dpr-question"], ours.encode_questions(TEXTS)),
    ):
        reference = kind.from_pretrained(model).eval()
        for text, vector in zip(TEXTS, found.vectors, strict=True):
            ids = ours.passages.tokenizer.encode(text).ids
            ids = ids if len(ids) <= 128 else [*ids[:127], ids[-1]]
            with torch.inference_mode():
                expected = reference(torch.tensor([ids])).pooler_output[0].numpy()
            np.testing.assert_allclose(vector, expected, atol=1e-5)
    assert cosines(ours.encode(TEXTS).vectors, ours.encode_questions(TEXTS).vectors).max() < 0.9


def test_late_is_refused_before_anything_runs(tmp_path: Path, models: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match="late averages token states"):
        index(tmp_path / "store", encode={"encoder": "ance", "model": str(models["ance"]), "context": "late"})
    assert not (tmp_path / "store").exists()


def test_inner_products_survive_the_index(tmp_path: Path, models: dict[str, Path]) -> None:
    """score = alpha * core.q + (1 - alpha) * context.q where nothing has length 1."""
    encode = {"encoder": "contriever", "model": str(models["bert"]), "precision": "fp32", "context": "passage"}
    index(tmp_path, encode=encode | {"text": "unit"})
    hits = Searcher.named(tmp_path, "test").hits("Who founded the town?", RetrieveConfig(alpha=0.7, top_k=20))
    ours = encoder("contriever", models["bert"])
    vector = ours.encode_questions(["Who founded the town?"]).vectors[0]
    assert len(hits) == 20
    for hit in hits:
        core, whole = ours.encode([hit.text, hit.passage.strip()]).vectors @ vector
        assert hit.score == pytest.approx(0.7 * core + 0.3 * (core if hit.context is None else whole), rel=1e-4)


# What cannot be used


def test_a_model_is_found_in_the_hugging_face_cache_or_named_with_the_remedy(
    tmp_path: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"hf download facebook/contriever.*--set encode\.model="):
        encoder("contriever").identity()
    snapshots = tmp_path / "models--facebook--contriever" / "snapshots"
    shutil.copytree(models["bert"], snapshots / "abc")
    (snapshots.parent / "refs").mkdir()
    (snapshots.parent / "refs" / "main").write_text("abc")
    assert encoder("contriever").encode(TEXTS).vectors.shape == (len(TEXTS), 32)


def test_pickled_weights_are_refused_and_the_remedy_works(
    tmp_path: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tiny_models.pickled(shutil.copytree(models["bert"], tmp_path / "bert"))
    with pytest.raises(UnsupportedModel, match=r"pytorch_model\.bin.*--set encode\.model=") as caught:
        encoder("contriever", copy).identity()
    command = str(caught.value).split('python -c "')[1].split('"')[0]
    monkeypatch.chdir(copy)
    exec(command, {})  # what the message tells users to do
    expected = encoder("contriever", models["bert"]).encode(TEXTS).vectors
    np.testing.assert_array_equal(encoder("contriever", copy).encode(TEXTS).vectors, expected)


def _edit(file: str, **changes: Any) -> Any:
    def change(directory: Path) -> None:
        path = directory / file
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda directory: (directory / "modules.json").write_text("[{]"), r"modules\.json: not readable as JSON"),
        (_edit("1_Pooling/config.json", pooling_mode="median"), "pooling median is not supported"),
        (_edit("2_Dense/config.json", activation_function="os.system"), r"activation os\.system is not supported"),
        (_edit("config.json", model_type="unheard-of", auto_map={"AutoConfig": "x.Y"}), "never run here"),
        (_edit("config.json", num_hidden_layers=3), "weights of BertModel are missing"),
    ],
)
def test_an_unsupported_model_says_what_is_amiss(
    tmp_path: Path, models: dict[str, Path], change: Any, words: str
) -> None:
    copy = shutil.copytree(models["prompts"], tmp_path / "copy")
    change(copy)
    with pytest.raises(UnsupportedModel, match=words):
        encoder("huggingface", copy).encode(TEXTS)
