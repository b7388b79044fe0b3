"""report.html: one file, read in a browser, from a mail or in the KFP UI, that says how good the model is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from components.evaluate.charts import Axis, Line, bar_chart, line_chart, spanning
from components.evaluate.measure import Measured
from components.evaluate.style import CSS

_UNIT = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class Facts:
    """What the report says besides the measurements.

    Attributes:
        title: the model's type, such as "sim".
        run: id of the pipeline run or MLflow run.
        parameters: how it was trained.
        training: content of the model's training.json; empty where it has none.
        data: lines of the table about the data.
        origins: artifact name to its digest.
    """

    title: str
    run: str
    parameters: Mapping[str, Any]
    training: Mapping[str, Any]
    data: Mapping[str, Any]
    origins: Mapping[str, str]


def render(measured: Measured, facts: Facts) -> str:
    """The report as a complete HTML document."""
    metrics, curves = measured.metrics, measured.curves
    parts = [
        _header(metrics, facts),
        _cards(metrics, facts.training),
        _section(
            "Training",
            "How the model got there. A gap that opens between the two lines is overfitting.",
            _training_charts(facts.training),
        ),
        _section(
            "Ranking",
            "Whether samples that were clicked score above those that were not, whatever the scores themselves.",
            [_roc(curves["roc"], metrics), _precision_recall(curves["pr"], metrics), *_histories(metrics)],
        ),
        _section(
            "Probabilities",
            "Whether the scores can be read as probabilities, as bidding and blending do.",
            [_calibration(curves["calibration"], metrics), _scores(curves["scores"])],
        ),
        _tables(metrics, facts),
        f"<footer>Written by the evaluate step of kfrec{' for run ' + escape(facts.run) if facts.run else ''}. "
        "The numbers are in metrics.json, each sample's score in predictions.parquet.</footer>",
    ]
    title = f"{facts.title.upper()} – test AUC {metrics['test_auc']:.4f}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title><style>{CSS}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _header(metrics: Mapping[str, Any], facts: Facts) -> str:
    auc, low, high = metrics["test_auc"], metrics["test_auc_low"], metrics["test_auc_high"]
    lead = (
        f"Given one clicked and one other sample, the model puts the clicked one first {100 * auc:.1f} times in 100. "
        f"With {metrics['test_rows']:,} test samples, the true figure lies between {100 * low:.1f} and "
        f"{100 * high:.1f} ({100 * metrics['test_auc_confidence']:.0f} % confidence)."
    )
    return (
        f"<header><p>Evaluation of {escape(facts.title.upper())}</p><h1>Test AUC {auc:.4f}</h1>"
        f'<p class="lead">{escape(lead)}</p></header>'
    )


def _cards(metrics: Mapping[str, Any], training: Mapping[str, Any]) -> str:
    rate, logloss = metrics["test_positive_rate"], metrics["test_logloss"]
    cards = [
        ("ROC AUC", metrics["test_auc"], f"{metrics['test_auc_low']:.4f} to {metrics['test_auc_high']:.4f}", " main"),
        ("Log loss", logloss, "nats a sample; 0.693 is a coin", ""),
        ("PR AUC", metrics["test_pr_auc"], f"guessing gives {rate:.3f}", ""),
    ]
    if metrics.get("test_grouped_auc") is not None:
        users, left_out = metrics["test_grouped_auc_users"], metrics["test_grouped_auc_users_left_out"]
        cards.append(("AUC per user", metrics["test_grouped_auc"], f"{users:,} users, {left_out:,} left out", ""))
    cards.append(("Calibration error", metrics["test_calibration_error"], "mean gap of predicted and observed", ""))
    cards.append(("Observed / predicted", metrics["test_calibration_ratio"], "1 is right on average", ""))
    if training.get("train_samples_per_second"):
        seconds = training.get("time_to_train")
        hint = f"samples/s; {_duration(seconds)} to train" if seconds else "samples/s in training"
        cards.append(("Speed", training["train_samples_per_second"], hint, ""))
    shown = [
        f'<div class="card{kind}"><div class="name">{name}</div><div class="number">{_number(value)}</div>'
        f'<div class="hint">{escape(hint)}</div></div>'
        for name, value, hint, kind in cards
    ]
    return f'<div class="cards">{"".join(shown)}</div>'


def _training_charts(training: Mapping[str, Any]) -> list[str]:
    epochs: Sequence[Mapping[str, Any]] = training.get("epochs") or ()
    charts = []
    for name, what, good, curves in (
        ("AUC by epoch", "AUC", "Higher is better.", (("train", "train_auc"), ("test", "test_auc"))),
        ("Loss by epoch", "loss", "Lower is better. ", (("train", "train_loss"), ("test log loss", "test_logloss"))),
    ):
        lines = []
        for (label, key), style in zip(curves, ("two", "one"), strict=True):
            points = [(float(e["epoch"]), float(e[key])) for e in epochs if e.get(key) is not None]
            if points:
                xs, ys = zip(*points, strict=True)
                lines.append(Line(label, xs, ys, style, dots=True))
        if lines:
            values = [value for line in lines for value in line.y]
            last = max(line.x[-1] for line in lines)
            ticks = tuple(float(t) for t in range(1, int(last) + 1, max(1, int(last) // 8)))
            note = good
            if what == "loss":
                note += "The training loss includes every term that is minimised, such as SIM's auxiliary loss."
            axis = Axis("epoch", 0.8, last + 0.2, ticks)
            charts.append(_figure(name, line_chart(lines, axis, spanning(what, values)), note))
    return charts


def _roc(curve: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    lines = [
        Line("guessing", (0, 1), (0, 1), "rule"),
        Line("model", curve["false_positive_rate"], curve["true_positive_rate"], area=True),
    ]
    x, y = Axis("false positive rate", 0, 1, _UNIT), Axis("true positive rate", 0, 1, _UNIT)
    fpr, tpr = curve["false_positive_rate"], curve["true_positive_rate"]
    caught = max((t for f, t in zip(fpr, tpr, strict=True) if f <= 0.1), default=0.0)
    note = f"At a false alarm in 10 of 100 others, the model finds {100 * caught:.0f} of 100 clicks."
    return _figure(f"ROC curve, area {metrics['test_auc']:.3f}", line_chart(lines, x, y), note)


def _precision_recall(curve: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    rate = metrics["test_positive_rate"]
    lines = [
        Line("guessing", (0, 1), (rate, rate), "rule"),
        Line("model", curve["recall"], curve["precision"], area=True),
    ]
    x, y = Axis("recall", 0, 1, _UNIT), Axis("precision", 0, 1, _UNIT)
    note = f"The share of clicks among what is called a click, against the share of all clicks found; {rate:.1%} click."
    return _figure(f"Precision and recall, area {metrics['test_pr_auc']:.3f}", line_chart(lines, x, y), note)


def _histories(metrics: Mapping[str, Any]) -> Iterable[str]:
    buckets = metrics.get("by_history_length") or ()
    values = [bucket["auc"] for bucket in buckets]
    known = [value for value in values if value is not None]
    if not known:
        return
    names = [
        str(bucket["to"]) if bucket["from"] == bucket["to"] else f"{bucket['from']}–{bucket['to']}"
        for bucket in buckets
    ]
    notes = [f"{bucket['rows']:,} rows" for bucket in buckets]
    low, high = min(0.5, *known), max(known)
    chart = bar_chart(names, values, notes, "items in the history", Axis("AUC", low, high + (high - low) * 0.12 or 0.6))
    yield _figure(
        "AUC by length of history", chart, "What the model gains from knowing more of a user; 0.5 is guessing."
    )


def _calibration(curve: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    predicted, observed = curve["predicted"], curve["observed"]
    top = min(1.0, max(*predicted, *observed) * 1.05)
    lines = [
        Line("perfect", (0, top), (0, top), "rule"),
        Line("model", predicted, observed, dots=True),
    ]
    ratio = metrics["test_calibration_ratio"]
    told = "as many clicks as predicted"
    if ratio is not None and abs(ratio - 1) >= 0.005:
        told = f"{abs(ratio - 1):.1%} {'more' if ratio > 1 else 'fewer'} clicks than predicted"
    note = f"Each dot is a bin of equally many samples. Overall there were {told}."
    chart = line_chart(lines, Axis("predicted", 0, top), Axis("observed", 0, top))
    return _figure(f"Calibration, error {curve['error']:.3f}", chart, note)


def _scores(densities: Mapping[str, Any]) -> str:
    edges = densities["edges"]
    middles = [(a + b) / 2 for a, b in pairwise(edges)]
    lines = [
        Line("not clicked", middles, densities["negative"], "two", area=True),
        Line("clicked", middles, densities["positive"], "one", area=True),
    ]
    highest = max(*densities["negative"], *densities["positive"])
    chart = line_chart(lines, Axis("score", 0, 1, _UNIT), Axis("share of the class", 0, highest * 1.08))
    return _figure("Scores of each class", chart, "The less the two overlap, the better they are told apart.")


def _tables(metrics: Mapping[str, Any], facts: Facts) -> str:
    confusion = metrics["confusion"]
    (tn, fp), (fn, tp) = confusion["matrix"]
    data = {
        **facts.data,
        "test rows": f"{metrics['test_rows']:,}",
        "test rows clicked": f"{metrics['test_positive_rate']:.2%}",
        f"called a click at {confusion['threshold']:g}": f"{tp:,} rightly, {fp:,} wrongly",
        "called no click": f"{tn:,} rightly, {fn:,} wrongly",
    }
    digests = {name: f"<code>{escape(digest)}</code>" for name, digest in facts.origins.items()}
    tables = _table("Data", _escaped(data)) + _table("Where it came from (SHA-256)", digests)
    parameters = _table("Training parameters", _escaped(facts.parameters)) if facts.parameters else ""
    return (
        "<h2>Provenance</h2><p>What to give to another run to get the same model.</p>"
        f'<div class="tables"><div>{tables}</div><div>{parameters}</div></div>'
    )


def _section(title: str, text: str, charts: Sequence[str]) -> str:
    if not charts:
        return ""
    return f'<h2>{title}</h2><p>{text}</p><div class="charts">{"".join(charts)}</div>'


def _figure(title: str, chart: str, note: str) -> str:
    return f"<figure><h3>{escape(title)}</h3>{chart}<figcaption>{escape(note)}</figcaption></figure>"


def _escaped(rows: Mapping[str, Any]) -> dict[str, str]:
    return {name: escape(str(value)) for name, value in rows.items()}


def _table(title: str, rows: Mapping[str, str]) -> str:
    body = "".join(f"<tr><td>{escape(name)}</td><td>{value}</td></tr>" for name, value in rows.items())
    return f'<details class="table" open><summary>{escape(title)}</summary><table>{body}</table></details>'


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4f}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
