"""The tables of an evaluation: `asked` is the choice of questions; the others have rows of one method of answering."""

import pyarrow as pa

from vitalfew.storage.schemas.corpus import QUESTIONS
from vitalfew.storage.schemas.fields import SPAN, column, list_of, table

ASKED = table("asked", "a question that an evaluation asks", QUESTIONS)

HITS = table(
    "hits",
    "a unit retrieved for a question",
    [
        column("question_id", pa.int64(), "the question"),
        column("rank", pa.int32(), "rank, from 1"),
        column("unit", pa.string(), "sentence or passage"),
        column("unit_id", pa.int64(), "sentence_id or passage_id"),
        column("passage_id", pa.int64(), "passage that the unit is or belongs to"),
        column("start", pa.int32(), "offset of the first character in the passage", unit="code points"),
        column(
            "end",
            pa.int32(),
            "offset after the last character; equal to start if rewritten, because the passage does not contain it",
            unit="code points",
        ),
        column("score", pa.float32(), "score from the retriever"),
        column("title", pa.string(), "title of the passage"),
        column("text", pa.string(), "the unit's text"),
    ],
)

PERTURBED = table(
    "perturbed",
    "a hit as given to a refiner, after noise was added or the order was changed",
    [*HITS, column("noise", pa.bool_(), "true if it was retrieved for another question")],
)

EVIDENCE = table(
    "evidence",
    "a context of a question's prompt",
    [
        column("question_id", pa.int64(), "the question"),
        column("rank", pa.int32(), "position in the prompt, from 1"),
        column("text", pa.string(), "context as shown in the prompt"),
        column("tokens", pa.int32(), "number of words and punctuation marks, independent of the model", unit="words"),
        column("origin", list_of(SPAN), "spans it comes from (passage id, code points); empty if it was rewritten"),
    ],
)

REFINEMENTS = table(
    "refinements",
    "the length and time of a refiner's work on a question",
    [
        column("question_id", pa.int64(), "the question"),
        column(
            "input_tokens",
            pa.int32(),
            "number of words and punctuation marks in all its hits, as shown in a prompt",
            unit="words",
        ),
        column(
            "output_tokens",
            pa.int32(),
            "number of words and punctuation marks in the contexts made from them",
            unit="words",
        ),
        column(
            "seconds",
            pa.float64(),
            "share of the batch's time in proportion to the input, including the original time of reused readings and "
            "excluding the loading of a model",
            unit="seconds",
        ),
        column("cpu_seconds", pa.float64(), "the same for CPU time; NULL from an older version", True, "seconds"),
        column("cut", pa.bool_(), "true if the model that wrote the contexts read only part of the hits"),
        column(
            "finish_reason", pa.string(), "stop or length, from the model that wrote the contexts; empty without one"
        ),
    ],
)

READINGS = table(
    "readings",
    "the output of a refiner's model for a text, independent of how much of the text is kept",
    [
        column("reading_id", pa.int64(), "content id of the model and its input; the same input is read once"),
        column(
            "reading",
            list_of(pa.float32()),
            "surprisal (nats) of every token or probability of every sentence, depending on the model",
        ),
        column("tokens", pa.int32(), "tokens computed for it", unit="tokens"),
        column("seconds", pa.float64(), "share of the time of the texts read together", unit="seconds"),
        column("cpu_seconds", pa.float64(), "the same for CPU time", unit="seconds"),
    ],
)

_APPRAISED = {
    "faithfulness": "faithfulness of the contexts to the hits, 0 to 10; NULL after an error",
    "completeness": "share of the hits' information on the answer that they keep, 0 to 10; NULL after an error",
}
APPRAISALS = table(
    "appraisals",
    "an appraiser's grades of a question's contexts",
    [
        column("question_id", pa.int64(), "the question"),
        *(column(name, pa.float64(), about, nullable=True) for name, about in _APPRAISED.items()),
        column("explanation", pa.string(), "reasons for the grades, one or more lines for every grade"),
        column("error", pa.string(), "reason if there is no appraisal, else empty"),
    ],
)

PROBABILITY = pa.struct([pa.field("token", pa.string(), False), pa.field("probability", pa.float64(), False)])

RATING = pa.struct(
    [
        pa.field("rank", pa.int32(), False),
        pa.field("score", pa.float64(), False),
        pa.field("kept", pa.bool_(), False),
        pa.field("tokens", pa.int32(), False),
        pa.field("rating_id", pa.int64(), False),
    ]
)

_STEPS = {
    "init": "time until the model starts, including tokenization and excluding loading",
    "prefill": "time until the model gives the first token; NULL if reused ratings replaced part of it",
    "copy": "time to copy the kept contexts' keys and values into one cache",
    "decode": "time for all tokens after the first",
}
CANDIDATES = table(
    "candidates",
    "a generated answer",
    [
        column("question_id", pa.int64(), "the question"),
        column("candidate", pa.int32(), "number of the answer, from 0"),
        column("contexts", list_of(pa.int32()), "ranks in `evidence` of the contexts in its prompt"),
        column("prompt_id", pa.int64(), "content id of model, prompt and parameters; the same prompt is answered once"),
        column("text", pa.string(), "the answer"),
        column("prompt_tokens", pa.int32(), "tokens of the prompt, as the model counts them", unit="tokens"),
        column("completion_tokens", pa.int32(), "tokens of the answer, as the model counts them", unit="tokens"),
        column("logprob", pa.float64(), "natural logarithm of the answer's probability", True, "nats"),
        column("seconds", pa.float64(), "time taken by the model", unit="seconds"),
        column("finish_reason", pa.string(), "stop, length or error"),
        column("error", pa.string(), "reason if there is no answer, else empty"),
        column(
            "probabilities",
            list_of(PROBABILITY),
            "probabilities of the reflection tokens that the generator self_rag reads",
        ),
        column("reused", pa.bool_(), "true if an earlier run had answered this prompt"),
        column("ratings", list_of(RATING), "generator's ratings of the prompt's contexts; see the view `ratings`"),
        column(
            "prefill_tokens",
            pa.int32(),
            "tokens read before the first token was written, counted every time they were read; NULL if unknown",
            True,
            "tokens",
        ),
        column(
            "kv_tokens",
            pa.int32(),
            "tokens in the cache that the answer was written from: question and kept contexts; NULL if unknown",
            True,
            "tokens",
        ),
        *(column(f"{step}_seconds", pa.float64(), about, True, "seconds") for step, about in _STEPS.items()),
    ],
)

_JUDGED = {
    "isrel": "ISREL: usefulness of the context for the question, 0 to 1; NULL after an error",
    "issup": "ISSUP: support of the context for the answer, 0 to 1; NULL after an error",
    "isuse": "ISUSE: usefulness of the answer, 0 to 1; NULL after an error",
    "utility_f1": "harmonic mean of ISUSE and ISSUP",
    "geometric_mean": "cube root of ISREL * ISSUP * ISUSE",
}
CRITIQUES = table(
    "critiques",
    "a critic's scores for a candidate",
    [
        column("question_id", pa.int64(), "the question"),
        column("candidate", pa.int32(), "number of the answer in `candidates`"),
        *(column(name, pa.float64(), about, nullable=True) for name, about in _JUDGED.items()),
        column("error", pa.string(), "reason if there is no critique, else empty"),
    ],
)

ANSWERS = table(
    "answers",
    "an answer chosen from the candidates",
    [
        column("question_id", pa.int64(), "the question"),
        column("strategy", pa.string(), "selector that chose the answer"),
        column("rank", pa.int32(), "rank among the answers to the question, from 1"),
        column("candidate", pa.int32(), "number of the answer in `candidates`"),
        column("text", pa.string(), "the answer"),
        column("score", pa.float64(), "score from the selector; NULL if chosen without a critique", nullable=True),
        column("on_front", pa.bool_(), "true if no other candidate dominates it in utility_f1 and ISREL"),
        column("error", pa.string(), "reason if there is no answer, else empty"),
    ],
)

SCORES = table(
    "scores",
    "the value of one metric for one question",
    [
        column("question_id", pa.int64(), "the question"),
        column("metric", pa.string(), "name of the metric, with its k if it has one"),
        column("value", pa.float64(), "value for this question"),
    ],
)

SUMMARIES = table(
    "summaries",
    "the value of one metric over all questions",
    [
        column("metric", pa.string(), "name of the metric, with its k if it has one"),
        column(
            "value",
            pa.float64(),
            "mean over the questions it applies to, or one value for all of them; NULL if it applies to none",
            nullable=True,
        ),
        column("questions", pa.int32(), "number of questions it applies to"),
        column("left_out", pa.int32(), "number of questions left out because it does not apply to them"),
        column("heading", pa.string(), "display name of the metric"),
        column("unit", pa.string(), "unit of its values"),
        column("direction", pa.string(), "better values: higher, lower or neither; NULL from an older version"),
        column("needs", list_of(pa.string()), "data that a question must have, else it is left out"),
        column("detail", pa.bool_(), "true if reports show it only when they show every metric"),
    ],
)
