"""The shop of the download step's parameters, and what its users review."""

from __future__ import annotations

from typing import Any

import numpy as np

from components.datasets.histories.synthetic.catalogue import Catalogue, make_catalogue
from components.datasets.histories.synthetic.interests import DAYS, Interests, Reviews, draw_reviews

USERS_AT_A_TIME = 4096
# The mean of a user.
REVIEWS_PER_USER = 25


def catalogue_of(parameters: Any) -> Catalogue:
    """The shop of the download step's parameters."""
    return make_catalogue(
        parameters.synthetic_items,
        parameters.synthetic_categories,
        np.random.default_rng([parameters.seed, 0]),
        DAYS,
        parameters.synthetic_item_lifetime,
    )


def reviews_of(parameters: Any, catalogue: Catalogue, first_user: int, users: int) -> tuple[Reviews, Interests | None]:
    """Reviews of users, and the interests behind them; the same for the same parameters and users."""
    return draw_reviews(
        first_user,
        users,
        REVIEWS_PER_USER,
        parameters.synthetic_shuffled_labels,
        catalogue,
        np.random.default_rng([parameters.seed, 1, first_user]),
    )
