"""What the task replaced_token is compared with: counts of tokens, and of pairs of neighbouring ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from components.feature_spec import FeatureSpec
from components.metrics import resampled_auc, roc_auc
from components.tasks.controls import BASELINE, Controls, Intervals, Samples
from components.tasks.replaced_token import ReplacedTokenEvaluation
from components.tasks.scores import Scores
from components.text.outputs import CORRUPTED, REPLACED, REPLACED_LOGIT
from components.text.special import CHANNEL

UNIGRAM, BIGRAM = "unigram", "bigram"
# Of an AUC, which sorts all tokens.
RESAMPLES = 200
# Weight of the training text's tokens among those that replace others, in tokens.
_PRIOR = 100.0


class TokenCounts:
    """Log-likelihood ratios of a token that replaces another one to one of the text.

    With p of the training text, and r the share of a token among those that replace others,

        unigram(i) = ln r(x_i) - ln p(x_i)
        bigram(i)  = ln r(x_i) + ln p(x_i+1) - ln p(x_i | x_i-1) - ln p(x_i+1 | x_i)

    The texts are those that the discriminator reads. r is counted in one half of them for the other half, since a
    token's own replacement is in its count. The baseline is the one with the higher AUC.

    Args:
        tokens: feature of the tokens, 0 is padding.
    """

    def __init__(self, tokens: str, vocabulary: int) -> None:
        self._tokens, self._vocabulary = tokens, vocabulary
        self._counts: _Counts | None = None

    @property
    def features(self) -> tuple[str, ...]:
        return (self._tokens,)

    @property
    def about(self) -> Mapping[str, str]:
        return {}

    def fit(self, first: Iterable[Samples], second: Iterable[Samples]) -> None:
        """Counts both parts: the training text is not among the texts of ``scores``."""
        self._counts = _Counts([samples[self._tokens] for samples in chain(first, second)], self._vocabulary)

    def scores(self, samples: Samples) -> dict[str, np.ndarray]:
        """float64 ``[n, length]`` each; of models that do not tell what they replace by, none."""
        if self._counts is None or CORRUPTED not in samples:
            return {}
        texts, replaced = samples[CORRUPTED].astype(np.int64), samples[REPLACED]
        unigram, pairs = self._counts.tokens[texts], self._counts.pairs(texts)
        replacing = np.empty(texts.shape)
        for half in (0, 1):
            replacing[half::2] = self._replacing(texts[1 - half :: 2], replaced[1 - half :: 2])[texts[half::2]]
        found = {UNIGRAM: replacing - unigram, BIGRAM: replacing - pairs}
        is_token = replaced >= 0
        better = max(found, key=lambda name: roc_auc(replaced[is_token], found[name][is_token]))
        return {**found, BASELINE: found[better]}

    def _replacing(self, texts: np.ndarray, replaced: np.ndarray) -> np.ndarray:
        """``ln r`` by token."""
        assert self._counts is not None
        counts = np.bincount(texts[replaced == 1], minlength=self._vocabulary)
        return np.asarray(np.log((counts + _PRIOR * np.exp(self._counts.tokens)) / (counts.sum() + _PRIOR)), np.float64)


class _Counts:
    """Probabilities of tokens, and of tokens given the one before, by absolute discounting.

        p(b | a) = max(c(a, b) - d, 0) / c(a) + d * n(a) / c(a) * p(b),   d = n_1 / (n_1 + 2 n_2)

    with c the counts, n(a) the number of distinct tokens after a, and n_k one more than the number of the pairs that
    occur k times.

    Source: Ney, Essen and Kneser, "On structuring probabilistic dependences in stochastic language modelling", Computer
    Speech and Language 8, 1994.

    Attributes:
        tokens: ``ln p`` by token.

    Args:
        texts: tokens, ``[n, length]`` each.
    """

    def __init__(self, texts: Sequence[np.ndarray], vocabulary: int) -> None:
        counts, keys = np.full(vocabulary, 0.5), [np.zeros(0, np.int64)]
        for each in texts:
            counts += np.bincount(each[each > 0], minlength=vocabulary)
            before, after = each[:, :-1], each[:, 1:]
            is_pair = after > 0
            keys.append(before[is_pair].astype(np.int64) * vocabulary + after[is_pair])
        self.tokens = np.log(counts / counts.sum())
        self._vocabulary = vocabulary
        self._keys, self._times = np.unique(np.concatenate(keys), return_counts=True)
        once, twice = (int((self._times == times).sum()) + 1 for times in (1, 2))
        self._discount = once / (once + 2 * twice)
        owners = self._keys // vocabulary
        self._after = np.bincount(owners, self._times, minlength=vocabulary)
        self._distinct = np.bincount(owners, minlength=vocabulary)

    def pairs(self, texts: np.ndarray) -> np.ndarray:
        """``ln p(x_i | x_i-1) + ln p(x_i+1 | x_i) - ln p(x_i+1)`` of each token, float64 as ``texts``."""
        given = np.zeros((len(texts), texts.shape[1] + 1))
        given[:, 1:-1] = self._given(texts[:, :-1], texts[:, 1:])
        own = self.tokens[texts]
        following = np.where(texts[:, 1:] > 0, given[:, 1:-1] - own[:, 1:], 0.0)
        given[:, 0] = own[:, 0]
        return given[:, :-1] + np.pad(following, [(0, 0), (0, 1)])

    def _given(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """``ln p(after | before)``."""
        wanted = before * self._vocabulary + after
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        times = np.where(self._keys[place] == wanted, self._times[place], 0)
        total = np.maximum(self._after[before], 1)
        rest = np.where(self._after[before] > 0, self._discount * self._distinct[before] / total, 1.0)
        return np.asarray(np.log(np.maximum(times - self._discount, 0) / total + rest * np.exp(self.tokens[after])))


def controls(spec: FeatureSpec, parameters: ReplacedTokenEvaluation) -> Controls | None:
    """The baselines; None for data without training text, or if parameters leave them out."""
    (tokens, *_) = spec.channels.get(CHANNEL, ()) or ("",)
    given = all(split in spec.sources and tokens in spec.sources[split].features for split in ("train", "test"))
    if not (given and parameters.baseline_texts and parameters.baseline_training_texts):
        return None
    counts = TokenCounts(tokens, (spec.features[tokens].cardinality or 0) + 1)
    return Controls((), counts, REPLACED_LOGIT, parameters.baseline_texts, parameters.baseline_training_texts)


def auc_intervals(scores: Scores, others: Sequence[np.ndarray]) -> Intervals:
    """Of the bootstrap over texts, all on the same draws."""
    replaced = scores.outputs[REPLACED]
    is_token = replaced >= 0
    values = [each[is_token].astype(np.float64) for each in (scores.outputs[REPLACED_LOGIT], *others)]
    resampled = resampled_auc(replaced[is_token], values, samples=RESAMPLES, clusters=np.nonzero(is_token)[0])
    return resampled.interval
