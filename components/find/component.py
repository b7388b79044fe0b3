"""The find step as a KFP component."""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl import Model, Output

from components.steps.images import image


@dsl.component(base_image=image("find"), install_kfp_package=False)
def find(
    champion: Output[Model],
    data_prefix: str,
    registered_model: str,
    minimum_new_reviews: int,
    force: bool,
    keep_vocabulary: bool,
    warm_start: bool,
) -> NamedTuple(  # type: ignore[valid-type]
    "Found",
    [
        ("proceed", bool),
        ("occasion", str),
        ("source", str),
        ("data_version", str),
        ("workflow", str),
        ("warm_start_path", str),
    ],
):
    """Find the newest data, and whether to train on it."""
    from components.steps.command import component

    return component("find", locals())
