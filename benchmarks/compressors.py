"""`make bench-compressors`: LLMLingua, LLMLingua-2 and Selective-Context here against their authors' packages.

50 texts, the same models, the same settings, one core for all (the processes are bound to it), turn by turn, 25
texts at a time: theirs a prompt at once, which is how their packages are called, ours the 25 texts in batches. A text
is a passage; of LLMLingua, whose package leaves short ones as they are, three. For each method the share of positions
(tokens; words of LLMLingua-2 and of Selective-Context; sentences) that both keep or both drop, and texts per second of
CPU time, in float32; the goals stand beside them. Where the processor has bf16, ours takes it by default, which is not
measured here.

SmolLM2 is the causal model, of LLMLingua without a start token, of which its package knows nothing. LLMLingua-2's
classifier was not at hand: one of XLM-RoBERTa's architecture (12 layers of 384) gets random weights from a fixed seed
here, and a vocabulary of the passages. Selective-Context's package reads sentence by sentence, so sentences are the
hits here. Its phrases need a spaCy model, which is not at hand, and are not compared: it is given words for phrases,
and so are we.

    python -m benchmarks.compressors [--texts N] [METHOD]...
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch

from benchmarks.common import REAL, Ask, goal, machine, one_core, options, other_side
from benchmarks.common import texts as corpus_texts
from benchmarks.rivals import DROPPED, METHODS, RATE, RATE_2, SEGMENT, TOGETHER, Kept, placed, sentences
from vitalfew.tasks.datasets.base import Passage
from vitalfew.tasks.models.causal import smollm2
from vitalfew.tasks.refiners.base import Hit, Refiner
from vitalfew.tasks.refiners.llmlingua import LLMLingua
from vitalfew.tasks.refiners.llmlingua2 import LLMLingua2
from vitalfew.tasks.refiners.selective_context import SelectiveContext

ENVIRONMENT = Path(".venv-compressors")
TEXTS, AT_ONCE, AGREEMENT, SPEED = 50, 25, 0.98, 2
VOCABULARY, LEARNT_FROM = 8000, 500
"""Pieces of the classifier's vocabulary, and the passages that it is made from."""


def passages() -> tuple[str, list[str]]:
    """Return the source, and all its passages, with one blank between words."""
    source = f"squad:{REAL['squad']}" if REAL["squad"].exists() else "python_manual"
    return source, [" ".join(text.split()) for text in corpus_texts(Passage, [source])]


def classifier(directory: Path, texts: Sequence[str]) -> Path:
    """Write a token classifier like LLMLingua-2's; the package tells the kind of tokenizer by the directory's name."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaForTokenClassification

    directory /= "xlm-roberta-large-of-random-weights"
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    ends = [("<s>", 0), ("</s>", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **names).save_pretrained(directory)
    torch.manual_seed(0)
    config = XLMRobertaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=384, num_hidden_layers=12, num_attention_heads=12,
        intermediate_size=1536, max_position_embeddings=514, type_vocab_size=1, num_labels=2,
    )  # fmt: skip
    XLMRobertaForTokenClassification(config).save_pretrained(directory)
    return with_settings(directory, "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")


def causal(directory: Path, source: Path, start: str | None) -> Path:
    """Write SmolLM2 as transformers 4 reads it, which knows fewer names. `start`: the package's start token."""
    directory /= "smollm2" if start else "smollm2-without-start"
    directory.mkdir(exist_ok=True)
    for file in source.iterdir():
        (directory / file.name).unlink(missing_ok=True)
        (directory / file.name).symlink_to(file)
    rope = json.loads((source / "config.json").read_text())["rope_parameters"]
    with_settings(directory, "config.json", rope_theta=rope["rope_theta"], torch_dtype="float32")
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": start, "eos_token": start}
    return with_settings(directory, "tokenizer_config.json", **names)


def with_settings(directory: Path, name: str, **settings: Any) -> Path:
    settings = {**json.loads((directory / name).read_text()), **settings}
    (directory / name).unlink()
    (directory / name).write_text(json.dumps(settings))
    return directory


def model_of(name: str, scratch: Path, texts: Sequence[str]) -> Path:
    if name == "LLMLingua-2":
        return classifier(scratch, texts[:: max(1, len(texts) // LEARNT_FROM)])
    return causal(scratch, smollm2.find(), None if name == "LLMLingua" else "<|endoftext|>")


def texts_of(name: str, passages: Sequence[str], count: int) -> list[str]:
    """Return texts from all over the passages, made of as many neighbours as the method's texts have."""
    size = TOGETHER.get(name, 1)
    starts = range(0, len(passages) - size, max(1, (len(passages) - size) // count))[:count]
    return ["\n\n".join(passages[start : start + size]) for start in starts]


def whole(texts: Sequence[str]) -> list[Hit]:
    return [Hit("", text, number, 0, len(text)) for number, text in enumerate(texts)]


def by_sentence(texts: Sequence[str]) -> list[Hit]:
    [text] = texts
    parts = placed(text, own := sentences(text), [True] * len(own))
    return [Hit("", text[start:end], 0, start, end) for start, end, _ in parts]


def ours(name: str, model: Path) -> tuple[Refiner, Callable[[Sequence[str]], list[Hit]]]:
    """Return the refiner at the package's settings, and the function from a prompt's texts to its hits."""
    computing: dict[str, Any] = {"model": str(model), "device": "cpu", "precision": "fp32"}
    if name == "LLMLingua":
        given = {"rate": RATE, "segment": SEGMENT, "coarse": 2, "rest": "whole"}
        return LLMLingua(LLMLingua.Options(refiner="llmlingua", **given, **computing)), whole
    if name == "LLMLingua-2":
        return LLMLingua2(LLMLingua2.Options(refiner="llmlingua2", rate=RATE_2, **computing)), whole
    percentile, unit = 100 * DROPPED, "word" if name.endswith("words") else "sentence"
    options = SelectiveContext.Options(refiner="selective_context", unit=unit, percentile=percentile, **computing)
    return SelectiveContext(options), by_sentence


@dataclass
class Contest:
    """A method on both sides, as far as it has come."""

    name: str
    ask: Ask
    refiner: Refiner
    hits: Callable[[Sequence[str]], list[Hit]]
    cpu: float = 0.0
    theirs: float = 0.0
    texts: int = 0
    same: list[bool] = field(default_factory=list)
    kept: int = 0

    def turn(self, texts: Sequence[str]) -> None:
        prompts = [[text] for text in texts]
        answer = self.ask("compress", name=self.name, prompts=prompts)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        began = time.process_time()
        made = self.refiner.refine(["?"] * len(prompts), [self.hits(prompt) for prompt in prompts]).contexts
        self.cpu += time.process_time() - began
        self.theirs += answer["cpu"]
        self.texts += len(texts)
        for contexts, kept in zip(made, answer["kept"], strict=True):
            origin = [span for context in contexts for span in context.origin]
            self.compare({(number, place) for number, *span in origin for place in range(*span)}, kept)

    def compare(self, places: set[tuple[int, int]], kept: Sequence[Kept]) -> None:
        """`places`: numbers of texts and characters in them, that are left here. A position is left where its last
        character is."""
        for number, of_text in enumerate(kept):
            self.same += [((number, end - 1) in places) == keeps for _, end, keeps in of_text]
            self.kept += sum(keeps for *_, keeps in of_text)

    def __str__(self) -> str:
        share, ratio = sum(self.same) / len(self.same), self.theirs / self.cpu
        verdicts = [f"goal {least} {goal(got, least)}" for got, least in ((share, AGREEMENT), (ratio, SPEED))]
        return (
            f"{self.name}: {share:.4f} of {len(self.same):,} positions alike ({verdicts[0]}), of which the package "
            f"keeps {self.kept / len(self.same):.3f}; texts a second {self.texts / self.cpu:.2f}, the package's "
            f"{self.texts / self.theirs:.2f}, ratio {ratio:.2f} ({verdicts[1]})"
        )


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("methods", nargs="*", metavar="METHOD", help=f"of {', '.join(METHODS)}; default: all")
    parser.add_argument("--texts", type=int, default=TEXTS, help=f"passages, {TEXTS} by default")
    chosen = parser.parse_args()
    names, count = chosen.methods or [*METHODS], chosen.texts
    one_core()
    torch.set_num_threads(1)
    if not ENVIRONMENT.exists():
        raise SystemExit(f"there is no {ENVIRONMENT}, which has the authors' packages: make setup-compressors")
    source, found = passages()
    print(f"{count} texts of passages of {source}; {machine()}", flush=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        other_side(ENVIRONMENT / "bin/python", "benchmarks.rivals", "compressors") as ask,
    ):
        for name in names:
            texts = texts_of(name, found, count)
            model = model_of(name, Path(scratch), found)
            answer = ask("load", name=name, model=str(model))
            if "error" in answer:
                print(f"{name}: left out: {answer['error']}")
                continue
            contest = Contest(name, ask, *ours(name, model))
            contest.refiner.refine(["?"], [whole(["A first text, which is not timed."])])
            for at in range(0, count, AT_ONCE):
                contest.turn(texts[at : at + AT_ONCE])
            print(f"{contest}\n  against {answer['about']}", flush=True)


if __name__ == "__main__":
    main()
