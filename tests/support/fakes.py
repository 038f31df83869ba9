"""Stand-ins for what is slow or cannot be had in a test, named in settings as "tests.support.fakes:HashEncoder"."""

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import ConfigDict

from vitalfew.configs.evaluation import CritiqueConfig, GenerateConfig
from vitalfew.configs.schema import EncodeConfig
from vitalfew.tasks.encoders.base import Encoded, LateEncoded, Spans
from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.models.causal.engines.base import Completion, EngineOptions, failed
from vitalfew.tasks.models.ticks import TextTick
from vitalfew.tasks.raters.base import Judgement, RatedContext

DIMENSION = 32


def _no_tick(tokens: int, share: float) -> None:
    """Nobody watches."""


@lru_cache(100_000)
def _word(word: str) -> np.ndarray:
    seed = int.from_bytes(blake2b(word.lower().encode(), digest_size=8).digest(), "little")
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)


def _embed(text: str) -> np.ndarray:
    total = np.sum([_word(word) for word in text.split()] or [np.ones(DIMENSION, np.float32)], axis=0)
    return (total / np.linalg.norm(total)).astype(np.float32)


class HashEncoder:
    """A random projection of the bag of words: no model, the same everywhere, and alike for like texts."""

    version: ClassVar[str] = "1"
    dimension = DIMENSION
    uses_gpu = False
    supports_late = True

    def __init__(self, config: EncodeConfig | None = None) -> None:
        self.encoded: list[str] = []

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version, "layers": ("words",), "files": {}}

    def encode(self, texts: Sequence[str], tick: TextTick = _no_tick) -> Encoded:
        self.encoded += texts
        vectors = np.array([_embed(text) for text in texts], np.float32).reshape(-1, DIMENSION)
        tokens = sum(len(text.split()) for text in texts)
        tick(tokens, 1.0)
        return Encoded(vectors, tokens, 0)

    def encode_questions(self, texts: Sequence[str]) -> Encoded:
        return self.encode(texts)

    def encode_late(self, passages: Sequence[str], spans: Sequence[Spans], tick: TextTick = _no_tick) -> LateEncoded:
        core = [_embed(text[start:end]) for text, each in zip(passages, spans, strict=True) for start, end in each]
        wholes = self.encode(passages, tick)
        return LateEncoded(np.array(core), wholes.vectors, wholes.tokens)


class DisturbedEncoder(HashEncoder):
    """The same for questions; the vectors of what is indexed are those of other texts."""

    def encode(self, texts: Sequence[str], tick: TextTick = _no_tick) -> Encoded:
        encoded = super().encode(texts, tick)
        return Encoded(np.ascontiguousarray(encoded.vectors[:, ::-1]), encoded.tokens, encoded.truncated)

    def encode_questions(self, texts: Sequence[str]) -> Encoded:
        return HashEncoder.encode(self, texts)


class NaNEncoder(HashEncoder):
    """Gives numbers that are none."""

    def encode(self, texts: Sequence[str], tick: TextTick = _no_tick) -> Encoded:
        encoded = super().encode(texts, tick)
        encoded.vectors[0] = np.nan
        return encoded


class WideEncoder(HashEncoder):
    """Gives vectors of another dimension than it declares."""

    def encode(self, texts: Sequence[str], tick: TextTick = _no_tick) -> Encoded:
        encoded = super().encode(texts, tick)
        return Encoded(np.tile(encoded.vectors, 2), encoded.tokens, 0)


class GpuEncoder(HashEncoder):
    """Says that it computes on a GPU; the file that VITALFEW_TEST_MARK names tells which ones its process was given."""

    uses_gpu = True

    def encode(self, texts: Sequence[str], tick: TextTick = _no_tick) -> Encoded:
        with Path(os.environ["VITALFEW_TEST_MARK"]).open("a") as mark:
            print(os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES"), file=mark)
        return super().encode(texts, tick)


class EndlessEncoder(HashEncoder):
    """Never comes to an end; the file that VITALFEW_TEST_MARK names says that it has begun."""

    def encode(self, texts: Sequence[str], tick: TextTick = _no_tick) -> Encoded:
        Path(os.environ["VITALFEW_TEST_MARK"]).write_text("begun")
        while True:
            time.sleep(1)


class HeldEncoder(HashEncoder):
    """Halts after its first texts while the file that VITALFEW_TEST_HOLD names is there, and writes "held" into that:
    a run can be met in the middle of it, however slow the machine is."""

    def encode(self, texts: Sequence[str], tick: TextTick = _no_tick) -> Encoded:
        hold = Path(os.environ.get("VITALFEW_TEST_HOLD") or "/nowhere")
        if len(self.encoded) > 60 and hold.exists():
            hold.write_text("held")
            while hold.exists():
                time.sleep(0.1)
        return super().encode(texts, tick)


class HaltedEncoder(HashEncoder):
    """Halts while the folder that VITALFEW_TEST_HALT names is there, and leaves the number of its process in it: a node
    can be killed in the middle of its work."""

    def encode(self, texts: Sequence[str], tick: TextTick = _no_tick) -> Encoded:
        halt = Path(os.environ.get("VITALFEW_TEST_HALT") or "/nowhere")
        if halt.exists():
            (halt / str(os.getpid())).touch()
        while halt.exists():
            time.sleep(0.1)
        return super().encode(texts, tick)


class OtherEncoder(HashEncoder):
    """The same by another name: to the store it is another encoder."""


class FirstWords(Generator):
    """A generator that answers with the first words of the first context; "fail" in a question is an error row."""

    class Options(GenerateConfig, EngineOptions):
        model_config = ConfigDict(extra="forbid")

    version: ClassVar[str] = "1"
    uses_gpu = False
    workers = None

    def __init__(self, options: Options) -> None:
        self.options = options

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version, "files": {}}

    def generate(self, prompts: Sequence[Prompt], tick: Callable[[int, int], None] = _no_tick) -> list[Completion]:
        if log := os.environ.get("VITALFEW_TEST_PROMPTS"):
            with Path(log).open("a") as file:
                file.writelines(prompt.question + "\n" for prompt in prompts)
        tick(len(prompts), 0)
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Completion:
        if "fail" in prompt.question:
            return failed("the model has no answer to this")
        words = prompt.contexts[0].split()[:3] if prompt.contexts else []
        return Completion(" ".join(words), len(prompt.text.split()), len(words), 0.001, logprob=-1.0)


class AllWords(FirstWords):
    """A generator that answers with the whole first context."""

    def _answer(self, prompt: Prompt) -> Completion:
        text = prompt.contexts[0] if prompt.contexts else ""
        return Completion(text, len(prompt.text.split()), len(text.split()), 0.001, logprob=-1.0)


class SlowWords(FirstWords):
    """FirstWords whose answers take a tenth of a second of a processor each, and say how long that was."""

    seconds: ClassVar[float] = 0.1

    def _answer(self, prompt: Prompt) -> Completion:
        began, end = time.perf_counter(), time.process_time() + self.seconds
        while time.process_time() < end:
            pass
        return replace(super()._answer(prompt), seconds=time.perf_counter() - began)


class HaltedWords(FirstWords):
    """FirstWords for replicas, by files of the folder that VITALFEW_TEST_HALT names: it leaves its process and every
    question in `begun`, halts while there is a file `halt`, unless it is being warmed, and fails while there is a file
    `damaged`."""

    def generate(self, prompts: Sequence[Prompt], tick: Callable[[int, int], None] = _no_tick) -> list[Completion]:
        if folder := os.environ.get("VITALFEW_TEST_HALT"):
            if Path(folder, "damaged").exists():
                raise OSError("the model is damaged")
            # Not above: every command that uses a stand-in would import all of it.
            from vitalfew.flows.pipelines.answering import WARM_UP

            if prompts[0].question != WARM_UP:
                self._halt(Path(folder), prompts)
        return super().generate(prompts, tick)

    def _halt(self, folder: Path, prompts: Sequence[Prompt]) -> None:
        with Path(folder, "begun").open("a") as file:
            file.writelines(f"{os.getpid()} {prompt.question}\n" for prompt in prompts)
        while Path(folder, "halt").exists():
            time.sleep(0.02)


class WordCritic:
    """A critic that counts words in common: of context and question, answer and context, answer and question; "odd" in
    a question gives scores outside 0 to 1, "awkward" NaN, "mute" in an answer an error."""

    version: ClassVar[str] = "1"
    uses_gpu = False
    workers = None

    def __init__(self, options: CritiqueConfig) -> None:
        self.options = options

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version, "files": {}}

    def rate(self, batch: Sequence[RatedContext], tick: Callable[[int, int], None] = _no_tick) -> list[Judgement]:
        tick(len(batch), 7 * len(batch))
        return [self._judge(each) for each in batch]

    def _judge(self, each: RatedContext) -> Judgement:
        if "mute" in each.answer:
            return Judgement(error="nothing to say")
        if "awkward" in each.question:
            return Judgement({"isrel": 0.5, "issup": float("nan"), "isuse": 0.5})
        if "odd" in each.question:
            return Judgement({"isrel": 0.5, "issup": -0.1, "isuse": 1.5})
        pairs = ((each.context, each.question), (each.answer, each.context), (each.answer, each.question))
        return Judgement({name: _shared(*pair) for name, pair in zip(("isrel", "issup", "isuse"), pairs, strict=True)})


def _shared(one: str, other: str) -> float:
    words = set(one.lower().split())
    return len(words & set(other.lower().split())) / len(words) if words else 0.0


@dataclass
class Reply:
    """What ChatServer sends: JSON or raw bytes, after `delay` seconds, or nothing at all (`hang_up`)."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hang_up: bool = False


def completion(text: Any, **choice: Any) -> Reply:
    """A chat completion as OpenAI's interface describes it."""
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop", **choice}]
    return Reply({"object": "chat.completion", "choices": choices, "usage": USAGE})


USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}


class ChatServer:
    """An HTTP server on 127.0.0.1 that answers as `behave(path, body, attempt)` says, and remembers what it was asked.

    `attempt`: how often these very words were asked before.
    """

    def __init__(self, behave: Callable[[str, Any, int], Reply]) -> None:
        self.behave = behave
        self.asked: list[tuple[str, Any, dict[str, str]]] = []
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.serve(self, None)

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                body = self.rfile.read(size)
                if len(body) == size:  # who was killed in the middle of asking has asked nothing
                    outer.serve(self, json.loads(body))

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> "ChatServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def prompts(self) -> list[str]:
        """What was asked for, retries among it, in the order of arrival."""
        return [body["messages"][0]["content"] for path, body, _ in self.asked if path == "/v1/chat/completions"]

    def serve(self, request: BaseHTTPRequestHandler, body: Any) -> None:
        with self._lock:
            attempt = sum((path, each) == (request.path, body) for path, each, _ in self.asked)
            headers = {name.lower(): value for name, value in request.headers.items()}
            self.asked.append((request.path, body, headers))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            reply = self.behave(request.path, body, attempt)
            time.sleep(reply.delay)
        finally:
            with self._lock:  # before the reply: who has read it may ask again before this thread goes on
                self.at_once -= 1
        self._send(request, reply)

    def _send(self, request: BaseHTTPRequestHandler, reply: Reply) -> None:
        if reply.hang_up:
            request.close_connection = True
            return
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        try:
            request.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                request.send_header(name, value)
            request.send_header("Content-Length", str(len(content)))
            request.end_headers()
            request.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            request.close_connection = True  # it was not waited for
