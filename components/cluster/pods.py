"""One-line reasons why pods do not start or have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Json = dict[str, Any]
IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


def waiting_for(pods: Sequence[Json], events: Sequence[Json]) -> Iterator[str]:
    """Why pods are pending: no node, no image, no quota."""
    for pod in pods:
        status, name = pod.get("status", {}), pod["metadata"]["name"]
        if status.get("phase") != "Pending":
            continue
        for entry in status.get("conditions", ()):
            if entry["type"] == "PodScheduled" and entry["status"] == "False":
                yield f"{name} has no node: {one_line(entry.get('message') or entry.get('reason'))}"
        if refused := image_refused(pod):
            yield f"{name} cannot get its image: {refused}"
    for event in events:
        if event.get("reason") == "FailedCreate" or "exceeded quota" in (event.get("message") or ""):
            yield f"pods cannot be created: {one_line(event.get('message'))}"


def image_refused(pod: Json) -> str:
    """Why a pod's image cannot be pulled, or an empty text."""
    for container in pod.get("status", {}).get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("reason") in IMAGE_REASONS:
            return f"{container.get('image', '')} {waiting['reason']} {one_line(waiting.get('message'))}".strip()
    return ""


def exit_of(pod: Json) -> str:
    """Why a pod ended badly, or an empty text: "OOMKilled, exit code 137", "Evicted: low on memory"."""
    status = pod.get("status", {})
    if status.get("reason"):
        return f"{status['reason']}: {one_line(status.get('message'))}".removesuffix(": ")
    for container in status.get("containerStatuses", ()):
        for state in (container.get("state", {}), container.get("lastState", {})):
            ended = state.get("terminated") or {}
            if ended.get("exitCode"):
                return f"{ended.get('reason') or 'Error'}, exit code {ended['exitCode']}"
    return ""


def diagnosed(what: str, question: Callable[[], T], echo: Callable[[str], None]) -> T | None:
    """The result of a diagnostic request, or None if it fails: a failed diagnosis must not end a step."""
    try:
        return question()
    except Exception as error:  # a diagnosis may fail in any way
        echo(f"cannot see {what} ({error}); continuing without it")
        return None


def one_line(text: str | None) -> str:
    """A message on one line."""
    return " ".join((text or "").split())
