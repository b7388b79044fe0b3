"""Widths of embeddings."""

from __future__ import annotations

from components.feature_spec import Feature

# Published widths for the features of the Outbrain click prediction; a hash bucket is an id.
PUBLISHED = {
    "document_id": 128,
    "ad_id": 128,
    "document_id_promo": 128,
    "campaign_id": 128,
    "source_id": 64,
    "source_id_promo": 64,
    "geo_location": 64,
    "geo_location_state": 64,
    "geo_location_country": 64,
    "advertiser_id": 64,
    "publisher_id": 64,
    "publisher_id_promo": 64,
    "platform": 16,
    "topic_id_list": 64,
    "entity_id_list": 64,
    "category_id_list": 64,
}
# Other features: (largest number of ids, width). The published widths agree, except for campaign_id and the lists.
_BY_CARDINALITY = ((100, 16), (10_000, 64))
_WIDEST = 128


def width_of(feature: Feature, embedding_dim: int) -> int:
    """Floats of a feature's embedding: ``embedding_dim``, or if that is 0 the published width or the rule's."""
    if embedding_dim:
        return embedding_dim
    cardinality = feature.cardinality or 0
    by_rule = next((width for most, width in _BY_CARDINALITY if cardinality <= most), _WIDEST)
    return PUBLISHED.get(feature.name, by_rule)
