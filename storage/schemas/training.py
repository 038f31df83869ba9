"""The tables of training: labels to learn from, and its steps."""

import pyarrow as pa

from vitalfew.storage.schemas.fields import column, table

LABELS = table(
    "labels",
    "a judgement of a passage's relevance to a question",
    [
        column("question_id", pa.int64(), "the question"),
        column("passage_id", pa.int64(), "passage retrieved for the question"),
        column("rater", pa.float64(), "first judgement: 1 if relevant, 0 if not; NULL after an error", True),
        column("critic", pa.float64(), "second judgement, which checks the first; NULL if there was none", True),
        column(
            "label", pa.float64(), "second judgement, or the first if there is no second; NULL after an error", True
        ),
        column("error", pa.string(), "reason if there is no label, else empty"),
    ],
)

TRAINING_STEPS = table(
    "training_steps",
    "a training step",
    [
        column("stage", pa.string(), "trainer that took the step"),
        column("step", pa.int32(), "number of the step in the whole training, from 1"),
        column("epoch", pa.int32(), "pass over the training data, from 1"),
        column("rows", pa.int32(), "number of examples in the step", unit="rows"),
        column("tokens", pa.int64(), "number of tokens in the step, without padding", unit="tokens"),
        column("seconds", pa.float64(), "elapsed time of the step", unit="seconds"),
        column("lr", pa.float64(), "learning rate"),
        column("losses", pa.map_(pa.string(), pa.field("value", pa.float64(), False)), "losses and rates by name"),
        column(
            "quality",
            pa.float64(),
            "quality of the weights on the data for choosing an epoch, at the last step of an epoch, else NULL",
            nullable=True,
        ),
    ],
)
