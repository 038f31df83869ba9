"""A corpus that is kept up to date: what a file of `configs/corpora/` says of it."""

from pathlib import Path

from pydantic import Field

from configs.schema import IndexCorpus, Place


class Corpus(IndexCorpus):
    """The settings of its index, and when it is re-encoded. The file's name is its own, and that of its index."""

    cron: str | None = Field(
        None, description="When it is re-encoded, '0 3 * * *': every night at three; default: only when asked for."
    )
    timezone: str = Field("UTC", description="Of the cron expression, for example Europe/Berlin.")


class ReEncode(Place):
    """Parameters of the flow `re_encode`."""

    corpus: str = Field(description="A corpus of configs/corpora, or of the directory `corpora`.")
    corpora: Path | None = Field(
        None, description="Directory of corpora of your own; default: `corpora` beside the store."
    )
    quote: bool = Field(False, description="Quote what it will take before it runs: the run then shows both.")
