"""Registers the champions of two stages as one model, and decides whether it becomes the champion pair.

A pair is better if its lists are: HR@10 of the item that each test user chose last, by the paired bootstrap over users.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from components.contract import Metric
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
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
from components.scoring.pair import PAIR_FILES, RANKER, RETRIEVER, Pair, is_pair, load_pair, note_pair, paired
from components.tasks import Difference
from components.tasks.controls import NO_INTERVAL
from components.tracking.champion import champion_of, download_version, judged_twin, standing
from components.tracking.run import TrackedRun

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

TOP = 10
HIT_RATE = Metric("hr", f"HR@{TOP}")


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
    twin is in the pair: the refit has trained on the samples that compare pairs.

    Args:
        parameters: of the register step, with those of ``components.tasks.pairing.PairDecision``.
        spec: data whose test users compare pairs; no model may have been trained on their test split.
        data: folder or URI of these records.

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
        stages = f"{facts[RETRIEVER]}, {facts[RANKER]}, {pair.retrieve} retrieved"
        version = registry.registered(stages)
        if version is None:
            version = registry.register(logged_pair(pair), (folder / name for name in PAIR_FILES), stages)
        registry.note(version, facts | {"data": data, "task": "pair"})
        comparison = _Comparison(parameters, choices_in(spec, parameters.pair_users), pair)
        decided_by = ("pair_users", "bootstrap_samples", "confidence", "approval")
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
    note_pair(folder, retrieve)
    return pair, facts


@dataclass(frozen=True)
class _Comparison:
    """Compares pairs by the choices of the same test users."""

    parameters: Any
    choices: Choices
    pair: Pair

    @cached_property
    def hits(self) -> np.ndarray:
        """Of the pair, ``[users]``."""
        return _hits(self.pair.catalogue(), self.choices, "ranking by the pair")

    @cached_property
    def first_hits(self) -> np.ndarray:
        """Of its first stage alone, ``[users]``."""
        return _hits(Catalogue(self.pair.retriever), self.choices, "ranking by its first stage")

    def against(self, registry: Registry, champion: ModelVersion | None) -> Verdict:
        """Compares the pair with a version of the registry; None is no champion."""
        score, vetoes = float(self.hits.mean()), self._vetoes()
        if champion is None:
            return Verdict(without_champion(HIT_RATE, score, 0.0, vetoes))
        number = int(champion.version)
        with tempfile.TemporaryDirectory(prefix="kfrec-champion-") as scratch:
            try:
                place = download_version(registry.client, registry.name, champion.version, Path(scratch))
                if not is_pair(place):
                    raise KfrecError("it is not a pair")
                theirs = _hits(load_pair(place).catalogue(), self.choices, f"ranking by champion version {number}")
            except KfrecError as error:
                return Verdict(not_comparable(HIT_RATE, score, number, str(error).replace(scratch, "the registry")))
        return Verdict(against_champion(number, self._difference(theirs), margin=0.0, vetoes=vetoes))

    def _vetoes(self) -> list[str]:
        vetoes, gain = [], self._difference(self.first_hits)
        if np.count_nonzero(self.hits) < FEWEST:
            vetoes.append(f"the test {HIT_RATE.label} {self.hits.mean():.4f} has {NO_INTERVAL}")
        if gain.interval.high < 0:
            vetoes.append(f"the order of its second stage is {gain} than that of the first")
        return vetoes

    def _difference(self, theirs: np.ndarray) -> Difference:
        confidence = self.parameters.confidence
        interval = mean_interval(self.hits - theirs, samples=self.parameters.bootstrap_samples, confidence=confidence)
        return Difference(HIT_RATE, float(self.hits.mean()), float(theirs.mean()), interval, confidence)


def _hits(catalogue: Catalogue, choices: Choices, title: str) -> np.ndarray:
    """Whether each user's choice is among the first TOP, ``[n]``."""
    with progress(title, len(choices.chosen), "users") as bar:
        return (ranks_of(catalogue, choices, ranked=bar.advance) <= TOP).astype(np.float64)
