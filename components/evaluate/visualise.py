"""The evaluation in the KFP UI: metrics, ROC curve and confusion matrix, and the report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def show(folders: Mapping[str, Path], arguments: Mapping[str, Any]) -> None:
    """Fills the outputs that the KFP UI renders.

    Args:
        folders: of the step, by name.
        arguments: of the component function, by name: ``metrics``, an ``Output[Metrics]``; ``classification_metrics``,
            an ``Output[ClassificationMetrics]``, whose curve has at most 200 points and finite thresholds, because it
            travels inside the artifact's metadata; and ``report``, an ``Output[HTML]``.
    """
    folder, report = folders["evaluation"], Path(arguments["report"].path)
    found = json.loads((folder / "metrics.json").read_text())
    for name, value in found.items():
        if isinstance(value, (int, float)):
            arguments["metrics"].log_metric(name, value)
    classification = arguments["classification_metrics"]
    if (folder / "roc.json").is_file():
        roc = json.loads((folder / "roc.json").read_text())
        classification.log_roc_curve(roc["false_positive_rate"], roc["true_positive_rate"], roc["threshold"])
    if confusion := found.get("confusion"):
        classification.log_confusion_matrix(confusion["classes"], confusion["matrix"])
    report.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / "report.html", report)
