"""The configuration of a node's containerd."""

from __future__ import annotations

from pathlib import Path


def write_config(file: Path, root: Path, socket: Path, pause: str) -> None:
    """Writes a configuration file.

    Args:
        file: to write; the folder ``cni`` beside it has the network's configuration.
        root: where images and containers are.
        socket: where it listens.
        pause: image of the container that holds a pod's namespaces.
    """
    file.write_text(_CONFIG.format(folder=file.parent, root=root, socket=socket, pause=pause))


_CONFIG = """
version = 2
root = "{root}"
state = "{folder}/run"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""
