"""The refiners that write a text (`recomp`, `compact`, `refiner_7b`) on tiny models: inputs, rounds, and outputs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tiny_models
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.models.causal.engines.base import Completion, failed
from vitalfew.tasks.models.causal.rewriter import RewritingFailed
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.refiners.rewriting import restructured
from vitalfew.tasks.registry import make as made

HITS = [
    Hit("Mill", "The mill still stands. ", 7, 0, 23),
    Hit("", " ", 8, 0, 1),
    Hit("", "Who founded it?", 8, 10, 25),
    Hit("River", "The river rises in the hills.", 9, 0, 29),
]
MILLS = [Hit("Mill", f"The mill {number} stands by the sea.", number, 0, 30) for number in range(40)]


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.t5_generator(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.bart(tmp_path_factory.mktemp("bart"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"), positions=2048)


def make(name: str, model: Path | str | None, **chosen: Any) -> Any:
    computing = {"precision": "fp32", "device": "cpu", "max_new_tokens": 12, **chosen}
    return made(RefineConfig(refiner=name, **computing, **({"model": str(model)} if model else {})), "refine")


def answered(
    refiner: Any, monkeypatch: pytest.MonkeyPatch, answer: Callable[[int, str], str] | Sequence[str]
) -> list[Sequence[str]]:
    """The inputs of every round; `answer`, of a round's number and an input, or by place, stands in for the model."""
    rounds: list[Sequence[str]] = []

    def complete(prompts: Sequence[str], probe: Any = None, tick: Any = None) -> list[Completion]:
        rounds.append(prompts)
        tick(len(prompts), 12 * len(prompts))
        texts = [answer(len(rounds), prompt) for prompt in prompts] if callable(answer) else answer
        return [Completion(text, 10, 2, 0.1) for text in texts[: len(prompts)]]

    monkeypatch.setattr(refiner.model.engine, "complete", complete)
    return rounds


# --- `recomp`


def test_recomps_input_is_the_published_one_and_an_empty_summary_passes_nothing_on(
    t5: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refiner = make("recomp", t5, text="titled", top_k=3, max_words=2)
    rounds = answered(refiner, monkeypatch, ["It is there.", "  "])
    ticks: list[tuple[int, int]] = []
    refined = refiner.refine(["Where is it?", "b", "c"], [HITS, HITS, []], tick=lambda *done: ticks.append(done))
    documents = "Mill: The mill still stands.\nWho founded it?"
    assert rounds[0][0] == f"Question: Where is it?\n Document: {documents}\n Summary: "
    assert [[each.text for each in own] for own in refined.contexts] == [["It is"], [], []]
    assert refined.notes == {"cut_inputs": 0, "empty": 2}
    assert [writing.finish_reason for writing in refined.writings] == ["stop", "stop", ""]
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (3, refined.tokens) == (3, 24)


@settings(max_examples=25)
@given(text=st.text(max_size=300), question=st.text(max_size=20))
def test_what_is_fitted_fits_and_begins_as_the_text_does(t5: Path, text: str, question: str) -> None:
    rewriter = make("recomp", t5, max_input_tokens=120).model
    fitted = rewriter.fitted(text, lambda part: f"{question}|{part}|")
    kept = fitted.removeprefix(f"{question}|").removesuffix("|")
    assert text.startswith(kept)
    if not rewriter.fits(f"{question}|{text}|"):
        assert len(kept) < len(text)
    if rewriter.fits(f"{question}||"):
        assert rewriter.fits(fitted)


# --- `compact`


def test_a_question_ends_at_complete_and_all_that_are_open_are_asked_together(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(number: int, prompt: str) -> str:
        done = "Question: Where?" in prompt and number == 2
        return f"Summary {number}. Evaluation: So. [{'' if done else 'IN'}COMPLETE]"

    refiner = make("compact", llama)
    rounds = answered(refiner, monkeypatch, answer)
    refined = refiner.refine(["Where?", "Who?", "None?"], [MILLS[:20], MILLS, []])
    assert [len(prompts) for prompts in rounds] == [2, 2, 1, 1, 1, 1]  # six of five hits each at most
    assert {prompts[-1].count("stands by the sea") for prompts in rounds} == {5}
    assert [[each.text for each in own] for own in refined.contexts] == [["Summary 2."], ["Summary 6."], []]
    assert refined.notes == {"cut_inputs": 0, "empty": 1, "rounds": 8, "complete": 1}


def test_a_round_reads_what_the_one_before_wrote(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that writes no summary leaves the one before, and its own evaluation."""
    outputs = ["First. Evaluation: A place lacks. [INCOMPLETE]", "[INCOMPLETE]", "Third. Evaluation: [COMPLETE]"]
    refiner = make("compact", llama, text="titled", segment=1)
    rounds = answered(refiner, monkeypatch, lambda number, prompt: outputs[number - 1])
    assert [context.text for context in refiner.refine(["Where?"], [MILLS]).contexts[0]] == ["Third."]
    before = "\n\nPrevious summary: First.\n\nEvaluation of previous summary: "
    for [prompt], hit, told in zip(rounds, MILLS, ("", f"{before}A place lacks.", before), strict=False):
        assert prompt.endswith(f"Question: Where?{told}\n\nSource documents: Mill: {hit.text}\n\nSummary:")


# --- `refiner_7b`


def test_the_sections_of_an_output_are_the_context(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refiner = make("refiner_7b", llama, text="titled", max_words=5)
    rounds = answered(refiner, monkeypatch, ["1. Place\n1.1. Mill\nThe mill still stands.", "1.\n1.1.\n"])
    refined = refiner.refine(["Where?", "Who?"], [HITS[:3], HITS[:1]])
    assert rounds[0][0] == "<<SYS>>[MONITOR]Mill: The mill still stands.\nWho founded it?<</SYS>>Where?"
    assert [[each.text for each in own] for own in refined.contexts] == [["1. Place\n1.1. Mill\nThe"], []]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("## 1. A\n### 1.1 Mill\nOld.", "1. A\n1.1. Mill\nOld."),
        ("1. A\nOld.\n3.5 million live there.\n1999 was wet.", "1. A\nOld.\n3.5 million live there.\n1999 was wet."),
        ("1. A\nOld.\n2. A\nOld.\n3. A\nOld.\n4. A\nNew.", "1. A\nOld.\n2. A\nNew."),
        ("1.\n1.1.\n2.\n2.1. Sea\nDeep.", "1.1. Sea\nDeep."),
    ],
)
def test_an_output_is_restructured(output: str, expected: str) -> None:
    assert restructured(output) == restructured(expected) == expected


# --- What is missing


def test_a_text_is_cut_at_its_end_or_cannot_be_rewritten(t5: Path, bart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BART has 64 positions, and the default of 1024 tokens gives way to them."""
    refined = make("recomp", bart).refine(["Who?", "Where?"], [MILLS, HITS[:1]])
    assert refined.notes["cut_inputs"] == 1
    assert [writing.cut for writing in refined.writings] == [True, False]
    refiner = make("recomp", t5, max_input_tokens=40)
    with pytest.raises(RewritingFailed, match=r"refine: .*at most 40.*refine\.max_input_tokens=N"):
        refiner.refine(["mill " * 100], [HITS])
    monkeypatch.setattr(refiner.model.engine, "complete", lambda *_, **__: [failed("out of memory")])
    with pytest.raises(RewritingFailed, match="out of memory"):
        refiner.refine(["Who?"], [HITS[:1]])
