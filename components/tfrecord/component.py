"""The tfrecord step as a KFP component."""

from kfp import dsl
from kfp.dsl import Dataset, Input, Output

from components.steps.images import image


@dsl.component(base_image=image("tfrecord"), install_kfp_package=False)
def tfrecord(
    parquet: Input[Dataset],
    tfrecord: Output[Dataset],
    number_of_user_features: int,
    prebatch_train_size: int,
    prebatch_test_size: int,
    samples_per_shard: int,
    workers: int,
    seed: int,
) -> None:
    """Turn samples in parquet into shuffled TFRecord files."""
    from components.steps.command import component

    component("tfrecord", locals())
