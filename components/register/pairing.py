"""Registers the champions of two stages as one model, and decides whether it becomes the champion pair.

Retrieved candidates are ordered by both stages' scores, with weights that the choices of the validation split fit. A
pair is better if its lists are: NDCG@10 of what test users chose, by the paired bootstrap over users. HR@10 is blind to
the order of the first ten.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from components.contract import Metric
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import VALIDATION
from components.metrics import FEWEST, mean_interval
from components.progress import progress
from components.register.comparison import Verdict
from components.register.gate import Decision, against_champion, not_comparable, without_champion
from components.register.logged import logged_pair
from components.register.promotion import basis_of, decide
from components.register.registry import Registry
from components.scoring import load_raw_model
from components.scoring.catalogue import Catalogue
from components.scoring.choices import Choices, choices_in, ranks_of
from components.scoring.pair import (
    PAIR_FILES,
    RANKER,
    RETRIEVER,
    Pair,
    is_pair,
    load_pair,
    note_pair,
    paired,
    settings_of,
)
from components.scoring.weighing import weighed
from components.tasks import Difference
from components.tasks.catalogue import discounted_gains
from components.tasks.controls import NO_INTERVAL
from components.tracking.champion import champion_of, download_version, judged_twin, standing
from components.tracking.run import TrackedRun

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

TOP = 10
NDCG = Metric("ndcg", f"NDCG@{TOP}")


class Registered(NamedTuple):
    """A registered pair."""

    name: str
    version: int
    decision: Decision
    facts: Mapping[str, Any]

    @property
    def summary(self) -> str:
        """The decision in a sentence."""
        return f"{self.name} version {self.version} is {standing(self.decision.alias)}: {self.decision.reason}"

    @property
    def body(self) -> dict[str, Any]:
        """As JSON."""
        return {"registered_pair": self.name, "version": self.version, **asdict(self.decision), **self.facts}


def register_pair(parameters: Any, spec: FeatureSpec, data: str, digest: str, run: TrackedRun) -> Registered | str:
    """Registers the champions of ``registered_model`` and ``pair_with`` as one model, and sets its alias.

    A second call with the same champions finds the version of the first call. Of a champion that is a refit the judged
    twin is in the pair: the refit has trained on the samples that compare pairs. Without a validation split the order
    is that of the second stage.

    Args:
        parameters: of the register step, with those of ``components.tasks.pairing.PairDecision``.
        spec: data whose test users compare pairs; no model may have been trained on their test split.
        data: folder or URI of these records.
        digest: of these records.

    Returns:
        The pair; or why there is none, as long as one of the stages has no champion; empty if no pair is wanted.

    Raises:
        KfrecError: the champions are no pair, or the data have no users to compare them by.
    """
    if not getattr(parameters, "pair_with", ""):
        return ""
    registry, champions = Registry(parameters.registered_pair, run), {}
    for name in (parameters.registered_model, parameters.pair_with):
        champion = champion_of(registry.client, name)
        if champion is None:
            return f"no {parameters.registered_pair}: {name} has no champion yet"
        champions[name] = judged_twin(registry.client, champion)
    with tempfile.TemporaryDirectory(prefix="kfrec-pair-") as scratch:
        folder = Path(scratch)
        pair, facts = _assembled(registry, champions, parameters.pair_retrieve, folder)
        stages = f"{facts[RETRIEVER]}, {facts[RANKER]}, {pair.retrieve} retrieved, weighed"
        version = registry.registered(stages)
        if version is not None:
            registered = download_version(registry.client, registry.name, version.version, folder / "registered")
            pair = replace(pair, weights=settings_of(registered)[1])
        else:
            if VALIDATION in spec.sources:
                choices = choices_in(spec, parameters.pair_users, VALIDATION)
                pair = replace(pair, weights=weighed(pair.catalogue(), choices))
            note_pair(folder, pair)
            version = registry.register(logged_pair(pair), (folder / name for name in PAIR_FILES), stages)
        facts["weights"] = pair.weights._asdict()
        registry.note(version, facts | {"data": data, "task": "pair"})
        comparison = _Comparison(parameters, choices_in(spec, parameters.pair_users), pair)
        decided_by = ("pair_users", "pair_may_be_level", "bootstrap_samples", "confidence", "approval")
        gate = {name: getattr(parameters, name) for name in decided_by}
        basis = basis_of(digest, gate)
        against = partial(comparison.against, registry)
        decision, _ = decide(registry, version, against, basis, approval=parameters.approval)
        return Registered(registry.name, int(version.version), decision, facts)


def _assembled(
    registry: Registry, champions: Mapping[str, ModelVersion], retrieve: int, folder: Path
) -> tuple[Pair, dict[str, Any]]:
    """Downloads the champions into the folder of a pair."""
    models = {}
    for name, champion in champions.items():
        place = download_version(registry.client, name, champion.version, folder / "download" / name)
        models[name] = load_raw_model(place)
    one, other = models.values()
    pair = paired(one, other, retrieve)
    facts: dict[str, Any] = {"retrieve": retrieve}
    for role, model in ((RETRIEVER, pair.retriever), (RANKER, pair.ranker)):
        name = next(name for name, each in models.items() if each is model)
        facts[role] = f"{name} version {champions[name].version}"
        place = model.model.folder
        place.rename(folder / role)
        place.symlink_to(folder / role)  # the loaded model reads its vocabulary there
    return pair, facts


@dataclass(frozen=True)
class _Comparison:
    """Compares pairs by the choices of the same test users."""

    parameters: Any
    choices: Choices
    pair: Pair

    @cached_property
    def gains(self) -> np.ndarray:
        """Of the pair, ``[choices]``."""
        return _gains(self.pair.catalogue(), self.choices, "ranking by the pair")

    @cached_property
    def first_gains(self) -> np.ndarray:
        """Of its first stage alone, ``[choices]``."""
        return _gains(Catalogue(self.pair.retriever), self.choices, "ranking by its first stage")

    def against(self, registry: Registry, champion: ModelVersion | None) -> Verdict:
        """Compares the pair with a version of the registry; None is no champion."""
        score, vetoes = float(self.gains.mean()), self._vetoes()
        if champion is None:
            return Verdict(without_champion(NDCG, score, 0.0, vetoes))
        number = int(champion.version)
        with tempfile.TemporaryDirectory(prefix="kfrec-champion-") as scratch:
            try:
                place = download_version(registry.client, registry.name, champion.version, Path(scratch))
                if not is_pair(place):
                    raise KfrecError("it is not a pair")
                theirs = _gains(load_pair(place).catalogue(), self.choices, f"ranking by champion version {number}")
            except KfrecError as error:
                return Verdict(not_comparable(NDCG, score, number, str(error).replace(scratch, "the registry")))
        return Verdict(against_champion(number, self._difference(theirs), margin=0.0, vetoes=vetoes))

    def _vetoes(self) -> list[str]:
        vetoes, second = [], self._difference(self.first_gains)
        if len(np.unique(self.choices.owners[self.gains > 0])) < FEWEST:
            vetoes.append(f"the test {NDCG.label} {self.gains.mean():.4f} has {NO_INTERVAL}")
        if second.interval.high < 0:
            vetoes.append(f"its order is {second} than that of its first stage alone")
        elif not (second.interval.low > 0 or self.parameters.pair_may_be_level):
            vetoes.append(
                f"its order is {second} than that of its first stage alone, so the second stage may not pay; "
                "pair_may_be_level=true allows that"
            )
        return vetoes

    def _difference(self, theirs: np.ndarray) -> Difference:
        samples, confidence = self.parameters.bootstrap_samples, self.parameters.confidence
        interval = mean_interval(
            self.gains - theirs, samples=samples, confidence=confidence, clusters=self.choices.owners
        )
        return Difference(NDCG, float(self.gains.mean()), float(theirs.mean()), interval, confidence)


def _gains(catalogue: Catalogue, choices: Choices, title: str) -> np.ndarray:
    """Of each choice, for ``NDCG``."""
    with progress(title, len(choices.chosen), "choices") as bar:
        return discounted_gains(ranks_of(catalogue, choices, ranked=bar.advance), TOP)
