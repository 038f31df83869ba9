"""The ASGI application: the product's addresses, OpenAI's chat completions, reranking, and what watches it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from mcp.server.transport_security import TransportSecuritySettings
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException

from vitalfew.flows.pipelines.answering import RagAnswer, RagContext
from vitalfew.flows.pipelines.refining import refine
from vitalfew.flows.server.figures import IndexFigures
from vitalfew.flows.server.guard import origins
from vitalfew.flows.serving import chat, errors, shapes
from vitalfew.flows.serving.agents import Doors, agents_server
from vitalfew.flows.serving.batching import Bounds, RequestLine, WaitingLine
from vitalfew.flows.serving.configurations import Documents, Served
from vitalfew.flows.serving.entrance import Entrance
from vitalfew.flows.serving.errors import Refused
from vitalfew.flows.serving.recording import RequestRecord, RequestRows, current
from vitalfew.flows.serving.telemetry import Tracing
from vitalfew.tasks.datasets.base import MOST_QUESTION, InputError
from vitalfew.tasks.registry import METHODS, UnknownName

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
OTHER = "other"
"""The path of requests for addresses that do not exist: a client cannot add series."""


class Metrics:
    """Counts since the server's start. Two applications share none. `paths`: addresses that are counted by name."""

    def __init__(self, served: Mapping[str, Served], rows: RequestRows | None) -> None:
        self.paths = frozenset[str]()
        self.registry = registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry, buckets=BUCKETS)
        self.requests = counter("vitalfew_requests", "Requests", ["path", "status"])
        self.seconds = histogram("vitalfew_request_seconds", "Seconds of a request", ["path"])
        step = "Seconds of a step, a question's share of its batch"
        self.steps = histogram("vitalfew_step_seconds", step, ["model", "step"])
        tokens = "Tokens of prompts (in), answers (out), and saved"
        self.tokens = counter("vitalfew_tokens", tokens, ["model", "kind"])
        self.errors = counter("vitalfew_unanswered", "Questions to which the model gave no answer", ["model"])
        if rows:
            lost = gauge("vitalfew_requests_lost", "Requests without a row in the table")
            lost.set_function(lambda: rows.log.lost)
        if budget := next((each.answering.budget for each in served.values()), None):
            paid = gauge("vitalfew_paid_usd", "USD paid for requests to servers, of --max-usd")
            paid.set_function(budget.paid)
        registry.register(IndexFigures(next(iter(served.values())).answering.store))
        for name, about, place in (
            ("served_generation", "Generation of the index that the model searches; 0 without one", "generation"),
            ("served_encoded", "1 if the index has all vectors, 0 while searches have them made", "is_encoded"),
            ("computed_again", "Requests computed again: their replica was lost", "line.again"),
            ("waiting", "Requests that wait", "line.waiting"),
            ("ready", "1 if the model is loaded and has answered", "ready"),
        ):
            of_model = gauge(f"vitalfew_{name}", about, ["model"])
            for model, each in served.items():
                of_model.labels(model).set_function(partial(attrgetter(place), each))

    def request(self, record: RequestRecord) -> None:
        path = record.path if record.path in self.paths else OTHER
        self.requests.labels(path, str(record.status)).inc()
        self.seconds.labels(path).observe(record.seconds)
        if record.answer and record.configuration:
            self._answer(record.configuration, record.answer)

    def _answer(self, model: str, answer: RagAnswer) -> None:
        for step, seconds in answer.seconds.items():
            self.steps.labels(model, step).observe(seconds)
        counts = {"in": answer.prompt_tokens, "out": answer.completion_tokens, "saved": answer.tokens_saved}
        for kind, count in counts.items():
            self.tokens.labels(model, kind).inc(count)
        if answer.error:
            self.errors.labels(model).inc()


REFINERS = tuple(METHODS["refiner"])
"""A client may name these alone: another name would be the module of a class, to be imported."""


def _refined(body: shapes.RefineBody) -> list[RagContext]:
    """Raises InputError for a refiner that is unknown, or that has no model here."""
    if body.refiner not in REFINERS:
        raise InputError(str(UnknownName("refiner", body.refiner, [*REFINERS])))
    passages = [passage.model_dump() for passage in body.passages]
    try:
        return refine(body.refiner, body.question, passages, max_tokens=body.max_tokens)
    except (ValueError, FileNotFoundError) as error:
        raise InputError(f"{body.refiner} cannot refine here: {error}") from error


logger = logging.getLogger("vitalfew")


@dataclass(frozen=True)
class Limits:
    """`seconds`: of a request, from its arrival; `body`: bytes; `follow`: seconds between two looks at an index's
    name."""

    seconds: float = 60.0
    body: int = 2**20
    follow: float = 3.0


class ServedModels:
    """The configurations of a server, by the name of their model."""

    def __init__(self, served: Iterable[Served], limits: Limits) -> None:
        self.served = {each.name: each for each in served}
        # Models of refiners are loaded when they are first used, and kept.
        self.refiners = WaitingLine({"refine": lambda bodies: [*map(_refined, bodies)]}, Bounds(), "serve refine")
        self.limits = limits

    @property
    def unready(self) -> list[str]:
        return [name for name, each in self.served.items() if not each.ready]

    def find(self, model: str | None) -> Served:
        """Raises Refused for an unknown model, and where none is named and there are several."""
        if model is None and len(self.served) == 1:
            return next(iter(self.served.values()))
        known = ", ".join(self.served)
        if model is None:
            raise Refused(400, f"name a model: {known}", param="model")
        if model not in self.served:
            raise Refused(404, f"there is no model {model[:80]!r}; there are: {known}", "model_not_found", "model")
        return self.served[model]

    @property
    def lines(self) -> list[RequestLine]:
        return [self.refiners, *(each.line for each in self.served.values())]

    async def computed(
        self, request: Request, name: str, line: RequestLine, task: str, item: Any, question: str, size: int = 0
    ) -> Any:
        """Wait for the result of a task. `name`: of what computes it; `size`: characters besides the question. Raises
        Refused: the line is full, the time is over, the client hung up, or the configuration cannot answer."""
        try:
            future = asyncio.wrap_future(line.submit(task, item, len(question) + size))
        except Exception as error:
            raise errors.of_computing(error, name) from None
        gone = asyncio.ensure_future(_gone(request))
        try:
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait({future, gone}, timeout=self.limits.seconds, return_when=first)
            if future.done():
                current().found(result := future.result())
                return result
            if gone.done():
                raise Refused(errors.GONE, "the client hung up")
            raise Refused(504, f"there was no result within {self.limits.seconds:g} s", "timeout")
        except Refused:
            raise
        except Exception as error:
            raise errors.of_computing(error, name) from error
        finally:
            future.cancel()
            gone.cancel()

    async def asked(self, request: Request, served: Served, task: str, item: Any, question: str, size: int = 0) -> Any:
        """Note the question and the configuration in the request's record, and wait for the result."""
        current().asked(served.name, question, served.answering.fingerprint)
        return await self.computed(request, served.name, served.line, task, item, question, size)

    async def watch(self) -> None:
        """Follow every index's name, and warm again what is not ready."""
        while True:
            await asyncio.sleep(self.limits.follow)
            for each in self.served.values():
                try:
                    if await asyncio.to_thread(each.follow):
                        logger.info("%s: the index moved; its new artifacts are served", each.name)
                    if not each.ready and not each.line.waiting:
                        with suppress(Exception):
                            await asyncio.wrap_future(each.warm())
                except Exception as error:
                    # What is served goes on; the name may be half-written, or its artifacts be damaged.
                    logger.warning("%s: the index cannot be followed: %s", each.name, errors.place(error))


async def _gone(request: Request) -> None:
    """Return when the client hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def application(
    configurations: Iterable[Served],
    keys: Mapping[str, str] | None = None,
    hosts: Collection[str] = (),
    limits: Limits | None = None,
    rows: RequestRows | None = None,
    tracing: Tracing | None = None,
) -> FastAPI:
    """Make the application. `keys`: by name; without any, none is needed. `hosts`: the origins by which clients reach
    it, such as http://rag.example:8765; others are refused. `rows`, `tracing`: where every request is
    recorded."""
    limits = limits or Limits()
    service = ServedModels(configurations, limits)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        service.refiners.start()
        for each in service.served.values():
            each.start()
        watching = asyncio.create_task(service.watch())
        async with agents.session_manager.run():
            yield
        watching.cancel()
        for line in service.lines:
            await asyncio.to_thread(line.close, limits.seconds)
        for close in [told.close for told in (rows, tracing) if told]:
            await asyncio.to_thread(close)

    agents = agents_server(Doors.served(next(iter(service.served.values()))))
    app = FastAPI(title="Vital Few", description=ABOUT, lifespan=life, redoc_url=None, responses=errors.DESCRIBED)
    app.state.service = service
    _add_own(app, service)
    metrics = Metrics(service.served, rows)
    _add_answering(app, service)
    _add_watching(app, service, metrics)
    metrics.paths = frozenset(path for route in app.routes if (path := getattr(route, "path", None)))
    # Its Host and Origin are checked at the entrance, like those of every other request.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    by_http = agents.streamable_http_app(json_response=True, stateless_http=True, transport_security=security)
    app.router.routes.extend(by_http.routes)
    _explain_errors(app)
    app.add_middleware(
        Entrance,
        origins=hosts or origins(8765),
        keys=keys or {},
        most=limits.body,
        seconds=limits.seconds,
        counted=metrics.request,
        recorded=[each.ended for each in (rows, tracing) if each],
    )
    return app


ABOUT = f"""Answers by configured methods of retrieval-augmented generation. A configuration is a model.
A question has at most {MOST_QUESTION:,} characters. Errors have OpenAI's shape."""


def _add_own(app: FastAPI, service: ServedModels) -> None:
    @app.post("/search", tags=["questions"])
    async def search(body: shapes.SearchBody, request: Request) -> Any:
        """Search the index of a model, as its method does: the hits, best first, that fit into `max_tokens`."""
        served = service.find(body.model)
        hits = await service.asked(request, served, "search", body.question, body.question)
        return JSONResponse(shapes.searched(hits, served.name, body.max_tokens))

    @app.post("/refine", tags=["questions"])
    async def refine(body: shapes.RefineBody, request: Request) -> Any:
        """Shorten the passages of any retriever to what a question needs."""
        size = sum(len(passage.text) for passage in body.passages)
        current().asked(body.refiner if body.refiner in REFINERS else "refine", body.question)
        contexts = await service.computed(request, "refine", service.refiners, "refine", body, body.question, size)
        return JSONResponse(shapes.refined(contexts, body.refiner))

    @app.post("/v1/rerank", tags=["questions"])
    async def rerank(body: shapes.RerankBody, request: Request) -> Any:
        """Rank documents for a query, by the cosine of their vectors: the encoder is the one of the model's index."""
        served, texts = service.find(body.model), shapes.texts_of(body)
        item, size = Documents(body.query, texts), sum(map(len, texts))
        scores = await service.asked(request, served, "rerank", item, body.query, size)
        return JSONResponse(shapes.ranked(body, scores, served.name, f"rerank-{uuid4().hex}"))

    @app.get("/v1/models", tags=["questions"])
    async def models() -> Any:
        """List the configurations."""
        return JSONResponse({"object": "list", "data": [_model(each) for each in service.served.values()]})

    @app.get("/v1/models/{model:path}", tags=["questions"])
    async def model(model: str) -> Any:
        """Show a configuration."""
        return JSONResponse(_model(service.find(model)))


def _model(served: Served) -> dict[str, Any]:
    chosen = served.answering.configured
    own = {
        "experiment": chosen.experiment,
        "method": chosen.method.name,
        "index": chosen.index.name if chosen.index else None,
        "evaluated_by": chosen.run or None,
        "fingerprint": served.answering.fingerprint,
        "ready": served.ready,
    }
    return {"id": served.name, "object": "model", "created": 0, "owned_by": "vitalfew", "vitalfew": own}


def _add_answering(app: FastAPI, service: ServedModels) -> None:
    @app.post("/answer", tags=["questions"])
    async def answer(body: shapes.AnswerBody, request: Request) -> Any:
        """Answer a question: text, contexts with their sources, tokens, tokens saved, seconds, fingerprint."""
        served = service.find(body.model)
        answer: RagAnswer = await service.asked(request, served, "answer", body.question, body.question)
        return JSONResponse(shapes.answered(answer, served.name, body.max_tokens))

    streamed = {"content": {"text/event-stream": {}}, "description": "The answer, at once or as a stream"}
    unanswered = {"model": errors.ErrorBody, "description": "The model gave no answer"}

    @app.post("/v1/chat/completions", tags=["questions"], responses={200: streamed, 502: unanswered})
    async def completions(body: shapes.ChatBody, request: Request) -> Response:
        """Answer the last message of the user, in OpenAI's shape."""
        served = service.find(body.model)
        question = chat.question_of(body)
        answer: RagAnswer = await service.asked(request, served, "answer", question, question)
        if answer.error:
            raise Refused(502, f"the model of {served.name} gave no answer: {answer.error}", "unanswered")
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            events = chat.chunks(answer, served.name, usage)
            return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        return JSONResponse(chat.completion(answer, served.name))


def _add_watching(app: FastAPI, service: ServedModels, metrics: Metrics) -> None:
    @app.get("/health", tags=["operation"])
    async def health() -> Any:
        """The server works."""
        return JSONResponse({"status": "ok"})

    @app.get("/ready", tags=["operation"], responses={503: {"description": "A model is not ready", "model": None}})
    async def ready() -> Any:
        """Every model has answered a question: 200; else 503."""
        waiting = len(service.unready)
        return JSONResponse({"ready": not waiting, "models_not_ready": waiting}, 503 if waiting else 200)

    @app.get("/metrics", tags=["operation"], response_class=PlainTextResponse)
    async def figures() -> Response:
        """Figures for Prometheus."""
        text = await asyncio.to_thread(generate_latest, metrics.registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)


def _explain_errors(app: FastAPI) -> None:
    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return _explained(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        if isinstance(error.body, bytes) and error.body:  # it was not read as JSON: a page of another site can send it
            return _explained(Refused(415, "send JSON, with the header Content-Type: application/json"))
        return _explained(errors.of_validation(error.errors()))

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        return _explained(Refused(error.status_code, _sentence(error)), error.headers)


def _explained(error: Refused, headers: Mapping[str, str] | None = None) -> Response:
    current().error = str(error)
    return errors.response(error, headers)


def _sentence(error: HTTPException) -> str:
    sentences = {
        404: "there is no such address; /docs lists them",
        405: "this address does not accept this method; /docs lists them",
        400: "the body cannot be read as JSON",
    }
    return sentences.get(error.status_code, str(error.detail))
