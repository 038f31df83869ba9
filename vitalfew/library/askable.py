"""Which methods a store can be asked by, from its records alone: no settings are completed, so that no library of a
model is imported."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vitalfew.configs.loading import merged
from vitalfew.flows.pipelines.experiments import find
from vitalfew.storage.runs import read_runs

USUAL = ("start_answers", "quickstart")
"""The experiments whose methods are offered where they were not evaluated."""


@dataclass(frozen=True)
class Askable:
    """A method that `Store.rag` takes. `name`: EXPERIMENT:METHOD. `index`: that it was evaluated on; empty: any, as it
    was not evaluated or searches none. `run`: its latest finished evaluation; empty: none. `settings`: as they are
    written."""

    name: str
    index: str
    run: str
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def about(self) -> str:
        """How it retrieves, shortens and answers, in one line."""
        return self.described()

    def described(self, alpha: float | None = None, max_tokens: int | None = None) -> str:
        """`about`, with other settings."""
        retrieve, refine = self.settings.get("retrieve"), self.settings.get("refine") or {}
        generate = self.settings.get("generate") or {}
        alpha = (retrieve or {}).get("alpha") if alpha is None else alpha
        max_tokens = max_tokens or refine.get("max_tokens")
        parts = []
        if retrieve:
            weight = "" if alpha is None else f" at alpha {alpha:g}"
            parts.append(f"{retrieve.get('retriever', 'core_context')}, top {retrieve.get('top_k', 10)}{weight}")
            parts += [refine["refiner"]] if refine.get("refiner", "cut") != "cut" else []
            parts += [f"at most {max_tokens} tokens (words)"] if max_tokens else []
        else:
            parts.append("no retrieval")
        model = generate.get("model")
        parts.append(f"answered by {generate.get('generator', 'reader')}" + (f" ({model})" if model else ""))
        return "; ".join(parts)


def askable(store: Path) -> list[Askable]:
    """Those of the evaluations of a store, the latest first, and those of the experiments `USUAL`."""
    found: dict[tuple[str, str], Askable] = {}
    for each in _askable(store):
        found.setdefault((each.name, each.index), each)
    return [*found.values()]


def _askable(store: Path) -> Iterator[Askable]:
    for run in reversed(read_runs(store)):
        if run.flow == "evaluate" and run.state == "completed" and not run.name.endswith("/development"):
            for method in run.config.get("methods", ()):  # `recorded` answers the questions of its file alone
                if (method.get("generate") or {}).get("generator", "recorded") != "recorded":
                    index = (method.get("index") or "") if method.get("retrieve") else ""
                    yield Askable(f"{run.name}:{method['name']}", index, run.run_id, method)
    for name in USUAL:
        _, experiment = find(name, store)
        for method, own in experiment["methods"].items():
            yield Askable(f"{name}:{method}", "", "", merged(experiment, own or {}))
