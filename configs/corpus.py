"""A corpus that is kept up to date: what a file of `configs/corpora/` says of it."""

from pydantic import Field

from vitalfew.configs.schema import IndexCorpus


class Corpus(IndexCorpus):
    """Settings of the corpus's index, and when to re-encode it. Corpus and index are named after the file."""

    cron: str | None = Field(
        None,
        description="Cron schedule of re-encoding, such as `0 3 * * *` for 3 a.m. daily; default: on request only.",
    )
    timezone: str = Field("UTC", description="Time zone of `cron`, for example Europe/Berlin.")
