"""Embedding tables on several ranks: placement, creation and look-ups.

A layer creates its tables with ``components.models.layers.weights.Weights.tables`` and reads them with
``components.models.tables.exchange.gather``. Placement is decided outside of the model, by
``components.models.tables.creation.tables_made_by``, so that a model's code is the same for any number of ranks.
"""
