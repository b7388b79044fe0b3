"""The preprocess step as a KFP component."""

from kfp import dsl
from kfp.dsl import Dataset, Input, Output

from components.steps.images import image


@dsl.component(base_image=image("preprocess"), install_kfp_package=False)
def preprocess(
    raw: Input[Dataset],
    parquet: Output[Dataset],
    max_sequence_length: int,
    negative_sequence_length: int,
    shortest_sequence_for_user: int,
    shortest_sequence_for_training: int,
    reviews_per_partition: int,
    workers: int,
    scheduler: str,
    dask_workers: int,
    dask_settings: str,
    malformed_limit: float,
    workflow: str,
    out_of_vocabulary_limit: float,
    seed: int,
) -> None:
    """Turn raw reviews into training samples with NVTabular."""
    from components.steps.command import component

    component("preprocess", locals())
