"""Options that methods of several kinds have in common: where a model computes, which server is asked. The `Options` of
a method extend them. Their effect on results is part of the method's identity."""

from typing import Annotated

from pydantic import BaseModel, Field

from vitalfew.configs.section import NOT_IN_FINGERPRINT, Device, ModelName, Precision


class Computing(BaseModel):
    """Where a model computes, and how exactly."""

    device: Annotated[Device, NOT_IN_FINGERPRINT] = Field(
        "auto", description="auto: the GPU if there is one, else the CPU."
    )
    precision: Annotated[Precision, NOT_IN_FINGERPRINT] = Field(
        "auto", description="auto: bf16 where the hardware is faster in it, else fp16 on a GPU and fp32 on a CPU."
    )


class Batching(Computing):
    """How much a model computes at once."""

    batch_tokens: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
        None, ge=16, description="Maximum tokens per batch, including padding; default: depends on the device."
    )


class Scoring(Batching):
    """A cross-encoder that scores a question with a text."""

    model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None,
        description="Cross-encoder in the format of sentence-transformers, or CRAG's T5 evaluator, with one logit: a "
        "Hugging Face name or a directory. Default: ISREL of the embedded critic.",
    )


class CausalModel(Batching):
    """A causal language model that gives the probabilities of the tokens of a text."""

    model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None,
        description="Causal language model: a preset of generator `transformers`, a Hugging Face name, or a directory.",
    )


class Adapted(CausalModel):
    """Such a model with a LoRA adapter, or without."""

    adapter: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None, description="LoRA adapter for the model: a preset, a Hugging Face name, or a directory."
    )


class Keeping(BaseModel):
    """A filter of hits that may drop all of them."""

    at_least: int = Field(1, ge=0, description="Hits to keep in any case, best first.")


class Rewriting(Batching):
    """A language model that rewrites texts."""

    model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None, description="Model: a preset of the method, a Hugging Face name, or a directory."
    )
    max_new_tokens: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
        None, ge=1, description="Maximum tokens that the model writes per text; default: depends on the method."
    )
    max_input_tokens: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
        None, ge=8, description="Maximum tokens that the model reads at once; default: depends on the method."
    )


class ServerOptions(BaseModel):
    """A server that speaks OpenAI's chat completions, and how it is asked."""

    base_url: Annotated[str | None, NOT_IN_FINGERPRINT] = Field(
        None, description="openai: URL of the server, such as http://127.0.0.1:8000/v1; it gets the key for its host."
    )
    concurrency: Annotated[int, NOT_IN_FINGERPRINT] = Field(8, ge=1, description="openai: concurrent requests.")
    retries: Annotated[int, NOT_IN_FINGERPRINT] = Field(
        4, ge=0, description="openai: retries of a failed request, with increasing pauses."
    )
    timeout: Annotated[float, NOT_IN_FINGERPRINT] = Field(
        120.0,
        gt=0,
        le=86_400,
        description="openai: seconds for one attempt of a request, from the connection to the last byte of the answer.",
    )
    accept_errors: Annotated[bool, NOT_IN_FINGERPRINT] = Field(
        False,
        description="openai: a request that fails in spite of its retries becomes a row with an error, which stays. "
        "Otherwise the run fails, and the same command sends the request again.",
    )
    reasoning_effort: str | None = Field(
        None,
        description="openai: how long a reasoning model thinks, such as minimal, low, medium or high; default: as the "
        "server has it.",
    )
