"""The refiners `rerank`, `dslr` and `provence`: what they keep, in which order, in which budget; and a whole run."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tiny_models
from tests.support.evaluating import copied, run
from tests.support.indexing import sql
from tests.support.shared import indexed
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.models.small.pairs import PairReading
from vitalfew.tasks.refiners.base import Evidence, Hit, Refined
from vitalfew.tasks.refiners.provence import Provence
from vitalfew.tasks.refiners.scored import Dslr, Rerank
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

WORDS = st.sampled_from(["mill", "river", "sea", "town", "hill"])
SENTENCES = st.lists(st.lists(WORDS, min_size=1, max_size=4).map(lambda words: " ".join(words) + ". "), max_size=4)
PASSAGES = st.lists(SENTENCES.filter(bool), max_size=4)
CHOICES: list[dict[str, Any]] = [
    {},
    {"max_tokens": 7},
    {"max_words": 5},
    {"top_k": 2},
    {"text": "titled", "max_words": 6},
]


def hit(passage: int, sentences: list[str]) -> Hit:
    ends = [sum(map(len, sentences[: number + 1])) for number in range(len(sentences))]
    spans = tuple(zip([0, *ends], ends, strict=False))
    return Hit("Ouse", "".join(sentences), passage, 0, ends[-1], spans)


def score(text: str) -> float:
    """Of a text, the same in every process, and equal for some."""
    return sum(map(ord, text)) % 7 / 7


@pytest.fixture(autouse=True)
def scorer(monkeypatch: pytest.MonkeyPatch) -> None:
    def relevance(self: Any, pairs: list[tuple[str, str]], tick: Any) -> list[float]:
        tick(len(pairs), 3 * len(pairs))
        return [score(text) for _, text in pairs]

    monkeypatch.setattr("vitalfew.tasks.raters.embedded.Embedded.relevance", relevance)


def refined(refiner: Any, hits: list[Hit]) -> tuple[list[Evidence], Refined]:
    ticks: list[tuple[int, int]] = []
    made: Refined = refiner.refine(["Where?", "Who?"], [hits, []], None, lambda *done: ticks.append(done))
    assert made.contexts[1] == []
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (2, made.tokens)
    return made.contexts[0], made


def holds_budget(contexts: list[Evidence], chosen: dict[str, Any]) -> bool:
    words, tokens = (sum(count(each.text) for each in contexts) for count in (count_words, count_tokens))
    return words <= chosen.get("max_words", words) and tokens <= chosen.get("max_tokens", tokens)


@settings(deadline=None)
@given(PASSAGES, st.sampled_from(CHOICES))
def test_reranked_hits_are_some_of_the_hits_by_their_scores(passages: list[list[str]], chosen: dict[str, Any]) -> None:
    hits = [hit(number, sentences) for number, sentences in enumerate(passages)]
    refiner = Rerank(Rerank.Options(refiner="rerank", **chosen))
    contexts, made = refined(refiner, hits)
    shown = [one.label(refiner.options) + one.text.strip() for one in hits]
    order = sorted(range(len(hits)), key=lambda number: (-score(shown[number]), number))
    assert [context.origin[0][0] for context in contexts] == order[: len(contexts)]
    assert all(shown[number].startswith(each.text) for number, each in zip(order, contexts, strict=False))
    assert holds_budget(contexts, chosen)
    assert chosen or len(contexts) == len(hits)
    assert made.tokens == 3 * len({*shown})  # the same pair is scored once


@settings(deadline=None)
@given(PASSAGES, st.sampled_from(CHOICES), st.sampled_from([0.0, 0.4, 1.0]))
def test_dslr_keeps_sentences_of_the_passages_in_their_order(
    passages: list[list[str]], chosen: dict[str, Any], threshold: float
) -> None:
    hits = [hit(number, sentences) for number, sentences in enumerate(passages)]
    refiner = Dslr(Dslr.Options(refiner="dslr", threshold=threshold, **chosen))
    contexts, _ = refined(refiner, hits)
    assert holds_budget(contexts, chosen)
    assert [each.origin[0][0] for each in contexts] == sorted({each.origin[0][0] for each in contexts})
    for context in contexts:
        own = hits[context.origin[0][0]]
        label = own.label(refiner.options)
        assert [*context.origin] == sorted(context.origin)
        parts = [own.text[start:end].strip() for _, start, end in context.origin]
        assert context.text == label + " ".join(parts)
        passing = [
            own.text[start:end]
            for start, end in own.sentences
            if score(label + own.text[start:end].strip()) >= threshold
        ]
        if not {"max_words", "max_tokens"} & chosen.keys():
            assert context.text == label + "".join(passing).strip()
    if not chosen and threshold == 0:
        assert [each.text for each in contexts] == [one.text.strip() for one in hits]


def test_a_budget_takes_the_best_sentences() -> None:
    sentences = ["sea sea. ", "mill. ", "hill town. ", "river. "]
    one = hit(5, sentences)
    best = sorted(range(4), key=lambda number: -score(sentences[number].strip()))[0]
    [[context], _] = (
        Dslr(Dslr.Options(refiner="dslr", threshold=0, max_words=1)).refine(["a", "b"], [[one], []]).contexts
    )
    assert context.text == sentences[best].split()[0]
    assert context.origin == ((5, one.sentences[best][0], one.sentences[best][0] + len(context.text)),)


def test_a_proposition_is_one_sentence_without_an_origin() -> None:
    proposition = Hit("", "A fact.", 3, 0, 0)
    [[context]] = Dslr(Dslr.Options(refiner="dslr", threshold=0)).refine(["a"], [[proposition]]).contexts
    assert (context.text, context.origin) == ("A fact.", ())
    assert Dslr(Dslr.Options(refiner="dslr", threshold=1)).refine(["a"], [[proposition]]).contexts == [[]]


# --- Provence


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.provence(tmp_path_factory.mktemp("provence"))


def pruner(tiny: Path, **chosen: Any) -> Provence:
    return Provence(Provence.Options(refiner="provence", model=str(tiny), device="cpu", precision="fp32", **chosen))


def test_sentences_are_kept_by_the_share_of_their_tokens(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = hit(0, ["mill sea town. ", "river hill. "]), hit(1, ["town. ", "hill. ", "sea. "])
    # Tokens with the blank before them, as sentencepiece has them; behind the title "Ouse: ".
    readings = {
        one.text: PairReading(
            1.0, ((0, 5, 0.9), (6, 10, 0.9), (10, 14, 0.9), (14, 19, 0.0), (20, 26, 0.0), (26, 31, 0.9))
        ),
        other.text: PairReading(2.0, ((6, 10, 0.9), (11, 17, 0.05), (17, 21, 0.9))),
    }
    monkeypatch.setattr(
        "vitalfew.tasks.models.small.pairs.PairModel.read",
        lambda self, pairs, tick: [readings[text.removeprefix("Ouse: ")] for _, text in pairs],
    )

    def made(**chosen: Any) -> list[str]:
        return [each.text for each in pruner(tiny, **chosen).refine(["Where?"], [[one, other]]).contexts[0]]

    assert made() == ["town. sea.", "mill sea town."]  # of "river hill." half: not more
    assert made(reorder=False, text="titled") == ["Ouse: mill sea town.", "Ouse: town. sea."]
    assert made(share=0.4) == ["town. sea.", "mill sea town. river hill."]
    assert made(threshold=0.01) == ["town. hill. sea.", "mill sea town."]
    assert made(threshold=0.95) == []
    assert made(top_k=1) == ["town. sea."]
    assert made(max_words=3) == ["town. sea.", "mill"]


@settings(deadline=None, max_examples=15)
@given(PASSAGES, st.sampled_from(CHOICES))
def test_provence_keeps_sentences_of_the_passages(
    tiny: Path, passages: list[list[str]], chosen: dict[str, Any]
) -> None:
    hits = [hit(number, sentences) for number, sentences in enumerate(passages)]
    contexts, _ = refined(pruner(tiny, threshold=0.4, **chosen), hits)
    assert holds_budget(contexts, chosen)
    for context in contexts:
        own = hits[context.origin[0][0]]
        parts = [own.text[start:end].strip() for _, start, end in context.origin]
        assert context.text == own.label(RefineConfig(**chosen)) + " ".join(parts)
        assert {start for _, start, _ in context.origin} <= {start for start, _ in own.sentences}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"naver/provence-reranker-debertav3-v1 is not on this.*refine\.model"):
        Provence(Provence.Options(refiner="provence"))
    with pytest.raises(FileNotFoundError, match=r"cross-encoder/none is not on this machine.*refine\.model"):
        Rerank(Rerank.Options(refiner="rerank", model="cross-encoder/none"))


# --- In an evaluation


def test_all_of_them_in_an_evaluation(tmp_path: Path, tiny: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
    model = str(tiny_models.cross_encoder(tmp_path / "model"))
    naive = {"retriever": "passage"}
    methods: dict[str, Any] = {
        "rerank": {"refine": {"refiner": "rerank", "max_tokens": 40}},
        "named": {"retrieve": naive, "refine": {"refiner": "rerank", "model": model, "top_k": 2}},
        "dslr": {"retrieve": naive, "refine": {"refiner": "dslr", "threshold": 0.3, "max_tokens": 40}},
        "parents": {"refine": {"refiner": "dslr", "threshold": 0.3, "text": "passage"}},
        "provence": {
            "retrieve": naive,
            "refine": {"refiner": "provence", "model": str(tiny), "threshold": 0.0, "share": 0.0},
        },
    }
    given = {"index": "test", "retrieve": {"top_k": 5}, "generate": {"generator": "tests.support.fakes:FirstWords"}}
    outcome = run(store, {**given, "methods": methods, "score": {"metrics": ["f1", "tokens", "useful_information"]}})
    for name, manifests in outcome.methods.items():
        fingerprint = manifests["refine"].artifact.split("/")[1]
        rows = sql(
            store,
            "SELECT question_id, evidence.text, origin, passages.text, title FROM evidence JOIN passages "
            f"ON passages.passage_id = origin[1].passage_id WHERE evidence.fingerprint = '{fingerprint}'",
        )
        assert rows, name
        for _, text, origin, passage, title in rows:
            parts = [passage[span["start"] : span["end"]].strip() for span in origin]
            assert text.split() == f"{title}: {' '.join(parts)}".split(), name
