"""Record files to tensors with tf.data: batch, then parse_example on int64 lists."""

from __future__ import annotations

import tensorflow as tf

from components.feature_spec import FeatureSpec


def dataset(spec: FeatureSpec, split: str, batch_size: int) -> tf.data.Dataset:
    """Batches of a split's plain records (one Example per sample), int64 by feature name."""
    features = {
        name: tf.io.FixedLenFeature([spec.features[name].length] if spec.features[name].length else [], tf.int64)
        for name in spec.sources[split].features
    }
    records = tf.data.TFRecordDataset([str(path) for path in spec.files(split)], num_parallel_reads=tf.data.AUTOTUNE)
    return (
        records.batch(batch_size)
        .map(lambda batch: tf.io.parse_example(batch, features), num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
