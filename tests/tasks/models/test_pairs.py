"""Networks that read pairs: their scores are those of others' code, and what is refused."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, DebertaV2Config, DebertaV2Model

from tests.support import tiny_models
from vitalfew.configs.options import Scoring
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.small.pairs import CrossEncoder
from vitalfew.tasks.models.small.provence import ProvenceModel

EXACT = Scoring(device="cpu", precision="fp32")
PAIRS = [
    ("Who founded the mill?", "The river rises in the hills and runs to the sea."),
    ("Where does the river rise?", "Its mill still stands."),
    ("Who founded the mill?", ""),
]


@pytest.mark.parametrize("family", ["bert", "roberta", "deberta"])
def test_scores_are_those_of_sentence_transformers(tmp_path: Path, family: str) -> None:
    from sentence_transformers import CrossEncoder as Theirs

    folder = tiny_models.cross_encoder(tmp_path / "model", family)
    expected = Theirs(str(folder), device="cpu").predict(PAIRS, activation_fn=torch.nn.Identity())
    found = [reading.score for reading in CrossEncoder(str(folder), EXACT, "refine").read(PAIRS)]
    assert found == pytest.approx(expected.tolist(), abs=1e-5)


def test_what_is_no_cross_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"2 logits.*refine\.model"):
        CrossEncoder(str(tiny_models.cross_encoder(tmp_path / "two", labels=2)), EXACT, "refine")


def test_provence_is_its_heads_over_deberta(tmp_path: Path) -> None:
    folder = tiny_models.provence(tmp_path)
    model = ProvenceModel(str(folder), EXACT, "refine")
    readings = model.read(PAIRS[:2])
    from safetensors.torch import load_file

    weights = load_file(folder / "model.safetensors")
    stated = json.loads((folder / "config.json").read_text())
    deberta = DebertaV2Model(DebertaV2Config(**{**stated, "model_type": "deberta-v2"})).eval()
    deberta.load_state_dict(
        {name.removeprefix("deberta."): each for name, each in weights.items() if name.startswith("deberta.")}
    )
    tokenizer = AutoTokenizer.from_pretrained(tiny_models.cross_encoder(tmp_path / "other"))
    for (question, text), reading in zip(PAIRS, readings, strict=False):
        given = tokenizer(question, text, return_tensors="pt", return_offsets_mapping=True)
        of_text = [place for place, number in enumerate(given.sequence_ids(0)) if number == 1]
        with torch.inference_mode():
            states = deberta(input_ids=given["input_ids"], attention_mask=given["attention_mask"]).last_hidden_state[0]
            pooled = torch.nn.functional.gelu(
                states[0] @ weights["pooler.dense.weight"].T + weights["pooler.dense.bias"]
            )
            score = (pooled @ weights["classifier.weight"].T + weights["classifier.bias"])[0].item()
            keep = (states @ weights["token_classifier.weight"].T).softmax(-1)[of_text, 1].tolist()
        assert reading.score == pytest.approx(score, abs=1e-4)
        assert [token[2] for token in reading.tokens] == pytest.approx(keep, abs=1e-4)
        assert [[start, end] for start, end, _ in reading.tokens] == given["offset_mapping"][0][of_text].tolist()
