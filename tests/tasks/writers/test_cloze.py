"""The writer `cloze`: which sentences it uses, and what it leaves out of them."""

from vitalfew.configs.writing import WriteConfig
from vitalfew.tasks.registry import make
from vitalfew.tasks.writers.base import GivenPassage, Refusal, WrittenQuestion
from vitalfew.tasks.writers.cloze import GAP


def written(*sentences: str, seed: int = 100) -> WrittenQuestion | Refusal:
    writer = make(WriteConfig(writer="cloze", seed=seed), "write")
    [found] = writer.write([GivenPassage(7, "A title", "".join(sentences), sentences)])
    assert isinstance(found, WrittenQuestion | Refusal)
    return found


def answers(*sentences: str) -> set[str]:
    """Everything that is left out of these sentences by some seed."""
    found = [written(*sentences, seed=seed) for seed in range(40)]
    questions = [each for each in found if isinstance(each, WrittenQuestion)]
    for each in questions:
        assert each.text.replace(GAP, each.answer) == each.quote
        assert each.text.count(GAP) == 1
    return {each.answer for each in questions}


def test_a_name_or_a_number_is_left_out() -> None:
    sentence = "The observatory of Velmar was opened by Ada Norrin in 1894 with 12 telescopes.\n"
    assert answers(sentence) == {"Velmar", "Ada Norrin", "1894", "12"}
    kinds = {written(sentence, seed=seed).kind for seed in range(40)}  # type: ignore[union-attr]
    assert kinds == {"name", "year", "number"}
    assert written(sentence) == written(sentence)


def test_words_that_any_sentence_capitalises_are_no_names() -> None:
    first = "Rivers rise in the hills, and nobody there has ever asked them why. "
    assert written(first) == Refusal("no_name_or_number")
    assert answers("Nobody said a word: The mill had burnt down before Tove came home. ") == {"Tove"}
    assert answers("He asked the Mayor of the town of Hale for it. ", "A mayor has no such power. ") == {"Hale"}


def test_what_stands_twice_is_not_left_out() -> None:
    assert answers("From Hale to Orvik and from Hale to Tarn the road is closed. ") == {"Orvik", "Tarn"}
    assert answers("В городе у реки живёт более 600 тысяч человек, говорит Анна Петрова. ") == {"600", "Анна Петрова"}


def test_a_possessive_and_a_list_s_marker_stay_outside() -> None:
    assert answers("2. The road to the north leads past the mill of Tove's father. ") == {"Tove"}
    assert answers("The size of it grew to 1,234.5 metres, version 3.11.2 says. ") == {"1,234.5", "3.11.2"}


def test_code_tables_and_fragments_are_refused() -> None:
    for text in (
        "x = f(Anna, 3) + g(Berta, 14) for all of the many other arguments of it.",
        "| Anna | 3 | Berta | 14 | Carl Gauss | 1777 | Emmy Noether | 1882 |.",
        "The installation and configuration of Velmar",
        "北京是中华人民共和国的首都，人口超过两千万。它有三千年的历史。上海位于长江入海口，面积约6340平方公里。",
        "",
    ):
        assert written(text) == Refusal("no_sentence")
