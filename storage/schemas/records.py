"""The tables of runs and what they cost, which outlive the artifacts."""

import pyarrow as pa

from vitalfew.storage.schemas.fields import column, list_of, table

COSTS = table(
    "costs",
    "what one shard of one stage took",
    [
        column("stage", pa.string(), "stage"),
        column("shard", pa.int32(), "shard number; -1 for the work before the first shard"),
        column("run_id", pa.string(), "the run that did the work and pays for it"),
        column("model", pa.string(), "what did the work: punkt, minilm, openai:NAME; NULL: a stage without", True),
        column("started", pa.timestamp("us", "UTC"), "when the work began"),
        column("rows", pa.int64(), "rows written to the stage's first table", unit="rows"),
        column("tokens", pa.int64(), "model tokens computed, padding apart", unit="tokens"),
        column("wall_seconds", pa.float64(), "elapsed time", unit="seconds"),
        column("cpu_seconds", pa.float64(), "CPU time of the worker and of the processes it started", unit="seconds"),
        column("gpu_seconds", pa.float64(), "time a GPU was held", unit="seconds"),
        column("gpu_joules", pa.float64(), "energy of the GPU share, as NVML has it; NULL: no NVML", True, "joules"),
        column(
            "peak_memory_bytes",
            pa.int64(),
            "peak resident memory of the worker and of the processes it started",
            unit="bytes",
        ),
        column("usd", pa.float64(), "cost at configs/prices.yaml", unit="USD"),
        column("node", pa.string(), "the machine that did the work, in a cluster HOST/NODE; NULL: not recorded", True),
    ],
)

QUOTES = table(
    "quotes",
    "what a stage was expected to take",
    [
        column("stage", pa.string(), "stage"),
        column("quoted", pa.timestamp("us", "UTC"), "when it was quoted"),
        column("runner", pa.string(), "ray or serial"),
        column("workers", pa.int32(), "parallel workers it was quoted for"),
        column("rows", pa.int64(), "rows of the stage's first table", unit="rows"),
        column("tokens", pa.int64(), "model tokens to compute, padding apart", unit="tokens"),
        column("wall_seconds", pa.float64(), "elapsed time of the stage, workers side by side", unit="seconds"),
        column("cpu_seconds", pa.float64(), "CPU time of all workers", unit="seconds"),
        column("gpu_seconds", pa.float64(), "time GPUs are held", unit="seconds"),
        column("peak_memory_bytes", pa.int64(), "peak resident memory of a worker", unit="bytes"),
        column("disk_bytes", pa.int64(), "size of what stays on the disk", unit="bytes"),
        column("usd", pa.float64(), "cost at configs/prices.yaml", unit="USD"),
    ],
)

RUNS = table(
    "runs",
    "a run of a flow",
    [
        column("run_id", pa.string(), "the run"),
        column("flow", pa.string(), "flow that ran"),
        column("name", pa.string(), "index or experiment it was for"),
        column(
            "state",
            pa.string(),
            "running, completed, failed, cancelled, interrupted (its process is gone) or unreadable",
        ),
        column("started", pa.timestamp("us", "UTC"), "when it began"),
        column("ended", pa.timestamp("us", "UTC"), "when it ended", nullable=True),
        column("config", pa.string(), "parameters, JSON"),
        column("fingerprints", list_of(pa.string()), "artifacts it makes or uses, TABLE/FINGERPRINT"),
        column("error", pa.string(), "why it failed, else empty"),
    ],
)

METHODS = table(
    "methods",
    "which artifact holds which method's rows in which run",
    [
        column("run_id", pa.string(), "the evaluation"),
        column("experiment", pa.string(), "its experiment"),
        column("method", pa.string(), "a method of answering, as the experiment names it"),
        column("table_name", pa.string(), "table that holds rows of the method"),
        column("fingerprint", pa.string(), "the artifact there: join it with the table's own column"),
    ],
)
