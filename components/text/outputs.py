"""Outputs of models of texts, which their tasks read; ``[B, ...]`` each.

Attributes:
    REPLACED_LOGIT: the log-odds that each token was replaced, float32 ``[B, L]``.
    REPLACED: int8 ``[B, L]``, 1 for a replaced token, 0 for an original one, PADDING for padding.
    CORRUPTED: the tokens that the discriminator reads, int32 ``[B, L]``.
    MASKED: the number of masked tokens, float32 ``[B]``.
    MASKED_CORRECT: those of which the likeliest token is the original, float32 ``[B]``.
    MASKED_LOSS: the sum of ``-log p(original)`` over the masked tokens, float32 ``[B]``.
    REPLACED_WEIGHT: published weight of the tokens' mean cross-entropy, beside the mean loss of the masked ones.
    SPAN_STARTS: positions where the likeliest answers start, int32 ``[B, N]``.
    SPAN_ENDS: where they end, inclusive, int32 ``[B, N]``; may lie before the start.
    SPAN_SCORES: their log-probabilities, float32 ``[B, N]``, finite.
    IMPOSSIBLE: the logit that there is no answer, float32 ``[B]``.
"""

from __future__ import annotations

REPLACED_LOGIT, REPLACED, CORRUPTED = "replaced_logit", "replaced", "corrupted"
MASKED, MASKED_CORRECT, MASKED_LOSS = "masked", "masked_correct", "masked_loss"
PADDING = -1
REPLACED_WEIGHT = 50.0
SPAN_STARTS, SPAN_ENDS, SPAN_SCORES, IMPOSSIBLE = "span_starts", "span_ends", "span_scores", "impossible"
