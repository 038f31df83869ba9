"""The tables of runs and what they cost, which outlive the artifacts."""

import pyarrow as pa

from vitalfew.storage.schemas.fields import column, list_of, table

COSTS = table(
    "costs",
    "the cost of one shard of one stage",
    [
        column("stage", pa.string(), "stage"),
        column("shard", pa.int32(), "shard number; -1 for the work before the first shard"),
        column("run_id", pa.string(), "run that did the work and is charged for it"),
        column(
            "model",
            pa.string(),
            "model that did the work: punkt, minilm, openai:NAME; NULL for a stage without one",
            True,
        ),
        column("started", pa.timestamp("us", "UTC"), "start of the work"),
        column("rows", pa.int64(), "rows written to the stage's first table", unit="rows"),
        column("tokens", pa.int64(), "model tokens computed, without padding", unit="tokens"),
        column("wall_seconds", pa.float64(), "elapsed time", unit="seconds"),
        column("cpu_seconds", pa.float64(), "CPU time of the worker and of the processes it started", unit="seconds"),
        column("gpu_seconds", pa.float64(), "time a GPU was held", unit="seconds"),
        column(
            "gpu_joules", pa.float64(), "energy of the GPU share, measured by NVML; NULL without NVML", True, "joules"
        ),
        column(
            "peak_memory_bytes",
            pa.int64(),
            "peak resident memory of the worker and of the processes it started",
            unit="bytes",
        ),
        column("usd", pa.float64(), "cost at the prices in configs/prices.yaml", unit="USD"),
        column("node", pa.string(), "machine that did the work, HOST/NODE in a cluster; NULL if not recorded", True),
    ],
)

QUOTES = table(
    "quotes",
    "the expected cost of a stage",
    [
        column("stage", pa.string(), "stage"),
        column("quoted", pa.timestamp("us", "UTC"), "time of the quote"),
        column("runner", pa.string(), "ray or serial"),
        column("workers", pa.int32(), "number of parallel workers that the quote assumes"),
        column("rows", pa.int64(), "rows of the stage's first table", unit="rows"),
        column("tokens", pa.int64(), "model tokens to compute, without padding", unit="tokens"),
        column("wall_seconds", pa.float64(), "elapsed time of the stage, with all workers in parallel", unit="seconds"),
        column("cpu_seconds", pa.float64(), "CPU time of all workers", unit="seconds"),
        column("gpu_seconds", pa.float64(), "time GPUs are held", unit="seconds"),
        column("peak_memory_bytes", pa.int64(), "peak resident memory of a worker", unit="bytes"),
        column("disk_bytes", pa.int64(), "size of the files that stay on disk", unit="bytes"),
        column("usd", pa.float64(), "cost at the prices in configs/prices.yaml", unit="USD"),
    ],
)

RUNS = table(
    "runs",
    "a run of a flow",
    [
        column("run_id", pa.string(), "the run"),
        column("flow", pa.string(), "flow that ran"),
        column("name", pa.string(), "name of its index or experiment"),
        column(
            "state",
            pa.string(),
            "running, completed, failed, cancelled, interrupted (its process is gone) or unreadable",
        ),
        column("started", pa.timestamp("us", "UTC"), "start time"),
        column("ended", pa.timestamp("us", "UTC"), "end time", nullable=True),
        column("config", pa.string(), "parameters, JSON"),
        column("fingerprints", list_of(pa.string()), "artifacts that it writes or uses, TABLE/FINGERPRINT"),
        column("error", pa.string(), "reason if it failed, else empty"),
    ],
)

METHODS = table(
    "methods",
    "the artifact that holds a method's rows in one table of a run",
    [
        column("run_id", pa.string(), "run of the evaluation"),
        column("experiment", pa.string(), "its experiment"),
        column("method", pa.string(), "name of the method in the experiment"),
        column("table_name", pa.string(), "table that holds the rows"),
        column("fingerprint", pa.string(), "artifact in that table; join on the column `fingerprint` of the table"),
    ],
)
