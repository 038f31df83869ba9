"""`python -m flows.cli`, the command `vitalfew`."""

from flows.cli.main import app

app()
