"""A server that is paid for, and methods of every kind that ask it."""

import copy
import dataclasses
import math
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

from tests.support.fakes import ChatServer, Reply, completion
from tests.support.indexing import index
from tests.support.stages import staged
from vitalfew.configs.evaluation import CritiqueConfig, GenerateConfig, LabelConfig, Questions, RefineConfig
from vitalfew.configs.options import ServerOptions
from vitalfew.configs.schema import RetrieveConfig, SplitConfig
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.runs import find_index
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.generators.base import Prompt
from vitalfew.tasks.generators.openai import OpenAIGenerator
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.engines.openai import OpenAI
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.rate import Critique, Label
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.refine import Refine
from vitalfew.tasks.refiners.base import Context, Hit, Refined, Vectors
from vitalfew.tasks.retrieve import Retrieve
from vitalfew.tasks.split import Rewrite
from vitalfew.tasks.splitters.base import Rewritten, StoredPassage
from vitalfew.tasks.stage import Stage

CONCURRENCY = 4


class PaidServer(ChatServer):
    """Answers every prompt in a way of its own, after so many `seconds`, and counts other tokens for each."""

    seconds = 0.0

    def __init__(self) -> None:
        super().__init__(self._reply)

    def _reply(self, path: str, body: Any, attempt: int) -> Reply:
        if path == "/v1/models":
            return Reply({"object": "list", "data": []})
        if path != "/v1/chat/completions":
            return Reply({"error": "no"}, status=404)
        prompt = body["messages"][0]["content"]
        top = [{"token": token, "logprob": math.log(0.1)} for token in ("Yes", "No", *"12345")]
        reply = completion(
            f"to {len(prompt)}", delay=self.seconds, logprobs={"content": [{**top[0], "top_logprobs": top}]}
        )
        reply.delay = self.seconds
        read, written = self.usage(prompt)
        reply.body["usage"] = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        return reply

    def wait(self) -> None:
        """Until it has answered all that it was asked: also those that are gone."""
        while self.at_once:
            time.sleep(0.005)

    @staticmethod
    def usage(prompt: str) -> tuple[int, int]:
        return len(prompt.split()), 1 + len(prompt) % 7

    def tokens_due(self) -> int:
        """What all answers cost where each is paid for once."""
        return sum(sum(self.usage(prompt)) for prompt in {*self.prompts()})

    def paid_again(self) -> int:
        """Requests that had been made before."""
        return sum(count - 1 for count in Counter(self.prompts()).values())


class _Asking:
    version: ClassVar[str] = "1"
    section: ClassVar[str]

    def __init__(self, options: Any) -> None:
        self.options = options
        given = OpenAI.Options(model="tiny", temperature=0, base_url=options.base_url, concurrency=options.concurrency)
        self.engine = OpenAI(given, self.section)
        self.uses_gpu, self.workers = self.engine.uses_gpu, self.engine.workers

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "engine": self.engine.identity()}


def _tokens(completions: Sequence[Completion]) -> int:
    return sum(each.prompt_tokens + each.completion_tokens for each in completions)


class Rater(_Asking):
    """Asks what a passage is worth, and the same of all passages of a question: that is one request."""

    section = "label"

    class Options(LabelConfig, ServerOptions):
        model_config = ConfigDict(extra="forbid")

    def rate(self, batch: Sequence[RatedContext], tick: Tick) -> list[Judgement]:
        completions = self.engine.complete([f"Rate what is read for {one.question}" for one in batch], tick=tick)
        return [Judgement({"rater": len(each.text) % 2}, error=each.error) for each in completions]


class Shortener(_Asking):
    """Asks for a short form of a question's hits."""

    section = "refine"
    needs_vectors = False
    needs_sentences = False
    compares_scores = False

    class Options(RefineConfig, ServerOptions):
        model_config = ConfigDict(extra="forbid")

    def refine(
        self, questions: Sequence[str], hits: Sequence[Sequence[Hit]], vectors: Vectors | None, tick: Tick
    ) -> Refined:
        prompts = [
            " ".join(["Shorten for", question, *(hit.text for hit in own)])
            for question, own in zip(questions, hits, strict=True)
        ]
        completions = self.engine.complete(prompts, tick=tick)
        return Refined([[Context(each.text, 2)] for each in completions], _tokens(completions))


class Lister(_Asking):
    """Asks for the facts of a passage."""

    section = "split"
    rewrites: ClassVar[bool] = True

    class Options(SplitConfig, ServerOptions):
        model_config = ConfigDict(extra="forbid")

    def rewrite(self, passages: Sequence[StoredPassage], tick: Tick) -> Rewritten:
        completions = self.engine.complete([f"List {passage.text}" for passage in passages], tick=tick)
        return Rewritten([[each.text] for each in completions], _tokens(completions))


class Corpus:
    """An index of 60 passages, its questions, and their hits by keywords: what paid stages work on."""

    def __init__(self, store: Path) -> None:
        index(store, "synthetic:passages=60,questions=24,seed=3", bm25={"enabled": True})
        self.index = find_index(store, "test")
        self.passages = self.index.located(store)["passages"]
        ask = Ask(store, self.passages, Questions(batch=10))
        ask.run("before")
        self.store, self.asked = store, ask.artifact

    def copied(self, store: Path) -> "Corpus":
        """The same in a store of its own."""
        subprocess.run(["cp", "-al", str(self.store), str(store)], check=True)
        other = copy.copy(self)
        other.store = store
        other.asked, other.passages = (dataclasses.replace(one, store=store) for one in (self.asked, self.passages))
        return other

    def hits(self) -> Artifact:
        retrieve = staged(Retrieve, self.store, self.asked, None, self.index, RetrieveConfig(retriever="bm25", top_k=2))
        retrieve.run("before")
        return retrieve.artifact

    def evidence(self) -> Artifact:
        refine = staged(Refine, self.store, self.asked, self.hits(), {"passages": self.passages}, RefineConfig())
        refine.run("before")
        return refine.artifact

    def stage(self, name: str, url: str) -> Stage:
        """A stage whose method asks the server at `url`."""
        server = {"base_url": url, "concurrency": CONCURRENCY}
        match name:
            case "generate":
                options = {"generator": "openai", "model": "tiny", "temperature": 0, **server}
                return staged(Generate, self.store, self.asked, None, GenerateConfig(**options))
            case "critique":
                evidence = self.evidence()
                fake = GenerateConfig(generator="tests.support.fakes:FirstWords", per_context=True)
                candidates = staged(Generate, self.store, self.asked, evidence, fake)
                candidates.run("before")
                judge = CritiqueConfig(critic="judge", engine="openai", model="tiny", **server)
                return staged(Critique, self.store, self.asked, evidence, candidates.artifact, judge)
            case "label":
                rater = LabelConfig(labeller="tests.support.paid:Rater", **server)
                return staged(Label, self.store, self.asked, self.hits(), self.passages, rater)
            case "refine":
                shortener = RefineConfig(refiner="tests.support.paid:Shortener", **server)
                return staged(Refine, self.store, self.asked, self.hits(), {"passages": self.passages}, shortener)
        return staged(Rewrite, self.store, self.passages, SplitConfig(splitter="tests.support.paid:Lister", **server))


class Timeless(OpenAIGenerator):
    """Asks the server, and keeps no seconds: so the same answers give the same bytes."""

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        return [dataclasses.replace(answer, seconds=0.0) for answer in super().generate(prompts, tick)]
