"""`oreo_contrastive`: Oreo's contrastive multitask learning: better texts nearer to what was read.

Equation 2 of arXiv 2502.13019 (`pairwise_loss`), plus α times the fine-tuning's loss. Every pair of candidates of a
question is compared: the one that is more like the gold evidence text should be nearer to what is read, by a margin
that grows with the distance of their ranks. Pairs whose scores differ by no more than `TIE` are left out, as in CoNT
(An et al. 2022, arXiv 2205.14690), which the paper follows.

The candidates of a question are the policy's own beams, the gold text, and gold texts of other questions of the step;
at most 12, ranked by ROUGE-L with the gold text. A step is read in parts that fit into memory: texts of other parts are
embedded once a step, by the weights of that step, and pass on no gradient. E is not specified; ours, after CoNT: the
mean of ReLU(Linear(state)) over what was read or written, one layer for both. It is trained with the rest, and not
kept. A copier's encoder is frozen, ours: a CPU has no time for it; an encoder-decoder learns as a whole. Beams are made
in the step that learns from them, by the weights of that step.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from scipy.stats import rankdata
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from vitalfew.tasks.metrics.answers import rouge_scorer
from vitalfew.tasks.models.small.policy import beams
from vitalfew.tasks.trainers.base import Updates
from vitalfew.tasks.trainers.oreo.training import Material, OreoOptions, OreoTrainer, PartLoss

TIE = 0.01


def pairwise_loss(similarity: Tensor, scores: Sequence[float], margin: float) -> Tensor:
    """Σ max{0, cos(−) − cos(+) + η (rank(−) − rank(+))} over the pairs of a question's candidates.

    `similarity`: cosines of the candidates with what is read, float32 (n,); `scores`: the higher the better; their
    ranks, from 1, follow from them; `margin`: η.
    """
    ranks = torch.tensor(ranked(scores), device=similarity.device, dtype=similarity.dtype)
    values = torch.tensor(scores, device=similarity.device, dtype=similarity.dtype)
    better = values[:, None] - values[None, :] > TIE
    gaps = similarity[None, :] - similarity[:, None] + margin * (ranks[None, :] - ranks[:, None])
    return gaps.clamp(min=0)[better].sum()


def ranked(scores: Sequence[float]) -> list[int]:
    """Places from 1, best first; of equals the earlier one is better."""
    return list(rankdata([-score for score in scores], method="ordinal").tolist())


class ContrastCandidate(NamedTuple):
    """A text and the `actions` that write it; another question's text comes without actions, with an `embedding`."""

    kind: str
    text: str
    actions: list[int]
    embedding: Tensor | None = None


class OreoContrastive(OreoTrainer):
    """Oreo's second training: of two texts, the better one moves nearer to the chunks."""

    class Options(OreoOptions, extra="forbid"):
        epochs: int = Field(1, ge=1, description="Passes over the questions; in the paper: 3.")
        learning_rate: float = Field(5e-5, gt=0, description="Peak learning rate, after a linear rise; it then falls.")
        batch: int = Field(8, ge=1, description="Questions per step.")
        dropout: float = Field(0.0, ge=0, lt=1, description="Dropout in the decoder.")
        beams: int = Field(8, ge=1, description="Texts that the policy writes per question, by beam search.")
        candidates: int = Field(12, ge=2, description="Maximum number of candidates per question.")
        margin: float = Field(0.01, ge=0, description="Margin between neighbours in rank (η).")
        alpha: float = Field(0.5, ge=0, description="Weight of the fine-tuning loss (α).")

    version: ClassVar[str] = "5"
    golds: list[list[ContrastCandidate]]
    """The gold texts of every part of a step; none where it has one part."""

    def prepare(self) -> None:
        self.model.freeze()
        self.shared = nn.Linear(self.model.width, self.model.width).to(self.device)
        layer = {f"shared.{name}": own for name, own in self.shared.named_parameters()}
        self.updates = Updates({**self.model.decoder(), **layer}, self.options.learning_rate)

    def part_loss(self, part: Sequence[Material], parts: Sequence[Sequence[Material]]) -> PartLoss:
        count = sum(map(len, parts))
        if part is parts[0]:
            self.golds = [self._golds(own) if len(parts) > 1 else [] for own in parts]
        others = [gold for own, golds in zip(parts, self.golds, strict=True) if own is not part for gold in golds]
        contrastive, sft, records = self._losses(part, others)
        loss = (contrastive + self.options.alpha * sft) / count
        summands = {"contrastive": contrastive.item() / count, "sft": sft.item() / count}
        return loss, summands, {"oreo_candidates": records}

    @torch.no_grad()
    def _golds(self, part: Sequence[Material]) -> list[ContrastCandidate]:
        """The gold texts of a part, as candidates of other parts' questions."""
        memory = self.model.encode([source for _, source, _ in part])
        _, present, states = self.model.log_probabilities(memory, [target for _, _, target in part])
        embedded = self._embedded(states, present)
        return [
            ContrastCandidate("batch", example.target, [], own)
            for (example, _, _), own in zip(part, embedded, strict=True)
        ]

    def _losses(
        self, part: Sequence[Material], elsewhere: Sequence[ContrastCandidate]
    ) -> tuple[Tensor, Tensor, list[Mapping[str, Any]]]:
        """The two losses of a part, summed over its questions, and the rows of `oreo_candidates`. `elsewhere`: the gold
        texts of the step's other parts."""
        options, model = self.options, self.model
        model.eval()
        memory = model.encode([source for _, source, _ in part])
        drawn = beams(model, memory, len(part), options.max_new_tokens, options.beams)
        model.train()
        targets = [target for _, _, target in part]
        logprobs, present, states = model.log_probabilities(memory, targets)
        golds = self._embedded(states, present)
        read = self._embedded(*model.known(memory))
        contrastive = torch.zeros((), device=self.device)
        records: list[Mapping[str, Any]] = []
        for row, (example, source, target) in enumerate(part):
            own = [ContrastCandidate("gold", example.target, target)]
            own += [ContrastCandidate("beam", model.write(source, one.actions).text, one.actions) for one in drawn[row]]
            others = [
                ContrastCandidate("batch", other[0].target, [], golds[place])
                for place, other in enumerate(part)
                if place != row
            ]
            others += elsewhere
            distinct = {one.text: one for one in reversed([*own, *others])}
            chosen = [one for one in [*own, *others] if distinct[one.text] is one][: options.candidates]
            embeddings, summed = self._candidates(memory.of([row] * sum(bool(one.actions) for one in chosen)), chosen)
            rouge = rouge_scorer("rougeL")
            scores = [float(rouge.score(example.target, one.text)["rougeL"].fmeasure) for one in chosen]
            similarity = cosine_similarity(read[row][None], embeddings, dim=-1)
            contrastive = contrastive + pairwise_loss(similarity, scores, options.margin)
            places = ranked(scores)
            records += [
                {
                    "question_id": example.question_id,
                    "epoch": self.epoch + 1,
                    "rank": rank,
                    "kind": one.kind,
                    "text": one.text,
                    "rouge": score,
                    "logprob": logprob,
                }
                for one, rank, score, logprob in zip(chosen, places, scores, summed, strict=True)
            ]
        sft = -(logprobs.sum(1) / present.sum(1)).sum()
        return contrastive, sft, records

    def _candidates(self, memory: Any, chosen: Sequence[ContrastCandidate]) -> tuple[Tensor, list[float | None]]:
        """The embeddings (n, d) of a question's candidates, and their log-probabilities, None of another question's
        text."""
        actions = [one.actions for one in chosen if one.actions]
        logprobs, present, states = self.model.log_probabilities(memory, actions)
        own = iter(zip(self._embedded(states, present), logprobs.sum(1).tolist(), strict=True))
        pairs = [next(own) if one.embedding is None else (one.embedding, None) for one in chosen]
        return torch.stack([embedding for embedding, _ in pairs]), [value for _, value in pairs]

    def _embedded(self, states: Tensor, present: Tensor) -> Tensor:
        """E: (n, length, d) → (n, d)."""
        weights = present.float() / present.sum(1, keepdim=True).clamp(min=1)
        return (self.shared(states).relu() * weights[..., None]).sum(1)
