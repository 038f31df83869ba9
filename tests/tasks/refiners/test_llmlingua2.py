"""The refiner `llmlingua2` on tiny token classifiers: which words stay, how many, and in which order."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

from tasks.models.files import UnsupportedModel
from tasks.refiners.base import Hit
from tasks.refiners.llmlingua2 import LLMLingua2
from tests.support import tiny_models

TEXTS = ["The river rises in the hills and runs for 120 km to the sea;", "its mill still stands. Who founded it?"]
HITS = [Hit("Ouse", text, number, 7, 7 + len(text)) for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="module", params=["xlm-roberta", "bert"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.token_classifier(tmp_path_factory.mktemp("tokens"), request.param)


def refiner(model: Path, **chosen: Any) -> LLMLingua2:
    given: dict[str, Any] = {"model": str(model), "device": "cpu", "precision": "fp32", **chosen}
    return LLMLingua2(LLMLingua2.Options(refiner="llmlingua2", **given))


def test_the_words_with_the_highest_mean_stay(model: Path) -> None:
    network, tokenizer = (
        AutoModelForTokenClassification.from_pretrained(model).eval(),
        AutoTokenizer.from_pretrained(model),
    )
    due: list[tuple[float, int, str]] = []
    for text in TEXTS:
        row = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = row.pop("offset_mapping")[0].tolist()
        with torch.inference_mode():
            keep = network(**row).logits[0].softmax(-1)[:, 1].tolist()
        at = 0
        for word in text.split():
            at = text.index(word, at)
            own = [k for (start, end), k in zip(offsets, keep, strict=True) if start < at + len(word) and end > at]
            due.append((sum(own) / len(own), len(due), word))
            at += len(word)
    kept = sorted(sorted(due, reverse=True)[: round(0.3 * len(due))], key=lambda word: word[1])
    ticks: list[tuple[int, int]] = []
    made = refiner(model, rate=0.3).refine(["?"], [HITS], None, lambda *given: ticks.append(given))
    assert " ".join(context.text for context in made.contexts[0]).split() == [word for _, _, word in kept]
    assert made.notes == {"words": len(due), "left": len(kept)}
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (1, made.tokens)
    for context in made.contexts[0]:
        parts = [TEXTS[passage][start - 7 : end - 7].strip() for passage, start, end in context.origin]
        assert " ".join(parts) == context.text


def test_all_of_a_long_text_is_read_and_titles_stay(model: Path) -> None:
    text = " ".join(TEXTS * 6)
    whole = refiner(model, rate=1, text="titled").refine(["?", "?"], [[Hit("Ouse", text, 5, 0, len(text))], []])
    assert [[context.text for context in own] for own in whole.contexts] == [[f"Ouse: {text}"], []]
    assert all(keep > 0 for _, _, keep in refiner(model).model.read([("", text)])[0].tokens)
    rewritten = Hit("", "Ada founded it.", 6, 0, 0)
    [[context]] = refiner(model, rate=0.6).refine(["?"], [[rewritten]]).contexts
    assert (context.text, context.origin) == ("Ada founded it.", ())


def test_another_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="tells 3 kinds of tokens, two are due"):
        refiner(tiny_models.token_classifier(tmp_path / "three", "bert", 3))
    with pytest.raises(UnsupportedModel, match="no token classifier"):
        refiner(tiny_models.bert(tmp_path / "plain")).refine(["?"], [HITS])
