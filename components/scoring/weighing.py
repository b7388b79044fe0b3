"""Weighs what two stages know of the candidates, by what users chose among those that they had not seen."""

from __future__ import annotations

import numpy as np

from components.progress import progress
from components.scoring.choices import NOWHERE, Choices, places_of
from components.scoring.two_stages import TwoStages, Weights

# The order of the first stage, of which few choices leave the weights near.
_PRIOR = np.array(Weights(1.0, 0.0, 0.0))


def weighed(stages: TwoStages, choices: Choices) -> Weights:
    """The weights of the likeliest choices, as in a conditional logit with a normal prior of variance 1:

        sum over the choices i of users u of -ln p(i | u), plus |w - (1, 0, 0)|^2 / 2

    Choices that are not retrieved say nothing of the order.

    Source: McFadden, "Conditional logit analysis of qualitative choice behavior", 1974.

    Args:
        choices: of samples that train neither stage.
    """
    from scipy.optimize import minimize

    cold, chosen, told = stages.cold(choices.histories), [], []
    inputs, _ = stages.encoded(choices.users, choices.histories)
    found = zip(stages.retrieved(inputs, len(cold)), places_of(stages, choices), strict=True)
    with progress("weighing the two stages", len(cold), "choices") as bar:
        for user, ((places, values), (target, before)) in enumerate(found):
            left = ~stages.behind[places]
            if not stages.keeps_seen:
                left &= ~np.isin(places, before)
            is_chosen = places[left] == target
            if target != NOWHERE and not cold[user] and is_chosen.any():
                chosen.append(is_chosen)
                told.append(values[left])
            bar.advance()
    if not told:
        return Weights(*_PRIOR)
    sizes = np.array([len(values) for values in told])
    starts, of_all, is_target = np.cumsum(sizes) - sizes, np.concatenate(told), np.concatenate(chosen)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        scores = of_all @ weights
        scores -= np.repeat(np.maximum.reduceat(scores, starts), sizes)
        masses = np.exp(scores)
        totals = np.add.reduceat(masses, starts)
        apart = weights - _PRIOR
        value = np.log(totals).sum() - scores[is_target].sum() + apart @ apart / 2
        expected = (masses / np.repeat(totals, sizes)) @ of_all
        return float(value), expected - of_all[is_target].sum(axis=0) + apart

    return Weights(*minimize(loss, _PRIOR, jac=True, method="BFGS").x.tolist())
