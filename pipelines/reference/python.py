"""The Python reference of the docs, generated from the docstrings: ``python -m pipelines.reference.python``."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterable

from components.train.loop.runtime import quiet_tensorflow

_HEAD = """# Python API

Generated from the docstrings by `make reference`; do not edit.

These are the entry points for notebooks and for packages that extend kfrec. Everything else may change without notice.
Errors of input are `components.errors.KfrecError`, with a message of one line.

## Score raw rows

```python
import mlflow
import pandas as pd

mlflow.set_tracking_uri("sqlite:///runs/mlflow.db")
model = mlflow.pyfunc.load_model("models:/kfrec-ctr@champion")
model.predict(pd.DataFrame([{"user": "A0000000000026", "history": ["B000000029"], "item": "B000000055"}]))
```

See [use a model](predict.md). `components.predict.model.named_model` below loads the same model without pandas.

## Read samples

```python
from components.artifacts import open_artifact
from components.feature_spec import load_feature_spec
from components.records import Records

artifact = open_artifact("runs/RUN/tfrecord")
records = Records(load_feature_spec(artifact.path), "train")
for batch in records.batches(4096, seed=1):
    print({name: values.shape for name, values in batch.items()})
```

## Constants

- `from components.contract import LOGIT, PROBABILITY`: the output of a model that is the log-odds of the label 1, and
  the served output that is its probability. The built-in tasks read the first, and candidates are ranked by the second.
- `from components.datasets.raw_rows import TEXT, TEXTS, VALUE, USER, HISTORY, CANDIDATE, SEPARATOR`: kinds and roles of
  columns of raw rows, and what separates the texts of a list in plain files.
- `from components.feature_spec.spec import FILENAME, TRAIN, TEST, VALIDATION`: the name of the specification's file,
  and the splits.
- `from components.metrics import CONFIDENCE`: level of the reported intervals.
- `from components.parameters import Ints`: type of a parameter of several integers, such as sizes of layers.
"""

# Section of the page to its objects.
_PUBLIC = {
    "Artifacts": ("components.artifacts:open_artifact", "components.artifacts:Artifact"),
    "Records": (
        "components.feature_spec:load_feature_spec",
        "components.feature_spec:FeatureSpec",
        "components.feature_spec:Feature",
        "components.feature_spec:Channel",
        "components.feature_spec:Chunk",
        "components.feature_spec:ListLength",
        "components.feature_spec:Vocabulary",
        "components.feature_spec.side_tables:read_side_table",
        "components.records:Records",
    ),
    "Registered models": (
        "components.predict.model:named_model",
        "components.predict.model:NamedModel",
        "components.scoring.raw:RawModel",
    ),
    "Registry of models, data sets and tasks": (
        "components.registry:model",
        "components.registry:dataset",
        "components.registry:task",
        "components.registry:names",
    ),
    "Errors and parameters": (
        "components.errors:KfrecError",
        "components.parameters:param",
        "components.lazy:Lazy",
        "components.contract:only_label",
    ),
    "Models": (
        "components.models:ModelDefinition",
        "components.models:Model",
        "components.models:Table",
        "components.models:LossTerm",
        "components.models.model:click_loss",
        "components.models.loss:cross_entropy",
        "components.models.loss:embedding_penalty",
        "components.models.loss:next_item_loss",
        "components.models.model:Explaining",
        "components.models.explained:Explained",
        "components.models.model:SharingUser",
    ),
    "Optimizers": (
        "components.models:make_optimizer",
        "components.models.optimizers:one_optimizer",
        "components.models.parameters:OneOptimizer",
        "components.models.optimizers.groups:OptimizerGroup",
        "components.models.optimizers.schedules:warm_up",
        "components.models.optimizers.schedules:polynomial_decay",
        "components.models.optimizers.schedules:piecewise",
    ),
    "Layers": (
        "components.models.layers.weights:Weights",
        "components.models.layers.embedding_tables:EmbeddingTables",
        "components.models.layers.embedding:FusedEmbedding",
        "components.models.tables.exchange:gather",
        "components.models.layers.linear:Linear",
        "components.models.layers.dense:Dense",
        "components.models.layers.mlp:Mlp",
        "components.models.layers.dropout:Dropout",
        "components.models.layers.batch_normalization:BatchNormalization",
        "components.models.layers.dot_interaction:dot_interaction",
        "components.models.layers.global_batch:gathered_over_ranks",
        "components.models.layers.global_batch:Gathered",
        "components.models.layers.global_batch:summed_over_ranks",
    ),
    "Data sets": (
        "components.datasets:DatasetDefinition",
        "components.datasets:RawContract",
        "components.datasets:RawKind",
        "components.datasets:PreprocessJob",
        "components.checks.profiler:Profiler",
    ),
    "Raw rows": (
        "components.datasets.raw_rows:RawColumn",
        "components.datasets.raw_rows:RawRows",
        "components.datasets.raw_rows:Encoded",
        "components.datasets.raw_rows:Answering",
        "components.datasets.raw_rows:SampledNegatives",
        "components.datasets.raw_rows:listed",
    ),
    "Preprocessing": (
        "components.workflows.workers:dask_workers",
        "components.workflows.workers:in_order",
        "components.workflows.text_blocks:blocks",
        "components.workflows.quarantine:Quarantine",
    ),
    "Tasks": (
        "components.tasks:TaskDefinition",
        "components.tasks:Metric",
        "components.tasks:Kept",
        "components.tasks:NoParameters",
        "components.tasks:Scores",
        "components.tasks:Streaming",
        "components.tasks:Exchange",
        "components.tasks:Measured",
        "components.tasks:Controls",
        "components.tasks:Controlled",
        "components.tasks:Probe",
        "components.tasks:Baselines",
        "components.tasks:CatalogueMeasure",
        "components.tasks:Ranked",
        "components.tasks.binary:served",
        "components.tasks.binary:require_both_classes",
        "components.tasks.binary.columns:column_baselines",
    ),
    "Metrics and intervals": (
        "components.metrics:Interval",
        "components.metrics:mean_interval",
        "components.metrics:auc_interval",
        "components.metrics:roc_auc",
        "components.metrics:roc_curve",
        "components.metrics:log_loss",
        "components.metrics:average_precision",
        "components.metrics:calibration",
        "components.metrics:RankedGroups",
    ),
    "Parts of a report": (
        "components.report:Story",
        "components.report:Card",
        "components.report:Section",
        "components.report:Figure",
        "components.report:line_chart",
        "components.report:bar_chart",
        "components.report:table",
        "components.report:Line",
        "components.report:Axis",
        "components.report:spanning",
    ),
}
_SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises")


def reference() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for title, names in _PUBLIC.items():
        parts.append(f"## {title}\n")
        for name in names:
            module, _, attribute = name.partition(":")
            parts.append(_entry(module, attribute, getattr(importlib.import_module(module), attribute)))
    return "\n".join(parts)


def _entry(module: str, name: str, item: object) -> str:
    """An object with the public methods and properties that it defines."""
    lines = [f"### {name}", "", f"`from {module} import {name}`", ""]
    if inspect.isclass(item):
        lines += [*_text(inspect.getdoc(item) or ""), ""]
        for method, value in vars(item).items():
            is_public = not method.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
            if is_public and (doc := inspect.getdoc(value)):
                lines += [_heading(method, value), "", *_text(doc), ""]
    else:
        lines += [_heading(name, item), "", *_text(inspect.getdoc(item) or ""), ""]
    return "\n".join(lines)


def _heading(name: str, item: object) -> str:
    """A function's arguments by name; the types are in the code."""
    if isinstance(item, property):
        return f"**`{name}`**"
    assert callable(item)
    shown, keywords = [], False
    for parameter in inspect.signature(item).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            shown.append("*")
            keywords = True
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        shown.append(parameter.name + default)
    return f"**`{name}({', '.join(text for text in shown if text != 'self')})`**"


def _text(doc: str) -> Iterable[str]:
    """A docstring as Markdown: its sections become lists."""
    section = False
    for line in _plain(doc).splitlines():
        if line.removesuffix(":") in _SECTIONS and line.endswith(":"):
            section = True
            yield f"*{line.removesuffix(':')}*"
            yield ""
        elif section and line.startswith("    ") and not line.startswith("     "):
            name, colon, meaning = line.strip().partition(": ")
            yield f"- `{name}`: {meaning}" if colon and re.fullmatch(r"\*{0,2}\w+", name) else f"- {line.strip()}"
        else:
            section = section and (not line or line.startswith(" "))
            yield f"  {line.strip()}" if section and line else line


def _plain(doc: str) -> str:
    """A docstring without reStructuredText: roles and double backquotes become code."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", doc).replace("``", "`")


if __name__ == "__main__":
    quiet_tensorflow()
    sys.stdout.write(reference())
