"""Two trainings, of which the second needs the first: a fine-tuning, a phase of longer texts, or the ranking behind a
retrieval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kfp.dsl.graph_component import GraphComponent

from components import registry
from components.errors import KfrecError
from components.parameters import Parameter
from components.steps.catalog import STEPS
from pipelines.defaults import TRAINING, Pipeline
from pipelines.definitions import Configure, Ending, kfp_pipeline, training_pipeline
from pipelines.form import Field, field_names, form, pipeline_inputs
from pipelines.parameters import pipeline_parameters, step_parameters

Defaults = Callable[[Pipeline], Mapping[str, Any]]
# Begins the names of the parameters of the first training.
FIRST = "first_"
CHAIN = "chain"
# Parameter that the first model is the vocabulary of.
_VOCABULARY = "workflow"
# Parameter that names the registered model of the first stage, and the first stage's own parameter of that name.
_PAIR_WITH, _REGISTERED = "pair_with", "registered_model"
# Steps whose parameters two stages share where their defaults agree, so that both learn from the same raw data.
_DATA_STEPS = ("download", "preprocess")


class Chain(NamedTuple):
    """Two trainings.

    Attributes:
        first: the training whose model the second one starts from, or ranks the candidates of.
    """

    first: Pipeline
    second: Pipeline

    @property
    def kind(self) -> str:
        return CHAIN

    @property
    def name(self) -> str:
        """The name of its file, such as ``electra-qa-after-electra-training``."""
        return f"{self.second.name.removesuffix(f'-{TRAINING}')}-after-{self.first.name}"

    @property
    def kfp_name(self) -> str:
        return f"kfrec-{self.name}"

    @property
    def is_pair(self) -> bool:
        """Whether the first model retrieves what the second one ranks; the second takes no weights then."""
        return registry.model(self.first.model).retrieves

    @property
    def link(self) -> str:
        """The parameter of the second training that is the first one's model.

        The same model keeps its moments, another one takes the weights that have the names of its own; a ranking model
        is registered with the retrieval model of that name.
        """
        if self.is_pair:
            return _PAIR_WITH
        return "continue_path" if self.first.model == self.second.model else "warm_start_path"

    @property
    def linked(self) -> tuple[str, ...]:
        """The parameters of the second training that the first one sets."""
        return (self.link,) if self.is_pair else (self.link, _VOCABULARY)

    def linking(self, model: Any, first: Mapping[str, Any]) -> dict[str, Any]:
        """The values of ``linked``.

        Args:
            model: where the first training's model is.
            first: the first training's parameters.
        """
        return dict.fromkeys(self.linked, first[_REGISTERED] if self.is_pair else model)

    @property
    def shared(self) -> tuple[str, ...]:
        """Parameters that both trainings have in common: those that the second model keeps from the first, or those of
        the raw data."""
        if self.is_pair:
            first, second = (pipeline_parameters(each) for each in self)
            of_data = [
                parameter.pipeline_name
                for step in _DATA_STEPS
                for parameter in step_parameters(STEPS[step], self.second)
            ]
            return tuple(name for name in of_data if first.get(name) == second[name])
        return registry.model(self.second.model).inherited


def chain_of(first: str, second: Pipeline) -> Chain:
    """The chain of a model's own training and another training.

    Raises:
        KfrecError: it is no training, or its model cannot start from this one.
    """
    if second.kind != TRAINING:
        raise KfrecError(
            f"--after {first}: a {second.kind} does not begin with another training; leave one of them out"
        )
    begins, ends = registry.model(first), registry.model(second.model)
    if begins.retrieves:
        before = Pipeline(TRAINING, first, second.dataset)
        is_alike = before.choices["dataset"] == second.choices["dataset"]
        if ends.retrieves or not is_alike or _PAIR_WITH not in pipeline_parameters(second):
            raise KfrecError(f"--after {first}: model {ends.name} does not rank what it retrieves; leave it out")
        return Chain(before, second)
    inherited, known = ends.inherited, pipeline_parameters(Pipeline(TRAINING, begins.name))
    if not inherited or set(inherited) - set(known):
        raise KfrecError(f"--after {first}: model {second.model} cannot start from its weights; leave it out")
    return Chain(Pipeline(TRAINING, first), second)


def divided(chain: Chain, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a chain's parameters as those of its trainings.

    Args:
        values: by name; those of the first training have FIRST before their names, unless both share them.

    Raises:
        KfrecError: one is that of the first training's model.
    """
    for name in chain.linked:
        if name in values:
            raise KfrecError(f"parameter {name}={values[name]}: is the first model with --after; leave one of them out")
    first = {name.removeprefix(FIRST): value for name, value in values.items() if name.startswith(FIRST)}
    second = {name: value for name, value in values.items() if not name.startswith(FIRST)}
    return {**first, **{name: second[name] for name in chain.shared if name in second}}, second


def joined(chain: Chain, first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The values of both trainings as those of the chain: the reverse of ``divided``."""
    begins = {f"{FIRST}{name}": value for name, value in first.items() if name not in chain.shared}
    return {**begins, **second}


def chain_fields(chain: Chain) -> tuple[frozenset[str], frozenset[str]]:
    """The parameters of each training that are fields of the form, by their names there.

    The form has the second training's, and of the first those that both share and the name of its model: with more, it
    would be longer than a person reads. The first training's others are in its JSON objects.
    """
    first, second = field_names(chain.first), field_names(chain.second)
    return first & {*chain.shared, _REGISTERED}, second


def chain_form(chain: Chain, defaults: Defaults) -> dict[str, Field]:
    """The fields of the form of a chain, by name: those of the first training have FIRST before their names, unless
    both share them.

    Args:
        defaults: of each training, on a cluster.
    """
    begins, ends = (form(each, *of) for each, of in zip(chain, _known_and_fields(chain, defaults), strict=True))
    first = {f"{FIRST}{name}": field for name, field in begins.items() if name not in chain.shared}
    return {**first, **ends}


def chain_inputs(chain: Chain, values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a compiled chain, for values by name as of ``divided``."""
    first, second = (
        pipeline_inputs(each, own, fields)
        for each, own, fields in zip(chain, divided(chain, values), chain_fields(chain), strict=True)
    )
    return joined(chain, first, second)


def _known_and_fields(chain: Chain, defaults: Defaults) -> list[tuple[dict[str, Parameter], frozenset[str]]]:
    """The parameters of each training in the chain, by name, and which of them are fields."""
    begins, ends = (pipeline_parameters(each, defaults(each)) for each in chain)
    begins |= {name: ends[name] for name in chain.shared}
    ends = {name: parameter for name, parameter in ends.items() if name not in chain.linked}
    return list(zip((begins, ends), chain_fields(chain), strict=True))


def chained_pipeline(
    chain: Chain, configure: Configure, defaults: Defaults, ending: Ending | None = None
) -> GraphComponent:
    """The pipeline for KFP's compiler.

    Args:
        defaults: of each training, on a cluster.
        ending: see ``pipelines.definitions.kfp_pipeline``.
    """
    fields = chain_fields(chain)
    (known, _), _ = _known_and_fields(chain, defaults)
    own = {name: parameter.default for name, parameter in known.items()}
    first = training_pipeline(chain.first, configure, own, returns=True, fields=fields[0])
    second = training_pipeline(
        chain.second, configure, defaults(chain.second), returns=True, fields=fields[1] | set(chain.linked)
    )

    def wire(given: Mapping[str, Any]) -> None:
        begins, ends = divided(chain, given)
        trained = first(**begins)
        second(**ends, **chain.linking(trained.output, begins)).after(trained)

    titles = [registry.model(each.model).title for each in chain]
    how = "to rank what that retrieves" if chain.is_pair else "from its weights"
    summary = f"Trains {titles[0]}, and then {titles[1]} {how}."
    return kfp_pipeline(chain.kfp_name, summary, wire, chain_form(chain, defaults), ending=ending)
