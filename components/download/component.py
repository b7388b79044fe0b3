"""The download step as a KFP component."""

from kfp import dsl
from kfp.dsl import Dataset, Output

from components.steps.images import image


@dsl.component(base_image=image("download"), install_kfp_package=False)
def download(
    raw: Output[Dataset],
    source: str,
    files: str,
    cache_dir: str,
    attempts: int,
    timeout: float,
    synthetic_users: int,
    synthetic_items: int,
    synthetic_categories: int,
    synthetic_reviews_per_user: int,
    synthetic_shuffled_labels: bool,
    data_version: str,
    seed: int,
) -> None:
    """Fetch raw interaction logs, or generate synthetic ones."""
    from components.steps.command import component

    component("download", locals())
