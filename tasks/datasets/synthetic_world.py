"""The invented world behind `synthetic`: its vocabulary, its names, and the draws that choose among them.

Everything is a pure function of a seed and of numbers, through BLAKE2: the same in every process, on every machine and
in every version of Python, with no growing state. A name encodes its owner's number, so no two names are alike.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b


def _list(words: str, separator: str | None = None) -> list[str]:
    """Split a vocabulary, which is easier to read and extend than a list of quoted words."""
    return words.split(separator)


HEADS = _list(
    "Bal Bel Bor Bra Bri Cal Cor Dal Del Dor Dun Ebr Eld Fal Fen Fer Gal Gar Gel Gor Gri Hal Hel Hol Ild Jar Jor Kal "
    "Kel Kir Kol Lam Lar Lin Lor Mal Mar Mel Mor Nar Nel Nor Old Ost Pal Pel Per Pol Ral Ren Ros Rud Sal Sel Sol Tal "
    "Tar Tel Tol Tor Ulm Val Var Vel Ven Vil Vor Wal Wen Wil Yar Zel"
)
MIDDLES = _list(
    "ba be bi bo da de di do fa fe ga ge go ka ke ki ko la le li lo lu ma me mi mo mu na ne ni no nu pa pe po ra re ri "
    "ro ru sa se si so su ta te ti to tu va ve vi vo za zo"
)
TOWN_ENDINGS = _list(
    "bridge burgh cross dale field ford gate haven holm hurst march mere minster mouth port stead stow thorpe wick"
)
RIVER_ENDINGS = _list("ash brook enna fleet ild isk lam lenn nis ond rill sey spring th und ver wen")
SURNAMES = _list("bauer bech berg croft dahl dorff feld grave kamp lund mann moor quist rath skov smith strand vall")
# No ending is a middle followed by another ending of its kind, so a name has only one reading and is unique.

GIVEN_WOMEN = _list(
    "Ada Agnes Alma Berta Celia Clara Dora Edith Elsa Emma Flora Freda Greta Hanna Helga Ida Ines Irma Johanna Klara "
    "Lena Lydia Marta Mina Nora Olga Petra Rosa Selma Thea Ursula Vera"
)
GIVEN_MEN = _list(
    "Adam Albert Anton August Bruno Carl Conrad Edgar Emil Erik Felix Frank Georg Gustav Hugo Igor Isak Jakob Jonas "
    "Karl Leo Ludwig Magnus Martin Nils Oscar Otto Paul Rolf Simon Theo Victor"
)
PLAIN_SURNAMES = [
    start + end
    for start in _list("Acker Birk Brandt Dorn Eich Falk Frost Glas Hart Holz Jung Kerr Lang Nord Reed Rohr Stein Thal")
    for end in _list("ach by elius en er hof ing ius ley man ow sen son strom ton wald")
]
PLACES = [
    start + end
    for start in _list("Arn Bis Cham Drev Esk Flor Gram Hov Jas Krum Lis Mod Nev Orl Prav Rum Sad Tis Umb Vrat Zar")
    for end in _list("any atz edo egra ella eno evo ia igny ika inghe itza ola onne ova ovar una uvio yne")
]
"""Far-off towns that texts name but that have no passage."""
REGIONS = [
    f"the {kind} of {name}"
    for kind in ("Marches", "Uplands", "Duchy", "Levels", "Province", "Vale")
    for name in ("Avenmark", "Corrast", "Drumhollow", "Esterlund", "Hathren", "Lowmark", "Ormsey", "Quillan", "Tesmoor")
]
# Colours, animals, plants and trades start with a consonant because the texts put "a" before them.
COLOURS = _list("black claret cobalt cream crimson green grey maroon purple saffron scarlet turquoise violet white")
GOODS = _list(
    "barrel staves,bell ropes,blown glass,candles,clay pipes,cutlery,felt hats,fishing nets,lace,linen,mirrors,mustard,"
    "paper,pewter,rye whisky,saddles,salt,smoked eel,soap,tiles,vinegar,violins,wax seals,woollen blankets",
    ",",
)
STONES = _list("basalt,chalk,dolomite,flint,gneiss,granite,limestone,marble,sandstone,schist,slate,tuff", ",")
SAINTS = _list("Aldric Berin Cuthra Edburn Fintan Gerda Hild Ludan Maur Oswin Petroc Sidwell Tilda Ursin Wendel Ymar")
ANIMALS = _list("badger,bear,boar,crane,dolphin,falcon,goat,hare,heron,hound,lynx,mole,pike,raven,stag,swan,toad", ",")
PLANTS = _list("beech,birch,clover,fern,furze,hawthorn,hazel,heather,hemlock,juniper,larch,mallow,rowan,thyme", ",")
DISHES = _list(
    "almond cake,barley soup,blackberry dumplings,eel pie,fried carp,goose stew,honey buns,lentil bread,"
    "pickled herring,plum tart,roast chestnuts,rye pancakes,saffron buns,turnip mash",
    ",",
)
MONTHS = _list("January February March April May June July August September October November December")
WEEKDAYS = _list("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
TRADES = _list("baker,bell founder,brewer,cooper,ferryman,glazier,miller,notary,saddler,tanner,watchmaker", ",")
SUBJECTS = _list(
    "bog mosses,cave beetles,river sediments,mountain lichens,tidal currents,migrating geese,glacial clays,"
    "salt marshes,variable stars,meteor showers,thunderstorms,soil fungi,freshwater mussels,old dialects",
    ",",
)


class Draw:
    """The choices for one passage or question: a function of its key, uniform for counts far below 2⁶⁴."""

    __slots__ = ("_bits", "_key")

    def __init__(self, *key: int | str) -> None:
        self._key = ":".join(map(str, key)).encode()
        self._bits = int.from_bytes(blake2b(self._key).digest(), "little")

    def __call__(self, count: int) -> int:
        """Return a number from 0 to count - 1."""
        if self._bits < 1 << 64:
            self._key += b"+"
            self._bits = int.from_bytes(blake2b(self._key).digest(), "little")
        self._bits, chosen = divmod(self._bits, count)
        return chosen


def coprime_step(near: int, size: int) -> int:
    """Return the first step from `near` on that visits all of range(size) before it returns to its start."""
    step = near
    while math.gcd(step, size) != 1:
        step += 1
    return step


@dataclass(frozen=True)
class Namer:
    """Gives every number a unique name: its digits over heads, middles and endings, in a seeded order.

    Numbers beyond the names with one middle get two middles, then three, so there is no largest number.
    """

    seed: int
    endings: tuple[str, ...]
    kind: str
    _steps: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __call__(self, number: int) -> str:
        size, middles = len(HEADS) * len(MIDDLES) * len(self.endings), 1
        while number >= size:
            number, size, middles = number - size, size * len(MIDDLES), middles + 1
        if middles not in self._steps:
            draw = Draw(self.seed, "names", self.kind, middles)
            self._steps[middles] = coprime_step(draw(size), size), draw(size)
        step, start = self._steps[middles]
        number, head = divmod((number * step + start) % size, len(HEADS))
        number, ending = divmod(number, len(self.endings))
        name = HEADS[head]
        for _ in range(middles):
            number, middle = divmod(number, len(MIDDLES))
            name += MIDDLES[middle]
        return name + self.endings[ending]


Pool = Callable[[Draw, int], str]
"""Draws a value for a template's field; the number is the year from which the passage's subject dates."""


def _of(values: list[str]) -> Pool:
    return lambda draw, _: values[draw(len(values))]


def _person(given: list[str]) -> Pool:
    return lambda draw, _: f"{given[draw(len(given))]} {PLAIN_SURNAMES[draw(len(PLAIN_SURNAMES))]}"


POOLS: dict[str, Pool] = {
    "animal": _of(ANIMALS),
    "colour": _of(COLOURS),
    "dish": _of(DISHES),
    "goods": _of(GOODS),
    "plant": _of(PLANTS),
    "stone": _of(STONES),
    "subject": _of(SUBJECTS),
    "trade": _of(TRADES),
    "place": _of(PLACES),
    "weekday": _of(WEEKDAYS),
    "month": _of(MONTHS),
    "saint": lambda draw, _: f"St. {SAINTS[draw(len(SAINTS))]}",
    "man": _person(GIVEN_MEN),
    "woman": _person(GIVEN_WOMEN),
    "person": _person(GIVEN_MEN + GIVEN_WOMEN),
    "first": lambda _, first: str(first),
    "year": lambda draw, first: str(first + 20 + draw(56)),
    "day": lambda draw, _: f"{1 + draw(28)} {MONTHS[draw(12)]}",
    "few": lambda draw, _: str(3 + draw(9)),
    "count": lambda draw, _: str(12 + draw(85)),
    "thousands": lambda draw, _: f"{2 + draw(60)},{draw(1000):03}",
    "km": lambda draw, _: f"{2 + draw(48)}.{1 + draw(9)} km",
    "metres": lambda draw, _: f"{14 + draw(180)}.{1 + draw(9)} m",
    "tonnes": lambda draw, _: f"{90 + draw(800)}.{1 + draw(9)} tonnes",
    "sum": lambda draw, _: f"{2 + draw(90)},{draw(10)}00 crowns",
}
"""How to draw a template's fields. A field may end in a digit (`person2`) if a sentence has two of a kind."""
