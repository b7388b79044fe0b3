"""TFRecord files of tf.train.Example int64 lists: framing, encoding, decoding, and reading them in batches."""

from components.records.prefetch import prefetched
from components.records.reader import Records
