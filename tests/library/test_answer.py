"""`vitalfew answer`: the answer, its sources, and what it took."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import vitalfew as vf
from vitalfew.flows.cli.main import app

QUESTION = "When was the mill built in Dunmar?"
FAILING = "generate.generator=tests.support.fakes:FirstWords"


def answered(store: vf.Store, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["answer", *arguments, "--store", str(store.place)])
    return done.exit_code, done.output


@pytest.mark.parametrize("method", ["ParetoRAG", "model alone"])
def test_it_is_the_answer_of_the_library(store: vf.Store, corpus: Path, method: str) -> None:
    name = f"{corpus / 'shapes.yaml'}:{method}"
    expected = store.rag(name).answer(QUESTION)
    status, printed = answered(store, QUESTION, name, "--format", "json")
    found = json.loads(printed)
    assert status == 0
    assert found["text"] == expected.text
    assert [context["text"] for context in found["contexts"]] == [context.text for context in expected.contexts]
    assert (found["fingerprint"], found["run"]) == (expected.fingerprint, store.report("shapes").run)


def test_it_prints_contexts_with_their_sources(store: vf.Store, corpus: Path) -> None:
    name = f"{corpus / 'shapes.yaml'}:ParetoRAG"
    expected = store.rag(name).answer(QUESTION)
    status, printed = answered(store, QUESTION, name)
    shown = " ".join(printed.split())
    assert status == 0
    assert shown.startswith(f"Answer: {expected.text}")
    assert all(context.sources[0].title in shown for context in expected.contexts)
    assert f"{expected.context_tokens} context tokens, {expected.tokens_saved} less than the whole passages" in shown
    assert re.search(rf"as evaluated in run {store.report('shapes').run}; configuration {expected.fingerprint}", shown)
    _, printed = answered(store, QUESTION, name, "--set", "refine.max_tokens=20")
    assert "not evaluated in this store with these settings" in " ".join(printed.split())


def test_a_run_fixes_the_generator_of_its_methods(own: vf.Store, corpus: Path) -> None:
    """An evaluation with another generator is another run: messages name both, and each keeps its answers."""
    name, first = f"{corpus / 'shapes.yaml'}:naive", own.report("shapes").run
    before = own.rag(name).answer(QUESTION)
    settings = {"generate": {"generator": FAILING.partition("=")[2]}, "questions": {"sample": 2}}
    second = own.evaluate(str(corpus / "shapes.yaml"), "towns", settings=settings, runner="serial").run
    by_run = own.rag(f"{first}:naive")
    assert (by_run.run, by_run.answer(QUESTION).text) == (first, before.text)
    assert own.rag(name).run == second
    _, printed = answered(own, QUESTION, name)
    shown = " ".join(printed.split())
    assert f"as evaluated in run {second}, which answered with tests.support.fakes:FirstWords" in shown
    assert f"run {first} with reader: name it {first}:naive" in shown
    status, printed = answered(own, QUESTION, f"{first}:naiv")
    assert status == 1
    assert "did you mean 'naive'" in " ".join(printed.split())
