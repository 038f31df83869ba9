"""The answer that is given is the answer that was evaluated: of every shape of a method, one by one and together."""

from pathlib import Path

import pytest

import vitalfew as vf
from tests.support.evaluating import answers
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.answering import configuration
from vitalfew.flows.pipelines.experiments import evaluation, find
from vitalfew.flows.pipelines.graph import graph
from vitalfew.storage.runs import read_runs

METHODS = ("naive", "cut", "ParetoRAG", "PFE", "Oreo", "model alone")


@pytest.mark.parametrize("method", METHODS)
def test_the_answer_given_is_the_answer_evaluated(store: vf.Store, corpus: Path, method: str) -> None:
    rag = store.rag(f"{corpus / 'shapes.yaml'}:{method}")
    expected = answers(store, method)
    assert len(expected) == 10  # of twelve questions: two have the text of another
    assert rag.run == store.report("shapes").run
    together = rag.answers([*expected])
    assert [answer.question for answer in together] == [*expected]
    one_by_one = [rag.answer(question) for question in [*expected][:3]]
    for given in (together, one_by_one):
        found = {
            answer.question: (answer.text, tuple(context.text for context in answer.contexts), answer.prompt_tokens)
            for answer in given
        }
        assert found == {question: expected[question] for question in found}
    for answer in together:
        assert answer.tokens_saved >= 0
        assert answer.usd >= 0
        assert not answer.error
        assert answer.fingerprint == rag.fingerprint
        if method not in ("PFE", "model alone"):
            assert answer.context_tokens == sum(context.tokens for context in answer.contexts)


def test_an_evaluation_has_the_same_fingerprints(store: vf.Store, corpus: Path) -> None:
    name, settings = find(str(corpus / "shapes.yaml"), store.place)
    plan = graph(evaluation(name, settings, {"store": store.place, "index": "towns", "questions": {"sample": 12}}))
    rags = {method: store.rag(f"{corpus / 'shapes.yaml'}:{method}") for method in METHODS}
    assert len({rag.fingerprint for rag in rags.values()}) == len(METHODS)
    for method, stages in plan.by_method.items():  # type: ignore[attr-defined]
        assert configuration(stages.values()) == rags[method].fingerprint
    other = store.rag(f"{corpus / 'shapes.yaml'}:cut", settings={"refine": {"max_tokens": 31}})
    assert other.fingerprint != rags["cut"].fingerprint
    assert other.run == ""


def test_a_chosen_setting_is_the_one_that_answers(own: vf.Store, tmp_path: Path) -> None:
    """Alpha is chosen by the evaluation; before it, the experiment's usual one counts."""
    chosen = tmp_path / "chosen.yaml"
    chosen.write_text(
        "choose: {retrieve.alpha: [0.1, 0.9], by: accuracy}\nmethods:\n"
        "  ParetoRAG: {retrieve: {retriever: core_context, top_k: 5}, refine: {max_tokens: 40}}\n"
    )
    before = own.rag(f"{chosen}:ParetoRAG", index="towns")
    assert before.configured.method.retrieve.alpha == 0.8
    assert not before.run
    settings = {"generate": {"generator": "tests.support.fakes:FirstWords"}}
    own.evaluate(str(chosen), "towns", settings=settings, runner="serial")
    after = own.rag(str(chosen), index="towns")  # its only method
    assert after.configured.method.retrieve.alpha in (0.1, 0.9)  # type: ignore[union-attr]
    assert after.run == [run for run in read_runs(own.place) if run.name == "chosen"][-1].run_id


def test_an_index_that_moved_since_was_not_evaluated(own: vf.Store, corpus: Path) -> None:
    name = f"{corpus / 'shapes.yaml'}:cut"
    before = own.rag(name)
    assert before.run
    own.index("towns", f"squad:{corpus / 'more.json'}", runner="serial")
    after = own.rag(name)
    assert not after.run
    assert after.fingerprint != before.fingerprint


def test_settings_of_ones_own(store: vf.Store, corpus: Path) -> None:
    name = f"{corpus / 'shapes.yaml'}:naive"
    rag = store.rag(name, generator="tests.support.fakes:FirstWords")
    assert rag.configured.method.generate.generator == "tests.support.fakes:FirstWords"  # type: ignore[union-attr]
    assert rag.answer("Where is Velmar?").text
    assert rag.answer("Will this fail?").error == "the model has no answer to this"
    with pytest.raises(ConfigError, match=r"several methods; name one of: .*shapes.yaml:naive"):
        store.rag(str(corpus / "shapes.yaml"))
    with pytest.raises(ConfigError, match="generates no answer"):
        store.rag(name, settings={"generate": None})
