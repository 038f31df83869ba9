"""`recorded`: answers that another system gave, read from a file of its results (tasks/datasets/recorded.py).

A question is found by its id, else by the comparable form of its text; where they disagree, by the text. One that
the file lacks, or has no answer to, is an error row that says so. Contexts, tokens, price and seconds are the file's
own, and unknown where it has none.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import NOT_IN_FINGERPRINT, AbsolutePath
from vitalfew.storage import files
from vitalfew.tasks.datasets.files import check_source
from vitalfew.tasks.datasets.recorded import NO_ANSWER, Result, ResultFile, found
from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.models.causal.engines.base import Completion, Elsewhere
from vitalfew.tasks.models.ticks import Tick, no_tick

MEASURED = ("prompt_tokens", "completion_tokens", "seconds")


class Recorded(Generator):
    """Another system's answers, from a file of its results: JSON lines, JSON, CSV or Parquet."""

    elsewhere: ClassVar[bool] = True
    version: ClassVar[str] = "2"  # 2: candidates name their contexts, and texts decide where ids disagree

    class Options(Generator.Options):
        file: Annotated[AbsolutePath | None, NOT_IN_FINGERPRINT] = Field(
            None, description="File of results, of the shapes that `vitalfew score` reads."
        )
        columns: str | None = Field(
            None, description="Names of columns that are not recognised, as question=prompt,answer=completion.text."
        )

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, InputError where there is no such file."""
        super().__init__(options)
        if options.file is None:
            raise ConfigError("generator 'recorded' needs a file of results: --set generate.file=FILE")
        self.file: Path = options.file
        check_source(self.file)

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "file": files.checksum(self.file)}

    @cached_property
    def _results(self) -> dict[str, Result]:
        return ResultFile(self.file, self.options.columns).by_key()

    def decisive(self, prompt: Prompt) -> tuple[str, ...]:
        return prompt.name, prompt.question

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        """Raises InputError."""
        tick(len(prompts), 0)
        return [self._found(prompt) for prompt in prompts]

    def _found(self, prompt: Prompt) -> Elsewhere:
        result = found(self._results, prompt.name, prompt.question) or Result(0, error=NO_ANSWER)
        return Elsewhere(
            result.answer,
            result.prompt_tokens or 0,
            result.completion_tokens or 0,
            result.seconds or 0.0,
            finish_reason="error" if result.error else "stop",
            error=f"{self.file.name}: {result.error}" if result.error else "",
            contexts=result.contexts,
            usd=result.usd,
            unknown=tuple(name for name in MEASURED if getattr(result, name) is None),
            recorded=True,
        )
