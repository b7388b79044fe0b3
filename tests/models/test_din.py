import numpy as np
import tensorflow as tf

from components.models.din.model import Din
from tests.models.calling import logits


def _softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def test_the_logits_are_those_of_the_description(spec, parameters, make_batch):
    model = Din(parameters("din"), spec, 1)
    features, _ = make_batch(9)
    items, categories, users = (model.inputs.embedding.table(i).numpy() for i in range(3))
    rows = []
    for b in range(9):
        target = np.concatenate([items[features["item_trgt"][b]], categories[features["cat_trgt"][b]]])
        history = np.concatenate([items[features["item_pos"][b]], categories[features["cat_pos"][b]]], 1)
        history = history[features["item_pos"][b] > 0]
        interest = np.zeros_like(target)
        if len(history):
            interest = _softmax(history @ target) @ history
        rows.append(np.concatenate([target, interest, users[features["uid"][b]]]))
    expected = model.classifier(tf.constant(np.stack(rows)))
    np.testing.assert_allclose(logits(model, features), expected, atol=1e-6)
