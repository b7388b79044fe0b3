"""Embedding tables on several ranks: where each is, who looks it up, and how it is made.

A layer makes its tables with :meth:`components.models.layers.weights.Weights.tables` and reads them with
:func:`components.models.tables.exchange.gather`. Where the rows are is decided outside, by
:func:`components.models.tables.making.tables_made_by`, so that a model reads the same on one rank and on many.
"""
