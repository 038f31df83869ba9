"""What a person fills in, and the corpora that a schedule knows by name."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from configs.loading import ConfigError
from flows.forms import EvaluateForm, IndexForm, ReEncode
from flows.pipelines.corpora import corpora, find_corpus
from tasks.registry import METHODS, UnknownName


def test_a_form_becomes_an_evaluation() -> None:
    form = EvaluateForm(
        index="wiki", alpha=0.5, top_k=3, sample=20, more=("generate.generator=tests.support.fakes:FirstWords",)
    )
    made = form.evaluation()
    naive, pareto = made.methods[1:]
    assert made.name == "quickstart"
    assert made.questions.sample == 20
    assert naive.index == pareto.index == "wiki"
    assert pareto.retrieve is not None
    assert pareto.generate is not None
    assert (pareto.retrieve.alpha, pareto.retrieve.top_k) == (0.5, 3)
    assert pareto.generate.generator == "tests.support.fakes:FirstWords"
    assert EvaluateForm(context="exact", index="w").evaluation().methods[2].variant == {"encode": {"context": "exact"}}


def test_the_drop_downs_are_the_registry() -> None:
    fields = EvaluateForm.model_json_schema()["properties"]
    for kind in ("encoder", "retriever", "generator", "critic", "selector"):
        assert fields[kind]["enum"] == sorted(METHODS[kind])
        assert "default" not in fields[kind]  # the form would send null
    assert (fields["alpha"]["minimum"], fields["alpha"]["maximum"]) == (0, 1)
    assert all(field.get("description") for field in fields.values())
    assert "synthetic" in IndexForm.model_json_schema()["$defs"]["Source"]["properties"]["format"]["enum"]
    assert ReEncode.model_json_schema()["required"] == ["corpus"]


def test_wrong_values_name_their_field() -> None:
    with pytest.raises(ValidationError, match=r"critic.*did you mean 'embedded'") as found:
        EvaluateForm(critic="embeded")
    assert found.value.errors()[0]["loc"] == ("critic",)
    with pytest.raises(ConfigError, match=r"critic: no method of quickstart .*pfe_self_rag/table2"):
        EvaluateForm(critic="judge", index="w").evaluation()
    with pytest.raises(ConfigError, match=r"retrieve.alhpa.*did you mean"):
        EvaluateForm(index="w", more=("retrieve.alhpa=1",)).evaluation()


def test_a_form_becomes_a_corpus() -> None:
    sources = [{"format": "synthetic", "path": "passages=30"}, {"format": "jsonl", "path": "mine.jsonl?text=body"}]
    form = IndexForm.model_validate({"name": "mine", "sources": sources, "context": "late", "bm25": True})
    made = form.corpus()
    assert made.datasets == ("synthetic:passages=30", "jsonl:mine.jsonl?text=body")
    assert (made.encode.context, made.bm25.enabled) == ("late", True)


def test_corpora_of_ones_own(tmp_path: Path) -> None:
    assert "demo" in corpora(tmp_path / "store")
    assert find_corpus("demo", tmp_path / "store").cron is None  # off until somebody switches it on
    own = tmp_path / "corpora"
    own.mkdir()
    (own / "wiki.yaml").write_text("datasets: ['titletext:wiki.json']\ncron: '0 3 * * *'\n")
    corpus = find_corpus("wiki", tmp_path / "store")
    assert (corpus.name, corpus.cron, corpus.store) == ("wiki", "0 3 * * *", tmp_path / "store")
    with pytest.raises(UnknownName, match=r"unknown corpus 'wkii'.*did you mean 'wiki'.*known: demo, wiki"):
        find_corpus("wkii", tmp_path / "store")
    (own / "wrong.yaml").write_text("dataset: x\n")
    with pytest.raises(ConfigError, match=r"(?s)wrong\.yaml: .*did you mean 'datasets'"):
        find_corpus("wrong", tmp_path / "store")
    with pytest.raises(ConfigError, match="no directory of corpora"):
        corpora(tmp_path / "store", tmp_path / "nowhere")
