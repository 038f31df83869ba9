"""`make bench-sparse`: the cost of Sparse RAG's rows, dropped contexts and copies against one dense prompt.

20 contexts of 256 tokens in and 32 out, as in the paper's table 6 and figure 2, on SmolLM2-135M (grouped queries) and
on a random model of its size with full heads; then the prefill of 20 contexts of 1,024. Every way decodes from the same
kind of cache. Medians of `--repeats` runs, which take turns. Beside each figure: the goal, the paper's, and the bound
that arithmetic (prefill) or the bytes of weights and cache (decoding) set; 85 % of the bound is to be reached.

Every measurement is kept in build/bench_sparse.json as it is made: what is there for the same machine, model and number
of repeats is not measured again (`--fresh` begins anew).

    python -m benchmarks.sparse [--repeats N] [--fresh] [--model NAME ...] [--device cpu|cuda]
"""

import json
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from benchmarks.common import goal as reached
from benchmarks.common import in_turns, machine, options
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal.blocks import BlockModel, Read, Row, roomy_cache
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable, LocalOptions
from vitalfew.tasks.models.causal.engines.transformers import all_cores, quicker_rows
from vitalfew.tasks.models.causal.language_model import LocalModel
from vitalfew.tasks.models.causal.sampling import RowSampler
from vitalfew.tasks.models.device import choose_device, choose_dtype

KEPT_IN = Path("build/bench_sparse.json")
CONTEXTS, TOKENS, LONG, WRITTEN, KEPT = 20, 256, 1024, 32, (20, 8, 4, 1)
PREFIX, CONTROL = 48, 20  # as SmolLM2's chat head with a question, and a control with the template's tail
BATCH = {"cpu": 2048, "cuda": 65_536}
NAMES = ("smollm2", "full-heads", "llama-1b")
RANDOM = {
    "full-heads": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
                   "num_key_value_heads": 9, "vocab_size": 49_152},
    "llama-1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
                 "num_key_value_heads": 8, "vocab_size": 128_256},
}  # fmt: skip
GOALS = {"smollm2": 1.15, "llama-1b": 1.15, "full-heads": 1.3}
"""The goal of decoding from 8 of 20 contexts against all: models with grouped queries have less to gain."""


class Subject:
    """A model that is measured, with the same random tokens each time."""

    def __init__(self, name: str, device: torch.device) -> None:
        dtype = choose_dtype("auto", device)
        if name in RANDOM:
            torch.manual_seed(1)
            config = LlamaConfig(**RANDOM[name], max_position_embeddings=32_768, tie_word_embeddings=True)
            with torch.device(device):
                network = AutoModelForCausalLM.from_config(config, dtype=dtype)
        else:
            directory = LocalModel(LocalOptions(model=name), "generate").directory
            network = AutoModelForCausalLM.from_pretrained(directory, dtype=dtype, use_safetensors=True).to(device)
        self.device, self.config = device, network.config
        self.model = BlockModel(quicker_rows(network.eval()), device, BATCH[device.type], set())
        self.weights = sum(each.numel() * each.element_size() for each in network.parameters())
        self.linear = sum(
            each.numel() for name, each in network.named_parameters() if "embed" not in name and each.ndim == 2
        )
        self.kv = 2 * self.config.num_key_value_heads * self.config.head_dim * self.config.num_hidden_layers
        self.kv *= torch.finfo(dtype).bits // 8
        random = torch.Generator().manual_seed(2)
        self.tokens = torch.randint(10, 40_000, (PREFIX + CONTEXTS * LONG + 2 * CONTROL,), generator=random).tolist()

    def rows(self, tokens: int) -> list[Row]:
        prefix, tail = self.tokens[:PREFIX], self.tokens[-CONTROL:]
        starts = range(PREFIX, PREFIX + CONTEXTS * tokens, tokens)
        return [Row(prefix, self.tokens[start : start + tokens], tail) for start in starts]

    def write(self, cache: Any, ids: list[int], place: int, limit: int) -> tuple[float, float]:
        """Seconds until the first token, and of the others."""
        sampler = RowSampler(0.0, [0], self.device, ())
        [written] = self.model.write(cache, torch.tensor([ids]), [place], sampler, limit)
        return written.first_seconds, written.seconds

    def dense(self, tokens: int) -> dict[str, float]:
        ids = self.tokens[: PREFIX + CONTEXTS * tokens + CONTROL]
        return {"prefill": self.write(roomy_cache(len(ids) + 1), ids, 0, 1)[0]}

    def sparse(self, tokens: int, kept: int, written: int) -> dict[str, float]:
        began = time.perf_counter()
        reads = self.model.read(self.rows(tokens), [5, 6])
        self._synchronise()
        return {"prefill": time.perf_counter() - began} | self.answer(reads, tokens, kept, written)

    def answer(self, reads: list[Read], tokens: int, kept: int, written: int) -> dict[str, float]:
        """Seconds of the copy, of the control and of what is decoded."""
        held = PREFIX + kept * tokens
        began = time.perf_counter()
        cache = self.model.joined([reads[:kept]], [PREFIX], CONTROL + written)
        self._synchronise()
        copy = time.perf_counter() - began
        control, decode = self.write(cache, self.tokens[-CONTROL:], held, written)
        return {"copy": copy, "control": control, "decode": decode}

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def operations(self, rows: int, tokens: int, seen: int = 0) -> float:
        """Count the operations of reading rows of so many tokens behind those that were `seen`: two for each weight of
        a matrix and token, four for each number of a head and each pair of tokens."""
        pairs = rows * tokens * (seen + (tokens + 1) / 2)
        width = self.config.num_attention_heads * self.config.head_dim * self.config.num_hidden_layers
        return 2.0 * self.linear * rows * tokens + 4.0 * width * pairs

    def prefill_bound(self, tokens: int) -> float:
        dense = self.operations(1, PREFIX + CONTEXTS * tokens + CONTROL)
        rows = self.operations(1, PREFIX) + self.operations(CONTEXTS, tokens + CONTROL, PREFIX)
        return dense / (rows + self.operations(1, CONTROL, PREFIX + KEPT[1] * tokens))

    def decoding_bound(self, kept: int) -> float:
        """Return the most that decoding can gain with so many contexts: the ratio of what a token reads."""
        held = [self.weights + self.kv * (PREFIX + number * TOKENS) for number in (CONTEXTS, kept)]
        return held[0] / held[1]


def medians(repeats: int, works: dict[str, Callable[[], dict[str, float]]]) -> dict[str, float]:
    """Time the steps of every way; the ways take turns, and a first turn warms up."""
    return {
        f"{name} {step}": statistics.median(turn[step] for turn in turns)
        for name, turns in zip(works, in_turns(repeats, *works.values(), warm_up=1), strict=True)
        for step in turns[0]
    }


def prefill(subject: Subject, repeats: int, tokens: int = TOKENS, written: int = WRITTEN) -> dict[str, float]:
    return medians(
        repeats,
        {"dense": lambda: subject.dense(tokens), "rows": lambda: subject.sparse(tokens, KEPT[1], written)},
    )


def long(subject: Subject, repeats: int) -> dict[str, float]:
    return prefill(subject, repeats, LONG, 1)


def decoding(subject: Subject, repeats: int) -> dict[str, float]:
    reads = subject.model.read(subject.rows(TOKENS))
    return medians(repeats, {str(kept): partial(subject.answer, reads, TOKENS, kept, WRITTEN) for kept in KEPT})


PARTS = {"prefill": prefill, "decoding": decoding, "long": long}


def report(name: str, subject: Subject, part: str, seconds: dict[str, float]) -> list[str]:
    def line(what: str, figure: float, goal: float, bound: float, paper: str = "") -> str:
        share = f"bound {bound:.2f}, {figure / bound:.0%} of it (goal 85 %)"
        return f"{name}  {what}: {figure:.2f}x, goal {goal}x {reached(figure, goal)}; {share}{paper}"

    if part == "decoding":
        speeds = {kept: (WRITTEN - 1) / seconds[f"{kept} decode"] for kept in KEPT}
        shown = ", ".join(f"{kept}: {speed:.1f}" for kept, speed in speeds.items())
        gain, bound = speeds[8] / speeds[20], subject.decoding_bound(8)
        ratio = line("decoding 8 of 20", gain, GOALS[name], bound, "; paper 1.85x")
        return [f"{name}  decoding, tokens/s by contexts kept: {shown}", ratio]
    tokens, goal = (TOKENS, 1.4) if part == "prefill" else (LONG, 2.5)
    rows = seconds["rows prefill"] + seconds["rows control"]
    paper = "; paper 2.62x" if part == "prefill" else ""
    figures = [
        f"{name}  20 x {tokens}, seconds: dense {seconds['dense prefill']:.2f}, rows with ratings {rows:.2f}",
        line(f"prefill 20 x {tokens}", seconds["dense prefill"] / rows, goal, subject.prefill_bound(tokens), paper),
    ]
    if part == "prefill":
        whole = rows + seconds["rows copy"] + seconds["rows decode"]
        copy = seconds["rows copy"]
        verdict = "reached" if copy / whole < 0.01 else "MISSED"
        figures.append(f"{name}  copy of 8: {copy * 1000:.0f} ms, {copy / whole:.2%} of all, goal 1 % {verdict}")
    return figures


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--model", nargs="*", choices=NAMES)
    given = parser.parse_args()
    device = choose_device(given.device)
    names = given.model or (NAMES if device.type == "cuda" else NAMES[:2])
    kept = {} if given.fresh or not KEPT_IN.exists() else json.loads(KEPT_IN.read_text(encoding="utf-8"))
    KEPT_IN.parent.mkdir(exist_ok=True)
    with all_cores(), torch.inference_mode():
        threads = torch.get_num_threads()
        print(f"{machine()}, {device.type}, {threads} threads, medians of {given.repeats}")
        for name in names:
            try:
                subject = Subject(name, device)
            except (ConfigError, EngineUnavailable) as error:
                print(f"{name}  left out: {error}")
                continue
            key = f"{name} on {platform.node()} {device.type}, {threads} threads, {given.repeats} repeats"
            own = kept.setdefault(key, {})
            for part, measure in PARTS.items():
                if part not in own:
                    own[part] = measure(subject, given.repeats)
                    KEPT_IN.write_text(json.dumps(kept, indent=1), encoding="utf-8")
                print("\n".join(report(name, subject, part, own[part])), flush=True)


if __name__ == "__main__":
    main()
