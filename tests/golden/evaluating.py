"""Short ways to show what an evaluation came to, from the tables of its store."""

import vitalfew as vf
from tests.golden.stores import lines, rows

OF_RUN = "fingerprint IN (SELECT fingerprint FROM methods WHERE run_id = '{run}' AND method = '{method}')"
ANSWERS = f"""
WITH first AS (SELECT question_id, text, error FROM candidates WHERE candidate = 0 AND {OF_RUN}),
  chosen AS (SELECT question_id, text, error FROM answers WHERE rank = 1 AND {OF_RUN}),
  shown AS (SELECT question_id, sum(tokens) AS tokens, count(*) AS contexts FROM evidence WHERE {OF_RUN} GROUP BY ALL)
SELECT source_id, coalesce(chosen.text, first.text), contexts, tokens, coalesce(chosen.error, first.error)
FROM asked LEFT JOIN shown USING (question_id) LEFT JOIN first USING (question_id)
  LEFT JOIN chosen USING (question_id) WHERE asked.{OF_RUN} ORDER BY source_id"""
CONTEXTS = f"""
SELECT rank, tokens, score, evidence.text FROM evidence JOIN asked USING (question_id)
WHERE source_id = '{{of}}' AND evidence.{OF_RUN} AND asked.{OF_RUN} ORDER BY rank"""
QUESTIONS = "SELECT source_id, text, answers FROM asked WHERE " + OF_RUN + " ORDER BY source_id"
COSTLY = ("second", "usd", "cost", "init", "prefill", "copy", "decode", "latency")
"""Parts of the names of columns with times and prices, which are no two times the same."""


def questions(store: vf.Store, report: vf.Report) -> str:
    """The questions that were asked, with their gold answers."""
    return lines(rows(store, QUESTIONS, run=report.run, method=methods(report)[0]))


def answers(store: vf.Store, report: vf.Report, method: str) -> str:
    """A line per question: its id, the answer, the number and tokens of its contexts, the error."""
    return lines(rows(store, ANSWERS, run=report.run, method=method))


def contexts(store: vf.Store, report: vf.Report, method: str, question: str) -> str:
    """A line per context of a question: rank, tokens, score, text (of a long one, the first 160 characters)."""
    found = rows(store, CONTEXTS, run=report.run, method=method, of=question)
    return lines((*row[:-1], row[-1][:160]) for row in found)


def methods(report: vf.Report) -> list[str]:
    """The names of the methods, in their order."""
    return [str(name) for name in report.methods["method"]]


def settings(report: vf.Report) -> str:
    """A block per method: its settings, without those that hold a path."""
    text = ""
    for row in report.methods.to_dicts():
        text += f"# {row['method']}\n"
        named = {name: value for name, value in row.items() if name.startswith("settings.") and value is not None}
        text += "".join(f"{name.removeprefix('settings.')} = {value}\n" for name, value in sorted(named.items()))
    return text


def metrics(report: vf.Report) -> str:
    """A line per method and metric: value, interval, number of questions; no times and no prices."""
    columns = ("method", "metric", "value", "low", "high", "questions")
    table = report.summaries.select(columns).rows()
    return lines(row for row in table if not any(part in row[1].lower() for part in COSTLY))
