"""Data sets: a package each, registered under the entry points ``kfrec.datasets``; see docs/adding-a-model.md."""

from components.datasets.definition import DatasetDefinition, PreprocessJob, RawContract, RawKind
