import json
from pathlib import Path

import pytest
from kfp.dsl import HTML, ClassificationMetrics, Metrics

from components.evaluate.step import show


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    metrics = {
        "test_auc": 0.75,
        "test_grouped_auc": None,
        "confusion": {"classes": ["not clicked", "clicked"], "matrix": [[3, 1], [2, 4]]},
    }
    roc = {"false_positive_rate": [0, 0.2, 1], "true_positive_rate": [0, 0.7, 1], "threshold": [0.91, 0.5, 0.1]}
    folder = tmp_path / "evaluation"
    folder.mkdir()
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "roc.json").write_text(json.dumps(roc))
    (folder / "report.html").write_text("<p>report")
    return folder


def test_the_kfp_outputs_show_the_evaluation(evaluation: Path, tmp_path: Path) -> None:
    metrics, curve, report = Metrics(), ClassificationMetrics(), HTML(uri=str(tmp_path / "out" / "report"))
    outputs = {"metrics": metrics, "classification_metrics": curve, "report": report}
    show({"evaluation": evaluation}, outputs)
    assert metrics.metadata == {"test_auc": 0.75}
    assert [point["confidenceThreshold"] for point in curve.metadata["confidenceMetrics"]] == [0.91, 0.5, 0.1]
    assert [row["row"] for row in curve.metadata["confusionMatrix"]["rows"]] == [[3, 1], [2, 4]]
    assert (tmp_path / "out" / "report").read_text() == "<p>report"
