"""What a person fills in: what it becomes, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from prefect.exceptions import ParameterTypeError
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import ValidationError as Refused
from prefect.utilities.schema_tools.validation import validate
from pydantic import ValidationError

from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import ConfigError, build
from vitalfew.configs.schema import IndexCorpus
from vitalfew.flows.cli.start import CORPUS, INDEX
from vitalfew.flows.evaluate import evaluate
from vitalfew.flows.forms import EvaluateForm, IndexForm, ReEncode, Source
from vitalfew.flows.index_corpus import index_corpus
from vitalfew.flows.pipelines.named import corpora, find_corpus, read_corpora
from vitalfew.flows.pipelines.re_encode import index_parameters
from vitalfew.tasks.registry import METHODS, UnknownName, resolve


def refusal(**parameters: Any) -> str:
    """What Prefect's server says to a run of `index-corpus` with these parameters; nothing where it takes them."""
    schema = parameter_schema(index_corpus).model_dump(exclude_unset=True)
    try:
        validate({"parameters": parameters}, schema, raise_on_error=True)
    except Refused as error:
        return str(error)
    return ""


def test_a_form_becomes_an_evaluation() -> None:
    more = ("generate.generator=tests.support.fakes:FirstWords",)
    form = EvaluateForm(experiment="ten_contexts", index="wiki", alpha=0.5, top_k=3, sample=20, more=more)
    made = form.model_copy(update={"questions": "squad:mine.json"}).evaluation()
    naive, pareto = made.methods[1:]
    assert (made.name, made.questions.sample, made.questions.dataset) == ("ten_contexts", 20, "squad:mine.json")
    assert naive.index == pareto.index == "wiki"
    assert pareto.retrieve
    assert pareto.generate
    assert (pareto.retrieve.alpha, pareto.retrieve.top_k) == (0.5, 3)
    assert pareto.generate.generator == "tests.support.fakes:FirstWords"
    assert EvaluateForm(context="exact", index="w").evaluation().methods[2].variant == {"encode": {"context": "exact"}}


def test_the_methods_that_a_form_takes_are_those_of_the_registry() -> None:
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
    with pytest.raises(ConfigError, match=r"critic: no method of ten_contexts .*pfe_self_rag/table2"):
        EvaluateForm(experiment="ten_contexts", critic="judge", index="w").evaluation()


def test_corpora_of_ones_own(tmp_path: Path) -> None:
    assert "demo" in corpora(tmp_path / "store")
    bundled = find_corpus(INDEX, tmp_path / "store")
    assert bundled.cron is None  # off until somebody switches it on
    demo = build(IndexCorpus, {"datasets": [CORPUS], "name": INDEX, "store": bundled.store})
    assert index_parameters(bundled, {}) == demo  # re-encoding changes nothing
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
    (own / "broken.yaml").write_text("datasets: [")
    read, bad = read_corpora(tmp_path / "store")
    assert ({*read} - {"demo"}, {*bad}) == ({"wiki"}, {"wrong", "broken"})
    assert bad["broken"].count("broken.yaml") == 1
    with pytest.raises(ConfigError, match="give an existing directory of corpora"):
        corpora(tmp_path / "store", tmp_path / "nowhere")


def test_a_path_is_due_where_the_format_reads_one() -> None:
    assert Source(format="python_manual").specification() == "python_manual"
    for name in METHODS["dataset"]:
        method = resolve("dataset", name)
        for source in ({"format": name}, {"format": name, "path": ""}):
            told = refusal(name="mine", sources=[source])
            assert ("parameters.sources[0]" in told) == method.reads_path
        if method.reads_path:
            with pytest.raises(ValidationError, match=f"format '{name}' needs a path, for example"):
                Source(format=name)


def test_a_flow_takes_its_form_or_what_the_form_stands_for() -> None:
    whole = {"name": "mine", "methods": [{"name": "bare", "retrieve": None}]}
    form = {"experiment": "quickstart", "index": "wiki"}
    taken = [
        evaluate.validate_parameters({"parameters": given})["parameters"]
        for given in (form, whole, Evaluate.model_validate(whole))
    ]
    assert [type(each) for each in taken] == [EvaluateForm, Evaluate, Evaluate]
    assert [each.name for each in taken] == ["quickstart", "mine", "mine"]
    corpus = {"name": "mine", "datasets": ["synthetic:passages=30"]}
    assert type(index_corpus.validate_parameters({"parameters": corpus})["parameters"]) is IndexCorpus
    with pytest.raises(ParameterTypeError, match=r"parameters\.indx: Extra inputs"):
        evaluate.validate_parameters({"parameters": {**form, "indx": "wiki"}})
