"""The refiner `llmlingua2` on tiny token classifiers: which words stay, how many, and in which order."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from tokenizers.normalizers import NFKC
from tokenizers.pre_tokenizers import Metaspace
from transformers import AutoModelForTokenClassification, AutoTokenizer

from tests.support import tiny_models
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.refiners.llmlingua2 import LLMLingua2
from vitalfew.tasks.registry import make

TEXTS = ["The river rises in the hills and runs for 120 km to the sea;", "its mill still stands. Who founded it?"]
HITS = [Hit("Ouse", text, number, 7, 7 + len(text)) for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="module", params=["xlm-roberta", "bert"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.token_classifier(tmp_path_factory.mktemp("tokens"), request.param)


def refiner(model: Path, **chosen: Any) -> LLMLingua2:
    given: dict[str, Any] = {"model": str(model), "device": "cpu", "precision": "fp32", **chosen}
    return LLMLingua2(LLMLingua2.Options(refiner="llmlingua2", **given))


def test_the_words_with_the_highest_mean_stay(model: Path) -> None:
    """Worked with transformers alone; a share of the tokens, so a word of more tokens takes more of it."""
    network = AutoModelForTokenClassification.from_pretrained(model).eval()
    tokenizer = AutoTokenizer.from_pretrained(model)
    due: list[tuple[float, int, str, int]] = []
    for text in TEXTS:
        row = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = row.pop("offset_mapping")[0].tolist()
        with torch.inference_mode():
            keep = network(**row).logits[0].softmax(-1)[:, 1].tolist()
        for word in re.finditer(r"\w+|[^\w\s]", text):
            at, stop = word.span()
            own = [k for (start, end), k in zip(offsets, keep, strict=True) if start < stop and end > at]
            due.append((sum(own) / len(own), -len(due), word[0], len(own)))
    rest = round(0.3 * sum(tokens for *_, tokens in due))
    kept = []
    for best in sorted(due, reverse=True):
        if (rest := rest - best[3]) < 0:
            break
        kept.append(best)
    ticks: list[tuple[int, int]] = []
    made = refiner(model, rate=0.3).refine(["?"], [HITS], None, lambda *given: ticks.append(given))
    shown = " ".join(context.text for context in made.contexts[0])
    assert re.findall(r"\w+|[^\w\s]", shown) == [word for _, _, word, _ in sorted(kept, key=lambda one: -one[1])]
    assert made.notes == {"words": len(due), "left": len(kept)}
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (1, made.tokens)
    for context in made.contexts[0]:
        parts = [TEXTS[passage][start - 7 : end - 7] for passage, start, end in context.origin]
        assert "".join(parts).replace(" ", "") == context.text.replace(" ", "")


def test_all_of_a_long_text_is_read_and_titles_stay(model: Path) -> None:
    text = " ".join(TEXTS * 6)
    whole = refiner(model, rate=1, text="titled").refine(["?", "?"], [[Hit("Ouse", text, 5, 0, len(text))], []])
    assert [[context.text for context in own] for own in whole.contexts] == [[f"Ouse: {text}"], []]
    assert all(keep > 0 for _, _, keep in refiner(model).model.read([("", text)])[0].tokens)
    rewritten = Hit("", "Ada founded it.", 6, 0, 0)
    [[context]] = refiner(model, rate=1).refine(["?"], [[rewritten]]).contexts
    assert (context.text, context.origin) == ("Ada founded it.", ())


def test_the_rate_is_a_third_and_with_a_budget_the_words_fill_it(model: Path) -> None:
    def left(**chosen: Any) -> list[str]:
        [contexts] = refiner(model, **chosen).refine(["?"], [HITS]).contexts
        return " ".join(context.text for context in contexts).split()

    assert left() == left(rate=0.33)
    words = [len(left(max_words=budget)) for budget in range(1, 22)]
    assert all(budget - 1 <= count <= budget for budget, count in enumerate(words, 1))
    assert words[0] == 1
    assert len(left(max_words=12, rate=0.1)) < 12
    assert left(max_words=3, text="titled")[0] == "Ouse:"
    assert left(max_words=1, text="titled") == []  # the title alone would fill it


@pytest.mark.parametrize("rate", [0, 1.5])
def test_a_rate_out_of_bounds_is_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match=r"rate.*(greater than 0|less than or equal to 1)"):
        make(RefineConfig(refiner="llmlingua2", rate=rate), "refine")


def test_blanks_are_no_word_and_marks_are(model: Path) -> None:
    texts = ["  \n ", "! ; ?", "\n A mill. "]
    hits = [Hit("", text, number, 0, len(text)) for number, text in enumerate(texts)]
    [contexts] = refiner(model, rate=1).refine(["?"], [hits]).contexts
    assert [context.text for context in contexts] == ["! ; ?", "A mill."]
    assert refiner(model, rate=0.01).refine(["?"], [hits[1:2]]).notes == {"words": 3, "left": 1}


def test_what_is_no_number_counts_as_0(model: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(model, tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    weights["classifier.bias"] = torch.full_like(weights["classifier.bias"], torch.nan)
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    [[context]] = refiner(broken, max_words=4).refine(["?"], [HITS]).contexts
    assert context.text == "The river rises in"  # of equal words the first


def test_a_question_has_its_contexts_whatever_the_others_are(model: Path) -> None:
    one = refiner(model, max_words=9)
    long = Hit("", " ".join(TEXTS * 5), 5, 0, len(" ".join(TEXTS * 5)))
    questions = [HITS[:1], [long], HITS, []]
    together = one.refine(["?"] * 4, questions).contexts
    assert together == [one.refine(["?"], [hits]).contexts[0] for hits in questions]
    assert together == one.refine(["?"] * 4, questions[::-1]).contexts[::-1]


def test_words_are_those_of_the_authors_package(tmp_path: Path) -> None:
    """A word begins after a blank, and with a mark that is a token of its own; what follows a mark belongs to it. A
    blank's sign is two tokens more."""
    model = tiny_models.token_classifier(tmp_path / "marked")
    pieces = [("<unk>", 0.0), ("▁The", -1.0), ("▁sea", -1.0), (";", -1.0), ("▁don", -1.0), ("'", -1.0), ("t", -1.0)]
    tokenizer = Tokenizer(Unigram([*pieces, ("▁", -9.0), (".", -2.0)], unk_id=0))
    tokenizer.normalizer, tokenizer.pre_tokenizer = NFKC(), Metaspace()
    tokenizer.save(str(model / "tokenizer.json"))
    text = "The sea; don't… .t"
    [words] = refiner(model).model.words([text])
    shown = [(text[word.start : word.end], word.tokens) for word in words]
    assert shown == [("The", 3), ("sea", 3), (";", 1), ("don", 3), ("'t", 2), ("…", 3), (".t", 2)]


def test_another_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"must have two labels .*got 3"):
        refiner(tiny_models.token_classifier(tmp_path / "three", "bert", 3))
    with pytest.raises(UnsupportedModel, match="not a token classifier"):
        refiner(tiny_models.bert(tmp_path / "plain")).refine(["?"], [HITS])
