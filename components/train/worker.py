"""One training process: standalone, or started by the train step, horovodrun or mpirun.

python -m components.train.worker --dataset_dir TFRECORD --results_dir OUT
horovodrun --gloo -np 2 python -m components.train.worker ...
mpirun -np 2 python -m components.train.worker ...
"""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from components.crash import describe_exception
from components.errors import KfrecError, Unreachable, explain_os_error
from components.lifetime import end_with_parent
from components.parameters import build, parameters_of
from components.progress import emit
from components.steps.catalog import STEPS, WorkerParameters, worker_parameters
from components.steps.parser import Parser, add_argument, chosen
from components.steps.training_parameters import require_divisible
from components.train.loop.runtime import quiet_tensorflow

if TYPE_CHECKING:
    from components.train.loop.ranks import Ranks

CRASHED, BAD_INPUT, ABANDONED, UNREACHABLE = 1, 2, 3, 4
# Out-of-memory messages of TensorFlow and NumPy.
_TENSOR = re.compile(r"OOM when allocating tensor with shape(\[[\d,]*\]) and type (\w+) on \S*device:(\w+:\d+)")
_ARRAY = re.compile(r"Unable to allocate ([\d.]+ \w+)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one worker and returns its exit status.

    1: an uncaught exception. 2: bad input or out of memory, a permanent failure. 3: another rank failed. 4: a service
    such as object storage did not answer. ``components.train.loop.stopping`` exits with 5 where another rank hangs.
    """
    end_with_parent(signal.SIGKILL)
    choice = chosen(STEPS["train"], sys.argv[1:] if arguments is None else arguments)
    try:
        parser = _parser(choice)
    except KfrecError as error:
        return _fail(error)
    options = vars(parser.parse_args(arguments)) | choice
    dataset = options.pop("dataset_dir")
    values = {name: value for name, value in options.items() if value is not None}
    quiet_tensorflow()
    # Imported late: TensorFlow takes seconds to import, and --help must not.
    import tensorflow as tf

    from components.train.loop.ranks import SharedError, connect

    ranks = connect()
    try:
        _run(dataset, _parameters(values, ranks.size), ranks)
        ranks.end()
        return 0
    except SharedError as error:
        return _fail(error, report=ranks.rank == 0)
    except KfrecError as error:
        return _fail(error)
    except OSError as error:
        explained = explain_os_error(error)
        return _crashed(error, ranks) if explained is None else _fail(explained)
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        return _fail(_out_of_memory(str(error)))
    except (tf.errors.UnknownError, tf.errors.AbortedError, tf.errors.InternalError) as error:
        if ranks.size == 1 or "Horovod" not in str(error):
            return _crashed(error, ranks)
        print(f"rank {ranks.rank}: stopped, because another rank did", file=sys.stderr, flush=True)
        return ABANDONED
    except Exception as error:
        return _crashed(error, ranks)


def _parameters(values: Mapping[str, str], ranks: int) -> WorkerParameters:
    from components.train.loop.ranks import SharedError

    try:
        parameters: WorkerParameters = build(worker_parameters(values["model_type"], values["task"]), values)
        require_divisible(parameters.global_batch_size, ranks)
        return parameters
    except KfrecError as error:
        raise SharedError(str(error)) from None  # every rank has the same arguments


def _run(dataset: str, parameters: WorkerParameters, ranks: Ranks) -> None:
    from components.train.job import run_inference, run_training
    from components.train.loop.runtime import configure
    from components.train.staging import staged

    configure(parameters, ranks)
    with staged(dataset, parameters, ranks) as stage:
        if stage.is_finished:
            return
        if parameters.mode == "train":
            run_training(stage.data, stage.parameters, ranks, stage.checkpoint_saved)
        else:
            run_inference(stage.data, stage.parameters, ranks)


def _out_of_memory(message: str) -> KfrecError:
    """An error that names the tensor, if TensorFlow's message does."""
    match = _TENSOR.search(message)
    array = _ARRAY.search(message)
    what = f"a {match[2]} tensor of shape {match[1]} on {match[3]}" if match else array[1] if array else "a step"
    return KfrecError(
        f"out of memory for {what}; lower global_batch_size or the model's sizes, set amp, or use more workers"
    )


def _fail(error: KfrecError, report: bool = True) -> int:
    unreachable = isinstance(error, Unreachable)
    if report:
        emit("error", step="train", message=str(error), **({"unreachable": True} if unreachable else {}))
        print(f"error: train: {error}", file=sys.stderr, flush=True)
    return UNREACHABLE if unreachable else BAD_INPUT


def _crashed(error: Exception, ranks: Ranks) -> int:
    """Reports an uncaught exception; the traceback goes to the log."""
    traceback.print_exception(error)
    sys.stderr.flush()
    emit("error", step="train", message=describe_exception(error), crashed=True, rank=ranks.rank)
    return CRASHED


def _parser(choice: Mapping[str, str]) -> Parser:
    parser = Parser(
        shown_as="train",
        prog="python -m components.train.worker",
        description="Train or benchmark a model, as one Horovod process.",
    )
    parser.add_argument(
        "--dataset_dir", required=True, metavar="FOLDER", help="reads: record files with their spec; or their URI"
    )
    group = parser.add_argument_group("parameters")
    for parameter in parameters_of(worker_parameters(**choice)):
        add_argument(group, parameter)
    return parser


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if status == 0:
        from components.train.loop.ranks import disconnect

        disconnect()
        # Not sys.exit: nobody would notice a rank that hangs while Python tears TensorFlow down.
        os._exit(0)
    sys.exit(status)
