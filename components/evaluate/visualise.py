"""The evaluation in the KFP UI: metrics, ROC curve and confusion matrix, and the report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def log_to_kfp(evaluation_folder: Path | str, metrics: Any, classification_metrics: Any, report: Any) -> None:
    """Fills the visual outputs of the KFP component from a finished evaluation folder.

    Args:
        evaluation_folder: output of the evaluate step.
        metrics: an ``Output[Metrics]``.
        classification_metrics: an ``Output[ClassificationMetrics]``; its curve has at most 200 points and finite
            thresholds, because it travels inside the artifact's metadata.
        report: an ``Output[HTML]``.
    """
    folder = Path(evaluation_folder)
    found = json.loads((folder / "metrics.json").read_text())
    for name, value in found.items():
        if isinstance(value, (int, float)):
            metrics.log_metric(name, value)
    if (folder / "roc.json").is_file():
        roc = json.loads((folder / "roc.json").read_text())
        classification_metrics.log_roc_curve(roc["false_positive_rate"], roc["true_positive_rate"], roc["threshold"])
    if confusion := found.get("confusion"):
        classification_metrics.log_confusion_matrix(confusion["classes"], confusion["matrix"])
    Path(report.path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / "report.html", report.path)


def show(folders: Mapping[str, Path], arguments: Mapping[str, Any]) -> None:
    """Fills the outputs that the KFP UI renders.

    Args:
        folders: of the step, by name.
        arguments: of the component function, by name.
    """
    shown = arguments["metrics"], arguments["classification_metrics"], arguments["report"]
    log_to_kfp(folders["evaluation"], *shown)
