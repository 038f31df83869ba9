"""docs/results/index.md: all methods on all corpora, and what every page of results says, in a line. The prose is here;
the figures are read, from docs/results/methods.json, docs/results/papers.json and the page that a line is about, so
that the index says no other figure than they do.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from docs.markdown import table
from docs.measured import measured
from docs.methods import BUDGETS, CORPORA, NAIVE, NOBODY, Compared, compared
from vitalfew.flows.pipelines.experiments import find

ABOUT = """\
The line below every heading gives the source of its figures: *command · machine · date · commit*. The commit is the one
that recorded the figures; `git show COMMIT` shows the code of that moment. "Not recorded" means that nobody noted it.
Nothing here was measured on a GPU. Unless a heading says otherwise, sentences and passages were encoded without their
titles, which was the only way until 22 November 2026 (commit bc9067e) and is now `encode.text=unit`. **Accuracy** is
the share of the questions whose answer contains a gold answer and has, where nothing else is said, at most 15 words.

The **benchmark corpus** is the 9,179 distinct passages of a sample of HotpotQA, 2WikiMultihopQA's corpus and SQuAD's
dev set together, encoded with all-MiniLM-L6-v2. `VITALFEW_DATA` names the folder with these files; if one is missing, a
benchmark runs on generated text and says so."""
DOCS = Path(__file__).parent
READER = "reader"
DESCENDING = ("reranked sentences", "reranked passages", "CRAG", "DSLR", "CXMI", "Oreo", "PFE-Self-RAG")
"""Methods whose bundled model was trained from the bundled reader."""
SHORTER = 0.8
"""The share of the budget below which the tokens used are shown."""
ABOUT_METHODS = """\
The methods of the experiment `all_methods`, which are all that the bundled models can run, at the same tokens of
context: words and punctuation marks, not a model's tokens. A cell is the share of right answers and, in the same unit,
its paired difference to naive RAG, whose passages are cut to as many tokens, with the 95 % interval (bootstrap over the
questions); **bold** where the interval excludes zero. Of QMSum, whose questions ask for summaries, it is the share of
the supporting facts that the contexts show. Where a method uses less than 80 % of the budget, or is without one, its
mean tokens are in the cell; without a budget, as Oreo and PFE-Self-RAG, it is compared with naive RAG at the lowest
budget that is not below its mean, or at the largest: PFE-Self-RAG, which answers from five passages one by one, reads
more than naive RAG does. The number of questions is in the heading, and in a cell where a method was asked fewer of
them (n): its difference is that to naive RAG on the same questions.

† The method's model (critic, filter or copier) was trained from the bundled reader, which may favour it where that
reader answers, and not where another model does. The rows are read as they stand: no correction for their number is
made. Four methods that ask SmolLM2 take 40 CPU seconds a question and were run on fewer corpora: [every
rival](rivals.md)."""


class Quoted:
    """A page whose figures are quoted; `place` is that of the file in docs/."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.text = (DOCS / place).read_text(encoding="utf-8")

    def cell(self, row: str, column: str, after: str = "") -> str:
        """Return a cell of the first table with this row and column, after some words of the page; '**' is left out.

        `row`: the beginning of a row's first cells, joined by ' | '; an empty first cell is that of the row above.
        Raises LookupError.
        """
        if after not in self.text:
            raise LookupError(f"{self.place} does not say {after!r}")
        for heads, rows in tables(self.text[self.text.index(after) :]):
            for cells in rows:
                if column in heads and f"{' | '.join(cells)} | ".startswith(f"{row} | "):
                    return cells[heads.index(column)]
        raise LookupError(f"{self.place} has no table with the column {column!r} and a row {row!r}")

    def said(self, words: str) -> str:
        """Return the figure that stands on the page, once, in place of the {} of the words. Raises LookupError."""
        before, after = (re.escape(part).replace(r"\ ", r"\s+") for part in words.split("{}"))
        found = re.findall(before + r"([\d.,+-]*\d)" + after, self.text)
        if len(found) != 1:
            raise LookupError(f"{self.place} says {words!r} {len(found)} times")
        return str(found[0])


def tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the heads and rows of every table of a page, in its order."""
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        heads, _, *rows = (
            [cell.strip().replace("**", "") for cell in line.strip("|").split("|")] for line in block.splitlines()
        )
        for above, row in pairwise(rows):
            row[0] = row[0] or above[0]
        yield heads, rows


@cache
def page(name: str) -> Quoted:
    """A page of docs/results/."""
    return Quoted(f"results/{name}.md")


def recorded(experiment: str, corpus: str, method: str, metric: str, minus: str | None = None) -> str:
    """A figure of docs/results/papers.json, with its interval: "-0.080 (-0.116 to -0.044)".

    `corpus`: its name, or who asked the questions, if it has several. Raises LookupError.
    """
    for run in measured():
        if run.experiment == experiment and corpus in (run.asked, run.corpus.partition(":")[0]):
            for line in run.lines:
                if (line.ours.method, line.ours.metric, line.ours.minus, line.ours.over) == (
                    method,
                    metric,
                    minus,
                    None,
                ):
                    sign = "+" if minus else ""
                    return f"{line.mean:{sign}.3f} ({line.low:{sign}.3f} to {line.high:{sign}.3f})"
    raise LookupError(f"papers.json has no {metric} of {method} minus {minus} for {experiment} on {corpus}")


def lines() -> Iterator[str]:
    yield from _pages()
    yield from method_lines(compared())


def method_lines(records: Sequence[Compared]) -> Iterator[str]:
    """Yield a section with a table for every answerer and budget; nothing without records."""
    if not records:
        return
    yield from ("## All methods on all corpora", ABOUT_METHODS, "")
    answerers = dict.fromkeys(each.answerer for each in records if each.answerer != NOBODY)
    for answerer in sorted(answerers, key=lambda name: (name != READER, name)):
        shown = [
            each for each in records if each.answerer in ((answerer, NOBODY) if answerer == READER else (answerer,))
        ]
        yield from (f"### Answered by {'the bundled reader' if answerer == READER else answerer}", "")
        for budget in BUDGETS:
            at = [each for each in shown if each.against == budget]
            if at:
                yield from (f"**{budget} tokens.** {conclusion(at)}", "", *method_table(at))
        yield from (*_missing(shown), *_sources(shown), "")


def method_table(records: Iterable[Compared]) -> Iterator[str]:
    """Yield the table of a budget: rows are methods, columns corpora."""
    cells: dict[str, dict[str, Compared]] = {}
    for each in records:
        cells.setdefault(each.method, {})[each.corpus] = each
    known = [*find("all_methods")[1]["methods"]]
    methods = sorted(cells, key=lambda name: (known.index(name) if name in known else len(known), name))
    largest: dict[str, Compared] = {}
    for each in sorted(records, key=lambda each: each.questions):
        largest[each.corpus] = each
    corpora = sorted(largest, key=_place)
    rows = (
        (
            f"{method}{' †' * (method in DESCENDING)}",
            *(figure(cells[method].get(name), largest[name].questions) for name in corpora),
        )
        for method in methods
    )
    yield from table("method", *(_heading(largest[name]) for name in corpora), of=rows)


def _place(corpus: str) -> tuple[int, str]:
    return CORPORA.index(corpus) if corpus in CORPORA else len(CORPORA), corpus


def _heading(record: Compared) -> str:
    """The corpus with its metric, if that is not accuracy, and the questions of a record."""
    metric = "" if record.metric == "accuracy" else ", facts shown"
    return f"{record.corpus}{metric} ({record.questions:,})"


def figure(record: Compared | None, questions: int) -> str:
    """A cell: the mean, and the difference to naive RAG with its interval; '–' where the method was not run.
    `questions`: the number in the column's heading, which is not repeated."""
    if record is None:
        return "–"
    is_shorter = record.budget is None or record.tokens < SHORTER * record.budget
    about = [f"{record.tokens:.0f} tokens"] if is_shorter else []
    about += [f"n = {record.questions:,}"] if record.questions != questions else []
    shown = f"{record.mean:.3f}" + (f" ({', '.join(about)})" if about else "")
    if record.minus is not None:
        interval = "" if record.low is None else f" ({record.low:+.3f} to {record.high:+.3f})"
        minus = f"{record.minus:+.3f}{interval}"
        shown += f", **{minus}**" if record.is_ahead or record.is_behind else f", {minus}"
    return shown


def conclusion(records: Sequence[Compared]) -> str:
    """Say on how many corpora every method is ahead of naive RAG by an interval, and on which it is behind."""
    rivals = [each for each in records if each.method != NAIVE]
    corpora = Counter(each.method for each in rivals)
    ahead = Counter(each.method for each in rivals if each.is_ahead)
    behind: dict[str, list[str]] = {}
    for each in rivals:
        if each.is_behind:
            behind.setdefault(each.method, []).append(each.corpus)
    level = [method for method in corpora if not ahead[method] and method not in behind]
    of_counts: dict[tuple[int, int], list[str]] = {}
    for method, number in ahead.most_common():
        of_counts.setdefault((number, corpora[method]), []).append(method)
    best = [f"{_named(own)} on {number} of {of} corpora" for (number, of), own in of_counts.items()]
    worse = [f"{method} on {', '.join(own)}" for method, own in behind.items()]
    said = [f"Ahead of {NAIVE}, the whole interval above zero: {'; '.join(best) or 'no method'}."]
    said.append(f"Behind it, the whole interval below zero: {'; '.join(worse) or 'no method'}.")
    return " ".join([*said, *([f"Neither on any corpus: {_named(level)}."] if level else ())])


def _named(methods: Iterable[str]) -> str:
    """The names as a list, without commas of their own."""
    return ", ".join(method.replace(",", "") for method in methods)


def _missing(records: Iterable[Compared]) -> Iterator[str]:
    """Yield a sentence on the methods of the experiment that no corpus has a record of."""
    there = {each.method for each in records}
    if missing := [method for method in find("all_methods")[1]["methods"] if method not in there]:
        yield from (f"Not run with this answerer so far: {_named(missing)}.", "")


def _sources(records: Iterable[Compared]) -> Iterator[str]:
    """Yield a line for everything that figures come from, with their corpora."""
    found: dict[str, dict[str, None]] = {}
    for each in sorted(records, key=lambda each: _place(each.corpus)):
        source = f"`{each.command}` · {each.machine} · {each.date} · {each.commit}"
        found.setdefault(source, {})[each.corpus] = None
    yield from (f"*{source}* ({', '.join(corpora)})  " for source, corpora in found.items())


def _pages() -> Iterator[str]:
    rows = (
        (f"[{title}]({place})", question, " ".join(answer.split()))
        for title, place, question, answer in (
            ("Answers", "answers.md", "does less answer as well?", _answers()),
            ("Where sentences pay", "when.md", "on which corpora, at equal tokens?", _when()),
            ("Context modes and alpha", "contexts.md", "which context vector, which alpha?", _contexts()),
            ("Titles", "titles.md", "does it help to encode titles?", _titles()),
            ("Harder retrieval", "harder.md", "what if the first ten miss more of the gold passages?", _harder()),
            ("PFE-Self-RAG", "pfe_self_rag.md", "does picking from the Pareto front help?", _pfe()),
            (
                "Sparse RAG",
                "sparse_rag.md",
                "does a small language model answer better from the contexts that it rates highly?",
                _sparse(),
            ),
            ("Oreo", "oreo.md", "does a trained copier pass on what the reader needs?", _oreo()),
            ("Spans", "../spans.md", "is a method between sentences and passages ever worse?", _spans()),
            (
                "A language model answers",
                "language_model.md",
                "does less help a model that no method was trained against?",
                _language_model(),
            ),
            (
                "Written questions",
                "written_questions.md",
                "do questions written from a corpus choose the methods that people's choose?",
                _written(),
            ),
            (
                "Every rival",
                "rivals.md",
                "which published method of passing on less answers best, at equal tokens?",
                _rivals(),
            ),
            ("Cost of an index", "cost.md", "what does it cost compared with naive RAG's?", _cost()),
            ("Speed", "speed.md", "how fast are encoder, language models, splitter, commands, SQL?", _speed()),
            ("The server", "serve.md", "how fast does `vitalfew serve` answer, and does it stay so?", _serve()),
            ("Scale", "scale.md", "how do memory and time grow?", _scale()),
            ("Growth", "growth.md", "what do 10⁸ passages take?", _growth()),
        )
    )
    yield from table("page", "question", "in one line", of=rows)


def _answers() -> str:
    cell, exact = page("answers").cell, "ParetoRAG `exact`, 10 sentences"
    ten = recorded("paretorag/top_k", "nq", "ParetoRAG top_k=10", "accuracy", "naive RAG")
    equal = recorded("paretorag/table1_here", "nq-own-exact", "ParetoRAG", "accuracy", "naive RAG, equal tokens")
    return f"""ten sentences against ten passages, without titles: the paper's mode `exact` on SQuAD
        {cell(exact, "minus naive (95 %)")}, {cell(exact, "prompt tokens")} tokens against
        {cell("naive, 10 passages", "prompt tokens")}; `late` on NQ {ten}; `exact` on NQ, against passages at equal
        tokens, {equal}"""


def _when() -> str:
    difference = "ParetoRAG minus naive RAG at equal tokens"
    found = {corpus: page("when").cell(corpus, difference) for corpus in ("SQuAD", "Python manual", "NQ", "HotpotQA")}
    return f"""it depends on the corpus: with titles, mode `late`, SQuAD {found["SQuAD"]}, Python's manual
        {found["Python manual"]}, NQ {found["NQ"]}, HotpotQA {found["HotpotQA"]}; not on the length of a passage within
        one; of meetings sentences show fewer of the facts"""


def _contexts() -> str:
    naive, late, passage = (
        page("contexts").cell(f"all, 2,172 | {mode}", "passage recall@10") for mode in ("naive", "`late`", "`passage`")
    )
    return f"`late`: recall@10 {late}, naive {naive}, `passage` {passage} at twice the tokens"


def _titles() -> str:
    column = "passage recall@10"
    everywhere, squad = (page("titles").cell(f"{of} | ParetoRAG `late`", column) for of in ("all, 753", "SQuAD, 351"))
    return f"recall@10 of ParetoRAG `late` over all questions {everywhere}; on SQuAD {squad}"


def _harder() -> str:
    cell = page("harder").cell
    naive = {corpus: [cell(f"{corpus}, 80 | naive RAG", pool) for pool in ("small", "crowded")] for corpus in _ASKED}
    fallen = ", ".join(f"{corpus} {' → '.join(recalls)}" for corpus, recalls in naive.items())
    gains = (cell(f"all, 240 | {name}", "crowded, minus naive") for name in ("ParetoRAG", "hybrid passages", "spans"))
    answers = cell("all, 240, 120 tokens | spans", "crowded, minus naive")
    return f"""among 10⁵ generated look-alikes recall@10 of naive RAG falls ({fallen}); over all questions ParetoRAG,
        hybrid passages and spans minus naive RAG: {"; ".join(gains)}. Spans alone answer more at 120 tokens:
        {answers}"""


_ASKED = ("SQuAD", "NQ", "HotpotQA")


def _written() -> str:
    cell, row = page("written_questions").cell, "answer kept | answer kept"
    squad, nq = (cell(f"{corpus} | {row}", "tau") for corpus in ("SQuAD", "NQ"))
    return f"""not those with a gap: Kendall's tau of eleven methods, by answers that are kept, is {squad} on SQuAD and
        {nq} on NQ"""


def _pfe() -> str:
    nearest, sets = "PFE, nearest to the ideal", ("SQuAD", "NQ")
    methods = ("naive RAG, one prompt of ten", nearest, "PFE, geometric mean")
    squad, nq = ([page("pfe_self_rag").cell(method, f"{of} accuracy") for method in methods] for of in sets)
    minus = [recorded("pfe_self_rag/table2", of, nearest, "accuracy", "Self-RAG") for of in sets]
    return f"""one prompt of all ten passages answers as well as the best single answer or better (SQuAD {squad[0]},
        nearest to the ideal {squad[1]}, geometric mean {squad[2]}; NQ {", ".join(nq)}); nearest to the ideal gains
        {minus[0]} and {minus[1]} over Self-RAG's weighted sum of this critic's scores, whose weights were not tuned"""


def _sparse() -> str:
    minus = {
        other: recorded("sparse_rag/table3", "SQuAD", "Sparse RAG", "f1", other) for other in ("RAG", "PCW-RAG", "CRAG")
    }
    f1 = {
        row: page("sparse_rag").cell(row, "F1")
        for row in ("RAG, tuned", "RAG, tuned, on 1 passage", "RAG, tuned, on 3")
    }
    return f"""on ten retrieved passages of SQuAD F1 {page("sparse_rag").cell("Sparse RAG", "F1")}, above tuned RAG
        ({f1["RAG, tuned"]}: {minus["RAG"]}) and PCW ({minus["PCW-RAG"]}), but all adapters learnt with two or three
        contexts: tuned RAG on the best passage alone has {f1["RAG, tuned, on 1 passage"]}, on three
        {f1["RAG, tuned, on 3"]}; a small critic as filter (CRAG) is better: {minus["CRAG"]}"""


def _oreo() -> str:
    full, two = (
        recorded("oreo/embedded", "SQuAD", "Oreo", "accuracy", other)
        for other in ("full content", "two best sentences")
    )
    share = recorded("oreo/embedded", "SQuAD", "Oreo", "context_share")
    nq = [
        page("oreo").cell(row, "accuracy", after="| NQ, 200 questions")
        for row in ("Oreo", "full content: five passages")
    ]
    return f"""SQuAD, 1,000 questions, {share} of the tokens: against five passages {full}, against two best sentences
        {two}; the critic's two sentences are ahead by {page("oreo").said("ahead of two texts by {} (")}; NQ
        {nq[0]}, five passages {nq[1]}"""


def _spans() -> str:
    row = "Celery | 417 | 120"
    used, naive, pareto, hybrid = (
        Quoted("spans.md").cell(row, column)
        for column in ("spans (tokens used)", "naive RAG", "ParetoRAG", "hybrid sentences")
    )
    worst = Quoted("spans.md").cell("HotpotQA | 100 | 480", "spans − the best of these")
    likelier = {
        name: Quoted("spans.md").cell("all five | 814", f"− {name}") for name in ("naive RAG", "ParetoRAG", "CXMI")
    }
    best = ", ".join(f"{name} {value}" for name, value in likelier.items())
    return f"""on 417 questions on Celery's documentation, 120 tokens: {used}, naive RAG {naive}, ParetoRAG {pareto},
        hybrid {hybrid}; on HotpotQA at 480 tokens worse than {worst}. A language model that knows none of them finds
        the gold answer likelier after spans than after any of five rivals: in nats, over {best}"""


def _language_model() -> str:
    cell = page("language_model").cell
    rows = {"Oreo": "Oreo (54 to 69 tokens)", "spans": "spans (99 to 119 tokens)", "ParetoRAG": "ParetoRAG"}
    figures = ", ".join(f"{name} {cell(row, 'all 514, minus naive RAG')}" for name, row in rows.items())
    oreo = recorded("oreo/embedded", "SQuAD by a language model", "Oreo", "accuracy", "full content")
    return f"""half a billion parameters, 120 tokens, accuracy minus naive RAG's over SQuAD, NQ, HotpotQA and Python's
        manual: {figures}; Oreo minus five whole passages, SQuAD: {oreo}"""


def _rivals() -> str:
    at = {
        name: page("rivals").cell(row, "60")
        for name, row in (
            ("reranked sentences", "*the same,* reranked (the critic, of 40)"),
            ("Oreo", "Oreo"),
            ("CXMI", "CXMI"),
            ("DSLR", "DSLR (the critic)"),
            ("passages cut", "all five passages, cut"),
        )
    }
    alone = {row: page("rivals").cell(row, "by itself (tokens)") for row in ("CXMI", "all five passages, cut")}
    said = ", ".join(f"{name} {value}" for name, value in at.items())
    return f"""SQuAD, 300 questions, 60 tokens: {said}; the first four are not distinguishable. By itself CXMI's one
        sentence answers {alone["CXMI"]}, five passages {alone["all five passages, cut"]}. The winners descend from the
        reader that answers"""


def _cost() -> str:
    times = {
        row: page("cost").cell(row, "× naive") for row in ("`late`", "`passage`", "`pooled`, without passages", "exact")
    }
    goals = {row: page("cost").cell(row, "goal") for row in ("`late`", "`passage`")}
    return f"""CPU seconds from source file to FAISS beside naive RAG's: `late` {times["`late`"]} × (goal
        {goals["`late`"]}), `passage` {times["`passage`"]} × (goal {goals["`passage`"]}), `pooled` without passages
        {times["`pooled`, without passages"]} ×; `exact`, the paper's, {times["exact"]} × on all sources"""


def _speed() -> str:
    ours, theirs = "`minilm` (OpenVINO 2026.4 in float32, which `auto` is here)", "sentence-transformers' fastest way"
    return f"""encoder in float32 {page("speed").cell(ours, "ratio")} × sentence-transformers' defaults,
        {page("speed").said(f"`minilm` has **{{}}** of the speed of {theirs}")} × the fastest of equal quality (goal
        1.0)"""


def _serve() -> str:
    search = "search, 8 clients: p50, p99"
    rows = (
        "search, 1 client: what the server adds, p50",
        "answer, 1 client: p50",
        search,
        "memory after 10,000 requests against 1,000",
        "exchange of the index, 32 clients: failed requests",
    )
    adds, one, eight, memory, failed = (page("serve").cell(row, "measured").partition(" (")[0] for row in rows)
    return f"""the server adds {adds} to a search (noise); an answer takes {one}; a search of eight clients {eight}
        (p50, p99; goal {page("serve").cell(search, "goal")}); memory {memory} over 10,000 requests; an exchange of the
        index fails {failed} requests"""


def _scale() -> str:
    most = max(int(page("scale").cell("1,000,000", stage)) for stage in ("split", "encode", "index"))
    return f"a worker takes at most {most} MiB at 10⁶ passages; time no worse than linear"


def _growth() -> str:
    said = page("growth").said
    dual, fused = said("with `ivf_pq` **no**: {},"), said("With `index.layout=fused` yes: {} |")
    query, faster = said("dual index of 16,384 lists: {} ms"), said("Fused yes: {} ms")
    return f"""by counting up to 10⁷: `load` {said("`load` in 30 core-hours | yes: {} |")} core-hours; all but encoding
        with `ivf_pq` {dual}, fused {fused} (goal 60); a query over 7·10⁸ sentences {query} ms, fused {faster} (goal
        100), by arithmetic; `sql` starts in {said("starts in 3 s | yes: {} s")} s (goal 3)"""
