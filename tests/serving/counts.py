"""What a server's /metrics says."""

from __future__ import annotations

from tests.fakes.model_server import ModelServer


def counts(server: ModelServer) -> dict[str, float]:
    """Each count by its name and labels."""
    lines = server.get("/metrics").text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}
