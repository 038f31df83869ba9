"""A corpus that is kept up to date: what a file of `configs/corpora/` says of it."""

from pydantic import Field

from vitalfew.configs.schema import IndexCorpus


class Corpus(IndexCorpus):
    """The settings of its index, and when it is re-encoded. The file's name is its own, and that of its index."""

    cron: str | None = Field(
        None, description="When it is re-encoded, `0 3 * * *`: every night at three; default: only when asked for."
    )
    timezone: str = Field("UTC", description="Time zone of `cron`, for example Europe/Berlin.")
