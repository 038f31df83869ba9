"""Sentences of 22 languages, split by sentencex: sentences of our own, of the shapes that pySBD's cases have."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalfew.tasks.splitters.punkt import Punkt
from vitalfew.tasks.splitters.sentencex import WINDOW, Sentencex, language_of, split

CASES = {
    "am": ["ሰላም ነው። | ስሙ ማን ነው? | ቤቱ ትልቅ ነው።", "ዝናብ ዘነበ። | መንገዱ ረጠበ።"],
    "ar": ["افتتح الجسر عام 1894. | هل زرته؟ | إنه جميل!", "قالت: لا أعرف. | ثم خرجت."],
    "bg": ["Мостът е открит през 1894 г. от кмета. | Той е дълъг.", "Къде е гарата? | Ето там!"],
    "da": ["Broen åbnede i 1894. | Den er lang.", "Hvor er stationen? | Lige her!"],
    "de": ["Die Brücke wurde am 3. Mai 1894 eröffnet. | Sie ist lang.", "Dr. Weber kam um 8 Uhr. | Er blieb."],
    "el": ["Η γέφυρα άνοιξε το 1894. | Είναι μεγάλη.", "Πού είναι ο σταθμός; | Είναι εδώ."],
    "en": ["Dr. Ward came at 8 p.m. on Monday. | He stayed.", "It cost $3.50. | That is fair."],
    "es": ["¿Dónde está la estación? | ¡Aquí está!", "El Sr. López llegó tarde. | La Sra. Ruiz no vino."],
    "fa": ["پل در سال ۱۸۹۴ باز شد. | بلند است.", "ایستگاه کجاست؟ | همین جا است."],
    "fr": ["Où est la gare ? | Elle est ici !", "M. Leroy est venu. | Mme Petit est partie."],
    "hi": ["पुल 1894 में खुला। | वह लंबा है।", "स्टेशन कहाँ है? | यहीं है।"],
    "hy": ["Կամուրջը բացվեց 1894 թվականին։ | Այն երկար է։", "Նա եկավ։ | Մենք գնացինք։"],
    "it": ["Il ponte fu aperto nel 1894. | È lungo.", "Dov'è la stazione? | È qui!"],
    "ja": ["橋は一八九四年に開通した。 | とても長い。", "「はい。」と言った。 | 帰った。"],
    "kk": ["Көпір 1894 жылы ашылды. | Ол ұзын.", "Вокзал қайда? | Міне!"],
    "mr": ["पूल १८९४ मध्ये उघडला. | तो लांब आहे.", "स्टेशन कुठे आहे? | इथेच आहे!"],
    "my": ["တံတားကို ဖွင့်ခဲ့သည်။ | ရှည်သည်။", "မိုးရွာသည်။ | အိမ်မှာနေပါ။"],
    "nl": ["De brug opende in 1894. | Hij is lang.", "Waar is het station? | Hier!"],
    "pl": ["Most otwarto w 1894 r. w maju. | Jest długi.", "Gdzie jest dworzec? | Tutaj!"],
    "ru": ["Мост открыли в 1894 г. при мэре. | Он длинный.", "А. С. Пушкин родился в Москве. | Он писал стихи."],
    "sk": ["Most otvorili 3. mája 1894. | Je dlhý.", "Kde je stanica? | Tu!"],
    "ur": ["پل 1894 میں کھلا۔ | وہ لمبا ہے۔", "اسٹیشن کہاں ہے؟ | یہیں ہے۔"],
    "zh": ["大桥于1894年开通。 | 它很长。", "车站在哪里？ | 就在这里！"],
}


def sentences(text: str, ranges: list[tuple[int, int]]) -> list[str]:
    return [text[start:end].strip() for start, end in ranges]


def cases() -> list[tuple[str, list[str]]]:
    return [(language, case.split(" | ")) for language, own in CASES.items() for case in own]


def joined(language: str, expected: list[str]) -> str:
    return ("" if language in ("zh", "ja") else " ").join(expected)


def test_nine_of_ten_cases_of_all_languages_are_right() -> None:
    wrong = []
    for language, expected in cases():
        text = joined(language, expected)
        if sentences(text, split(text, language)) != expected:
            wrong.append((language, sentences(text, split(text, language))))
    assert len(wrong) <= len(cases()) // 10, wrong


def test_abbreviations_of_a_language_that_is_set() -> None:
    german = Punkt(Punkt.Options(language="de"))
    german.load({**german.train([]), "abbreviations": []})
    text = "Am 3. Mai kam er. Er ging."
    assert sentences(text, german.split(text)) == ["Am 3. Mai kam er.", "Er ging."]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("War and Peace (Война и мир) is long.", "en"),
        ("大桥的API于1894年由Smith开通", "zh"),
        ("東京タワーは高い", "ja"),
        ("다리는 길다", "ko"),
        ("12 + 7", "en"),
        ("", "en"),
    ],
)
def test_the_script_names_the_language(text: str, language: str) -> None:
    assert language_of(text) == language


PIECES = st.sampled_from(
    ["你好。", "“我走了。”", " ", "\n\n", "- 项\n", "नमस्ते। ", "Ok. ", "\u3000", "！", "é"]
) | st.text(max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES, max_size=20).map("".join), st.integers(0, 2))
def test_ranges_partition_any_text(text: str, long: int) -> None:
    text *= 1 + long * WINDOW // max(1, len(text))
    ranges = Sentencex(Sentencex.Options()).split(text)
    assert "".join(text[start:end] for start, end in ranges) == text
    assert len(ranges) == 1 or all(text[start:end].strip() for start, end in ranges)
    assert not any(text[start].isspace() for start, _ in ranges[1:])
