"""An engine against the bare library below it: `make bench-llm` (transformers) and `make bench-vllm`.

    python -m benchmarks.engines transformers
    python -m benchmarks.engines vllm

*transformers*: SmolLM2 against a plain `model.generate`, 64 short prompts, one core. The prompts are questions alone,
then every second with a sentence before it. Plain `generate` gets them tokenised, in one batch padded to the longest;
ours renders the chat template, tokenises and makes its rows as well. One token is written, so that prefill is what is
measured. They take turns, in CPU time: the medians of three, and their ratio, beside the goal and what fewer tokens (no
padding, the common head once) would come to if each cost the same.

*vllm*: against a bare `LLM.generate` over the same prompts, on one engine, in turns. The model is a Llama of 30 million
random weights with a tokenizer of the corpus's own, the prompts are questions with ten passages each. Theirs is given
the finished prompts as text, and one SamplingParams without log probabilities; ours renders the chat template,
tokenises, gives every prompt its seed, asks for log probabilities and makes its rows. The prefix cache is emptied
before every turn. Then the time that ours spends outside of `LLM.generate`, per prompt, and how much of it is
tokenisation, which a bare `LLM.generate` does as well.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

if sys.argv[1:2] == ["transformers"]:  # before PyTorch is imported
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.common import cpu, describe, goal, in_turns, machine, one_core, options, texts
from vitalfew.tasks.datasets.base import Passage, Question
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.engines.transformers import Transformers
from vitalfew.tasks.models.causal.engines.vllm import Vllm
from vitalfew.tasks.models.causal.prefill import shared_tokens

PROMPTS = 64
TURNS, GOAL = 3, 3
CONTEXTS = 10
MAX_TOKENS = 32
ROUNDS = 5
CHAT = "{% for message in messages %}<|user|>{{ message.content }}<|end|>{% endfor %}<|assistant|>"


def compared(engine: Transformers, prompts: list[str]) -> str:
    ids = engine.local.encode(prompts)
    inputs = engine._padded(ids)

    def plain() -> None:
        with torch.inference_mode():
            engine.model.generate(**inputs, max_new_tokens=1, do_sample=False)

    works = (lambda: cpu(plain), lambda: cpu(lambda: engine.complete(prompts)))
    theirs, ours = map(statistics.median, in_turns(TURNS, *works, warm_up=1))
    tokens = sum(map(len, ids))
    computed = tokens - (len(ids) - 1) * shared_tokens(ids)
    return (
        f"{tokens:,} tokens, {min(map(len, ids))} to {max(map(len, ids))} a prompt, "
        f"{computed:,} to be computed: "
        f"generate {tokens / theirs:,.0f} a second, the engine {tokens / ours:,.0f}, ratio {theirs / ours:.2f}, "
        f"goal {GOAL} {goal(theirs / ours, GOAL)}; by tokens alone {inputs['input_ids'].numel() / computed:.2f}"
    )


def against_generate() -> None:
    one_core()
    torch.set_num_threads(1)
    engine = Transformers(Transformers.Options(model="smollm2", max_tokens=1, temperature=0, device="cpu"), "generate")
    questions, passages = (list(islice(texts(kind), PROMPTS)) for kind in (Question, Passage))
    sentences = [f"{passage.partition('. ')[0]}.\n" if row % 2 else "" for row, passage in enumerate(passages)]
    mixed = [sentence + question for sentence, question in zip(sentences, questions, strict=True)]
    print(f"{PROMPTS} prompts of {describe()}, {engine.dtype}; {machine()}")
    print(f"questions: {compared(engine, questions)}", flush=True)
    print(f"mixed: {compared(engine, mixed)}")


def make_prompts(passages: list[str], questions: list[str]) -> list[str]:
    def contexts(row: int) -> str:
        return "\n".join(passages[row * CONTEXTS : (row + 1) * CONTEXTS])

    return [f"Answer briefly.\n{contexts(row)}\n{text}" for row, text in enumerate(questions)]


def save_model(directory: Path, passages: list[str]) -> None:
    bpe = ByteLevelBPETokenizer()
    special = ["<pad>", "<s>", "<|end|>", "<|user|>", "<|assistant|>"]
    bpe.train_from_iterator(passages, vocab_size=8000, special_tokens=special)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe._tokenizer, bos_token="<s>", eos_token="<|end|>", pad_token="<pad>"
    )
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(directory)
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=512, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4, intermediate_size=1408,
        vocab_size=len(tokenizer), max_position_embeddings=4096, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(directory)


class Stopwatch:
    """Replaces a method of an object and adds up its seconds."""

    def __init__(self, owner: Any, name: str) -> None:
        self.method, self.seconds = getattr(owner, name), 0.0
        setattr(owner, name, self)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        found, seconds = timed(lambda: self.method(*arguments, **options))
        self.seconds += seconds
        return found


def turns(served: Vllm, prompts: list[str]) -> Iterator[tuple[str, float, int, float, float]]:
    """Yield (whose, seconds, tokens, seconds outside of LLM.generate, seconds in the tokenizer) of every turn but the
    first round's."""
    from vllm import SamplingParams

    engine = served.engine
    bare = engine.generate
    chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
    rendered = served.local.tokenizer.apply_chat_template(chats, tokenize=False)
    sampling = SamplingParams(temperature=served.options.temperature, max_tokens=MAX_TOKENS, seed=100)
    inside, tokenizer = Stopwatch(engine, "generate"), Stopwatch(served.local, "encode")
    for turn in range(ROUNDS + 1):
        engine.reset_prefix_cache()
        outputs, theirs = timed(lambda: bare(rendered, sampling, use_tqdm=False))
        tokens = sum(len(each.prompt_token_ids) + len(each.outputs[0].token_ids) for each in outputs)
        engine.reset_prefix_cache()
        inside.seconds = tokenizer.seconds = 0.0
        answers, ours = timed(lambda: served.complete(prompts))
        if turn:
            yield "theirs", theirs, tokens, 0.0, 0.0
            yield "ours", ours, _tokens(answers), ours - inside.seconds, tokenizer.seconds


def _tokens(answers: list[Completion]) -> int:
    if errors := {answer.error for answer in answers if answer.error}:
        sys.exit(f"prompts failed: {errors}")
    return sum(answer.prompt_tokens + answer.completion_tokens for answer in answers)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    found = work()
    return found, time.perf_counter() - began


def against_vllm() -> None:
    passages = list(islice(texts(Passage), PROMPTS * CONTEXTS))
    prompts = make_prompts(passages, list(islice(texts(Question), PROMPTS)))
    with tempfile.TemporaryDirectory() as directory:
        save_model(Path(directory), passages)
        served = Vllm(Vllm.Options(model=directory, max_tokens=MAX_TOKENS), "generate")
        measured = list(turns(served, prompts))
        served.close()
    ours = [turn for turn in measured if turn[0] == "ours"]
    theirs = [turn for turn in measured if turn[0] == "theirs"]
    speeds = [statistics.median(tokens / seconds for _, seconds, tokens, *_ in each) for each in (theirs, ours)]
    outside, tokenising = (statistics.median(turn[place] for turn in ours) * 1e3 / len(prompts) for place in (3, 4))
    print(f"{len(prompts)} prompts of {describe()}, {ours[0][2]:,} tokens, {served.dtype}, {ROUNDS} turns each")
    print(f"LLM.generate   {speeds[0]:8,.0f} tokens/s")
    print(f"Vllm.complete  {speeds[1]:8,.0f} tokens/s")
    print(f"outside of LLM.generate {outside:.2f} ms per prompt, {tokenising:.2f} ms of it in the tokenizer")
    print(f"ratio {speeds[1] / speeds[0]:.2f}")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("engine", choices=("transformers", "vllm"))
    against_vllm() if parser.parse_args().engine == "vllm" else against_generate()


if __name__ == "__main__":
    main()
