"""Scripts that an encoder does not know, by its tokenizer."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from vitalfew.tasks.encoders.scripts import unread
from vitalfew.tasks.models.files import minilm_directory

TEXTS = {
    "CYRILLIC": "Паром отходит в полдень, билеты продают на берегу.",
    "CJK": "渡船中午开船，船票在岸边买。",
    "HANGUL": "배는 정오에 떠나고 표는 물가에서 팝니다.",
    "ARABIC": "تغادر العبارة ظهرا وتباع التذاكر على الشاطئ.",
    "DEVANAGARI": "नाव दोपहर को चलती है।",
    "THAI": "เรือออกตอนเที่ยง",
}
LATIN = ["The ferry leaves at noon.", "Die Fähre fährt um zwölf, für 3 Kronen.", "The angle α is half of β."]


@pytest.fixture(scope="module")
def english() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(minilm_directory() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def test_an_english_tokenizer_knows_no_other_script(english: Tokenizer) -> None:
    assert [*unread(LATIN, english.encode_batch)] == ["letters"]
    for script, text in TEXTS.items():
        notes = unread([*LATIN, text], english.encode_batch)
        assert [*notes] == ["letters", f"unread {script}"]
        assert 0 < notes[f"unread {script}"] < notes["letters"]


@pytest.mark.parametrize("by_bytes", [False, True])
def test_a_tokenizer_that_learnt_a_script_knows_it(by_bytes: bool) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel() if by_bytes else pre_tokenizers.Metaspace()
    learnt = [TEXTS["CYRILLIC"], TEXTS["ARABIC"], *LATIN]
    alphabet = pre_tokenizers.ByteLevel.alphabet() if by_bytes else []
    tokenizer.train_from_iterator(learnt * 20, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet))
    assert [*unread(learnt, tokenizer.encode_batch)] == ["letters"]
    if by_bytes:
        assert "unread CJK" in unread([*learnt, TEXTS["CJK"]], tokenizer.encode_batch)
