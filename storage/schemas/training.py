"""The tables of training: labels to learn from, and its steps."""

import pyarrow as pa

from vitalfew.storage.schemas.fields import column, table

LABELS = table(
    "labels",
    "whether a passage is relevant to a question",
    [
        column("question_id", pa.int64(), "the question"),
        column("passage_id", pa.int64(), "the passage that was retrieved for it"),
        column("rater", pa.float64(), "1: relevant, 0: not, as the first to be asked says; NULL: an error", True),
        column("critic", pa.float64(), "what another made of that; NULL: nobody else was asked", True),
        column("label", pa.float64(), "what counts of the two; NULL where there is an error", True),
        column("error", pa.string(), "why there is no label, else empty"),
    ],
)

TRAINING_STEPS = table(
    "training_steps",
    "a step of a training",
    [
        column("stage", pa.string(), "trainer that took the step"),
        column("step", pa.int32(), "number of the step in the whole training, from 1"),
        column("epoch", pa.int32(), "pass over the material, from 1"),
        column("rows", pa.int32(), "examples that the step learnt from", unit="rows"),
        column("tokens", pa.int64(), "tokens that it read, padding apart", unit="tokens"),
        column("seconds", pa.float64(), "elapsed time of the step", unit="seconds"),
        column("lr", pa.float64(), "learning rate"),
        column("losses", pa.map_(pa.string(), pa.field("value", pa.float64(), False)), "losses and rates by name"),
        column(
            "quality",
            pa.float64(),
            "quality of the weights on the part that chooses among passes, where a pass ends with this step",
            nullable=True,
        ),
    ],
)
