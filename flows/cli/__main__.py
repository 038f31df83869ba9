"""`python -m vitalfew.flows.cli`, the command `vitalfew`."""

from vitalfew.flows.cli.main import app

app()
