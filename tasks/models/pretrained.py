"""A model of Hugging Face read from its directory: safetensors alone, no code of its own, and no weight missing."""

from pathlib import Path
from typing import Any

from vitalfew.tasks.models.files import UnsupportedModel


def pretrained(kind: Any, folder: Path, advice: str, spare: str | None = None, **settings: Any) -> Any:
    """The PreTrainedModel of a `kind`, a class of transformers, an Auto class too; `settings`: of `from_pretrained`.

    Raises UnsupportedModel where weights are missing, but for those of the part named `spare`; `advice` ends its
    message. OSError, ValueError: it is none of that kind."""
    model, report = kind.from_pretrained(
        folder,
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=True,
        output_loading_info=True,
        **settings,
    )
    if missing := sorted(name for name in report["missing_keys"] if spare not in name.split(".")):
        raise UnsupportedModel(
            f"{folder}: {len(missing)} weights of {type(model).__name__} are missing ({missing[0]}, …); {advice}"
        )
    return model
