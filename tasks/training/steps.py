"""Steps of training: examples into labelled windows and batches, the loss, the optimiser and its checkpoint.

Loss: marginal likelihood of the gold starts and ends, as a question has several gold answers (Clark & Gardner, 2018,
arXiv 1710.10723, section 3.2), for windows that have the answer; and for every window the cross entropy of whether it
has it. DPR (section 6.1) instead sets a question's contexts against each other in one softmax; judged one by one, they
can be put into batches of like length.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Encoding, Tokenizer
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from storage.parquet import write_atomically
from tasks.encoders.batches import batches
from tasks.generators.reader_model import ReaderModel
from tasks.generators.windows import Window, encoded, padded, special, windows
from tasks.training.articles import CharSpan
from tasks.training.examples import Example

WARM_UP = 0.05
"""Share of the training in which the learning rate rises."""
WEIGHT_DECAY = 0.01
CLIP = 1.0
"""Norm of the gradient, at most."""
MASKED = 0.1
"""Share of the question's tokens that are masked, so that no single one is relied on."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A window and the positions of the first and last token of each answer in it; none: it has no answer."""

    window: Window
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def labelled(tokenizer: Tokenizer, examples: Iterable[Example]) -> list[Labelled]:
    examples = list(examples)
    encodings = encoded(tokenizer, [text for each in examples for text in (each.question, each.context)])
    rows = []
    for example in examples:
        context = encodings[example.context]
        spans = [span for each in example.spans if (span := _tokens(context, each))]
        for window in windows(tokenizer, encodings[example.question], context):
            inside = [(first, last) for first, last in spans if window.start <= first and last < window.stop]
            starts = sorted({window.position(first) for first, _ in inside})
            ends = sorted({window.position(last) for _, last in inside})
            rows.append(Labelled(window, tuple(starts), tuple(ends)))
    return rows


def _tokens(context: Encoding, span: CharSpan) -> tuple[int, int] | None:
    """The first and last token of a character range."""
    first, last = context.char_to_token(span[0]), context.char_to_token(span[1] - 1)
    return None if first is None or last is None else (first, last)


def shuffled_batches(rows: Sequence[Labelled], budget: int, draw: random.Random) -> list[list[Labelled]]:
    """Rows of like length together, else in random order."""
    mixed = draw.sample(rows, len(rows))
    made = [[mixed[row] for row in batch] for batch in batches([len(row.window.ids) for row in mixed], budget)]
    draw.shuffle(made)
    return made


class Learner:
    """A model in training: one optimiser step per batch, the same for the same seed."""

    def __init__(self, model: ReaderModel, tokenizer: Tokenizer, learning_rate: float, seed: int) -> None:
        self.model, self.seed, self.peak = model, seed, learning_rate
        self.padding, self.mask = special(tokenizer, "[PAD]"), special(tokenizer, "[MASK]")
        self.trained = model.trained()
        self.optimizer = torch.optim.AdamW(self.trained.values(), learning_rate, weight_decay=WEIGHT_DECAY, fused=True)
        self.device = next(model.parameters()).device

    def step(self, rows: Sequence[Labelled], rows_per_step: float, progress: float, number: int) -> float:
        """Learn from one batch. Returns the loss per row.

        `rows_per_step`: of a mean batch: every row counts alike, however many are in its batch. `progress`: share of
        the training that is done; `number`: of the step, which the random numbers follow from.
        """
        torch.manual_seed(self.seed * 1_000_003 + number)
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak * min(progress / WARM_UP, (1 - progress) / (1 - WARM_UP))
        self.model.train()
        loss = self._loss(rows)
        (loss / rows_per_step).backward()
        torch.nn.utils.clip_grad_norm_(self.trained.values(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item() / len(rows)

    def _loss(self, rows: Sequence[Labelled]) -> Tensor:
        """Summed over the rows."""
        batch = padded([row.window for row in rows], self.padding, self.device)
        hidden = (batch.types == 0) & (batch.mask == 1) & (torch.rand(batch.ids.shape, device=self.device) < MASKED)
        hidden[:, 0] = False  # [CLS]
        batch.ids.masked_fill_(hidden, self.mask)
        start, end, answerable = self.model(batch)
        has_answer = torch.tensor([float(bool(row.starts)) for row in rows], device=self.device)
        loss = binary_cross_entropy_with_logits(answerable, has_answer, reduction="sum")
        known = [number for number, row in enumerate(rows) if row.starts]
        for logits, gold in ((start, [rows[n].starts for n in known]), (end, [rows[n].ends for n in known])):
            if known:
                loss = loss - _marginal(logits[known], gold).sum() / 2
        return loss

    def save(self, path: Path, notes: dict[str, str]) -> None:
        """Everything that the next step depends on, and `notes`."""
        tensors = {name: parameter.detach() for name, parameter in self.trained.items()}
        for name, parameter in self.trained.items():
            tensors |= {f"{name}|{key}": value for key, value in self.optimizer.state[parameter].items()}
        write_atomically(path, lambda temporary: save_file(tensors, temporary, notes))

    @torch.no_grad()
    def restore(self, path: Path) -> None:
        with safe_open(path, "pt", device=str(self.device)) as file:
            for name in file.keys():  # noqa: SIM118 (it is no mapping)
                parameter, _, key = name.partition("|")
                if key:
                    self.optimizer.state[self.trained[parameter]][key] = file.get_tensor(name)
                else:
                    self.trained[name].copy_(file.get_tensor(name))


def _marginal(logits: Tensor, gold: Sequence[tuple[int, ...]]) -> Tensor:
    """Logarithm of the probability of all gold positions of each row together."""
    right = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
    for row, positions in enumerate(gold):
        right[row, list(positions)] = True
    return logits.log_softmax(-1).masked_fill(~right, -torch.inf).logsumexp(-1)
