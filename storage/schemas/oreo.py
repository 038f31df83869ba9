"""The tables of Oreo: what its training is made of."""

import pyarrow as pa

from storage.schemas.fields import column, list_of, table

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
