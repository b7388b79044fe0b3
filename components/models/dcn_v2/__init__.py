"""DCN V2: its parameters, how it is built, and its optimizers."""

from __future__ import annotations

from dataclasses import dataclass

from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.optimizers import adam_by_rows
from components.models.parameters import BATCH_NORMALIZATION, EMBEDDING_L2, check_batch_normalization
from components.parameters import Ints, param

STACKED, PARALLEL = "stacked", "parallel"


@dataclass(frozen=True)
class DcnV2Parameters:
    """Sizes of both networks, and the learning rate of Adam, which updates only the table rows in the batch."""

    embedding_dim: int = param(39, "Width of one feature's embedding", unit="floats", at_least=1, at_most=4096)
    structure: str = param(
        PARALLEL, "Whether the deep network takes the inputs or the crosses", choices=(STACKED, PARALLEL)
    )
    cross_layers: int = param(3, "Layers of the cross network", unit="layers", at_least=1, at_most=64)
    cross_rank: int = param(
        0, "Width of the two factors of a cross layer's matrix; 0 learns the matrix whole", unit="floats", at_least=0,
        at_most=65_536,
    )  # fmt: skip
    deep_hidden_units: Ints = param((768, 768), "Hidden layers of the deep network", at_least=1, at_most=65_536)
    deep_dropout: float = param(0.0, "Dropout of the deep network's hidden layers", at_least=0, at_most=0.99)
    batch_normalization: bool = BATCH_NORMALIZATION
    embedding_l2: float = EMBEDDING_L2
    embedding_limit: float = param(
        0.0, "Embeddings start uniform in plus or minus this; 0 is sqrt(1 / rows) of each table", at_least=0, at_most=1
    )
    learning_rate: float = param(0.0001, "Learning rate", at_least=0)


MODEL = ModelDefinition(
    name="dcn_v2",
    title="DCN V2",
    summary="A network of feature crosses beside a deep one over the same inputs.",
    parameters=DcnV2Parameters,
    build=Lazy("components.models.dcn_v2.model:DcnV2"),
    optimizers=lambda parameters, model, steps_per_epoch: adam_by_rows(model, parameters.learning_rate),
    dataset="criteo",
    task="click",
    check=check_batch_normalization,
    defaults={"epochs": 1, "global_batch_size": 4096},
    local_defaults={
        "epochs": 2,
        "global_batch_size": 1024,
        "embedding_dim": 16,
        "cross_rank": 32,
        "deep_hidden_units": (128, 64),
        "learning_rate": 0.002,
    },
    # Those of Wide & Deep, whose deep part is the same. Tables start in one range, as Keras' do: by their rows, small
    # tables start large and large ones small, and their ids are learned worse (docs/results.md).
    dataset_defaults={
        "tabular": {
            "epochs": 30,
            "patience": 3,
            "global_batch_size": 256,
            "average_decay": 0.998,
            "embedding_dim": 16,
            "cross_layers": 2,
            "cross_rank": 0,
            "deep_hidden_units": (256, 128),
            "deep_dropout": 0.5,
            "batch_normalization": True,
            "embedding_l2": 0.1,
            "embedding_limit": 0.05,
            "learning_rate": 0.001,
        }
    },
)
