"""The bodies of requests, and the answers in the product's shape."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from vitalfew.flows.pipelines.answering import RagAnswer, RagContext
from vitalfew.tasks.datasets.base import check_question
from vitalfew.tasks.retrieve import Hit

DOCUMENTS = 1000
"""Documents of a request to rerank."""


def _readable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text has half of a surrogate pair, which is not a character") from None
    return text


def checked(text: str) -> str:
    """The question. Raises ValueError for one that cannot be asked: a batch with it would be computed for nothing."""
    check_question(_readable(text))
    return text


Text = Annotated[str, AfterValidator(_readable)]
Question = Annotated[str, AfterValidator(checked)]
MaxTokens = Annotated[int, Field(ge=1, description="Maximum words and punctuation marks of the result.")]
ModelId = Annotated[str, Field(description="A model of GET /v1/models; needed if there are several.")]


class Own(BaseModel, extra="forbid"):
    """A body of the product's shape: an unknown key is an error."""


class Foreign(BaseModel, extra="ignore"):
    """A body of a shape that others define: further keys are ignored, because a configuration is fixed."""


class SearchBody(Own):
    """A question to search for."""

    question: Question
    max_tokens: MaxTokens = 500
    model: ModelId | None = None


class AnswerBody(Own):
    """A question to answer. `max_tokens`: of the contexts in the response; the answer does not change with it."""

    question: Question
    max_tokens: MaxTokens | None = None
    model: ModelId | None = None


class PassageBody(Own):
    """A passage to refine."""

    text: Text
    title: Text = ""


class RefineBody(Own):
    """Passages of any retriever, best first, to shorten to what a question needs. `max_tokens`: of all contexts."""

    refiner: Annotated[str, Field(max_length=100, description="A refiner of `vitalfew methods`.")]
    question: Question
    passages: Annotated[list[PassageBody], Field(max_length=DOCUMENTS)]
    max_tokens: MaxTokens | None = None


class MessagePart(Foreign):
    """A part of a message."""

    type: str
    text: Text = ""


class Message(Foreign):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Text | list[MessagePart] | None = None


class StreamOptions(Foreign):
    """Options of a streamed answer."""

    include_usage: bool = False


class ChatBody(Foreign):
    """A request of OpenAI's chat completions. The last message of the user is the question; settings such as
    `temperature` are those of the configuration."""

    model: str
    messages: Annotated[list[Message], Field(min_length=1)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = None


class Document(Foreign):
    """A document to rank."""

    text: Text


class RerankBody(Foreign):
    """A request to rank documents, as Cohere, Jina and vLLM have it."""

    query: Question
    documents: Annotated[list[Text | Document], Field(min_length=1, max_length=DOCUMENTS)]
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool | None = False
    model: ModelId | None = None


def fitting(tokens: Iterable[int], most: int | None) -> int:
    """How many of the first parts have at most this many tokens together."""
    total = count = 0
    for own in tokens:
        total += own
        if most is not None and total > most:
            break
        count += 1
    return count


def answered(answer: RagAnswer, model: str, most: int | None) -> dict[str, Any]:
    """An answer as JSON. `left_out`: contexts that `max_tokens` left out of the response."""
    whole = asdict(answer)
    del whole["hits"], whole["kept"]  # POST /search returns hits
    kept = fitting((context.tokens for context in answer.contexts), most)
    shown = {"contexts": contexts(answer)[:kept], "left_out": len(answer.contexts) - kept}
    return {"model": model, **whole, **shown}


def refined(contexts: Sequence[RagContext], refiner: str) -> dict[str, Any]:
    """Contexts as JSON; a source's `passage_id` is the place of its passage, from 0."""
    return {"refiner": refiner, "contexts": [_with_text_ids(asdict(context)) for context in contexts]}


def contexts(answer: RagAnswer) -> list[dict[str, Any]]:
    return [_with_text_ids(asdict(context)) for context in answer.contexts]


def _with_text_ids(context: dict[str, Any]) -> dict[str, Any]:
    """A passage's id is a number of 63 bits, which a reader of JSON such as JavaScript would round: it is a text."""
    sources = [{**source, "passage_id": str(source["passage_id"])} for source in context["sources"]]
    return {**context, "sources": sources}


SHOWN = ("rank", "score", "passage_id", "title", "source_id", "start", "end", "text", "also", "tokens")
"""What of a hit is in a response."""


def searched(hits: Sequence[Hit], model: str, most: int) -> dict[str, Any]:
    """Hits as JSON. `left_out`: hits that `max_tokens` left out of the response."""
    kept = fitting((hit.tokens for hit in hits), most)
    shown = ({name: getattr(hit, name) for name in SHOWN} for hit in hits[:kept])
    texts = [{**hit, "passage_id": str(hit["passage_id"])} for hit in shown]
    return {"model": model, "hits": texts, "left_out": len(hits) - kept}


def ranked(body: RerankBody, scores: Sequence[float], model: str, identity: str) -> dict[str, Any]:
    """Documents in the order of their relevance; equal ones as they were given."""
    order = sorted(range(len(scores)), key=lambda place: -scores[place])[: body.top_n]
    results: list[dict[str, Any]] = [{"index": place, "relevance_score": scores[place]} for place in order]
    if body.return_documents:
        texts = texts_of(body)
        results = [{**result, "document": {"text": texts[result["index"]]}} for result in results]
    return {"id": identity, "model": model, "results": results}


def texts_of(body: RerankBody) -> list[str]:
    return [document if isinstance(document, str) else document.text for document in body.documents]
