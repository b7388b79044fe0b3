"""The evaluate step as a KFP component."""

from kfp import dsl
from kfp.dsl import HTML, Artifact, ClassificationMetrics, Dataset, Input, Metrics, Model, Output

from components.steps.images import image


@dsl.component(base_image=image("evaluate"), install_kfp_package=False)
def evaluate(
    tfrecord: Input[Dataset],
    model: Input[Model],
    evaluation: Output[Artifact],
    metrics: Output[Metrics],
    classification_metrics: Output[ClassificationMetrics],
    report: Output[HTML],
    evaluation_batch_size: int,
    calibration_bins: int,
    experiment: str,
    run_id: str,
) -> None:
    """Score the test split and report metrics."""
    from components.evaluate.visualise import evaluate_for_kfp

    evaluate_for_kfp(locals())
