"""How the report shows the controls of a model of histories."""

from __future__ import annotations

from components.tasks.click.baselines import POPULARITY, RECENCY
from components.tasks.click.probes import EMPTY_HISTORY, OTHER_HISTORY, UNKNOWN_USER
from components.tasks.controls import BASELINE
from components.tasks.controls_report import Control

_COUNTED = "How often the history has the candidate's category, recent items counting more."
HISTORY_CONTROLS = {
    BASELINE: Control(
        "built-in baseline",
        "A logistic regression on counts of the history, popularity and history length.",
        "The model is above it: it has learned more than these counts.",
        "The difference to the model may be chance.",
        "The model is below it: the counts do better.",
    ),
    RECENCY: Control(
        "recency alone",
        _COUNTED,
        "The model is above it.",
        "This one number does as well as the model.",
        "This one number does better than the model.",
    ),
    POPULARITY: Control(
        "popularity alone",
        "How often the candidate occurs in the data.",
        "The model is above it.",
        "This one number does as well as the model.",
        "This one number does better than the model.",
    ),
    OTHER_HISTORY: Control(
        "another user's history",
        "The model, with histories exchanged between users.",
        "It loses: its score rests on the user's own history.",
        "It loses little or nothing: whose history it reads does not matter.",
        "It gains: the user's own history misleads it.",
    ),
    EMPTY_HISTORY: Control(
        "empty history",
        "The model, without any history.",
        "It loses: what is left comes from the candidate and the user's id.",
        "It loses little or nothing: it does not use histories.",
        "It gains: histories mislead it.",
    ),
    UNKNOWN_USER: Control(
        "unknown user",
        "The model, with the id of an unknown user.",
        "It loses: a part of its score is memorised users, which new users lack.",
        "It loses little or nothing: it does not rest on the user's id.",
        "It gains: memorised users mislead it.",
    ),
}
