"""Logistic regression on a handful of numbers, by Newton's method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_MOST_STEPS, _CONVERGED = 50, 1e-8
# Penalty of the squared weights of standardised columns, in samples: it bounds the weights of separable classes.
_RIDGE = 1.0


@dataclass(frozen=True)
class LogisticRegression:
    """A fitted regression: ``logit = weights . (x - mean) / scale + intercept``.

    Attributes:
        mean: of each column, ``[d]``.
        scale: standard deviation of each column, 1 for a constant one, ``[d]``.
        weights: of the standardised columns, ``[d]``.
        intercept: the logit at the mean.
    """

    mean: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    intercept: float

    def logits(self, columns: np.ndarray) -> np.ndarray:
        """The log-odds of label 1, float64 ``[n]``, of columns ``[n, d]``."""
        return (columns - self.mean) / self.scale @ self.weights + self.intercept


def fit_logistic(columns: np.ndarray, labels: np.ndarray) -> LogisticRegression:
    """Maximises the likelihood with a ridge penalty by iteratively reweighted least squares.

    The step is halved while it does not raise the penalised likelihood, so the iterations converge from zero weights.

    Source: Hastie, Tibshirani and Friedman, "The Elements of Statistical Learning", 2009, section 4.4.1.

    Args:
        columns: float ``[n, d]``; constant ones get the weight 0.
        labels: 0 or 1, both present, ``[n]``.
    """
    mean, scale = columns.mean(0), columns.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    x = np.column_stack([np.ones(len(columns)), (columns - mean) / scale])
    y = np.asarray(labels, np.float64)
    penalty = np.append(0.0, np.full(columns.shape[1], _RIDGE))

    def objective(weights: np.ndarray) -> float:
        logits = x @ weights
        return float(y @ logits - np.logaddexp(0.0, logits).sum() - penalty @ weights**2 / 2)

    weights = np.zeros(x.shape[1])
    reached = objective(weights)
    for _ in range(_MOST_STEPS):
        p = 0.5 * (1 + np.tanh(x @ weights / 2))
        gradient = x.T @ (y - p) - penalty * weights
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + np.diag(penalty), gradient)
        while (value := objective(weights + step)) < reached and np.abs(step).max() > _CONVERGED:
            step /= 2
        weights, reached = weights + step, value
        if np.abs(step).max() <= _CONVERGED:
            break
    return LogisticRegression(mean, scale, weights[1:], float(weights[0]))
