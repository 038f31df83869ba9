"""The generator `reader`: its mechanics on a tiny random model, and the weights that come with it."""

import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.material import squad_dev
from tests.support.training import random_weights
from vitalfew.storage.artifacts import FIGURES
from vitalfew.tasks.generators.base import Prompt
from vitalfew.tasks.generators.reader import Reader, best_spans
from vitalfew.tasks.models.readings import Memory, remembering
from vitalfew.tasks.models.small.reader import ReaderModel
from vitalfew.tasks.models.small.windows import MAX_QUESTION, OVERLAP, SIZE, ranges
from vitalfew.tasks.models.weights import shipped
from vitalfew.tasks.trainers.articles import Material
from vitalfew.tasks.trainers.base import HELD_OUT
from vitalfew.tasks.trainers.reader import measure

CONTEXTS = (
    "The mill of Velmar was built in 1742 by Ada Norrin. It burnt down twice.",
    "Ships of the northern fleet carried salt, timber and wool to Kessin.",
    "Nobody knows who painted the old bridge; some say it was Tomas Rell.",
)
QUESTION = "Who built the mill of Velmar?"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_weights(tmp_path_factory.mktemp("reader"), ReaderModel)


def reader_of(directory: Path, **options: Any) -> Reader:
    return Reader(Reader.Options(model=str(directory), precision="fp32", device="cpu", **options))


@pytest.fixture(scope="module")
def reader(directory: Path) -> Reader:
    return reader_of(directory)


# Spans


@given(seed=st.integers(0, 999), length=st.integers(1, 12), longest=st.integers(1, 6))
@settings(max_examples=60)
def test_the_best_span_is_the_best_of_all_that_are_allowed(seed: int, length: int, longest: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    start, end = torch.randn(2, 3, length, generator=generator).unbind(0)
    outside = torch.rand(3, length, generator=generator) < 0.4
    outside[:, 0] = False
    start, end = start.masked_fill(outside, -torch.inf), end.masked_fill(outside, -torch.inf)
    for row, (first, last, logprob) in enumerate(zip(*best_spans(start, end, longest), strict=True)):
        allowed = {
            (i, j): (start[row, i] + end[row, j]).item()
            for i, j in itertools.product(range(length), repeat=2)
            if i <= j < i + longest and not (outside[row, i] or outside[row, j])
        }
        assert allowed[first, last] == max(allowed.values())
        total = torch.tensor(list(allowed.values())).logsumexp(0).item()
        assert logprob == pytest.approx(allowed[first, last] - total, abs=1e-4)


@given(length=st.integers(0, 2000), room=st.integers(OVERLAP + 1, SIZE))
def test_windows_cover_every_token_and_every_short_run_of_tokens(length: int, room: int) -> None:
    found = ranges(length, room)
    assert sorted({token for first, stop in found for token in range(first, stop)}) == list(range(length))
    assert all(0 < stop - first <= room for first, stop in found)
    assert all(later[0] <= earlier[1] - OVERLAP for earlier, later in itertools.pairwise(found))


# Answers


def test_the_retrievers_scores_decide_as_much_as_their_weight_says(reader: Reader, directory: Path) -> None:
    apart = reader.generate([Prompt("", QUESTION, (context,)) for context in CONTEXTS])
    asked = [Prompt("", QUESTION, CONTEXTS, scores=tuple(float(n == best) for n in range(3))) for best in range(3)]
    far, near, none = (reader_of(directory, retrieval_weight=weight).generate(asked) for weight in (200.0, 0.25, 0.0))
    assert [each.text for each in far] == [each.text for each in apart]
    # The context is sure then, and what is left is the probability of the span within it.
    assert [each.logprob for each in far] == pytest.approx([each.logprob for each in apart], abs=1e-4)
    plain = reader.generate([Prompt("", QUESTION, CONTEXTS)])[0]
    assert {(each.text, each.logprob) for each in none} == {(plain.text, plain.logprob)}
    # P(context) is the softmax of answerability + weight * score.
    (best,) = (n for n in range(3) if apart[n].text == plain.text)
    raised = near[best]
    chance = math.exp((plain.logprob or 0) - (apart[best].logprob or 0))
    expected = math.log(chance * math.exp(0.25) / (1 - chance + chance * math.exp(0.25)))
    assert (raised.logprob or 0) - (apart[best].logprob or 0) == pytest.approx(expected, abs=1e-4)


def test_tokens_are_counted_and_what_cannot_be_answered_is_said(reader: Reader) -> None:
    lengths = [len(reader.tokenizer.encode(text, add_special_tokens=False).ids) for text in (QUESTION, *CONTEXTS)]
    prompts = [Prompt("", QUESTION, CONTEXTS), Prompt("", "why " * (MAX_QUESTION + 1), CONTEXTS), Prompt("", "Who?")]
    ticks: list[tuple[int, int]] = []
    fine, long, bare = reader.generate(prompts, tick=lambda *done: ticks.append(done))
    assert (fine.prompt_tokens, fine.finish_reason) == (sum(lengths), "stop")
    assert fine.text in " ".join(CONTEXTS)
    assert long.error == f"the question has {MAX_QUESTION + 1} tokens, the reader takes at most {MAX_QUESTION}"
    assert (bare.text, bare.finish_reason, bare.completion_tokens, bare.logprob) == ("", "stop", 0, None)
    assert sum(done for done, _ in ticks) == len(prompts)


@given(earlier=st.sets(st.integers(0, 17)))
@settings(max_examples=8)
def test_neither_what_was_read_before_nor_what_is_read_at_once_changes_a_bit(
    directory: Path, earlier: set[int]
) -> None:
    """In float32, on the processors that tests have run on: another batch rounds alike."""
    reader, draw, words = reader_of(directory, batch_tokens=256), random.Random(1), " ".join(CONTEXTS).split()
    some = [" ".join(draw.choices(words, k=length)) for _ in range(6) for length in (6, 5, 30, 90)]
    prompts = [Prompt("", some[place], tuple(some[place + 1 : place + 4])) for place in range(0, 24, 4)]
    pairs = [(each.question, context) for each in prompts for context in each.contexts]
    with remembering(Memory()), pytest.MonkeyPatch.context() as patch:
        patch.setenv("VITALFEW_THREADS", "3")
        reader.generate([Prompt("", pairs[place][0], pairs[place][1:]) for place in sorted(earlier)])
        after = reader.generate(prompts)
    alone = reader.generate(prompts)
    assert [(each.text, each.logprob) for each in after] == [(each.text, each.logprob) for each in alone]


# The weights that come with the project


@pytest.mark.slow
def test_the_embedded_reader_on_held_out_articles_is_as_good_as_its_card_says() -> None:
    held_out = squad_dev().of((shipped("reader") / HELD_OUT).read_text().splitlines())
    asked = Material(held_out.passages, held_out.sample(60, seed=1))
    figures = json.loads((shipped("reader") / FIGURES).read_text())["figures"][0]
    quality = measure(Reader(Reader.Options()), asked, 1)
    assert quality["f1"] > figures["f1"] - 8
    assert quality["exact_match"] > figures["exact_match"] - 8
