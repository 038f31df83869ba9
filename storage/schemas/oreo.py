"""The tables of Oreo: what its training is made of."""

import pyarrow as pa

from vitalfew.storage.schemas.fields import column, list_of, table

GOLD_CONTEXTS = table(
    "gold_contexts",
    "a collector's attempt at the evidence text of a question",
    [
        column("question_id", pa.int64(), "the question"),
        column(
            "attempt",
            pa.int32(),
            "number of the attempt: 0 without the answer; from 1, the collector was given the answer",
        ),
        column("text", pa.string(), "evidence text, or empty if there is none"),
        column("verdict", pa.string(), "kept, or the reason for dropping it"),
        column("collector", pa.string(), "collector that wrote it"),
        column("tokens", pa.int64(), "tokens that a model computed for it, including prompts", unit="tokens"),
        column("seconds", pa.float64(), "time taken", unit="seconds"),
        column("error", pa.string(), "reason if a model gave no text, else empty"),
    ],
)

CHUNK = pa.struct(
    [
        pa.field("passage_id", pa.int64(), nullable=False),
        pa.field("title", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
    ]
)

COPIED = pa.struct(
    [
        pa.field("chunk", pa.int32(), nullable=False),
        pa.field("start", pa.int32(), nullable=False),
        pa.field("end", pa.int32(), nullable=False),
    ]
)

OREO_EXAMPLES = table(
    "oreo_examples",
    "a question with the evidence text that Oreo learns to write",
    [
        column("question_id", pa.int64(), "the question"),
        column("question", pa.string(), "text of the question"),
        column("answers", list_of(pa.string()), "gold answers, any of which is correct"),
        column("chunks", list_of(CHUNK), "retrieved chunks, best first; the title is empty if none is shown"),
        column("target", pa.string(), "the evidence text"),
        column(
            "copied",
            list_of(COPIED),
            "spans of the chunks, as shown, that make up the target (chunk from 0, code points); empty if the target "
            "is not copied from the chunks",
        ),
        column("attempt", pa.int32(), "attempt in `gold_contexts` that was kept"),
        column("split", pa.string(), "learn, choose or held_out, decided by the article of its first gold passage"),
    ],
)

OREO_CANDIDATES = table(
    "oreo_candidates",
    "a text that Oreo's contrastive training compared with others",
    [
        column("question_id", pa.int64(), "the question"),
        column("epoch", pa.int32(), "pass over the training data, from 1"),
        column("rank", pa.int32(), "rank among the candidates by ROUGE-L, from 1"),
        column(
            "kind", pa.string(), "beam (written by the policy), gold (the target) or batch (another question's target)"
        ),
        column("text", pa.string(), "the text"),
        column("rouge", pa.float64(), "ROUGE-L with the question's target"),
        column(
            "logprob",
            pa.float64(),
            "natural logarithm of its probability; NULL for another question's target",
            True,
            "nats",
        ),
    ],
)

ROLLOUTS = table(
    "rollouts",
    "a text that Oreo's reinforcement learning sampled",
    [
        column("step", pa.int32(), "step of the training, from 1"),
        column("question_id", pa.int64(), "the question"),
        column("text", pa.string(), "the text"),
        column("answer", pa.string(), "generator's answer from the text"),
        column("rouge", pa.float64(), "agreement of that answer with the gold answers, 0 to 1"),
        column("kl", pa.float64(), "log-probability minus the log-probability under the initial policy", False, "nats"),
        column("reward", pa.float64(), "rouge if the text ended by itself, else 0, minus the penalty on kl"),
        column("tokens", pa.int32(), "number of actions in the text", unit="tokens"),
        column("ended", pa.bool_(), "true if the text ended by itself, not at the limit"),
    ],
)
