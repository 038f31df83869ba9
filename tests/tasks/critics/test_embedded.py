"""The critic `embedded`: its mechanics on a tiny random model, and the weights that come with it."""

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from storage.weights import FIGURES
from tasks.critics.base import Candidate, CriticUnavailable, Judgement
from tasks.critics.embedded import CriticModel, Embedded, embedded, judged_windows
from tasks.datasets.specification import parse_dataset
from tasks.generators.reader import Reader
from tasks.models.files import UnsupportedModel
from tasks.models.reader_model import ReaderModel
from tasks.models.tuned import ADAPTER, SETTINGS
from tasks.models.windows import ANSWER, MAX_ANSWER, MAX_QUESTION, SHARED, SIZE, encoded, padded, windows
from tasks.trainers.articles import read_material
from tasks.trainers.card import HELD_OUT
from tasks.trainers.discrimination import candidates, discrimination
from tasks.trainers.quality import sample
from tests.support.real_data import real_data
from tests.support.tiny_models import bert
from tests.support.training import write_weights

QUESTION = "Who built the mill of Velmar?"
CONTEXT = "The mill of Velmar was built in 1742 by Ada Norrin. It burnt down twice."
ANSWER_TEXT = "Ada Norrin"


def critic_of(directory: Path, seed: int = 3) -> Path:
    """A critic with random weights on a random BERT."""
    base = bert(directory / "base", 256)
    torch.manual_seed(seed)
    model = CriticModel(base, torch.float32)
    model.prepare_for_training(4)
    for name, parameter in model.trained().items():
        if name.endswith((".b", "head.weight")):
            parameter.data.normal_(0, 0.5)
    write_weights(directory, model, str(base))
    return directory


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return critic_of(tmp_path_factory.mktemp("critic"))


@pytest.fixture(scope="module")
def critic(directory: Path) -> Embedded:
    return Embedded(Embedded.Options(model=str(directory), precision="fp32", device="cpu"))


# What is read


def test_a_window_marks_the_answer_by_itself_and_where_the_context_has_it(critic: Embedded) -> None:
    ((window,),) = judged_windows(critic.tokenizer, [Candidate(QUESTION, CONTEXT, "ada norrin")])
    tokens = [critic.tokenizer.id_to_token(number) for number in window.ids]
    answer = critic.tokenizer.encode(ANSWER_TEXT, add_special_tokens=False).tokens
    marked = [token for token, kind in zip(tokens, window.types, strict=True) if kind == ANSWER]
    assert marked == [*answer, "[SEP]", *answer]
    assert tokens.count("[SEP]") == 3
    shared = {token for token, kind in zip(tokens, window.types, strict=True) if kind == SHARED}
    assert {"mill", "of", "built"} <= shared
    assert shared.isdisjoint(answer)


def test_without_an_answer_a_window_is_the_readers(critic: Embedded) -> None:
    found = encoded(critic.tokenizer, [QUESTION, CONTEXT, ""])
    (plain,) = windows(critic.tokenizer, found[QUESTION], found[CONTEXT])
    assert ANSWER not in plain.types
    (empty,) = windows(critic.tokenizer, found[QUESTION], found[CONTEXT], found[""])
    assert len(empty.ids) == len(plain.ids) + 1


def test_a_long_context_is_read_to_its_end_and_the_best_window_counts(critic: Embedded) -> None:
    filler = "Salt and wool were sold in the market of the harbour every week. "
    context = filler * 40 + CONTEXT
    (parts,) = judged_windows(critic.tokenizer, [Candidate(QUESTION, context, ANSWER_TEXT)])
    assert len(parts) > 2
    assert all(len(part.ids) <= SIZE for part in parts)
    assert [part for part in parts if part.types.count(ANSWER) > 2 + len(ANSWER_TEXT.split())] == parts[-1:]
    with torch.inference_mode():
        scores = critic.model(padded(parts, 0, torch.device("cpu"))).sigmoid().max(0).values.tolist()
    (found,) = critic.critique([Candidate(QUESTION, context, ANSWER_TEXT)])
    assert (found.isrel, found.issup, found.isuse) == pytest.approx(scores, abs=1e-5)


def test_of_a_long_answer_the_beginning_is_read(critic: Embedded) -> None:
    long = "salt " * MAX_ANSWER
    one, other = critic.critique([Candidate(QUESTION, CONTEXT, long), Candidate(QUESTION, CONTEXT, long + "and wool")])
    assert one == other
    (parts,) = judged_windows(critic.tokenizer, [Candidate("why " * MAX_QUESTION, CONTEXT * 20, long * 3)])
    assert max(len(part.ids) for part in parts) == SIZE


# Critiques


def _batch(seed: int, count: int) -> list[Candidate]:
    draw = random.Random(seed)
    words = CONTEXT.split()
    return [
        Candidate(" ".join(draw.choices(words, k=6)), " ".join(draw.choices(words, k=20 + n % 50)), draw.choice(words))
        for n in range(count)
    ]


def test_scores_are_probabilities_and_the_order_of_candidates_changes_nothing(critic: Embedded) -> None:
    batch = _batch(1, 80)
    found = critic.critique(batch)
    assert all(0 <= score <= 1 for each in found for score in (each.isrel, each.issup, each.isuse))
    assert len({each.isrel for each in found}) > 40
    assert critic.critique(batch[::-1])[::-1] == found
    assert critic.critique(batch + batch[:3]) == found + found[:3]
    assert critic.critique([]) == []


def test_an_empty_answer_is_neither_supported_nor_of_use(critic: Embedded) -> None:
    for answer in ("", " \n"):
        (found,) = critic.critique([Candidate(QUESTION, CONTEXT, answer)])
        assert found.isrel > 0
        assert (found.issup, found.isuse, found.error) == (0, 0, "")
    assert critic.critique([Candidate(QUESTION, "", ANSWER_TEXT)]) == [Judgement(0, 0, 0)]


def test_relevance_is_told_of_pairs_without_an_answer(critic: Embedded) -> None:
    pairs = [(QUESTION, CONTEXT), (QUESTION, ""), ("why " * (MAX_QUESTION + 1), CONTEXT), ("Which mill?", CONTEXT)]
    first, empty, long, last = critic.relevance(pairs)
    assert (empty, long) == (0, 0)
    assert 0 < first < 1
    assert critic.relevance(pairs[::-1]) == [last, long, empty, first]


def test_an_over_long_question_is_an_error_row_and_its_neighbours_are_judged(critic: Embedded) -> None:
    counted: list[int] = []
    long = Candidate("why " * (MAX_QUESTION + 1), CONTEXT, ANSWER_TEXT)
    batch = [long, Candidate(QUESTION, CONTEXT, ANSWER_TEXT), long]
    wrong, fine, _ = critic.critique(batch, lambda candidates, tokens: counted.append(candidates))
    assert fine == critic.critique(batch[1:2])[0]
    assert wrong == Judgement(0, 0, 0, f"the question has {MAX_QUESTION + 1} tokens, the critic takes {MAX_QUESTION}")
    assert sum(counted) == 3


def test_its_identity_follows_the_weights(directory: Path, critic: Embedded, tmp_path: Path) -> None:
    other = Embedded(Embedded.Options(model=str(critic_of(tmp_path, seed=4)), precision="fp32", device="cpu"))
    assert critic.identity() == Embedded(critic.options).identity()
    assert other.identity()["files"][ADAPTER] != critic.identity()["files"][ADAPTER]
    assert {ADAPTER, SETTINGS} < set(critic.identity()["files"])


def test_a_directory_without_the_critics_files_is_refused(tmp_path: Path, directory: Path) -> None:
    with pytest.raises(CriticUnavailable, match=r"has no adapter\.safetensors; leave critique\.model out"):
        Embedded(Embedded.Options(model=str(tmp_path)))
    save_file({**load_file(directory / ADAPTER), "decoder.weight": torch.zeros(2)}, tmp_path / ADAPTER)
    (tmp_path / SETTINGS).write_text((directory / SETTINGS).read_text())
    with pytest.raises(UnsupportedModel, match="not an adapter"):
        Embedded(Embedded.Options(model=str(tmp_path))).critique([Candidate(QUESTION, CONTEXT, ANSWER_TEXT)])


def test_a_critic_begins_where_its_reader_ended(tmp_path: Path) -> None:
    base = bert(tmp_path / "base", 256)
    torch.manual_seed(5)
    reader = ReaderModel(base, torch.float32).eval()
    reader.prepare_for_training(4)
    for parameter in reader.trained().values():
        parameter.data.add_(torch.randn(parameter.shape) * 0.1)
    critic = CriticModel(base, torch.float32).eval()
    critic.prepare_for_training(4)
    critic.begin_from(reader.trained())
    tokenizer = Embedded(Embedded.Options(model=str(critic_of(tmp_path / "other")))).tokenizer
    found = encoded(tokenizer, [QUESTION, CONTEXT])
    batch = padded(windows(tokenizer, found[QUESTION], found[CONTEXT]), 0, torch.device("cpu"))
    with torch.no_grad():
        answerable = reader(batch)[2]
        assert torch.allclose(critic(batch), answerable.unsqueeze(-1).expand(-1, 3), atol=1e-5)


# The weights that come with the project


@pytest.fixture(scope="module")
def own() -> Embedded:
    return Embedded(Embedded.Options())


def test_the_embedded_critic_judges_plain_answers(own: Embedded) -> None:
    other = "Ships of the northern fleet carried salt, timber and wool to Kessin."
    right, wrong, elsewhere = own.critique(
        [
            Candidate(QUESTION, CONTEXT, "Ada Norrin"),
            Candidate(QUESTION, CONTEXT, "1742"),
            Candidate(QUESTION, other, "Kessin"),
        ]
    )
    assert min(right.isrel, wrong.isrel) > elsewhere.isrel
    assert right.issup > max(wrong.issup, elsewhere.issup)
    assert right.isuse > max(wrong.isuse, elsewhere.isuse)


def test_the_embedded_weights_are_small() -> None:
    assert sum(file.stat().st_size for file in embedded().iterdir()) < 6_000_000


def test_the_embedded_critic_on_held_out_articles_is_as_good_as_its_card_says(own: Embedded) -> None:
    squad = real_data("squad/dev-v1.1.json")
    material = read_material(record for _, record in parse_dataset(f"squad:{squad}")[1].records())
    held_out = material.of((embedded() / HELD_OUT).read_text().splitlines())
    asked = sample(held_out.questions, 40, seed=1)
    judgements = candidates(held_out, asked, "sentence", Reader(Reader.Options()))
    figures = json.loads((embedded() / FIGURES).read_text())["figures"]
    told = {each["aspect"]: each["auc"] for each in figures if (each["unit"], each["among"]) == ("sentence", "all")}
    found = {each.aspect: each.auc for each in discrimination(own, "sentence", judgements) if each.among == "all"}
    assert found["isrel"] > told["isrel"] - 0.06
    assert found["issup"] > told["issup"] - 0.06
    assert found["isuse"] > told["isuse"] - 0.1
