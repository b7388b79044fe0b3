"""How wide a feature's embedding is."""

from __future__ import annotations

from components.feature_spec import Feature

# Published, of the features of the Outbrain click prediction; a bucket of a hash is an id.
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
# Of other features: of up to so many ids, this width. The published widths fit it, but for campaign_id and the lists.
_BY_CARDINALITY = ((100, 16), (10_000, 64))
_WIDEST = 128


def width_of(feature: Feature, embedding_dim: int) -> int:
    """Floats in a feature's embedding: ``embedding_dim`` or, where that is 0, the published width or one by rule."""
    if embedding_dim:
        return embedding_dim
    cardinality = feature.cardinality or 0
    by_rule = next((width for most, width in _BY_CARDINALITY if cardinality <= most), _WIDEST)
    return PUBLISHED.get(feature.name, by_rule)
