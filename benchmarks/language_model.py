"""`make bench-llm`: the engine `transformers` on SmolLM2 against a plain `model.generate`, 64 short prompts, one core.

The prompts are questions alone, then every second with a sentence before it. Plain `generate` gets them tokenised, in
one batch padded to the longest; ours renders the chat template, tokenises and makes its rows as well. One token is
written, so that prefill is what is measured. They take turns, in CPU time: the medians of three, and their ratio,
beside the goal and what fewer tokens (no padding, the common head once) would come to if each cost the same.

    python -m benchmarks.language_model
"""

import os
import statistics
from itertools import islice

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch

from benchmarks.common import cpu, describe, one_core, texts
from vitalfew.tasks.datasets.base import Passage, Question
from vitalfew.tasks.models.causal.engines.transformers import Transformers
from vitalfew.tasks.models.causal.prefill import shared_tokens

PROMPTS, ROUNDS, GOAL = 64, 3, 3


def compared(engine: Transformers, prompts: list[str]) -> str:
    ids = engine.local.encode(prompts)
    inputs = engine._padded(ids)

    def plain() -> None:
        with torch.inference_mode():
            engine.model.generate(**inputs, max_new_tokens=1, do_sample=False)

    turns = [(cpu(plain), cpu(lambda: engine.complete(prompts))) for _ in range(1 + ROUNDS)][1:]
    theirs, ours = map(statistics.median, zip(*turns, strict=True))
    tokens = sum(map(len, ids))
    computed = tokens - (len(ids) - 1) * shared_tokens(ids)
    reached = "reached" if theirs / ours >= GOAL else "MISSED"
    return (
        f"{tokens:,} tokens, {min(map(len, ids))} to {max(map(len, ids))} a prompt, "
        f"{computed:,} to be computed: "
        f"generate {tokens / theirs:,.0f} a second, the engine {tokens / ours:,.0f}, ratio {theirs / ours:.2f}, "
        f"goal {GOAL} {reached}; by tokens alone {inputs['input_ids'].numel() / computed:.2f}"
    )


def main() -> None:
    one_core()
    torch.set_num_threads(1)
    engine = Transformers(Transformers.Options(model="smollm2", max_tokens=1, temperature=0, device="cpu"), "generate")
    questions, passages = (list(islice(texts(kind), PROMPTS)) for kind in (Question, Passage))
    sentences = [f"{passage.partition('. ')[0]}.\n" if row % 2 else "" for row, passage in enumerate(passages)]
    mixed = [sentence + question for sentence, question in zip(sentences, questions, strict=True)]
    print(f"{PROMPTS} prompts of {describe()}, {engine.dtype}")
    print(f"questions: {compared(engine, questions)}", flush=True)
    print(f"mixed: {compared(engine, mixed)}")


if __name__ == "__main__":
    main()
