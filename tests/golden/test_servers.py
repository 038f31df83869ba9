"""What becomes of the answers of servers as they are: parameters, thoughts, refusals, cuts, parts, sentences."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import vitalfew as vf
from tests.golden.surface import lines_with, steady, vitalfew
from tests.support.fakes import ChatServer, Reply, completion
from tests.support.towns import TOWNS, towns

SENTENCE = (
    "According to the passage that was given to me, the number of people who live there now is {}, as far as I know."
)
REFUSED = {
    "top_p-400": (400, "top_p", "Unsupported parameter: 'top_p' is not supported with this model."),
    "top_p-422": (422, "top_p", "Extra inputs are not permitted: top_p"),
    "seed-422": (422, "seed", "Extra inputs are not permitted: seed"),
    "temperature-400": (400, "temperature", "Unsupported value: 'temperature' supports only the default (1)."),
    "limit-400": (400, "max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
    "logprobs-400": (400, "logprobs", "You are not allowed to request logprobs from this model."),
}
"""By model: the status and the words with which it refuses a parameter."""
CLOSED = "closed"
"""A model that answers nothing."""
MODELS = (
    *("plain", *REFUSED, "thinks", "thinks-unfinished", "refuses", "filtered"),
    *("cut-before", "cut-within", "parts", "sentence", "empty", "no-usage"),
)
ANSWERS: dict[str, tuple[Any, str]] = {
    "thinks": ("<think>Is it 1700? No.</think>\n\n{}", "stop"),
    "thinks-unfinished": ("<think>Is it 1700? No, it is {}", "length"),
    "filtered": (None, "content_filter"),
    "cut-before": (None, "length"),
    "cut-within": ("The number is {1}", "length"),
    "parts": ([{"type": "text"}], "stop"),
    "sentence": (SENTENCE, "stop"),
    "empty": (" \n", "stop"),
}
"""By model: its answer, in which {} stands for the right one, and the reason why it ended."""
EXPERIMENT = """
questions: {{dataset: "squad:{folder}/towns.json", where: "text LIKE '%Velmar%' OR text LIKE '%Kessin%'"}}
generate: {{generator: openai, base_url: "{url}", temperature: 0, concurrency: 1}}
methods:
"""


def _reply(path: str, body: Any, attempt: int) -> Reply:
    """As the model that is asked for does: it is right, in its way."""
    if path == "/v1/models":
        return Reply({"object": "list", "data": []})
    model = body["model"]
    if model == CLOSED:
        return Reply({"error": {"message": "Your plan has no such model."}}, status=403)
    status, parameter, words = REFUSED.get(model, (200, "", ""))
    if parameter in body:
        return Reply({"error": {"message": words}}, status=status)
    prompt = body["messages"][0]["content"]
    (people,) = (str(100 * (number + 3)) for number, town in enumerate(TOWNS) if town in prompt)
    reply = _answer(model, people)
    if model == "no-usage":
        del reply.body["usage"]
    return reply


def _answer(model: str, people: str) -> Reply:
    if model == "refuses":
        return completion(None, message={"role": "assistant", "content": None, "refusal": "I cannot help with that."})
    content, reason = ANSWERS.get(model, ("{}", "stop"))
    if isinstance(content, str):
        content = content.format(people, people[0])
    elif content:
        content = [{**part, "text": people} for part in content]
    return completion(content, finish_reason=reason)


def _experiment(folder: Path, name: str, url: str, models: tuple[str, ...]) -> Path:
    towns(folder / "towns.json")
    methods = (f'  "{model}": {{retrieve: null, generate: {{model: "{model}"}}}}\n' for model in models)
    file = folder / f"{name}.yaml"
    file.write_text(EXPERIMENT.format(folder=folder, url=url) + "".join(methods))
    return file


def _answers(store: Path) -> list[str]:
    """Of the experiment `wild`: by method and question what is kept of an answer, and its scores."""
    opened = vf.Store(store, progress=False)
    gold = dict(opened.sql("SELECT DISTINCT question_id, answers[1] FROM questions").iter_rows())
    own = "JOIN (SELECT DISTINCT method, fingerprint FROM methods WHERE experiment = 'wild') USING (fingerprint)"
    scores = opened.sql(f"SELECT method, question_id, metric, value FROM scores {own}")
    scored = {(method, question, metric): value for method, question, metric, value in scores.iter_rows()}
    lines = []
    for method in MODELS:
        lines.append(method)
        rows = opened.sql(f"SELECT * FROM candidates {own} WHERE method = '{method}'").to_dicts()
        for row in sorted(rows, key=lambda row: gold[row["question_id"]]):
            found = [scored.get((method, row["question_id"], metric)) for metric in ("accuracy", "f1")]
            accuracy, f1 = ("none" if value is None else f"{value:.3f}" for value in found)
            kept = (
                f"{row['text']!r}, {row['finish_reason']}, {row['prompt_tokens']} + {row['completion_tokens']} tokens"
            )
            without = f", without {', '.join(row['left_out'])}" if row["left_out"] else ""
            lines.append(f"  {gold[row['question_id']]}: {kept}, accuracy {accuracy}, F1 {f1}{without}")
            lines += [f"    {row['error']}"] if row["error"] else []
    return lines


def test_servers(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    store = tmp_path / "store"
    with ChatServer(_reply) as server:
        file = _experiment(tmp_path, "wild", server.url, MODELS)
        printed = vitalfew("evaluate", file, "--runner", "serial", store=store)
        _, asked, _ = next(each for each in server.asked if each[0] == "/v1/chat/completions")
        alone = _experiment(tmp_path, "alone", server.url, (CLOSED,))
        nothing = vitalfew("evaluate", alone, "--runner", "serial", store=store, status=1)
    asked["seed"] = "by the question" if isinstance(asked["seed"], int) else asked["seed"]
    said = steady(
        "\n".join(lines_with(printed, words) for words in ("got no answer", " cut by", " refused by")), tmp_path
    )
    told = [
        *("# what is asked", json.dumps(asked, indent=1, sort_keys=True)),
        *("# what is kept and how it is scored", *_answers(store)),
        *("# what is said of it", said),
        *("# a run without any answer, which ends with 1", steady(nothing, tmp_path)),
    ]
    golden("servers.txt", "\n".join(told))
