"""Deployments for the workers of a Prefect work pool, and what a worker does before a run."""
