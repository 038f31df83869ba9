"""The tables of an evaluation: `asked` is the choice of questions; the others have rows of one method of answering."""

import pyarrow as pa

from vitalfew.storage.schemas.corpus import QUESTIONS
from vitalfew.storage.schemas.fields import SPAN, column, list_of, table

ASKED = table("asked", "a question that an evaluation asks", QUESTIONS)

HITS = table(
    "hits",
    "a unit that was retrieved for a question",
    [
        column("question_id", pa.int64(), "the question"),
        column("rank", pa.int32(), "place, from 1"),
        column("unit", pa.string(), "sentence or passage"),
        column("unit_id", pa.int64(), "sentence_id or passage_id"),
        column("passage_id", pa.int64(), "the passage it is, or is a part of"),
        column("start", pa.int32(), "first character in the passage", unit="code points"),
        column(
            "end",
            pa.int32(),
            "one past its last character; end = start: rewritten, no part of it",
            unit="code points",
        ),
        column("score", pa.float32(), "as the retriever has it"),
        column("title", pa.string(), "title of the passage"),
        column("text", pa.string(), "the unit's text"),
    ],
)

PERTURBED = table(
    "perturbed",
    "a hit as a refiner was given it, where noise or another order was asked for",
    [*HITS, column("noise", pa.bool_(), "whether it was retrieved for another question")],
)

EVIDENCE = table(
    "evidence",
    "a context of a question's prompt",
    [
        column("question_id", pa.int64(), "the question"),
        column("rank", pa.int32(), "place in the prompt, from 1"),
        column("text", pa.string(), "the context as the prompt has it"),
        column("tokens", pa.int32(), "words and punctuation marks, whatever the model", unit="words"),
        column("origin", list_of(SPAN), "where it comes from (passage id, code points); empty: it was rewritten"),
    ],
)

REFINEMENTS = table(
    "refinements",
    "what a refiner did for a question",
    [
        column("question_id", pa.int64(), "the question"),
        column(
            "input_tokens",
            pa.int32(),
            "words and punctuation marks of all its hits, as a prompt shows them",
            unit="words",
        ),
        column(
            "output_tokens", pa.int32(), "words and punctuation marks of the contexts that came of them", unit="words"
        ),
        column(
            "seconds",
            pa.float64(),
            "its share, by input, of the batch's time, and of the time that remembered readings had taken; a model is "
            "loaded before",
            unit="seconds",
        ),
        column(
            "cpu_seconds", pa.float64(), "the same, of the processors' time; NULL: an older version", True, "seconds"
        ),
        column("cut", pa.bool_(), "whether the model that wrote the contexts read a part of the hits alone"),
        column("finish_reason", pa.string(), "stop or length, of the model that wrote the contexts; empty: none did"),
    ],
)

READINGS = table(
    "readings",
    "what a refiner's model makes of a text, however much of it is then kept",
    [
        column("reading_id", pa.int64(), "content id of the model and of what it read: that is read once"),
        column(
            "reading", list_of(pa.float32()), "surprise (nats) by token, probabilities by sentence: as the model has it"
        ),
        column("tokens", pa.int32(), "tokens that were computed for it", unit="tokens"),
        column("seconds", pa.float64(), "its share of the time of those that were read together", unit="seconds"),
        column("cpu_seconds", pa.float64(), "the same, of the processors' time", unit="seconds"),
    ],
)

_APPRAISED = {
    "faithfulness": "how true the contexts are to the hits: 0 to 10; NULL where there is an error",
    "completeness": "how much of what the hits say towards the answer they have: 0 to 10; NULL where there is an error",
}
APPRAISALS = table(
    "appraisals",
    "what an appraiser says of a question's contexts",
    [
        column("question_id", pa.int64(), "the question"),
        *(column(name, pa.float64(), about, nullable=True) for name, about in _APPRAISED.items()),
        column("explanation", pa.string(), "the reasons that were given, a line or more for each"),
        column("error", pa.string(), "why there is no appraisal, else empty"),
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
    "init": "until the model began: tokens, and no loading",
    "prefill": "until the model gave the first token; NULL where remembered ratings left out a part of it",
    "copy": "putting the kept contexts' keys and values into one cache",
    "decode": "all tokens after the first",
}
CANDIDATES = table(
    "candidates",
    "an answer that was generated",
    [
        column("question_id", pa.int64(), "the question"),
        column("candidate", pa.int32(), "number of the answer, from 0"),
        column("contexts", list_of(pa.int32()), "ranks in `evidence` of the contexts that its prompt had"),
        column("prompt_id", pa.int64(), "content id of model, prompt and parameters: the same prompt is answered once"),
        column("text", pa.string(), "the answer"),
        column("prompt_tokens", pa.int32(), "tokens of the prompt, as the model counts them", unit="tokens"),
        column("completion_tokens", pa.int32(), "tokens of the answer, as the model counts them", unit="tokens"),
        column("logprob", pa.float64(), "natural logarithm of the answer's probability", True, "nats"),
        column("seconds", pa.float64(), "time the model took", unit="seconds"),
        column("finish_reason", pa.string(), "stop, length or error"),
        column("error", pa.string(), "why there is no answer, else empty"),
        column(
            "probabilities",
            list_of(PROBABILITY),
            "probabilities of the reflection tokens that the generator self_rag reads",
        ),
        column("reused", pa.bool_(), "whether an earlier run had answered this prompt"),
        column("ratings", list_of(RATING), "what the generator says of the prompt's contexts: the view `ratings`"),
        column(
            "prefill_tokens",
            pa.int32(),
            "tokens that were read before the first was written, each time that they were; NULL: not known",
            True,
            "tokens",
        ),
        column(
            "kv_tokens",
            pa.int32(),
            "tokens of the cache that the answer was written from: question and kept contexts; NULL: not known",
            True,
            "tokens",
        ),
        *(column(f"{step}_seconds", pa.float64(), about, True, "seconds") for step, about in _STEPS.items()),
    ],
)

_JUDGED = {
    "isrel": "ISREL: is the context of use for the question? 0 to 1; NULL where there is an error",
    "issup": "ISSUP: does the context support the answer? 0 to 1; NULL where there is an error",
    "isuse": "ISUSE: is the answer useful? 0 to 1; NULL where there is an error",
    "utility_f1": "harmonic mean of ISUSE and ISSUP",
    "geometric_mean": "cube root of ISREL * ISSUP * ISUSE",
}
CRITIQUES = table(
    "critiques",
    "what a critic says of a candidate",
    [
        column("question_id", pa.int64(), "the question"),
        column("candidate", pa.int32(), "number of the answer in `candidates`"),
        *(column(name, pa.float64(), about, nullable=True) for name, about in _JUDGED.items()),
        column("error", pa.string(), "why there is no critique, else empty"),
    ],
)

ANSWERS = table(
    "answers",
    "an answer that was chosen among the candidates",
    [
        column("question_id", pa.int64(), "the question"),
        column("strategy", pa.string(), "selector that chose"),
        column("rank", pa.int32(), "place among the answers to the question, from 1"),
        column("candidate", pa.int32(), "number of the answer in `candidates`"),
        column("text", pa.string(), "the answer"),
        column("score", pa.float64(), "as the selector has it; NULL: chosen without a critique", nullable=True),
        column("on_front", pa.bool_(), "whether no other candidate dominates it in utility_f1 and ISREL"),
        column("error", pa.string(), "why there is no answer, else empty"),
    ],
)

SCORES = table(
    "scores",
    "one metric of one question",
    [
        column("question_id", pa.int64(), "the question"),
        column("metric", pa.string(), "metric, with its k where it has one"),
        column("value", pa.float64(), "its value for this question"),
    ],
)

SUMMARIES = table(
    "summaries",
    "one metric over all questions",
    [
        column("metric", pa.string(), "metric, with its k where it has one"),
        column(
            "value",
            pa.float64(),
            "mean over the questions that give ground for it, or its value for all together; NULL: no question does",
            nullable=True,
        ),
        column("questions", pa.int32(), "questions that went in"),
        column("left_out", pa.int32(), "questions that gave no ground for it"),
        column("heading", pa.string(), "the metric's name for people"),
        column("unit", pa.string(), "unit of its values"),
        column("direction", pa.string(), "higher, lower or neither: which values are better; NULL: an older version"),
        column("needs", list_of(pa.string()), "what a question has to have, else it is left out"),
        column("detail", pa.bool_(), "whether reports show it only where they show every metric"),
    ],
)
