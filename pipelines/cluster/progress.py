"""Follows a run until it ends."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import yaml

from components.errors import KfrecError
from components.progress import duration
from pipelines.cluster.connection import explained, log_of, may_pass, status_of, workflow_of

if TYPE_CHECKING:
    from kfp import Client

ENDED = {"SUCCEEDED": 0, "SKIPPED": 0, "FAILED": 1, "CANCELED": 1}
# Lines of a failed step's log, and of a running one's, that are read.
LAST_LINES, READ_LINES = 20, 2000
_TOO_MANY = 429
# The step whose log reports the state of an MPIJob, the lines that do, and seconds between two looks at them, which
# double up to the longest while there is no log, or none for this caller.
_WITH_A_JOB, _BETWEEN_LOOKS, _LONGEST_BETWEEN = "train", 15.0, 300.0
_OF_A_JOB = re.compile(r"\bMPIJobs? |-(worker|launcher)\S* (has no node|cannot get its image)|^pods cannot be created"
                       r"|over its quota")  # fmt: skip
_ATTEMPT = re.compile(r"\(\d+\)$")
_DRIVER = "-driver"
# Phases of Argo's nodes that hold nothing up, and what it says of each pod while it starts.
_WITHOUT_TROUBLE = ("Succeeded", "Skipped", "Omitted")
_STARTING = ("PodInitializing", "ContainerCreating")
# Argo names the pod of a node by its template, which depends on KFP's version; older versions by the node alone.
_TEMPLATES = ("", "system-container-impl-", "retry-system-container-impl-")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def steps_of(ir: str) -> list[str]:
    """The names of the tasks of a compiled pipeline that run in pods of their own, in order of the file."""
    spec = next(yaml.load_all(ir, _LOADER))
    components = spec["components"]
    tasks = (
        task for part in (spec["root"], *components.values()) for task in part.get("dag", {}).get("tasks", {}).items()
    )
    return [name for name, task in tasks if "executorLabel" in components[task["componentRef"]["name"]]]


def follow(
    client: Client,
    host: str,
    run_id: str,
    steps: Collection[str],
    timeout: float,
    pause: float = 5.0,
    echo: Callable[[str], None] = print,
    patience: float = 600.0,
) -> int:
    """Reports the state changes of a run and its steps until it ends; returns 0 if it succeeded, else 1.

    A step that has ended is reported with its duration, a failed one with its messages and the end of its log, the
    train step with what its log says of the MPIJob, and every step with what keeps its pods from starting.

    Args:
        steps: names of the pipeline's steps; see ``steps_of``.
        timeout: seconds to wait for the end.
        pause: polling interval in seconds.
        patience: seconds without an answer from KFP before this gives up; the run itself continues.

    Raises:
        KfrecError: not ended after ``timeout`` seconds, or KFP does not answer for ``patience`` seconds.
    """
    from kfp_server_api import ApiException
    from urllib3.exceptions import HTTPError

    until = time.monotonic() + timeout
    answered = time.monotonic()
    seen: dict[str, str] = {}
    job = _JobLines(host, run_id, echo)
    obstacles = _Obstacles(host, run_id, steps, echo)
    while True:
        with explained(host):
            try:
                run = client.get_run(run_id)
            except (ApiException, HTTPError) as error:
                passes = may_pass(error) or status_of(error) == _TOO_MANY
                if not passes or time.monotonic() > min(answered + patience, until):
                    raise
                time.sleep(pause)
                continue
        answered = time.monotonic()
        # KFP's answers leave out fields without a value; the client shows them as None.
        nodes = (run.run_details.task_details if run.run_details else None) or []
        tasks = _by_step(nodes, steps)
        job.look(tasks.get(_WITH_A_JOB), nodes)
        for name, task in tasks.items():
            state = task.state or "PENDING"
            if seen.get(name) != state:
                seen[name] = state
                echo(f"{name}: {state.lower()}{_took(task) if state in ENDED else ''}")
        if run.state not in ENDED:
            obstacles.look()
        if run.state in ENDED:
            failed = {name: task for name, task in tasks.items() if task.state == "FAILED"}
            for name, task in failed.items():
                echo(f"{name} failed{_colon(_messages(task, nodes))}")
                for line in _log(host, run_id, task, nodes)[-LAST_LINES:]:
                    echo(f"  {line}")
            where = f" in {', '.join(failed)}" if failed else ""
            echo(f"run {run.state.lower()}{where}{_colon(_own_messages(run))}")
            return ENDED[run.state]
        if time.monotonic() > until:
            raise KfrecError(
                f"run {run_id} has not ended after {timeout:g} s; it continues at {host}/#/runs/details/{run_id}"
            )
        time.sleep(pause)


class _JobLines:
    """Repeats each line of the train step's log about its MPIJob once."""

    def __init__(self, host: str, run_id: str, echo: Callable[[str], None]) -> None:
        self._host, self._run_id, self._echo = host, run_id, echo
        self._repeated: set[str] = set()
        self._next, self._wait, self._ended = 0.0, _BETWEEN_LOOKS, False

    def look(self, task: Any, nodes: list[Any]) -> None:
        """Reads the log from time to time while the step runs, and when it has succeeded."""
        state = task.state if task is not None else None
        ended = state == "SUCCEEDED" and not self._ended
        if ended or (state == "RUNNING" and time.monotonic() >= self._next):
            lines = _log(self._host, self._run_id, task, nodes)
            self._wait = _BETWEEN_LOOKS if lines else min(2 * self._wait, _LONGEST_BETWEEN)
            self._next, self._ended = time.monotonic() + self._wait, ended
            for line in lines:
                if _OF_A_JOB.search(line) and line not in self._repeated:
                    self._repeated.add(line)
                    self._echo(f"{_WITH_A_JOB}: {line}")


class _Obstacles:
    """Tells once what Argo says of each node of a step: why its pod is pending, was refused or failed, and until when
    it is not tried again."""

    def __init__(self, host: str, run_id: str, steps: Collection[str], echo: Callable[[str], None]) -> None:
        self._host, self._run_id, self._steps, self._echo = host, run_id, steps, echo
        self._printed: set[tuple[str, str]] = set()
        self._next = 0.0

    def look(self) -> None:
        """Reads the run's Workflow from time to time."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _BETWEEN_LOOKS
        nodes = workflow_of(self._host, self._run_id).get("status", {}).get("nodes") or {}
        for node in nodes.values():
            message = " ".join((node.get("message") or "").split())
            if not message or message in _STARTING or node.get("phase") in _WITHOUT_TROUBLE:
                continue
            step = self._step_of(node.get("name") or "")
            if step and (step, message) not in self._printed:
                self._printed.add((step, message))
                self._echo(f"{step}: {message}")

    def _step_of(self, name: str) -> str:
        """The step of a node, whose name is a path from the workflow, such as ``run-x7k2p.root.train(0).executor``."""
        parts = (_ATTEMPT.sub("", part).removesuffix(_DRIVER) for part in reversed(name.split(".")))
        return next((part for part in parts if part in self._steps), "")


def _took(task: Any) -> str:
    """How long a step ran; KFP shows 1970 for a time that it does not know."""
    if task.start_time is None or task.end_time is None or task.start_time.year <= 1970:
        return ""
    seconds = (task.end_time - task.start_time).total_seconds()
    return f" in {duration(seconds)}" if seconds >= 0 else ""


def _by_step(nodes: list[Any], steps: Collection[str]) -> dict[str, Any]:
    """The steps' nodes among all nodes of the workflow.

    KFP lists drivers, executors and the pipeline too. A step's node is named after it, and each attempt is another node
    with a number (``train(0)``): the step's own node has the state over all attempts.
    """
    by_step: dict[str, Any] = {}
    for attempts in (True, False):
        for node in nodes:
            shown = node.display_name or ""
            name = _ATTEMPT.sub("", shown)
            if name in steps and (name != shown) == attempts:
                by_step[name] = node
    return by_step


def _below(node: Any, nodes: list[Any]) -> list[Any]:
    """A node and those below it, each level after the one above.

    KFP links nodes by names of pods, some with the template and some without; their last part is the node's own.
    """
    by_number = {_number(other.pod_name): other for other in nodes if other.pod_name}
    below = [node]
    for below_node in below:
        numbers = [_number(child.pod_name) for child in below_node.child_tasks or () if child.pod_name]
        children = [by_number[number] for number in numbers if number in by_number]
        below += [child for child in children if child not in below]
    return below


def _number(pod_name: str) -> str:
    """The hash that Argo gives a node, which ends the name of its pod."""
    return pod_name.rpartition("-")[2]


def _log(host: str, run_id: str, task: Any, nodes: list[Any]) -> list[str]:
    """The end of the log of a step's newest pod; empty if it cannot be read."""
    for node in reversed(_below(task, nodes)):
        for template in _TEMPLATES if node.pod_name and not node.child_tasks else ():
            before, dash, number = node.pod_name.rpartition("-")
            if lines := log_of(host, run_id, f"{before}{dash}{template}{number}", READ_LINES):
                return lines
    return []


def _messages(node: Any, nodes: list[Any]) -> list[str]:
    """The messages of a node and of the nodes below it, since the pod's node has the error of its container.

    If KFP shows none there, perhaps because it does not link the nodes, the messages of all failed nodes.
    """
    messages = [message for below_node in _below(node, nodes) for message in _own_messages(below_node)]
    return messages or [message for other in nodes if other.state == "FAILED" for message in _own_messages(other)]


def _own_messages(shown: Any) -> Iterator[str]:
    """The messages of a run or a node: its error, and those of its states."""
    for error in (shown.error, *(status.error for status in shown.state_history or ())):
        if error is not None and error.message:
            yield " ".join(error.message.split())


def _colon(messages: Iterable[str]) -> str:
    different = list(dict.fromkeys(messages))
    return f": {'; '.join(different)}" if different else ""
