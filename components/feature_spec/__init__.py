"""feature_spec.yaml: what the records hold and which model channel each feature feeds."""

from components.feature_spec.spec import Channel, Chunk, Feature, FeatureSpec, ListLength, load_feature_spec
from components.feature_spec.vocabulary import Vocabulary
