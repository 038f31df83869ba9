"""The refiner `refiner_7b` on a tiny Llama with a LoRA: its input, its adapter, and how its sections are read."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.support import tiny_models
from tests.support.indexing import index, sql
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.cli.main import app
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.refiners.rewriting import Refiner7B, restructured
from vitalfew.tasks.splitters.tokens import count_words

HITS = [Hit("Mill", "The mill still stands. ", 7, 0, 23), Hit("", " ", 8, 0, 1), Hit("", "It is old.", 9, 0, 10)]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def lora(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("peft")
    return tiny_models.lora(tmp_path_factory.mktemp("lora"), llama)


def make(model: Path | str | None, **chosen: Any) -> Refiner7B:
    given = {"precision": "fp32", "device": "cpu", "max_new_tokens": 8, **chosen}
    return Refiner7B(Refiner7B.Options(refiner="refiner_7b", model=model and str(model), **given))


def answered(refiner: Refiner7B, monkeypatch: pytest.MonkeyPatch, *outputs: str) -> list[str]:
    """The inputs that the model gets; it writes `outputs`."""
    seen: list[str] = []

    def complete(prompts: Sequence[str], probe: Any = None, tick: Any = None) -> list[Completion]:
        seen.extend(prompts)
        return [Completion(text, 10, 2, 0.1) for text in outputs[: len(prompts)]]

    monkeypatch.setattr(refiner.model.engine, "complete", complete)
    return seen


def test_the_sections_of_an_output_are_the_context(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refiner = make(llama, text="titled", max_words=5)
    seen = answered(refiner, monkeypatch, "1. Place\n1.1. Mill\nThe mill still stands.", "1.\n1.1.\n")
    refined = refiner.refine(["Where?", "Who?", "None?"], [HITS, HITS[:1], HITS[1:2]])
    assert seen[0] == "<<SYS>>[MONITOR]Mill: The mill still stands.\nIt is old.<</SYS>>Where?"
    assert [[each.text for each in own] for own in refined.contexts] == [["1. Place\n1.1. Mill\nThe"], [], []]
    assert refined.contexts[0][0].origin == ()
    assert refined.notes == {"cut_inputs": 0, "empty": 2}
    assert [writing.finish_reason for writing in refined.writings] == ["stop", "stop", ""]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("1. A\n1.1. Mill\nIt is old.\n2. B\n2.1. Sea", "1. A\n1.1. Mill\nIt is old.\n2. B\n2.1. Sea"),
        ("1.1. Mill\nOld.\n\n2.1 Sea\n  Deep. ", "1.1. Mill\nOld.\n2.1. Sea\nDeep."),
        ("## 1. A\n### 1.1 Mill\nOld.", "1. A\n1.1. Mill\nOld."),
        ("1. A\nOld.\n3.5 million live there.\n1999 was wet.", "1. A\nOld.\n3.5 million live there.\n1999 was wet."),
        ("1. A\nOld.\n2. A\nOld.\n3. A\nOld.\n4. A\nNew.", "1. A\nOld.\n2. A\nNew."),
        ("1.\n1.1.\n2.\n2.1. Sea\nDeep.", "1.1. Sea\nDeep."),
        ("1.\n1.1.\n2.", ""),
        ("No number at all.", "No number at all."),
        (" \n", ""),
        ("", ""),
    ],
)
def test_an_output_is_restructured(output: str, expected: str) -> None:
    assert restructured(output) == expected


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["1.", "1.1.", "1.2", "2.", "2.1.", "3.5", "a", "b c", "\n", " ", "#"])))
def test_any_output_is_read_and_stays_as_it_is_from_then_on(parts: list[str]) -> None:
    output = "".join(parts)
    once = restructured(output)
    assert restructured(once) == once
    assert all((letter in once) == (letter in output) for letter in "abc")


def test_the_adapter_writes(llama: Path, lora: Path, tmp_path: Path) -> None:
    merged = tiny_models.merged(tmp_path / "merged", llama, lora)
    hits = [HITS, HITS[:1]]
    made = {
        name: refiner.refine(["Where?", "Who?"], hits).contexts
        for name, refiner in {
            "adapted": make(llama, adapter=str(lora)),
            "merged": make(merged),
            "base": make(llama),
        }.items()
    }
    assert made["adapted"] == made["merged"]
    assert made["adapted"] != made["base"]


def test_the_model_writes_the_same_whatever_else_is_asked(llama: Path) -> None:
    """Its limit is what its 256 positions leave beside 8 new tokens; longer documents are cut."""
    refiner = make(llama)
    assert refiner.model.limit == 248
    ticks: list[tuple[int, int]] = []
    questions, hits = ["Where?", "Who?", "None?"], [HITS * 20, HITS, []]
    together = refiner.refine(questions, hits, tick=lambda *done: ticks.append(done))
    alone = [refiner.refine([text], [own]) for text, own in zip(questions, hits, strict=True)]
    assert together.contexts == [contexts for each in alone for contexts in each.contexts]
    assert [writing.cut for writing in together.writings] == [True, False, False]
    assert together.tokens == sum(each.tokens for each in alone) > 0
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (3, together.tokens)
    short = make(llama, max_words=1).refine(questions, hits).contexts
    assert all(sum(count_words(each.text) for each in own) <= 1 for own in short)


def test_what_is_missing_is_named(llama: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"'refiner_7b' needs a model: --set refine\.model=NAME, one of llama-2-7b-chat"
    ):
        make(None)
    with pytest.raises(EngineUnavailable, match=r"Llama-2-7b-chat-hf is not on this machine.*refine\.model"):
        make("llama-2-7b-chat", adapter="refiner-7b")
    pytest.importorskip("peft")
    with pytest.raises(EngineUnavailable, match=r"al1231/Refiner-7B is not on this machine.*refine\.adapter"):
        make(llama, adapter="refiner-7b")
    other = tiny_models.lora(tmp_path / "other", tiny_models.qwen_writer(tmp_path / "qwen"))
    with pytest.raises(EngineUnavailable, match=r"an adapter for someone/tiny-llama, not for refine\.model"):
        make(llama, adapter=str(other)).refine(["Where?"], [HITS])


def test_it_runs_from_the_command_line(llama: Path, lora: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    index(store, "synthetic:passages=20,questions=6,seed=3")
    model = {"model": str(llama), "adapter": str(lora), "precision": "fp32", "max_new_tokens": 4}
    experiment = {
        "index": "test",
        "retrieve": {"retriever": "passage", "top_k": 3},
        "refine": {"refiner": "refiner_7b", **model},
        "generate": {"generator": "tests.support.fakes:FirstWords"},
        "score": {"metrics": ["f1", "tokens"]},
        "methods": {"refiner": {}},
    }
    file = tmp_path / "refiner.yaml"
    file.write_text(json.dumps(experiment))
    done = CliRunner().invoke(app, ["evaluate", str(file), "--store", str(store), "--runner", "serial"])
    assert done.exit_code == 0, done.output
    [(written, reasons)] = sql(store, "SELECT count(*), count(*) FILTER (finish_reason <> '') FROM refinements")
    assert written == reasons > 0
