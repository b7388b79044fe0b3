"""The pipelines for KFP's compiler and kfp.local, and their steps as components, generated from the catalog.

training: download -> preprocess -> tfrecord -> train -> evaluate -> register
retraining: find -> training, if there is enough new data
incremental: the same, on what is new, and on everything once in a number of nights
prediction: predict
recommendation: download -> recommend
feedback: feedback

A training ends with a refit, if the model is the champion and ``refit`` is true: preprocess -> tfrecord -> train ->
register, with nothing held out.

kfp.local supports no conditions, so ``pipelines.local`` runs the parts of a retraining and of a training in sequence.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any

from kfp import dsl
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.graph_component import GraphComponent
from kfp.dsl.pipeline_task import PipelineTask

from components import registry
from components.images import step_image
from components.parameters import Parameter, parameters_of
from components.steps.catalog import STEPS, Step
from components.steps.command import DEFAULTS, OPTIONS
from pipelines.defaults import DECIDED, FEEDBACK, PIPELINES, PREDICTION, RECOMMENDATION, REFIT, TRAINING, Pipeline
from pipelines.form import Field, field_names, form, options_name, options_of
from pipelines.parameters import BOUND, RUN_INPUTS, pipeline_parameters, step_parameters
from pipelines.runs.earlier import Earlier

# KFP's artifact types; the default is Artifact.
_TYPES = {"raw": "Dataset", "parquet": "Dataset", "tfrecord": "Dataset", "model": "Model", "champion": "Model"}

# An input of the steps that run code of another package than kfrec. KFP reuses the outputs of a step that had the same
# inputs, so another version of the package must be another input.
EXTENSIONS = "extensions"


def artifact_type(name: str) -> str:
    return _TYPES.get(name, "Artifact")


@cache
def component(step_name: str, pipeline: Pipeline, options: frozenset[str] = frozenset()) -> BaseComponent:
    """A step as a KFP component, with its parameters in a pipeline.

    Args:
        options: the parameters that come in its JSON objects, by pipeline-wide name; the others are inputs.
    """
    function = _function(STEPS[step_name], pipeline, options)
    return dsl.component(base_image=step_image(), install_kfp_package=False)(function)


def extensions_of(step: Step, pipeline: Pipeline) -> str:
    """The packages beside kfrec whose code a step runs, the value of its input EXTENSIONS; empty if there are none."""
    declared = {parameter.name for parameter in parameters_of(step.parameters(pipeline.choices))}
    choices = {name: value for name, value in pipeline.choices.items() if name in declared}
    return ", ".join(sorted(set(registry.extensions(choices).values())))


def _function(step: Step, pipeline: Pipeline, options: frozenset[str]) -> Any:
    """The function; KFP sends its source to the step's container."""
    declared = [p for p in parameters_of(step.parameters(pipeline.choices)) if p.pipeline_name not in options]
    types = {p.name: p.plain_type.__name__ for p in declared}
    arguments = {name: f"Input[{artifact_type(name)}]" for name in step.inputs}
    arguments |= {name: f"Output[{artifact_type(name)}]" for name in step.outputs}
    arguments |= {name: f"Output[{kind}]" for name, kind in step.shown.items()}
    if extensions_of(step, pipeline):
        arguments[EXTENSIONS] = "str"
    arguments |= {
        name: kind
        for name, kind in types.items()
        if name not in BOUND or name in RUN_INPUTS or name in pipeline.choices
    }
    if options:
        arguments |= {DEFAULTS: "dict", OPTIONS: "dict"}
    results = ", ".join(f"('{name}', {kind.__name__})" for name, kind in step.results.items())
    source = "".join(
        (
            f"def {step.name}(\n",
            *(f"    {name}: {kind},\n" for name, kind in arguments.items()),
            f") -> {'NamedTuple(' + repr('Results') + f', [{results}])' if results else 'None'}:\n",
            f'    """{step.summary}"""\n',
            "    from components.steps.command import component\n\n",
            f'    return component("{step.name}", locals())\n',
        )
    )
    filename = f"<the {step.name} step of {pipeline.name}>"
    # KFP reads a function's source through linecache.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module: dict[str, Any] = {}
    exec("from typing import NamedTuple\nfrom kfp.dsl import *\n", module)
    exec(compile(source, filename, "exec", dont_inherit=True), module)
    return module[step.name]


# The result of a training: where its model is.
TRAINED = "trained_model"
# Makes the exit task of a pipeline of that name; see ``pipelines.exit_task``.
Ending = Callable[[str], PipelineTask]
# Called with each task and the name of its step.
Configure = Callable[[PipelineTask, str], None]


def _wire(
    pipeline: Pipeline,
    known: Mapping[str, Parameter],
    given: Mapping[str, Any],
    configure: Configure,
    steps: Sequence[str],
    earlier: Earlier,
    made: dict[str, Any],
    **fixed: Any,
) -> dict[str, PipelineTask]:
    """Connects the steps.

    Args:
        given: the values of the form's fields.
        made: output name to artifact; receives the outputs of the steps.
        fixed: values of parameters by name, in place of those given, for the steps that declare them.

    Returns:
        The tasks by step, without those of an earlier attempt.
    """
    tasks = {}
    for name in steps:
        (output,) = STEPS[name].outputs
        if name in earlier.steps:
            made[output] = _imported(output, earlier.artifacts[output])
            continue
        inputs = {input_name: made[input_name] for input_name in STEPS[name].inputs}
        task = tasks[name] = task_of(name, pipeline, known, given, earlier.run_id, fixed, **inputs)
        configure(task, name)
        made[output] = task.outputs[output]
    return tasks


def _imported(name: str, location: str) -> Any:
    """An artifact that exists already."""
    kind = getattr(dsl, artifact_type(name))
    return dsl.importer(artifact_uri=location, artifact_class=kind, reimport=False).output


def up_to(last: str) -> tuple[str, ...]:
    """The steps of a training up to ``last``, in order."""
    steps = PIPELINES[TRAINING]
    return steps[: steps.index(last) + 1]


def task_of(
    name: str,
    pipeline: Pipeline,
    known: Mapping[str, Parameter],
    given: Mapping[str, Any],
    run_id: str = "",
    fixed: Mapping[str, Any] | None = None,
    **inputs: Any,
) -> Any:
    """The task of a step.

    Args:
        run_id: of the resumed pipeline run; empty is KFP's placeholder.
        fixed: values of parameters by name, in place of those given, if the step declares them.
    """
    step = STEPS[name]
    declared = {parameter.name for parameter in parameters_of(step.parameters(pipeline.choices))}
    fixed = {key: value for key, value in (fixed or {}).items() if key in declared}
    options = {
        each.pipeline_name: known[each.pipeline_name].plain_default
        for each in options_of(name, pipeline, given)
        if each.name not in fixed
    }
    made = component(name, pipeline, frozenset(options))
    own = {p.name: given[p.pipeline_name] for p in step_parameters(step, pipeline) if p.pipeline_name in given}
    if options:
        # The compiled pipeline, not the image, says what a parameter is that nobody set.
        own |= {DEFAULTS: options, OPTIONS: given.get(options_name(name), {})}
    own |= {key: value for key, value in pipeline.choices.items() if key in made.component_spec.inputs}
    if "run_id" in made.component_spec.inputs:
        own["run_id"] = run_id or dsl.PIPELINE_JOB_ID_PLACEHOLDER
    if "refitting" in made.component_spec.inputs:
        own["refitting"] = False
    if EXTENSIONS in made.component_spec.inputs:
        own[EXTENSIONS] = extensions_of(step, pipeline)
    return made(**own | fixed, **inputs)


def kfp_pipeline(
    name: str,
    summary: str,
    wire: Callable[[Mapping[str, Any]], Any],
    fields: Mapping[str, Field],
    returns: bool = False,
    ending: Ending | None = None,
) -> GraphComponent:
    """A pipeline with the fields of its form in signature and docstring.

    Args:
        returns: whether what ``wire`` returns, text, is the pipeline's output.
        ending: makes the task that runs at the end, however that is; None is no such task.
    """

    def function(*values: Any) -> Any:
        given = dict(zip(fields, values, strict=True))
        if ending is not None:
            with dsl.ExitHandler(ending(name), name="run"):
                wire(given)
            return None
        result = wire(given)
        return result if returns else None

    arguments = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=field.plain_default, annotation=field.plain_type
        )
        for name, field in fields.items()
    ]
    returned = str if returns else inspect.Signature.empty
    function.__signature__ = inspect.Signature(arguments, return_annotation=returned)  # type: ignore[attr-defined]
    described = "\n".join(f"    {name}: {field.description}" for name, field in fields.items())
    function.__doc__ = f"{summary}\n\nArgs:\n{described}\n"
    return dsl.pipeline(name=name)(function)


def training_pipeline(
    pipeline: Pipeline,
    configure: Configure = lambda task, step: None,
    defaults: Mapping[str, Any] | None = None,
    earlier: Earlier = Earlier(),  # noqa: B008
    last: str = "register",
    returns: bool = False,
    fields: Collection[str] | None = None,
    refits: bool = True,
    ending: Ending | None = None,
) -> GraphComponent:
    """The pipeline for KFP's compiler or kfp.local.

    Args:
        earlier: finished steps of an earlier attempt, to reuse their outputs; at least one step must remain.
        returns: whether the location of the trained model is the pipeline's output; nothing may be reused then.
        fields: the parameters that are fields of their own, by pipeline-wide name; None is those of the KFP UI.
        refits: whether a refit follows, on the condition that the register step gives; not for kfp.local.
        ending: see ``kfp_pipeline``.
    """
    known = pipeline_parameters(pipeline, defaults)

    def wire(given: Mapping[str, Any]) -> Any:
        made: dict[str, Any] = {}
        tasks = _wire(pipeline, known, given, configure, up_to(last), earlier, made)
        if refits and "register" in tasks and registry.dataset(pipeline.choices["dataset"]).refits:
            decided = tasks["register"].outputs
            with dsl.If(decided["refit"] == True, name="refit"):  # noqa: E712
                of_refit = {"refitting": True, "epochs": decided["epochs"]}
                _wire(pipeline, known, given, configure, REFIT, Earlier(), made, **of_refit)
        return tasks["train"].outputs[TRAINED] if "train" in tasks else None

    summary = f"Raw logs to a trained, evaluated and registered model: {registry.model(pipeline.model).title}."
    return kfp_pipeline(
        pipeline.kfp_name,
        summary,
        wire,
        form(pipeline, known, field_names(pipeline) if fields is None else fields),
        returns,
        ending,
    )


def refit_pipeline(pipeline: Pipeline, artifacts: Mapping[str, str], earlier: Earlier) -> GraphComponent:
    """The refit of a training, for kfp.local.

    Args:
        artifacts: output name to folder of the training's steps.
        earlier: its finished steps of an earlier attempt, and the pipeline run.
    """
    known = pipeline_parameters(pipeline)

    def wire(given: Mapping[str, Any]) -> None:
        made = {name: _imported(name, artifacts[name]) for name in ("raw", "evaluation")}
        _wire(pipeline, known, given, lambda task, step: None, REFIT, earlier, made, refitting=True)

    title = registry.model(pipeline.model).title
    summary = f"Trains the champion again on everything: {title}."
    return kfp_pipeline(f"{pipeline.kfp_name}-refit", summary, wire, form(pipeline, known, field_names(pipeline)))


def training_arguments(pipeline: Pipeline, values: Mapping[str, Any], decision: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the training pipeline: the retraining's own and the find step's results."""
    decided = DECIDED[pipeline.kind]
    own = {name: values[name] for name in pipeline_parameters(pipeline.of_kind(TRAINING)) if name not in decided}
    return own | {name: decision[name] for name in decided}


def retraining_pipeline(
    pipeline: Pipeline,
    configure: Configure = lambda task, step: None,
    defaults: Mapping[str, Any] | None = None,
    ending: Ending | None = None,
) -> GraphComponent:
    """The pipeline for KFP's compiler; ``ending`` as of ``kfp_pipeline``."""
    known = pipeline_parameters(pipeline, defaults)
    training = pipeline.of_kind(TRAINING)
    fields = field_names(training) | set(DECIDED[pipeline.kind])
    own = {name: parameter.default for name, parameter in known.items()}
    train = training_pipeline(training, configure, own, fields=fields)

    def wire(given: Mapping[str, Any]) -> None:
        decision = task_of("find", pipeline, known, given)
        configure(decision, "find")
        decided = {name: decision.outputs[name] for name in DECIDED[pipeline.kind]}
        passed = {name: given[name] for name in form(training, known, fields)}
        with dsl.If(decision.outputs["proceed"] == True, name="new-data"):  # noqa: E712
            train(**passed, **decided)

    summary = "Trains on the newest data version, if there is new data, and compares the model with the champion."
    fields_of_form = form(pipeline, known, field_names(pipeline))
    return kfp_pipeline(pipeline.kfp_name, summary, wire, fields_of_form, ending=ending)


_OF_ANY_MODEL = {
    PREDICTION: "Scores files of raw rows with a registered model and writes the scores beside them.",
    RECOMMENDATION: "Lists the items that every user of raw events would most likely choose next.",
    FEEDBACK: "Joins served rows with their outcomes, and measures the model's live quality.",
}


def inference_pipeline(
    pipeline: Pipeline,
    configure: Configure = lambda task, step: None,
    defaults: Mapping[str, Any] | None = None,
    earlier: Earlier = Earlier(),  # noqa: B008
    ending: Ending | None = None,
) -> GraphComponent:
    """The pipeline of a prediction, a recommendation or of feedback, for KFP's compiler or kfp.local.

    Args:
        earlier: finished steps of an earlier attempt, to reuse their outputs; at least one step must remain.
        ending: see ``kfp_pipeline``.
    """
    known = pipeline_parameters(pipeline, defaults)

    def wire(given: Mapping[str, Any]) -> None:
        tasks = _wire(pipeline, known, given, configure, pipeline.steps, earlier, {})
        if "download" in tasks:  # its source may hold newer events
            tasks["download"].set_caching_options(False)

    fields = form(pipeline, known, field_names(pipeline))
    return kfp_pipeline(pipeline.kfp_name, _OF_ANY_MODEL[pipeline.kind], wire, fields, ending=ending)
