"""How the report shows the controls of a model of columns."""

from __future__ import annotations

from components.tasks.binary.columns import BEST_COLUMN
from components.tasks.controls import BASELINE
from components.tasks.controls_report import Control

# Of data without histories.
COLUMN_CONTROLS = {
    BASELINE: Control(
        "built-in baseline",
        "A logistic regression on the click rates of the values of all columns.",
        "The model is above it: it has learned more than the columns tell one by one.",
        "The difference to the model may be chance.",
        "The model is below it: the columns one by one tell more.",
    ),
    BEST_COLUMN: Control(
        "best column alone",
        "The click rates of the values of the column that ranks best, {about}.",
        "The model is above it.",
        "This one column does as well as the model.",
        "This one column does better than the model.",
    ),
}
