"""Provence's network: DeBERTa-v3 with a head that ranks a passage and one that says which of its tokens to keep.

Chirkova et al., 2025 (arXiv 2501.16214, section 3). Names and shapes of the weights are those of the authors'
`DebertaV2ForCompressionAndRanking` (github.com/naver/bergen, scripts/provence/modeling_provence.py), which
naver/provence-reranker-debertav3-v1 extends: `deberta`, `pooler` and `classifier`, whose first logit is the score, and
`token_classifier` with two logits a token, the second for keeping it. The network is written again over transformers'
DeBERTa-v2; the code that comes with the checkpoint is not run.

The published checkpoint was not at hand: this was run with a tiny model of the same architecture, and never with it.
"""

from typing import Any

from safetensors.torch import load_file
from torch import Tensor, nn

from vitalfew.tasks.models.encoder.recipe import read_json
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.small.pairs import PairModel, exact_heads

PUBLISHED = "naver/provence-reranker-debertav3-v1"
OWN_KEYS = ("architectures", "auto_map", "model_type", "transformers_version", "torch_dtype", "dtype")
"""Keys of config.json that describe the checkpoint's code, not DeBERTa."""


class Network(nn.Module):
    """`labels`: logits of the ranking head; the first one counts."""

    def __init__(self, config: Any, labels: int) -> None:
        from transformers import DebertaV2Model
        from transformers.models.deberta_v2.modeling_deberta_v2 import ContextPooler

        super().__init__()
        self.deberta = DebertaV2Model(config)
        self.pooler = ContextPooler(config)
        self.classifier: nn.Module = nn.Linear(config.hidden_size, labels)
        self.token_classifier: nn.Module = nn.Linear(config.hidden_size, 2)

    def forward(self, **inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (n,) and probabilities of being kept (n, longest)."""
        states = self.deberta(**inputs).last_hidden_state
        keep = self.token_classifier(states).softmax(dim=-1)[..., 1]
        return self.classifier(self.pooler(states))[:, 0], keep


class ProvenceModel(PairModel):
    """A checkpoint with Provence's layout."""

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "class": "Provence"}

    def read_config(self) -> Any:
        from transformers import DebertaV2Config

        stated = read_json(self.folder / "config.json")
        return DebertaV2Config(**{key: value for key, value in stated.items() if key not in OWN_KEYS})

    def load(self) -> nn.Module:
        weights: dict[str, Tensor] = {}
        for file in sorted(self.folder.glob("*.safetensors")):
            weights |= load_file(file)
        labels = len(weights["classifier.weight"]) if "classifier.weight" in weights else 1
        network = Network(self.config, labels)
        try:
            report = network.load_state_dict({name: value.float() for name, value in weights.items()}, strict=False)
        except RuntimeError as error:
            raise UnsupportedModel(f"{self.folder}: {str(error).splitlines()[-1].strip()}") from None
        if report.missing_keys:
            raise UnsupportedModel(
                f"{self.folder} is not a checkpoint of Provence: {len(report.missing_keys)} weights are "
                f"missing ({report.missing_keys[0]}, …): --set {self.section}.model={PUBLISHED}, or a "
                "directory"
            )
        return exact_heads(network, "classifier", "token_classifier")

    def outputs(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return self.network(**inputs)
