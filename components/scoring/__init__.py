"""Scores samples with an exported model, including one trained on other data."""

from components.scoring.controls import score_controls
from components.scoring.model import (
    ExportedModel,
    NotFinite,
    describe_model,
    load_model,
    open_test_split,
    open_trained,
)
from components.scoring.raw import RawModel, Scored, load_raw_model, raw_model, refusal_of_rows
from components.scoring.split import explained, score_split
from components.scoring.translation import scoring_translation, translation
