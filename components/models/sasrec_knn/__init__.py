"""SASRec mixed with item-kNN: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass

from components.feature_spec import Channel
from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.item_knn import ItemKnnParameters
from components.models.optimizers import one_optimizer
from components.models.sasrec import MODEL as SASREC
from components.models.sasrec import SasRecParameters, check_parameters
from components.parameters import param


@dataclass(frozen=True)
class SasRecKnnParameters(SasRecParameters, ItemKnnParameters):
    """Those of both models; the learning rate is SASRec's."""

    knn_share: float = param(
        0.5, "Share of item-kNN in the likelihood; the rest is SASRec's", at_least=0.01, at_most=0.99
    )


MODEL = ModelDefinition(
    name="sasrec_knn",
    title="SASRec and item-kNN",
    summary="The likelihoods of SASRec and of item-kNN, mixed, for nightly lists.",
    parameters=SasRecKnnParameters,
    build=Lazy("components.models.sasrec_knn.model:SasRecKnn"),
    optimizers=one_optimizer,
    dataset=SASREC.dataset,
    task=SASREC.task,
    check=check_parameters,
    needs=(Channel.POSITIVE,),
    fresh=("counted/",),
    defaults=SASREC.defaults,
    dataset_defaults=SASREC.dataset_defaults,
    retrieves=True,
)
