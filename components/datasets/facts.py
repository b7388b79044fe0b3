"""Plain facts about things, of which generated texts and questions are made."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

THINGS = (
    "lamp", "clock", "chair", "table", "carpet", "mirror", "drum", "basket", "ladder", "kettle", "blanket", "candle",
)  # fmt: skip
OWNERS = ("Anna", "Bruno", "Clara", "David", "Elena", "Felix", "Greta", "Hugo", "Irene", "Jonas", "Karin", "Ludwig")
ADVERBS = ("now", "still", "again", "always", "mostly", "since May")


class Kind(NamedTuple):
    """A kind of facts.

    Attributes:
        values: possible answers, which no other kind has.
    """

    sentence: str
    question: str
    values: tuple[str, ...]


KINDS = (
    Kind(
        "The {thing} of {owner} is {adverb} {value}.",
        "Which colour has the {thing} of {owner}?",
        ("red", "green", "blue", "yellow", "black", "white", "brown", "grey", "purple", "orange"),
    ),
    Kind(
        "{owner} {adverb} keeps the {thing} in {value}.",
        "Where does {owner} keep the {thing}?",
        ("the cellar", "the kitchen", "the attic", "the hall", "the garden", "the old barn", "the library"),
    ),
    Kind(
        "The {thing} of {owner} was {adverb} repaired by {value}.",
        "Who repaired the {thing} of {owner}?",
        ("Marta", "Nils", "Olga", "Paul", "Rosa", "Simon", "Tessa", "Viktor"),
    ),
    Kind(
        "{owner} {adverb} uses the {thing} on {value}.",
        "When does {owner} use the {thing}?",
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    ),
    Kind(
        "The {thing} of {owner} is {adverb} made of {value}.",
        "What is the {thing} of {owner} made of?",
        ("wood", "iron", "glass", "copper", "paper", "solid silver", "stone", "leather"),
    ),
    Kind(
        "{owner} {adverb} wants {value} euros for the {thing}.",
        "How much does {owner} want for the {thing}?",
        ("five", "seven", "twelve", "twenty", "thirty", "forty", "ninety", "a hundred"),
    ),
    Kind(
        "{owner} {adverb} hides {value} under the {thing}.",
        "What does {owner} hide under the {thing}?",
        ("a key", "a letter", "a coin", "two rings", "a map", "an old photograph", "a spoon"),
    ),
    Kind(
        "The {thing} of {owner} {adverb} smells of {value}.",
        "How does the {thing} of {owner} smell?",
        ("smoke", "soap", "coffee", "roses", "fresh paint", "pepper", "honey"),
    ),
)
# Facts of a text, so that at least three of a thing are left to ask for.
_STATED = (3, 5)


class Subject(NamedTuple):
    """What a fact is about: a kind, and a thing of an owner."""

    kind: Kind
    thing: str
    owner: str

    def sentence(self, value: str, random: Random) -> str:
        return self.kind.sentence.format(thing=self.thing, owner=self.owner, adverb=random.choice(ADVERBS), value=value)

    @property
    def question(self) -> str:
        return self.kind.question.format(thing=self.thing, owner=self.owner)


def drawn_subjects(random: Random, things: int) -> tuple[list[Subject], list[Subject]]:
    """What a text states, and what it does not, in random order.

    Args:
        things: number of things of the text, and of their owners.
    """
    chosen, owners = random.sample(THINGS, things), random.sample(OWNERS, things)
    subjects = [Subject(kind, thing, owner) for kind in KINDS for thing in chosen for owner in owners]
    random.shuffle(subjects)
    stated = random.randint(*_STATED)
    return subjects[:stated], subjects[stated:]
