"""The register step as a KFP component."""

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components.steps.images import image


@dsl.component(base_image=image("register"), install_kfp_package=False)
def register(
    tfrecord: Input[Dataset],
    model: Input[Model],
    evaluation: Input[Artifact],
    registration: Output[Artifact],
    registered_model: str,
    auc_floor: float,
    promotion_margin: float,
    bootstrap_samples: int,
    confidence: float,
    evaluation_batch_size: int,
    data_version: str,
    occasion: str,
    experiment: str,
    run_id: str,
    seed: int,
) -> None:
    """Register the model and promote it if it beats the champion."""
    from components.steps.command import component

    component("register", locals())
