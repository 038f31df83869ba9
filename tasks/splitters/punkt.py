"""Unsupervised sentence splitting: NLTK's Punkt, trained on the corpus itself.

Method: Kiss & Strunk (2006), "Unsupervised Multilingual Sentence Boundary Detection", Computational Linguistics 32(4).
Training finds abbreviations by log-likelihood ratio (their section 3) and collects what the token pass needs (section
4): how words are capitalised (4.1.1), collocations (4.1.2) and frequent sentence starters (4.1.3). All published
thresholds are kept. Where NLTK's English `punkt_tab` data is installed, its parameters are used as they are.

Deviations, all for English, none of them learnt from labelled text:

- Training starts from `ABBREVIATIONS`, which it cannot unlearn, and `STARTERS` always count as sentence starters.
- A number before a period is not an ordinal in English, so it forms no collocation with the next word: otherwise
  "… in 1994. Dominik", seen twice, would never end a sentence.
- After a title ("Dr.") or an initial ("Vivica A.") the next word is a name, capitalised wherever it stands, so only a
  frequent sentence starter that is also seen in lower case ends the sentence. "I." is a numeral too ("World War I.")
  and keeps Punkt's rule.
- A question or exclamation mark ends no sentence where the orthographic heuristic rules out that the next word starts
  one ("Who's the Caboose?" starring …). Kiss & Strunk leave these marks alone.
- The next *word* is looked at, past opening quotes and brackets: Robert D. "Bob" Basham.
- Closing quotes, brackets and footnote marks ("[2]") after the mark stay in its sentence; a mark that no white space
  follows after those ends none; neither does one before detached punctuation, nor ". . .", nor one that is closed
  before a small letter ("Great." she said). A blank line always does.
- An item of a list, a line that begins with "- ", "* ", "+ ", "• ", "2. " or "2) ", begins a sentence, and its number
  ends none.

A passage in letters of another script than Latin, or of a `split.language` that is not en, is split by sentencex
(tasks/splitters/sentencex.py): Punkt's marks are ASCII.

The work is done in nltk_punkt.py, which imports NLTK: a driver that only names the splitter does without.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from vitalfew.tasks.splitters.base import Parameters, TrainedOptions
from vitalfew.tasks.splitters.sentencex import ENGLISH, language_of, split

if TYPE_CHECKING:
    from vitalfew.tasks.splitters.nltk_punkt import Sentences


class Punkt:
    """NLTK's Punkt, trained without supervision on a sample of the corpus, for Latin letters; sentencex for others."""

    class Options(TrainedOptions, extra="forbid"):
        pass

    version: ClassVar[str] = "3"  # since 3, other scripts by sentencex; 2, items of a list begin sentences

    def __init__(self, options: Options) -> None:
        """Call `load` before `split`; `train` needs neither."""
        self.options = options
        self._sentences: Sentences | None = None

    def train(self, texts: Iterable[str]) -> Parameters:
        """Learn from a sample of passages: about 2 s and 60 MB of memory per MB of text.

        A few hundred kB are enough, some MB are better. `texts` is not read where `punkt_tab` is installed; `source` in
        the result says which of the two it was.
        """
        from vitalfew.tasks.splitters.nltk_punkt import learned

        return learned(texts)

    def load(self, parameters: Parameters) -> None:
        """Take over what `train` returned. Raises KeyError where a field is missing."""
        from vitalfew.tasks.splitters.nltk_punkt import Sentences

        self._sentences = Sentences(parameters)

    def split(self, text: str) -> list[tuple[int, int]]:
        """Character ranges that partition `text`; none for the empty text. Raises RuntimeError before `load`."""
        if self._sentences is None:
            raise RuntimeError("Punkt.split needs parameters: call load(train(texts)) first")
        if (language := self.options.language or language_of(text)) != ENGLISH:
            return split(text, language)
        return self._sentences.split(text)
