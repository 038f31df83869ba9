"""Sentences by NLTK's Punkt with the deviations of tasks/splitters/punkt.py. Importing NLTK takes a while.

NLTK takes every decision. Only the search for candidates and the caching of decisions are this module's: most words end
a sentence whatever follows, so one look-up settles them.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from vitalfew.tasks.splitters.partition import begun_at


@contextmanager
def _without(*libraries: str) -> Iterator[None]:
    """Let NLTK go without optional libraries that are not imported yet: its measures and classifiers, which no splitter
    uses, import SciPy and scikit-learn, which takes four times as long as the rest."""
    hidden = dict.fromkeys({*libraries} - sys.modules.keys() if "nltk" not in sys.modules else ())
    sys.modules.update(hidden)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


with _without("scipy", "sklearn"):
    import nltk.data  # type: ignore[import-untyped, unused-ignore]
    from nltk.tokenize.punkt import (  # type: ignore[import-untyped, unused-ignore]
        _ORTHO_LC,
        PunktLanguageVars,
        PunktParameters,
        PunktSentenceTokenizer,
        PunktToken,
        PunktTrainer,
        load_punkt_params,
    )

Learned = dict[str, Any]
"""The result of a training, as JSON has it."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TITLES = _words("""
    mr mrs ms messrs mme mlle dr drs prof rev fr st ste mt gen col maj capt cpt lt sgt cpl pvt adm cmdr cdr brig gov sen
    rep pres hon supt insp
""")
"""Abbreviations that precede a name."""

ABBREVIATIONS = TITLES | _words("""
    jr sr esq ret inc corp co cos ltd llc plc bros assn dept univ inst intl govt
    jan feb apr jun jul aug sep sept oct nov dec
    no nos rs vol vols pp para fig figs ch chap ed eds op opp cf viz al etc vs approx ca est fl incl trans
    ave blvd rd rte hwy bldg apt ft sq
    e.g i.e a.m p.m a.d b.c b.c.e c.e u.s u.s.a u.k u.n e.u d.c l.a n.y
    ph.d m.d b.a m.a b.s m.s b.sc m.sc d.phil ll.b ll.d d.d
""")
"""Abbreviations of any English text: without the last period and in lower case. Words that are also common without a
period (Mar., Sat., Sun.) are left to training."""

STARTERS = _words("""
    the this that these those he she it they we his her its their there in on at by for from with as after before during
    when while although however but and if since
""")
"""Function words: in capitals after a period they start a sentence."""

LONGEST_WORD = 64
"""Characters of a word that a decision reads; longer words (URLs, base64) are cut, so the cost stays linear."""

CACHED_DECISIONS = 200_000
"""A cache holds so many decisions, about 40 MB."""

_CANDIDATE = re.compile(
    r"""[.?!] (?<! \.\s\. )
    (?! ["'\u2019\u201d\xbb)\]}]++ \s++ [a-z] )           # "This is great." she said
    (?= ["'\u2019\u201d\xbb)\]}]*+                         # closing quotes and brackets,
        (?: \s++ ["'\u2019\u201d\xbb)\]}]++ (?=\s) )?+     # more of them after a space,
        (?: \[ [^\[\].?!\n]{1,40} \] ){0,4}+               # footnote marks
        (?P<after_tok> \s++ (?! [.?!,;:]++ (?: \s | \Z ) ) (?P<next_tok> \S{1,LONGEST} ) )
    )""".replace("LONGEST", str(LONGEST_WORD)),
    re.VERBOSE,
)
_NUMBER = re.compile(r"(?:\A|\n)[^\S\n]*+\d{1,3}\.\Z")
"""The number of an item, whose period ends no sentence."""
_OPENING = _words("( [ { \" ' ` `` '' \u2018 \u2019 \u201c \u201d \xab \xbb")

_WORD = re.compile(
    PunktLanguageVars._word_tokenize_fmt
    % {
        "NonWord": PunktLanguageVars()._re_non_word_chars,
        "MultiChar": PunktLanguageVars._re_multi_char_punct,
        "WordStart": PunktLanguageVars._re_word_start,
    },
    re.VERBOSE,
)


class _Language(PunktLanguageVars):  # type: ignore[misc, unused-ignore]
    """English, with the standard library's engine: NLTK's raises TimeoutError after 5 seconds on a long line. Both
    patterns take linear time."""

    re_boundary_realignment = re.compile(r"(?!)")
    """Matches nothing: a candidate already includes the marks that close the sentence."""

    def period_context_re(self) -> re.Pattern[str]:
        return _CANDIDATE

    def _word_tokenizer_re(self) -> re.Pattern[str]:
        return _WORD


class _Token(PunktToken):  # type: ignore[misc, unused-ignore]
    """As NLTK's, for a training: what is asked of every token is looked up once."""

    __slots__ = ("first_case", "is_ellipsis")

    def __init__(self, tok: str, **places: bool) -> None:
        super().__init__(tok, **places)
        self.first_case, self.is_ellipsis = PunktToken.first_case.fget(self), PunktToken.is_ellipsis.fget(self)


@lru_cache(CACHED_DECISIONS)
def _token(tok: str) -> _Token:
    """A word is one token wherever it stands within a line: no decision of a training depends on more."""
    return _Token(tok)


class _Trainer(PunktTrainer):  # type: ignore[misc, unused-ignore]
    """Punkt's training with seeds, and in an order that does not depend on PYTHONHASHSEED."""

    def __init__(self) -> None:
        super().__init__(lang_vars=_Language())
        self._Token = lambda tok, **places: _Token(tok, **places) if places else _token(tok)
        self._params.abbrev_types |= ABBREVIATIONS

    def _unique_types(self, tokens: list[PunktToken]) -> list[str]:
        return sorted(super()._unique_types(tokens))

    def _reclassify_abbrev_types(self, types: list[str]) -> Iterator[tuple[str, float, bool]]:
        yield from super()._reclassify_abbrev_types([typ for typ in types if typ not in ABBREVIATIONS])

    def _is_potential_collocation(self, first: PunktToken, second: PunktToken) -> bool:
        return not first.is_number and super()._is_potential_collocation(first, second)

    def _find_sent_starters(self) -> Iterator[tuple[str, float]]:
        yield from ((typ, float("inf")) for typ in sorted(STARTERS))
        yield from super()._find_sent_starters()


class _Tokenizer(PunktSentenceTokenizer):  # type: ignore[misc, unused-ignore]
    """Punkt's decisions (section 4) with the deviations above. `Sentences.split` agrees with its span_tokenize."""

    def __init__(self, params: PunktParameters) -> None:
        super().__init__(lang_vars=_Language())
        self._params = params
        self._before_collocation = {first for first, _ in params.collocations}

    def _get_last_whitespace_index(self, text: str) -> int:
        """As in NLTK, but for any Unicode white space, so that a word ends at a no-break space, too."""
        if text[-1:].isspace():
            return len(text) - 1
        words = text.rsplit(None, 1)
        return len(text) - len(words[-1]) - 1 if len(words) > 1 else 0

    def _annotate_second_pass(self, tokens: Iterable[PunktToken]) -> Iterator[PunktToken]:
        tokens = list(tokens)
        for place, token in enumerate(tokens, 1):
            following = next((word for word in tokens[place:] if word.tok not in _OPENING), None)
            self._second_pass_annotation(token, following or next(iter(tokens[place:]), None))
            yield token

    def _second_pass_annotation(self, token: PunktToken, following: PunktToken | None) -> str | None:
        if following is not None:
            if token.abbr and token.type_no_period in TITLES:
                token.sentbreak = self._starts_sentence(following)
                return "title"
            first = following.tok[0]
            if token.is_initial and token.tok != "I." and (first.isupper() or first.isdigit()):
                token.sentbreak = self._starts_sentence(following)
                return "initial before a name or a number"
            if token.tok in ("?", "!") and self._ortho_heuristic(following) is False:
                token.sentbreak = False
                return "mark inside a sentence"
        return super()._second_pass_annotation(token, following)

    def _starts_sentence(self, token: PunktToken) -> bool:
        typ = token.type_no_sentperiod
        return bool(
            token.first_upper and typ in self._params.sent_starters and self._params.ortho_context[typ] & _ORTHO_LC
        )

    def always_ends(self, word: str) -> bool:
        """Return whether `word`, with its final mark, ends a sentence before any other word: no abbreviation, initial,
        number or first half of a collocation (so that no rule of the second pass applies)."""
        last = list(self._annotate_first_pass(self._tokenize_words(word)))[-1]
        if not (last.sentbreak and last.period_final) or last.is_initial or last.is_number:
            return False
        return last.type_no_period not in self._before_collocation


def installed() -> Any:
    """The place of NLTK's `punkt_tab`; None where it is not installed."""
    try:
        return nltk.data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        return None


def learned(texts: Iterable[str]) -> Learned:
    """Train Punkt on a sample; `texts` is not read where NLTK's `punkt_tab` is installed."""
    if place := installed():
        return _as_json(load_punkt_params(place), "nltk punkt_tab")
    trainer = _Trainer()
    trainer.train("\n\n".join(texts))
    return _as_json(trainer.get_params(), "sample")


class Sentences:
    """Splits by what was learnt. Raises KeyError where a field of that is missing."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        params = PunktParameters()
        params.abbrev_types = set(parameters["abbreviations"])
        params.collocations = {(first, second) for first, second in parameters["collocations"]}
        params.sent_starters = set(parameters["sentence_starters"])
        params.ortho_context = Counter(parameters["orthography"])  # 0 for an unknown type, which is not stored
        tokenizer = _Tokenizer(params)
        self._always_ends = lru_cache(CACHED_DECISIONS)(tokenizer.always_ends)
        self._ends_before = lru_cache(CACHED_DECISIONS)(tokenizer.text_contains_sentbreak)

    def split(self, text: str) -> list[tuple[int, int]]:
        """Character ranges that partition `text`; none for the empty text."""
        first, end = len(text) - len(text.lstrip()), len(text.rstrip())
        starts = []
        for match in _CANDIDATE.finditer(text, first, end):
            mark = match.start()
            if text[mark] == "." and _NUMBER.search(text, max(mark - LONGEST_WORD, 0), mark + 1):
                continue
            word = text[max(mark - LONGEST_WORD, 0) : mark + 1].rsplit(None, 1)[-1]
            if self._always_ends(word) or self._ends_before(f"{word} {match['next_tok']}"):
                starts.append(match.start("next_tok"))
        return begun_at(text, starts)


def untrained() -> Sentences:
    """With Punkt's rules and the abbreviations of this module alone, so that a text is split alike in every corpus."""
    learnt = {"abbreviations": ABBREVIATIONS, "collocations": [], "sentence_starters": STARTERS, "orthography": {}}
    return Sentences(learnt)


def _as_json(params: PunktParameters, source: str) -> Learned:
    """Plain JSON in sorted order. A type never seen in lower case is left out: Punkt decides on it as on an unseen
    one. So is what is longer than any word that is looked up."""

    def short(types: Iterable[str]) -> list[str]:
        return sorted(typ for typ in types if len(typ) <= LONGEST_WORD)

    types = short(typ for typ, flags in params.ortho_context.items() if flags & _ORTHO_LC)
    return {
        "source": source,
        "abbreviations": short(params.abbrev_types),
        "collocations": sorted([*pair] for pair in params.collocations if max(map(len, pair)) <= LONGEST_WORD),
        "sentence_starters": short(params.sent_starters),
        "orthography": {typ: params.ortho_context[typ] for typ in types},
    }
