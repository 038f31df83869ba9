"""The refiner `compact` on a tiny Llama: its rounds, what it carries from one to the next, and faulty outputs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tiny_models
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable, failed
from vitalfew.tasks.models.causal.rewriter import RewritingFailed
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.refiners.compact import Compact, Round, parse
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

HITS = [Hit("Mill", f"The mill {number} stands by the sea.", number, 0, 30) for number in range(40)]
UNDECIDED = "It stands. Evaluation: Nobody says where. [INCOMPLETE]"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"), positions=2048)


def make(model: Path | str | None, **chosen: Any) -> Compact:
    given = {"precision": "fp32", "device": "cpu", "max_new_tokens": 12, **chosen}
    return Compact(Compact.Options(refiner="compact", model=model and str(model), **given))


def answered(
    refiner: Compact, monkeypatch: pytest.MonkeyPatch, answer: Callable[[int, str], str]
) -> list[Sequence[str]]:
    """The inputs of every round; `answer`, of a round's number and an input, stands in for the model."""
    rounds: list[Sequence[str]] = []

    def complete(prompts: Sequence[str], probe: Any = None, tick: Any = None) -> list[Completion]:
        rounds.append(prompts)
        tick(len(prompts), 12 * len(prompts))
        return [Completion(answer(len(rounds), prompt), 10, 2, 0.1) for prompt in prompts]

    monkeypatch.setattr(refiner.model.engine, "complete", complete)
    return rounds


def test_a_question_ends_at_complete_and_all_that_are_open_are_asked_together(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(number: int, prompt: str) -> str:
        done = "Question: Where?" in prompt and number == 2
        return f"Summary {number}. Evaluation: So. [{'' if done else 'IN'}COMPLETE]"

    refiner = make(llama)
    rounds = answered(refiner, monkeypatch, answer)
    ticks: list[tuple[int, int]] = []
    questions, hits = ["Where?", "Who?", "None?"], [HITS[:20], HITS[:13], []]
    refined = refiner.refine(questions, hits, tick=lambda *done: ticks.append(done))
    assert [len(prompts) for prompts in rounds] == [2, 2, 1]
    assert [[each.text for each in own] for own in refined.contexts] == [["Summary 2."], ["Summary 3."], []]
    assert refined.notes == {"cut_inputs": 0, "empty": 1, "rounds": 5, "complete": 1}
    assert [writing.finish_reason for writing in refined.writings] == ["stop", "stop", ""]
    assert refined.tokens == 60
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (3, 60)


def test_six_rounds_of_five_hits_at_most(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for chosen, sizes in (
        ({}, [5] * 6),
        ({"top_k": 7}, [5, 2]),
        ({"rounds": 2}, [5, 5]),
        ({"segment": 30, "rounds": 9}, [30, 10]),
    ):
        refiner = make(llama, max_input_tokens=1500, **chosen)
        rounds = answered(refiner, monkeypatch, lambda number, prompt: UNDECIDED)
        refined = refiner.refine(["Where?"], [HITS])
        assert [prompt.count("stands by the sea") for [prompt] in rounds] == sizes
        assert refined.notes["rounds"] == len(sizes)
        assert refined.contexts[0][0].text == "It stands."


def test_a_round_reads_what_the_one_before_wrote(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that writes no summary leaves the one before, and its own evaluation."""
    outputs = ["First. Evaluation: A place lacks. [INCOMPLETE]", "[INCOMPLETE]", "Third. Evaluation: [COMPLETE]"]
    refiner = make(llama, text="titled", segment=1)
    rounds = answered(refiner, monkeypatch, lambda number, prompt: outputs[number - 1])
    refined = refiner.refine(["Where?"], [HITS])
    ends = [prompt[prompt.index("Question: ") :] for [prompt] in rounds]
    documents = [f"Source documents: Mill: {hit.text}\n\nSummary:" for hit in HITS]
    before = "Question: Where?\n\nPrevious summary: First.\n\nEvaluation of previous summary: "
    assert ends == [
        f"Question: Where?\n\n{documents[0]}",
        f"{before}A place lacks.\n\n{documents[1]}",
        f"{before}\n\n{documents[2]}",
    ]
    assert rounds[0][0] == refiner.frame("Where?", f"Mill: {HITS[0].text}")
    [[context]] = refined.contexts
    assert (context.text, context.tokens, context.origin) == ("Third.", 2, ())


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("A mill. Evaluation: All is said. [COMPLETE]", Round("A mill.", "All is said.", True)),
        ("Summary: A mill.\n\nIt is old.\nEvaluation: [INCOMPLETE] Why?", Round("A mill. It is old.", "Why?", False)),
        ("Evaluation: Enough. [COMPLETE]\nSummary: A mill.", Round("A mill.", "Enough.", True)),
        ("Here it is. Summary: A mill.", Round("A mill.", "", False)),
        ("A mill, and no mark", Round("A mill, and no mark", "", False)),
        ("A mill. [COMPLETE]", Round("A mill.", "", True)),
        ("Summary: Evaluation: Nothing. [INCOMPLETE]", Round("", "Nothing.", False)),
        ("Summary:", Round()),
        ("[INCOMPLETE] [COMPLETE]", Round("", "", True)),
        ("[COMPLETE] [INCOMPLETE]", Round("", "", False)),
        ("", Round()),
    ],
)
def test_what_an_output_says(output: str, expected: Round) -> None:
    assert parse(output) == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["Summary:", "Evaluation:", "[COMPLETE]", "[INCOMPLETE]", "a", "\n", " "])))
def test_any_output_is_read_and_marks_are_no_part_of_it(parts: list[str]) -> None:
    found = parse("".join(parts))
    for text in (found.summary, found.evaluation):
        assert text == text.strip()
        assert "COMPLETE]" not in text


def test_what_is_written_is_within_the_budget_and_nothing_is_no_context(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chosen in ({"max_words": 2}, {"max_tokens": 3}, {"max_words": 1, "max_tokens": 1}):
        refiner = make(llama, **chosen)
        answered(refiner, monkeypatch, lambda number, prompt: "" if "Who?" in prompt else "One, two, three. [COMPLETE]")
        refined = refiner.refine(["Where?", "Who?"], [HITS[:3], HITS[:3]])
        [[context], nothing] = refined.contexts
        assert nothing == []
        assert count_words(context.text) <= chosen.get("max_words", 9)
        assert count_tokens(context.text) == context.tokens <= chosen.get("max_tokens", 9)


def test_hits_without_text_are_not_read(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refiner = make(llama, text="titled")
    rounds = answered(refiner, monkeypatch, lambda number, prompt: UNDECIDED)
    refined = refiner.refine(["a", "b"], [[Hit("T", " \n", 1, 0, 2)], [Hit("T", " ", 1, 0, 1), Hit("", "?!", 2, 0, 2)]])
    assert [len(prompts) for prompts in rounds] == [1]
    assert rounds[0][0].endswith("Source documents: ?!\n\nSummary:")
    assert refined.contexts[0] == []


def test_documents_too_long_for_the_model_are_cut_at_a_word(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refiner = make(llama, max_new_tokens=1300, segment=40)
    assert refiner.model.limit == 748  # of 2048 positions
    rounds = answered(refiner, monkeypatch, lambda number, prompt: UNDECIDED)
    refined = refiner.refine(["Where?", "Who?"], [HITS, HITS[:1]])
    assert [writing.cut for writing in refined.writings] == [True, False]
    assert refined.notes["cut_inputs"] == 1
    kept = rounds[0][0].partition("Source documents: ")[2].removesuffix("\n\nSummary:")
    whole = "\n".join(hit.text for hit in HITS)
    assert whole.startswith(kept)
    assert whole[len(kept)].isspace()
    assert refiner.model.fits(rounds[0][0])


def test_the_model_writes_the_same_whatever_else_is_asked(llama: Path) -> None:
    refiner = make(llama, max_new_tokens=4, rounds=2, segment=2)
    questions, hits = ["Where?", "Who founded it?"], [HITS[:4], HITS[20:21]]
    ticks: list[tuple[int, int]] = []
    together = refiner.refine(questions, hits, tick=lambda *done: ticks.append(done))
    alone = [refiner.refine([text], [own]) for text, own in zip(questions, hits, strict=True)]
    assert together.contexts == [contexts for each in alone for contexts in each.contexts]
    assert together.writings == [writing for each in alone for writing in each.writings]
    assert together.contexts[::-1] == refiner.refine(questions[::-1], hits[::-1]).contexts
    assert all(own and own[0].text for own in together.contexts)
    assert together.notes["rounds"] == 3
    assert together.tokens == sum(each.tokens for each in alone) > 0
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (2, together.tokens)


def test_what_is_missing_is_named(tmp_path: Path, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"'compact' needs a model: --set refine\.model=NAME, one of compact-7b"):
        make(None)
    with pytest.raises(EngineUnavailable, match=r"cwyoon99/CompAct-7b is not on this.*refine\.model"):
        make("compact-7b")
    with pytest.raises(EngineUnavailable, match=r"not a causal model, which 'compact' needs.*refine\.model"):
        make(tiny_models.t5_generator(tmp_path / "t5"))
    with pytest.raises(EngineUnavailable, match=r"pickle.*refine\.model"):
        make(tiny_models.pickled(tiny_models.llama(tmp_path / "llama")))
    with pytest.raises(ConfigError, match=r"refine\.max_new_tokens=500 is too large: .* room for 256"):
        make(tmp_path / "llama", max_new_tokens=None).refine(["a"], [HITS])
    with pytest.raises(RewritingFailed, match=r"refine: the model could not rewrite.*refine\.max_input_tokens=N"):
        make(llama, max_input_tokens=40).refine(["Where?"], [HITS])
    refiner = make(llama)
    monkeypatch.setattr(refiner.model.engine, "complete", lambda *_, **__: [failed("out of memory")])
    with pytest.raises(RewritingFailed, match="out of memory"):
        refiner.refine(["Where?"], [HITS])


def test_identity_follows_weights_limits_and_adapter_and_loads_nothing(llama: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    refiner = make(llama)
    assert "model.safetensors" in refiner.identity()["model"]["files"]
    assert "model" not in vars(refiner.model.engine)
    adapted = make(llama, adapter=str(tiny_models.lora(tmp_path / "lora", llama)))
    others = [adapted, make(llama, max_new_tokens=9), make(llama, max_input_tokens=1000)]
    assert make(llama).identity() == refiner.identity()
    assert all(other.identity() != refiner.identity() for other in others)
