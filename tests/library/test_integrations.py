"""The adapters in real chains and pipelines of their frameworks (make test-integrations)."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import vitalfew as vf
from tests.library.test_page import BLOCK
from tests.support.documents import ROOT
from tests.support.own_files import write_own_files
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.registry import UnknownName
from vitalfew.tasks.splitters.tokens import count_tokens

QUESTION = "Who approves a trip abroad?"
TEXT = "Trips are fun. A trip abroad needs the director."
MODULES = {"langchain": "langchain_core", "llama_index": "llama_index.core", "haystack": "haystack"}
EXTRAS = {"langchain": "langchain", "llama_index": "llama-index", "haystack": "haystack"}
PAGE = ROOT / "docs" / "how_to" / "frameworks.md"

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

Shown = tuple[str, float, dict[str, Any]]
"""A document of a framework: its text, its score, its metadata."""


class Framework:
    """What the adapters of a framework are called by. A test is skipped where the framework is missing."""

    def __init__(self, name: str) -> None:
        pytest.importorskip(MODULES[name], reason="needs make setup-integrations")
        self.name, self.module = name, import_module(f"vitalfew.integrations.{name}")

    def retriever(self, index: vf.Index, **options: Any) -> Any:
        return self.module.VitalFewRetriever(index=index, **options)

    def refiner(self, refiner: str, **options: Any) -> Any:
        kinds = {"langchain": "VitalFewCompressor", "llama_index": "VitalFewPostprocessor"}
        return getattr(self.module, kinds.get(self.name, "VitalFewRefiner"))(refiner=refiner, **options)

    def search(self, retriever: Any, question: str) -> list[Any]:
        match self.name:
            case "langchain":
                return list(retriever.invoke(question))
            case "llama_index":
                return list(retriever.retrieve(question))
        return list(retriever.run(query=question)["documents"])

    async def asearch(self, retriever: Any, question: str) -> list[Any]:
        match self.name:
            case "langchain":
                return list(await retriever.ainvoke(question))
            case "llama_index":
                return list(await retriever.aretrieve(question))
        return list((await retriever.run_async(query=question))["documents"])

    def shorten(self, refiner: Any, documents: Sequence[Any], question: str = QUESTION) -> list[Any]:
        match self.name:
            case "langchain":
                return list(refiner.compress_documents(documents, question))
            case "llama_index":
                return list(refiner.postprocess_nodes(documents, query_str=question))
        return list(refiner.run(query=question, documents=documents)["documents"])

    def document(self, text: str, **metadata: Any) -> Any:
        match self.name:
            case "langchain":
                return import_module("langchain_core.documents").Document(text, metadata=metadata)
            case "llama_index":
                schema = import_module("llama_index.core.schema")
                return schema.NodeWithScore(node=schema.TextNode(text=text, metadata=metadata), score=0.5)
        return import_module("haystack").Document(content=text, meta=metadata)

    def shown(self, documents: Sequence[Any]) -> list[Shown]:
        match self.name:
            case "langchain":
                return [(each.page_content, each.metadata.get("score"), each.metadata) for each in documents]
            case "llama_index":
                return [(each.text, each.score, each.metadata) for each in documents]
        return [(each.content, each.score, each.meta) for each in documents]


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.integrations) for name in MODULES])
def framework(request: pytest.FixtureRequest) -> Framework:
    return Framework(request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's files, and a store with the index `handbook`."""
    folder = tmp_path_factory.mktemp("integrations")
    write_own_files(folder)
    vf.Store(folder / "store", progress=False).index("handbook", f"folder:{folder / 'handbook'}", runner="serial")
    return folder


@pytest.fixture(scope="module")
def index(folder: Path) -> vf.Index:
    return vf.Store(folder / "store", progress=False).index("handbook")


def test_a_retriever_finds_what_a_search_finds(framework: Framework, index: vf.Index) -> None:
    retriever = framework.retriever(index, max_tokens=40, top_k=5, alpha=0.5)
    documents = framework.search(retriever, QUESTION)
    hits = index.search(QUESTION, max_tokens=40, top_k=5, alpha=0.5)
    assert len(hits) > 1
    for document, (text, score, own), hit in zip(documents, framework.shown(documents), hits, strict=True):
        assert (text, score, own["title"], own["passage_id"]) == (hit.text, hit.score, hit.title, hit.passage_id)
        assert hit.passage[slice(*own["span"])] == hit.text
        assert (document.node_id if framework.name == "llama_index" else document.id) == str(hit.unit_id)
        json.dumps(own)
    assert asyncio.run(framework.asearch(retriever, QUESTION)) == documents
    assert framework.search(framework.retriever(index, max_tokens=1), QUESTION) == []
    with pytest.raises(InputError, match="the question is empty"):
        framework.search(retriever, "")
    with pytest.raises(UnknownName, match="core_context"):
        framework.search(framework.retriever(index, retriever="core_contxt"), QUESTION)
    with pytest.raises((TypeError, ValueError), match="topk"):
        framework.retriever(index, topk=5)


@pytest.mark.parametrize("refiner", ["cut", "recomp_extractive", "oreo"])
def test_documents_are_shortened_as_refine_does(framework: Framework, index: vf.Index, refiner: str) -> None:
    given = framework.search(framework.retriever(index, retriever="passage", top_k=3), QUESTION)
    shortener = framework.refiner(refiner, max_tokens=24)
    found = framework.shown(framework.shorten(shortener, given))
    hits = index.search(QUESTION, retriever="passage", top_k=3)
    passages = [{"title": hit.title, "text": hit.text} for hit in hits]
    contexts = vf.refine(refiner, QUESTION, passages, max_tokens=24)
    assert [text for text, *_ in found] == [context.text for context in contexts]
    assert 0 < sum(count_tokens(text) for text, *_ in found) <= 24
    for (text, score, own), context in zip(found, contexts, strict=True):
        kept = [{"document": each.passage_id, "start": each.start, "end": each.end} for each in context.sources]
        assert own["sources"] == kept
        places = {each["document"] for each in kept}
        assert score == max(hits[place].score for place in places)
        if len(places) == 1:
            assert own["title"] == hits[places.pop()].title
        if "span" in own:
            assert index.passage(own["passage_id"])["text"][slice(*own["span"])] == text
    with ThreadPoolExecutor(4) as pool:
        several = [framework.shown(each) for each in pool.map(lambda _: framework.shorten(shortener, given), range(4))]
    assert [[text for text, *_ in each] for each in several] == [[text for text, *_ in found]] * 4


def test_what_cannot_be_shortened_gets_a_sentence(framework: Framework) -> None:
    document = framework.document(TEXT, file="a", page=3)
    refiner = framework.refiner("recomp_extractive", max_tokens=7)
    ((text, _, own),) = framework.shown(framework.shorten(refiner, [document]))
    assert text == "A trip abroad needs the director."
    assert (own["file"], own["page"], own["sources"]) == ("a", 3, [{"document": 0, "start": 15, "end": 48}])
    assert framework.shorten(refiner, []) == []
    for options in ({"settings": {"max_tokens": 3}}, {"settings": {"max_tokens": 5}, "max_tokens": 3}):
        ((text, *_),) = framework.shown(framework.shorten(framework.refiner("cut", **options), [document]))
        assert text == "Trips are fun"


@pytest.mark.integrations
def test_a_query_engine_of_llama_index(index: vf.Index) -> None:
    framework = Framework("llama_index")
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    retriever = framework.retriever(index, retriever="passage", top_k=3)
    postprocessor = framework.refiner("cut", max_tokens=24)
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), node_postprocessors=[postprocessor])
    response, later = engine.query(QUESTION), asyncio.run(engine.aquery(QUESTION))
    texts = [node.text for node in response.source_nodes]
    assert texts == [node.text for node in later.source_nodes]
    prompt = str(response)  # which this model repeats
    assert texts
    assert all(text in prompt for text in texts)
    assert not re.search("passage_id|sources|span", prompt)
    given = retriever.retrieve(QUESTION)
    for node in response.source_nodes:
        ((place),) = {source["document"] for source in node.metadata["sources"]}
        assert node.node.ref_doc_id == given[place].node.ref_doc_id == str(given[place].metadata["passage_id"])
    hidden = framework.document(TEXT, file="a", secret="b")
    hidden.node.excluded_llm_metadata_keys = ["secret"]
    (shorter,) = framework.shorten(framework.refiner("recomp_extractive", max_tokens=7), [hidden])
    assert shorter.get_content("llm") == "file: a\n\nA trip abroad needs the director."
    with pytest.raises(InputError, match="query_str"):
        postprocessor.postprocess_nodes([hidden])
    again = framework.module.VitalFewPostprocessor.from_dict(postprocessor.to_dict())
    assert (again.refiner, again.max_tokens) == ("cut", 24)


@pytest.mark.integrations
def test_a_pipeline_of_haystack_can_be_saved(index: vf.Index) -> None:
    framework = Framework("haystack")
    from haystack import Document, Pipeline

    made, retriever = Pipeline(), framework.retriever(index, retriever="passage", top_k=3)
    made.add_component("retriever", retriever)
    made.add_component("refiner", framework.refiner("cut", max_tokens=24))
    made.connect("retriever.documents", "refiner.documents")
    loaded = Pipeline.loads(made.dumps(), allowed_modules=["vitalfew.integrations.*"])
    question = {"retriever": {"query": QUESTION}, "refiner": {"query": QUESTION}}
    results = [made.run(question), loaded.run(question), asyncio.run(loaded.run_async(question))]
    first, *others = [[each.content for each in result["refiner"]["documents"]] for result in results]
    assert first
    assert others == [first, first]
    assert len(retriever.run(query=QUESTION, top_k=1)["documents"]) == 1
    assert retriever.run(query=QUESTION, max_tokens=1) == {"documents": []}
    with pytest.raises(InputError, match="document 1 has no text"):
        framework.shorten(framework.refiner("cut"), [Document(content="A text."), Document()])


@pytest.mark.integrations
def test_every_block_of_the_page_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in MODULES:
        Framework(name)
    monkeypatch.chdir(folder)
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 4
    session: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        capsys.readouterr()
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), session)
        assert number == 1 or "A trip abroad needs the word of the director" in capsys.readouterr().out


WITHOUT = """
import sys
from importlib import import_module
for name, module in {modules}.items():
    sys.modules[module.partition(".")[0]] = None
    try:
        import_module(f"vitalfew.integrations.{{name}}")
    except ImportError as error:
        print(error)
"""


def test_a_missing_framework_is_named_with_its_remedy() -> None:
    """In another process, in which no framework can be imported, installed or not."""
    block = WITHOUT.format(modules=MODULES)
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=True)
    for said, extra in zip(done.stdout.splitlines(), EXTRAS.values(), strict=True):
        assert said.startswith("this needs ")
        assert "pip install " in said
        assert said.endswith(f"[{extra}]'")
