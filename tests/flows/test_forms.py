"""What a person fills in, and the names that a form offers."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prefect.exceptions import ParameterTypeError
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import ValidationError as Refused
from prefect.utilities.schema_tools.validation import validate
from pydantic import ValidationError

from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import ConfigError, build, parse_assignments
from vitalfew.configs.schema import IndexCorpus
from vitalfew.flows.cli.demo import CORPUS, INDEX, KEYWORDS
from vitalfew.flows.evaluate import evaluate, write_questions
from vitalfew.flows.forms import (
    NONE_YET,
    EvaluateForm,
    IndexForm,
    Names,
    ReEncode,
    Source,
    WriteForm,
    names,
    with_names,
)
from vitalfew.flows.index_corpus import index_corpus
from vitalfew.flows.pipelines.named import corpora, find_corpus, read_corpora
from vitalfew.flows.pipelines.re_encode import index_parameters
from vitalfew.flows.re_encode import re_encode
from vitalfew.storage.runs import NamedIndex, remove_index, save_index
from vitalfew.tasks.registry import METHODS, UnknownName, resolve

SCHEMAS = {
    flow.name: parameter_schema(flow).model_dump(exclude_unset=True)
    for flow in (evaluate, index_corpus, re_encode, write_questions)
}
"""Of the deployments, as `vitalfew ui` registers them."""
LISTS = st.lists(st.text(min_size=1, max_size=8), max_size=4, unique=True)
NAMES = st.fixed_dictionaries({"index": LISTS, "experiment": LISTS, "corpus": LISTS})


def field(schema: dict[str, Any], form: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = schema["definitions"][form]["properties"][name]
    return found


def refusal(flow: str, present: Names, **parameters: Any) -> str:
    """What Prefect's server says to a run with these parameters; nothing where it takes them."""
    try:
        validate({"parameters": parameters}, with_names(SCHEMAS[flow], present), raise_on_error=True)
    except Refused as error:
        return str(error)
    return ""


def add_index(store: Path, name: str) -> None:
    save_index(store, NamedIndex(name, "run", {}, {}))


def test_a_form_becomes_an_evaluation() -> None:
    more = ("generate.generator=tests.support.fakes:FirstWords",)
    form = EvaluateForm(experiment="ten_contexts", index="wiki", alpha=0.5, top_k=3, sample=20, more=more)
    made = form.evaluation()
    naive, pareto = made.methods[1:]
    assert made.name == "ten_contexts"
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
    with pytest.raises(ConfigError, match=r"critic: no method of ten_contexts .*pfe_self_rag/table2"):
        EvaluateForm(experiment="ten_contexts", critic="judge", index="w").evaluation()
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
    bundled = find_corpus(INDEX, tmp_path / "store")
    assert bundled.cron is None  # off until somebody switches it on
    demo = build(
        IndexCorpus, {"datasets": [CORPUS], "name": INDEX, "store": bundled.store}, parse_assignments([KEYWORDS])
    )
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


@settings(deadline=None)
@given(NAMES, NAMES)
def test_the_drop_downs_are_the_names_and_nothing_of_what_was(before: Names, after: Names) -> None:
    for flow, schema in SCHEMAS.items():
        fresh = with_names(with_names(schema, before), after)
        assert fresh == with_names(schema, after)
        assert with_names(schema, before) == with_names(schema, before)
        if flow == "evaluate":
            index = field(fresh, "EvaluateForm", "index")
            assert index.get("enum", []) == after["index"]
            assert index.get("default") == (after["index"][0] if len(after["index"]) == 1 else None)
            assert index["description"].endswith(NONE_YET) == (not after["index"])


@settings(max_examples=25, deadline=None)
@given(NAMES, st.data())
def test_a_name_is_taken_while_it_is_there(present: Names, data: st.DataObject) -> None:
    """Whatever the form's names were when somebody opened it, or made a schedule with it."""
    for kind, flow in (("index", "evaluate"), ("corpus", "re-encode")):
        known = present[kind]
        assert [refusal(flow, present, **{kind: name}) for name in known] == [""] * len(known)
        if known:
            other = data.draw(st.text().filter(lambda name, known=known: name not in known))
            assert f"parameters.{kind}" in refusal(flow, present, **{kind: other})


def test_the_form_of_written_questions_has_indexes_and_writers(tmp_path: Path) -> None:
    schema = with_names(SCHEMAS["write-questions"], {"index": ["handbook"], "experiment": [], "corpus": []})
    assert field(schema, "WriteForm", "index")["enum"] == ["handbook"]
    assert field(schema, "WriteForm", "index")["default"] == "handbook"
    assert field(schema, "WriteForm", "writer")["enum"] == sorted(METHODS["writer"])
    form = WriteForm(index="handbook", n=7, more=("write.seed=3",), store=tmp_path)
    whole = form.writing()
    assert (whole.index, whole.write.n, whole.write.seed, whole.store) == ("handbook", 7, 3, tmp_path)
    with pytest.raises(ConfigError, match="sead"):
        WriteForm(index="handbook", more=("sead=3",), store=tmp_path).writing()


def test_names_are_those_of_this_moment(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert names(store)["index"] == []
    told = field(with_names(SCHEMAS["evaluate"], names(store)), "EvaluateForm", "index")
    assert "index-corpus" in told["description"]
    assert "enum" not in told  # an empty drop-down could not be left
    add_index(store, "wiki")
    assert names(store)["index"] == ["wiki"]
    remove_index(store, "wiki")
    assert names(store)["index"] == []
    assert "mine" not in names(store)["experiment"]
    for kind in ("experiments", "corpora"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "mine.yaml").write_text("methods: {naive: {retrieve: {retriever: passage}}}\n")
    present = names(store)
    assert {"mine", "quickstart", "paretorag/table1"} <= set(present["experiment"])
    assert present["corpus"] == ["demo", "mine"]
    assert [method.name for method in EvaluateForm(experiment="mine", store=store).evaluation().methods] == ["naive"]
    with pytest.raises(UnknownName, match=r"known:.*mine"):
        EvaluateForm(experiment="mime", store=store).evaluation()


def test_a_path_is_due_where_the_format_reads_one() -> None:
    assert Source(format="python_manual").specification() == "python_manual"
    for name in METHODS["dataset"]:
        method = resolve("dataset", name)
        bare = {"name": "mine", "sources": [{"format": name}]}
        empty = {"name": "mine", "sources": [{"format": name, "path": ""}]}
        refused = [bool(refusal("index-corpus", names(Path("store")), **form)) for form in (bare, empty)]
        assert refused == [method.reads_path] * 2
        if method.reads_path:
            with pytest.raises(ValidationError, match=f"format '{name}' needs a path, for example"):
                Source(format=name)
    told = refusal("index-corpus", names(Path("store")), name="mine", sources=[{"format": "jsonl"}])
    assert "parameters.sources[0]" in told
    assert "'path' is a required property" in told


def test_the_questions_of_ones_own() -> None:
    form = EvaluateForm(index="w", questions="squad:mine.json", sample=5)
    asked = form.evaluation().questions
    assert (asked.dataset, asked.sample) == ("squad:mine.json", 5)
    assert EvaluateForm(index="w").evaluation().questions.dataset is None


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
