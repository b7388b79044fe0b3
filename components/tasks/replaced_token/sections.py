"""The report of a model that detects replaced tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.report import Axis, Card, Figure, Line, Section, Story, line_chart
from components.tasks.controls import BASELINE
from components.tasks.definition import Measured
from components.tasks.replaced_token import AUC
from components.tasks.replaced_token.baselines import BIGRAM, UNIGRAM
from components.tasks.report import Control, controls_section, interval_card, simple_rule, true_figure
from components.text.outputs import REPLACED_WEIGHT

_UNIT = (0.0, 0.25, 0.5, 0.75, 1.0)
_CONTROLS = {
    BASELINE: Control(
        "built-in baseline",
        "The better of the two below.",
        "The model is above it: it has learned more than pairs of neighbouring tokens.",
        "The difference to the model may be chance.",
        "The model is below it: counting tells more.",
    ),
    BIGRAM: simple_rule(
        "pairs of tokens",
        "How seldom a token stands beside its neighbours in the training texts, and how often it replaces another one.",
        "Pairs do",
    ),
    UNIGRAM: simple_rule(
        "single tokens",
        "How seldom a token occurs in the training texts, and how often it replaces another one.",
        "Counts do",
    ),
}
_SAW = "the tokens that replace others in one half of the test texts to score the other half"


def story(measured: Measured) -> Story:
    """The report."""
    metrics = measured.metrics
    loss = metrics["test_loss"]
    lead = (
        f"The loss is that of the generator, which fills masked tokens in, plus {REPLACED_WEIGHT:g} times that of the "
        f"discriminator, which tells replaced tokens from original ones. Of {metrics['test_tokens']:,} tokens in "
        f"{metrics['test_rows']:,} held-out texts, {metrics['test_masked_tokens']:,} were masked and "
        f"{100 * metrics['test_replaced_share']:.1f} % replaced. With so many texts, "
        f"{true_figure(metrics, 'test_loss', '{:.3f}'.format, 'loss')}."
    )
    cards = [
        interval_card("Loss", metrics, "test_loss", main=True, decimals=3),
        interval_card("Replaced-token AUC", metrics, "test_auc"),
        Card("Masked-token accuracy", metrics["test_masked_accuracy"], "likeliest token is the original"),
        Card("Generator's loss", metrics["test_generator_loss"], "nats a masked token"),
        Card(
            "Discriminator's loss",
            metrics["test_discriminator_loss"],
            f"nats a token; guessing gives {metrics['test_discriminator_loss_of_guessing']:.4f}",
        ),
    ]
    section = Section(
        "Replaced tokens",
        "Whether tokens that were replaced score above those that were not.",
        [_roc(measured.curves["roc"], metrics)],
    )
    counts = {
        "test texts": f"{metrics['test_rows']:,}",
        "test tokens": f"{metrics['test_tokens']:,}",
        "masked tokens": f"{metrics['test_masked_tokens']:,}",
    }
    controls = controls_section(metrics, AUC, _CONTROLS, 0.5, _SAW)
    return Story(f"Test loss {loss:.3f}", lead, cards, [section], counts, [controls])


def _roc(curve: Mapping[str, Any], metrics: Mapping[str, Any]) -> Figure:
    lines = [
        Line("guessing", (0, 1), (0, 1), "rule"),
        Line("model", curve["false_positive_rate"], curve["true_positive_rate"]),
    ]
    chart = line_chart(
        lines, Axis("original tokens taken for replaced", 0, 1, _UNIT), Axis("replaced tokens found", 0, 1, _UNIT)
    )
    note = "A generator that learns replaces tokens by likelier ones, which are harder to find."
    return Figure(f"ROC curve, area {metrics['test_auc']:.3f}", chart, note)
