"""Golden: sentences and keyword hits in eight languages; German "Am 3. Mai" is cut."""

from collections.abc import Callable

import vitalfew as vf
from tests.golden.stores import lines, odd, rows

SENTENCES = (
    "SELECT source_id, position, sentences.tokens, sentences.text FROM sentences JOIN passages USING (passage_id) "
    "WHERE sentences.index = 'languages' AND passages.index = 'languages' ORDER BY source_id, position"
)
WORDS = ("码头", "船票", "灯台", "टिकट", "रुपये", "القارب", "راكبًا", "ตั๋ว", "Տոմսը", "geschlossen", "Weiss", "pilots")


def test_sentences(golden: Callable[[str, str], None]) -> None:
    golden("languages/sentences.txt", lines(rows(vf.Store(odd() / "store", progress=False), SENTENCES)))


def test_keywords(golden: Callable[[str, str], None]) -> None:
    index, text = vf.Store(odd() / "store", progress=False).index("languages"), ""
    for word in WORDS:
        hits = index.search(word, top_k=2, retriever="bm25", settings={"unit": "passage"})
        text += f"# {word}\n" + lines((hit.rank, hit.score, hit.source_id) for hit in hits)
    golden("languages/keywords.txt", text)
