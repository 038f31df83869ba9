"""The tables of Oreo: what its training is made of."""

import pyarrow as pa

from vitalfew.storage.schemas.fields import column, list_of, table

GOLD_CONTEXTS = table(
    "gold_contexts",
    "a collector's attempt at the evidence text of a question",
    [
        column("question_id", pa.int64(), "the question"),
        column("attempt", pa.int32(), "0: asked plainly; from 1: the collector was told the answer"),
        column("text", pa.string(), "the evidence text; empty: there is none"),
        column("verdict", pa.string(), "kept, or the reason why not"),
        column("collector", pa.string(), "what wrote it"),
        column("tokens", pa.int64(), "tokens that a model computed for it, prompts included", unit="tokens"),
        column("seconds", pa.float64(), "time it took", unit="seconds"),
        column("error", pa.string(), "why a model gave no text, else empty"),
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
    "a question with the evidence text that Oreo is to write",
    [
        column("question_id", pa.int64(), "the question"),
        column("question", pa.string(), "its text"),
        column("answers", list_of(pa.string()), "gold answers, any of them right"),
        column("chunks", list_of(CHUNK), "what was retrieved, best first; the title is empty where none is shown"),
        column("target", pa.string(), "the evidence text"),
        column(
            "copied",
            list_of(COPIED),
            "parts of the chunks, as they are shown, that make up the target (chunk from 0, code points); empty: its "
            "words are not theirs",
        ),
        column("attempt", pa.int32(), "the attempt in `gold_contexts` that was kept"),
        column("split", pa.string(), "learn, choose or held_out: by the article of its first gold passage"),
    ],
)

OREO_CANDIDATES = table(
    "oreo_candidates",
    "a text that Oreo's contrastive training compared with others",
    [
        column("question_id", pa.int64(), "the question"),
        column("epoch", pa.int32(), "pass over the material, from 1"),
        column("rank", pa.int32(), "place among the candidates by ROUGE-L, from 1"),
        column("kind", pa.string(), "beam, gold or batch: the policy's own, the target, another question's target"),
        column("text", pa.string(), "the text"),
        column("rouge", pa.float64(), "ROUGE-L with the question's target"),
        column("logprob", pa.float64(), "natural logarithm of its probability; NULL: another question's", True, "nats"),
    ],
)

ROLLOUTS = table(
    "rollouts",
    "a text that Oreo's reinforcement learning sampled",
    [
        column("step", pa.int32(), "step of the training, from 1"),
        column("question_id", pa.int64(), "the question"),
        column("text", pa.string(), "the text"),
        column("answer", pa.string(), "what the generator answered from it"),
        column("rouge", pa.float64(), "how well that agrees with the gold answers, 0 to 1"),
        column("kl", pa.float64(), "log-probability above that of the policy that it began from", False, "nats"),
        column("reward", pa.float64(), "rouge if the text ended by itself, else 0, less the penalty on kl"),
        column("tokens", pa.int32(), "actions of the text", unit="tokens"),
        column("ended", pa.bool_(), "whether it ended by itself, not by the limit"),
    ],
)
