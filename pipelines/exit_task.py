"""The exit task of the compiled pipelines, which tells how a run has ended; only if the cluster's settings ask for it.

KFP from 2.14 on passes the state to it; earlier servers refuse such a pipeline.
"""

from kfp import dsl
from kfp.dsl.pipeline_task import PipelineTask

from components.images import step_image
from pipelines.definitions import Ending
from pipelines.task_settings import ClusterSettings


@dsl.component(base_image=step_image(), install_kfp_package=False)
def notify(status: dsl.PipelineTaskFinalStatus, pipeline: str, run_id: str):  # type: ignore[no-untyped-def]
    """Tell how the run has ended, by webhook and mail."""
    from components.notices.kfp import tell_end

    tell_end(status.state, status.pipeline_job_resource_name, pipeline, run_id)


def ending_of(settings: ClusterSettings) -> Ending | None:
    """What makes the exit task, with its settings; None without any."""
    own = settings.exit_task
    if own is None:
        return None

    def make(pipeline: str) -> PipelineTask:
        task = notify(pipeline=pipeline, run_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER)
        settings.configure_task(task, own, "the exit task")
        return task

    return make
