"""Options that methods of several kinds have in common: where a model computes, which server is asked. A method's own
`Options` extend them. What they change of a result is in the method's identity."""

from typing import Annotated

from pydantic import BaseModel, Field

from vitalfew.configs.section import NOT_IN_FINGERPRINT, Device, ModelName, Precision


class Computing(BaseModel):
    """Where a model computes, and how exactly."""

    device: Annotated[Device, NOT_IN_FINGERPRINT] = Field("auto", description="auto: the GPU where there is one.")
    precision: Annotated[Precision, NOT_IN_FINGERPRINT] = Field(
        "auto", description="auto: bf16 where it is native, else fp16 on a GPU and fp32 on a CPU."
    )


class Batching(Computing):
    """How much a model computes at once."""

    batch_tokens: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
        None, ge=16, description="Tokens in a batch, padding included, at most; default: what suits the device."
    )


class Scoring(Batching):
    """A cross-encoder that scores a question with a text."""

    model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None,
        description="A cross-encoder as sentence-transformers saves it, or CRAG's T5 evaluator, one logit: a Hugging "
        "Face name or a directory; default: the embedded critic's ISREL.",
    )


class CausalModel(Batching):
    """A causal language model that tells how probable the tokens of a text are."""

    model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None,
        description="A causal language model: a preset of generator `transformers`, a Hugging Face name, or a "
        "directory.",
    )


class Adapted(CausalModel):
    """Such a model with a LoRA adapter, or without."""

    adapter: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None, description="A LoRA adapter for the model: a preset, a Hugging Face name, or a directory."
    )


class Keeping(BaseModel):
    """A filter of hits that need not let any pass."""

    at_least: int = Field(1, ge=0, description="Hits that are passed on in any case, the best first.")


class Rewriting(Batching):
    """A language model that rewrites texts."""

    model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None, description="One of the method's presets, a Hugging Face name, or a directory."
    )
    max_new_tokens: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
        None, ge=1, description="Tokens that the model writes for a text, at most; default: the method's own."
    )
    max_input_tokens: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
        None, ge=8, description="Tokens that the model reads at once, at most; default: the method's own."
    )


class Server(BaseModel):
    """A server that speaks OpenAI's chat completions, and how it is asked."""

    base_url: Annotated[str | None, NOT_IN_FINGERPRINT] = Field(
        None, description="openai: the server, http://127.0.0.1:8000/v1; it gets the key that is meant for its host."
    )
    concurrency: Annotated[int, NOT_IN_FINGERPRINT] = Field(8, ge=1, description="openai: requests under way at once.")
    retries: Annotated[int, NOT_IN_FINGERPRINT] = Field(
        4, ge=0, description="openai: retries of a failed request, with growing pauses."
    )
    timeout: Annotated[float, NOT_IN_FINGERPRINT] = Field(
        120.0, gt=0, description="openai: seconds that an answer may take."
    )
