"""`seq2seq`: a policy that writes with any encoder-decoder of transformers, T5-small for one (Oreo's backbone).

Oreo's form (arXiv 2502.13019, sections 2.1 and 3.3): instruction, question and texts are one input, and an action
is a token of the vocabulary. All weights are trained, in all three trainings. Texts keep their order; those
that do not fit are left out, the last ones first. The instruction is ours.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vitalfew.tasks.models.batches import padded_rows
from vitalfew.tasks.models.encoder.recipe import read_config
from vitalfew.tasks.models.files import UnsupportedModel, require_safetensors
from vitalfew.tasks.models.small.copied import CopiedRun
from vitalfew.tasks.models.small.policy import Decoded, Policy, PolicyOutput, PolicySource

INSTRUCTION = "Write what these texts say to answer the question.\nQuestion: {question}\n"


class Seq2SeqMemory(NamedTuple):
    """The encoder's states, float32 (n, longest, d), and their mask, False for padding."""

    states: Tensor
    mask: Tensor

    def of(self, rows: Sequence[int]) -> "Seq2SeqMemory":
        index = torch.tensor(rows, device=self.states.device)
        return Seq2SeqMemory(self.states[index], self.mask[index])


class Seq2SeqState(NamedTuple):
    """Keys and values of the steps so far, which transformers keeps."""

    cache: Any

    def of(self, rows: Sequence[int]) -> "Seq2SeqState":
        """This very state, with its rows chosen."""
        self.cache.reorder_cache(torch.tensor(rows))
        return self


def check(directory: Path, setting: str = "sft.base") -> None:
    """Raises UnsupportedModel where a directory, which that setting names, has no encoder-decoder in safetensors."""
    require_safetensors(directory, setting)
    if not read_config(directory).is_encoder_decoder:
        raise UnsupportedModel(
            f"{directory} is not an encoder-decoder, which policy seq2seq needs, for example T5-small"
        )


class Seq2SeqPolicy(Policy):
    """Any encoder-decoder of transformers."""

    def __init__(self, directory: Path, dtype: torch.dtype, limit: int, dropout: float = 0.0) -> None:
        """Raises UnsupportedModel, FileNotFoundError."""
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        super().__init__()
        check(directory)
        self.directory, self.dtype, self.limit, self.frozen = directory, dtype, limit, False
        self.model = AutoModelForSeq2SeqLM.from_pretrained(
            directory, dtype=torch.float32, use_safetensors=True, local_files_only=True, trust_remote_code=False
        )
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout
        self.tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
        config = self.model.config
        self.end, self.begin = int(config.eos_token_id), int(config.decoder_start_token_id)
        self.padding = int(config.pad_token_id or 0)
        self.width = int(config.d_model)

    def trained(self) -> dict[str, nn.Parameter]:
        return dict(self.named_parameters())

    def freeze(self) -> None:
        """Change nothing: all weights learn."""

    def decoder(self) -> dict[str, nn.Parameter]:
        return self.trained()

    def read(self, questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[PolicySource]:
        return [self._source(question, own) for question, own in zip(questions, texts, strict=True)]

    def _source(self, question: str, texts: Sequence[str]) -> PolicySource:
        parts = [INSTRUCTION.format(question=question), *(f"{text}\n" for text in texts)]
        pieces: list[list[int]] = self.tokenizer(parts, add_special_tokens=False)["input_ids"]
        ids = pieces[0][: self.limit - 1]
        kept = 0
        for piece in pieces[1:]:
            if len(ids) + len(piece) >= self.limit:
                break
            ids, kept = ids + piece, kept + 1
        return PolicySource(tuple(texts[:kept]), len(ids) + 1, len(texts) - kept, (*ids, self.end))

    def encode(self, sources: Sequence[PolicySource]) -> Seq2SeqMemory:
        padded = padded_rows([source.content for source in sources], self.padding)
        ids, mask = (rows.to(self.model.device) for rows in padded)
        with self._half():
            states = self.model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        return Seq2SeqMemory(states.float(), mask.bool())

    def _half(self) -> torch.autocast:
        return torch.autocast(self.model.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32)

    def decode(self, memory: Seq2SeqMemory, actions: Tensor) -> Decoded:
        first = torch.full((len(actions), 1), self.begin, device=actions.device)
        out = self._out(memory, torch.cat([first, actions[:, :-1]], 1), use_cache=False, output_hidden_states=True)
        return Decoded(out.logits.float(), out.decoder_hidden_states[-1].float())

    def _out(self, memory: Seq2SeqMemory, ids: Tensor, **options: Any) -> Any:
        mask = memory.mask.long()
        with self._half():
            return self.model(encoder_outputs=(memory.states,), attention_mask=mask, decoder_input_ids=ids, **options)

    def start(self, memory: Seq2SeqMemory) -> Seq2SeqState:
        from transformers import DynamicCache, EncoderDecoderCache

        return Seq2SeqState(EncoderDecoderCache(DynamicCache(), DynamicCache()))

    def step(self, memory: Seq2SeqMemory, state: Seq2SeqState, last: Tensor | None) -> tuple[Tensor, Seq2SeqState]:
        if last is None:
            last = torch.full((len(memory.mask),), self.begin, device=memory.mask.device)
        out = self._out(memory, last[:, None], past_key_values=state.cache, use_cache=True)
        return out.logits[:, -1].float(), Seq2SeqState(out.past_key_values)

    def target(self, source: PolicySource, text: str, runs: Sequence[CopiedRun]) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [*ids, self.end] if ids else []

    def write(self, source: PolicySource, actions: Sequence[int]) -> PolicyOutput:
        return PolicyOutput(str(self.tokenizer.decode(list(actions), skip_special_tokens=True)).strip())

    def known(self, memory: Seq2SeqMemory) -> tuple[Tensor, Tensor]:
        return memory.states, memory.mask

    def files(self) -> dict[str, bytes]:
        """The model's directory, by file: weights as safetensors, settings, and the tokenizer as it was."""
        from safetensors.torch import save

        own = self.model.named_parameters()
        tensors = {name: weight.detach().cpu().contiguous() for name, weight in own}
        kept = [path for path in self.directory.iterdir() if path.suffix in (".json", ".model", ".txt")]
        skipped = ("model.safetensors.index.json", "figures.json", "held_out.txt")
        files = {path.name: path.read_bytes() for path in kept if path.name not in skipped}
        return {**files, "model.safetensors": save(tensors, {"format": "pt"})}
