"""The adapters in real chains and pipelines of their frameworks (make test-integrations)."""

import asyncio
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import vitalfew as vf
from tests.library.test_page import BLOCK
from tests.support.documents import ROOT
from tests.support.own_files import write_own_files
from vitalfew.integrations.shared import best_score, metadata_kept, metadata_of
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.registry import UnknownName
from vitalfew.tasks.retrieve import SearchHit
from vitalfew.tasks.splitters.tokens import count_tokens

QUESTION = "Who approves a trip abroad?"
REMEDY = "needs make setup-integrations"
MODULES = {"langchain": "langchain_core", "llama_index": "llama_index.core", "haystack": "haystack"}
EXTRAS = {"langchain": "langchain", "llama_index": "llama-index", "haystack": "haystack"}
PAGE = ROOT / "docs" / "guides" / "frameworks.md"

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"


def adapter(name: str) -> Any:
    """The module of adapters for a framework; the test is skipped where the framework is missing."""
    pytest.importorskip(MODULES[name], reason=REMEDY)
    return import_module(f"vitalfew.integrations.{name}")


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


def expected(index: vf.Index, refiner: str, **options: Any) -> list[vf.RagContext]:
    """`vf.refine` of the passages that a search finds."""
    found = [{"title": hit.title, "text": hit.text} for hit in index.search(QUESTION, retriever="passage", top_k=3)]
    return vf.refine(refiner, QUESTION, found, **options)


def spans(contexts: list[vf.RagContext]) -> list[list[dict[str, int]]]:
    return [
        [{"document": source.passage_id, "start": source.start, "end": source.end} for source in context.sources]
        for context in contexts
    ]


# LangChain


@pytest.mark.integrations
def test_langchain_retrieves_what_a_search_finds(index: vf.Index) -> None:
    retriever = adapter("langchain").VitalFewRetriever(index=index, max_tokens=40, top_k=5, alpha=0.5)
    documents = retriever.invoke(QUESTION)
    hits = index.search(QUESTION, max_tokens=40, top_k=5, alpha=0.5)
    assert len(hits) > 1
    assert [document.page_content for document in documents] == [hit.text for hit in hits]
    for document, hit in zip(documents, hits, strict=True):
        own = document.metadata
        assert (own["title"], own["passage_id"], own["score"]) == (hit.title, hit.passage_id, hit.score)
        assert hit.passage[slice(*own["span"])] == hit.text
        assert document.id == str(hit.unit_id)
        json.dumps(own)
    assert asyncio.run(retriever.ainvoke(QUESTION)) == documents
    assert retriever.batch([QUESTION] * 4) == [documents] * 4
    assert adapter("langchain").VitalFewRetriever(index=index, max_tokens=1).invoke(QUESTION) == []
    with pytest.raises(InputError, match="the question is empty"):
        retriever.invoke(" ")
    with pytest.raises(UnknownName, match="core_context"):
        adapter("langchain").VitalFewRetriever(index=index, retriever="core_contxt").invoke(QUESTION)
    with pytest.raises(ValueError, match="topk"):
        adapter("langchain").VitalFewRetriever(index=index, topk=5)


@pytest.mark.integrations
@pytest.mark.parametrize("refiner", ["cut", "recomp_extractive", "oreo"])
def test_a_chain_of_langchain_shortens_documents_as_refine_does(index: vf.Index, refiner: str) -> None:
    module = adapter("langchain")
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    retriever = module.VitalFewRetriever(index=index, retriever="passage", top_k=3)
    compressor = module.VitalFewCompressor(refiner=refiner, max_tokens=24)

    def shorten(given: dict[str, Any]) -> list[Any]:
        return compressor.compress_documents(given["documents"], given["question"])

    chain = {"documents": retriever, "question": RunnablePassthrough()} | RunnableLambda(shorten)
    documents = chain.invoke(QUESTION)
    contexts = expected(index, refiner, max_tokens=24)
    assert [document.page_content for document in documents] == [context.text for context in contexts]
    assert [document.metadata["sources"] for document in documents] == spans(contexts)
    assert 0 < sum(count_tokens(document.page_content) for document in documents) <= 24
    given = retriever.invoke(QUESTION)
    for document in documents:
        places = {source["document"] for source in document.metadata["sources"]}
        assert document.metadata["score"] == max(given[place].metadata["score"] for place in places)
        if len(places) == 1:
            assert document.metadata["title"] == given[places.pop()].metadata["title"]
        if span := document.metadata.get("span"):
            assert index.passage(document.metadata["passage_id"])["text"][slice(*span)] == document.page_content
    assert refiner == "oreo" or any("span" in document.metadata for document in documents)
    assert asyncio.run(chain.ainvoke(QUESTION)) == documents
    assert asyncio.run(compressor.acompress_documents(given, QUESTION)) == documents

    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    texts = chain | RunnableLambda(lambda found: "\n".join(document.page_content for document in found))
    answering = {"context": texts, "question": RunnablePassthrough()} | prompt
    assert documents[0].page_content in answering.invoke(QUESTION).to_string()
    whole = answering | FakeListChatModel(responses=["The director."]) | StrOutputParser()
    assert whole.invoke(QUESTION) == "The director."


@pytest.mark.integrations
def test_what_langchain_cannot_shorten_gets_a_sentence() -> None:
    module = adapter("langchain")
    from langchain_core.documents import Document

    documents = [Document("Trips are fun. A trip abroad needs the director.", metadata={"source": "a.md", "page": 3})]
    compressor = module.VitalFewCompressor(refiner="recomp_extractive", max_tokens=7)
    (shorter,) = compressor.compress_documents(documents, QUESTION)
    assert shorter.page_content == "A trip abroad needs the director."
    assert shorter.metadata == {
        "source": "a.md",
        "page": 3,
        "sources": [{"document": 0, "start": 15, "end": 48}],
    }
    assert compressor.compress_documents([], QUESTION) == []
    with pytest.raises(InputError, match="the question is empty"):
        compressor.compress_documents(documents, "")
    with pytest.raises(UnknownName, match="oreo"):
        module.VitalFewCompressor(refiner="orea").compress_documents(documents, QUESTION)
    with pytest.raises(ValueError, match="maxtokens"):
        module.VitalFewCompressor(refiner="oreo", maxtokens=5)
    top = module.VitalFewCompressor(refiner="mmr", settings={"top_k": 1})
    assert len(top.compress_documents(documents * 3, QUESTION)) == 1
    for options in ({"settings": {"max_tokens": 3}}, {"settings": {"max_tokens": 5}, "max_tokens": 3}):
        (cut,) = module.VitalFewCompressor(refiner="cut", **options).compress_documents(documents, QUESTION)
        assert cut.page_content == "Trips are fun"


@pytest.mark.integrations
def test_threads_get_the_documents_of_one(index: vf.Index) -> None:
    module = adapter("langchain")
    given = module.VitalFewRetriever(index=index, retriever="passage", top_k=3).invoke(QUESTION)
    compressor = module.VitalFewCompressor(refiner="oreo", max_tokens=24)
    alone = compressor.compress_documents(given, QUESTION)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: compressor.compress_documents(given, QUESTION), range(8))) == [alone] * 8


# LlamaIndex


@pytest.mark.integrations
def test_llama_index_retrieves_what_a_search_finds(index: vf.Index) -> None:
    retriever = adapter("llama_index").VitalFewRetriever(index, max_tokens=40, top_k=5)
    nodes = retriever.retrieve(QUESTION)
    hits = index.search(QUESTION, max_tokens=40, top_k=5)
    assert len(hits) > 1
    assert [(node.text, node.score, node.node_id) for node in nodes] == [
        (hit.text, hit.score, str(hit.unit_id)) for hit in hits
    ]
    for node, hit in zip(nodes, hits, strict=True):
        assert hit.passage[slice(*node.metadata["span"])] == hit.text
        assert node.node.ref_doc_id == str(hit.passage_id)
    assert asyncio.run(retriever.aretrieve(QUESTION)) == nodes
    assert adapter("llama_index").VitalFewRetriever(index, max_tokens=1).retrieve(QUESTION) == []
    with pytest.raises(InputError, match="the question is empty"):
        retriever.retrieve("")


@pytest.mark.integrations
@pytest.mark.parametrize("refiner", ["cut", "recomp_extractive", "oreo"])
def test_a_query_engine_of_llama_index_reads_refined_nodes(index: vf.Index, refiner: str) -> None:
    module = adapter("llama_index")
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    retriever = module.VitalFewRetriever(index, retriever="passage", top_k=3)
    postprocessor = module.VitalFewPostprocessor(refiner=refiner, max_tokens=24)
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), node_postprocessors=[postprocessor])
    contexts = expected(index, refiner, max_tokens=24)
    response, later = engine.query(QUESTION), asyncio.run(engine.aquery(QUESTION))
    for nodes in (response.source_nodes, later.source_nodes):
        assert [node.text for node in nodes] == [context.text for context in contexts]
        assert [node.metadata["sources"] for node in nodes] == spans(contexts)
        assert 0 < sum(count_tokens(node.text) for node in nodes) <= 24
    prompt = str(response)  # which this model repeats
    assert all(context.text in prompt for context in contexts)
    assert not re.search("passage_id|sources|span", prompt)
    given = retriever.retrieve(QUESTION)
    for node in response.source_nodes:
        places = {source["document"] for source in node.metadata["sources"]}
        assert node.score == max(given[place].score for place in places)
        if len(places) == 1:
            assert node.node.ref_doc_id == given[places.pop()].node.ref_doc_id


@pytest.mark.integrations
def test_what_llama_index_cannot_refine_gets_a_sentence() -> None:
    module = adapter("llama_index")
    from llama_index.core.schema import NodeWithScore, TextNode

    node = TextNode(text="Trips are fun. A trip abroad needs the director.", metadata={"file": "a", "secret": "b"})
    node.excluded_llm_metadata_keys = ["secret"]
    postprocessor = module.VitalFewPostprocessor(refiner="recomp_extractive", max_tokens=7)
    (shorter,) = postprocessor.postprocess_nodes([NodeWithScore(node=node, score=0.5)], query_str=QUESTION)
    assert (shorter.text, shorter.score) == ("A trip abroad needs the director.", 0.5)
    assert shorter.get_content("llm") == "file: a\n\nA trip abroad needs the director."
    assert postprocessor.postprocess_nodes([], query_str=QUESTION) == []
    with pytest.raises(InputError, match="query_str"):
        postprocessor.postprocess_nodes([NodeWithScore(node=node)])
    with pytest.raises(ValueError, match="maxtokens"):
        module.VitalFewPostprocessor(refiner="oreo", maxtokens=5)
    again = module.VitalFewPostprocessor.from_dict(postprocessor.to_dict())
    assert (again.refiner, again.max_tokens) == ("recomp_extractive", 7)


# Haystack


@pytest.mark.integrations
def test_haystack_retrieves_what_a_search_finds(index: vf.Index) -> None:
    retriever = adapter("haystack").VitalFewRetriever(index, max_tokens=40, top_k=5)
    documents = retriever.run(query=QUESTION)["documents"]
    hits = index.search(QUESTION, max_tokens=40, top_k=5)
    assert len(hits) > 1
    assert [(document.content, document.score, document.id) for document in documents] == [
        (hit.text, hit.score, str(hit.unit_id)) for hit in hits
    ]
    for document, hit in zip(documents, hits, strict=True):
        assert hit.passage[slice(*document.meta["span"])] == hit.text
    assert asyncio.run(retriever.run_async(query=QUESTION))["documents"] == documents
    assert retriever.run(query=QUESTION, max_tokens=1) == {"documents": []}
    assert len(retriever.run(query=QUESTION, top_k=1)["documents"]) == 1
    with pytest.raises(InputError, match="the question is empty"):
        retriever.run(query="")


@pytest.mark.integrations
@pytest.mark.parametrize("refiner", ["cut", "recomp_extractive", "oreo"])
def test_a_pipeline_of_haystack_refines_and_can_be_saved(index: vf.Index, refiner: str) -> None:
    module = adapter("haystack")
    from haystack import Pipeline

    made = Pipeline()
    made.add_component("retriever", module.VitalFewRetriever(index, retriever="passage", top_k=3))
    made.add_component("refiner", module.VitalFewRefiner(refiner, max_tokens=24))
    made.connect("retriever.documents", "refiner.documents")
    saved = made.dumps()
    loaded = Pipeline.loads(saved, allowed_modules=["vitalfew.integrations.*"])
    question = {"retriever": {"query": QUESTION}, "refiner": {"query": QUESTION}}
    contexts = expected(index, refiner, max_tokens=24)
    given = made.get_component("retriever").run(query=QUESTION)["documents"]
    for result in (made.run(question), loaded.run(question), asyncio.run(loaded.run_async(question))):
        documents = result["refiner"]["documents"]
        assert [document.content for document in documents] == [context.text for context in contexts]
        assert [document.meta["sources"] for document in documents] == spans(contexts)
        assert 0 < sum(count_tokens(document.content) for document in documents) <= 24
        for document in documents:
            places = {source["document"] for source in document.meta["sources"]}
            assert document.score == max(given[place].score for place in places)


@pytest.mark.integrations
def test_what_haystack_cannot_refine_gets_a_sentence() -> None:
    module = adapter("haystack")
    from haystack import Document

    refiner = module.VitalFewRefiner("recomp_extractive")
    assert refiner.run(query=QUESTION, documents=[]) == {"documents": []}
    with pytest.raises(InputError, match="document 1 has no text"):
        refiner.run(query=QUESTION, documents=[Document(content="A text."), Document()])
    given = Document(content="Trips are fun. A trip abroad needs the director.", meta={"file": "a"})
    (shorter,) = refiner.run(query=QUESTION, documents=[given], max_tokens=7)["documents"]
    assert (shorter.content, shorter.meta["file"]) == ("A trip abroad needs the director.", "a")


# All three


@pytest.mark.integrations
def test_every_block_of_the_page_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in MODULES:
        adapter(module)
    monkeypatch.chdir(folder)
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 4
    session: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        capsys.readouterr()
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), session)
        assert number == 1 or "A trip abroad needs the word of the director" in capsys.readouterr().out


@pytest.mark.parametrize("name", MODULES)
def test_a_missing_framework_is_named_with_its_remedy(name: str) -> None:
    """In another process, in which the framework cannot be imported, installed or not."""
    block = f"import sys; sys.modules[{MODULES[name].split('.')[0]!r}] = None; import vitalfew.integrations.{name}"
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=False)
    *_, last = done.stderr.strip().splitlines()
    assert last.startswith("ImportError: this needs ")
    assert last.endswith(f"pip install 'vitalfew[{EXTRAS[name]}]'")


def hit(start: int, end: int) -> SearchHit:
    return SearchHit(1, 0.5, 0.5, None, 7, 3, 0, start, end, "Title", "a.md#title", "b c", "a b c")


def test_a_hit_names_its_source_and_its_span_unless_it_was_rewritten() -> None:
    named = {"title": "Title", "source": "a.md#title", "passage_id": 3}
    assert metadata_of(hit(2, 5)) == {**named, "span": [2, 5]}
    assert metadata_of(hit(0, 0)) == named


def test_metadata_of_one_source_are_kept_and_of_several_what_they_share() -> None:
    one, two = {"file": "a", "page": 1, "span": [100, 200]}, {"file": "a", "page": 2, "span": [0, 50]}
    first, second = vf.RagSource(0, "", 10, 20), vf.RagSource(1, "", 0, 5)
    sources = [{"document": 0, "start": 10, "end": 20}, {"document": 1, "start": 0, "end": 5}]
    alone = metadata_kept(vf.RagContext("", 0, (first,)), [one, two])
    assert alone == {"file": "a", "page": 1, "span": [110, 120], "sources": sources[:1]}
    both = metadata_kept(vf.RagContext("", 0, (first, second)), [one, two])
    assert both == {"file": "a", "sources": sources}
    rewritten = vf.RagContext("", 0, ())
    assert metadata_kept(rewritten, [one]) == {"file": "a", "page": 1, "sources": []}
    assert metadata_kept(rewritten, [one, two]) == {"file": "a", "sources": []}
    assert best_score(rewritten, [0.5, 0.25]) == 0.5
    twice = metadata_kept(vf.RagContext("", 0, (first, first)), [one])
    assert twice == {"file": "a", "page": 1, "sources": [sources[0]] * 2}
    strange = {"span": "of time"}
    assert metadata_kept(vf.RagContext("", 0, (first,)), [strange])["span"] == "of time"
    assert best_score(vf.RagContext("", 0, (first, second)), [0.25, 0.5]) == 0.5
    assert best_score(vf.RagContext("", 0, (first, second)), [None, "high"]) is None
