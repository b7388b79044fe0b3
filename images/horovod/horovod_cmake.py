#!/usr/bin/env python3
"""A cmake for Horovod 0.28.1, its last release: ``HOROVOD_CMAKE=horovod_cmake.py`` when Horovod is built.

Horovod calls it twice: to configure the build, with the source folder, and to build. Before the first call, this
command mends what TensorFlow 2.21 and g++ 13 refuse in the source of 2023, and one defect.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple


class Edit(NamedTuple):
    """A text of a source file, and what takes its place."""

    file: str
    before: str
    after: str


# Some files use what these declare without including them.
HEADERS = ("cstdint", "stdexcept", "string")
EDITS = (
    # xla_mpi_ops.cc includes headers that TensorFlow's wheels lack since 2.19. It is for gradients that are reduced
    # inside a step that XLA compiles, as kfrec's are not.
    Edit(
        "horovod/tensorflow/CMakeLists.txt",
        'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        "",
    ),
    # g++ 14 refuses the assignment to a const member.
    Edit(
        "third_party/flatbuffers/include/flatbuffers/stl_emulation.h",
        "  pointer const data_;\n  const size_type count_;\n",
        "  pointer data_;\n  size_type count_;\n",
    ),
    # TensorFlow has a method of the stream in place of this function, which it no longer exports. Only builds for GPUs
    # compile it.
    Edit(
        "horovod/tensorflow/mpi_ops.cc",
        "\nGpuStreamHandle AsGpuStreamValue(Stream* stream);\n",
        "\ninline GpuStreamHandle AsGpuStreamValue(Stream* stream);\n",
    ),
    Edit(
        "horovod/tensorflow/mpi_ops.cc",
        "#endif // TENSORFLOW_VERSION >= 2011000000\n#endif // HAVE_GPU\n",
        "#endif // TENSORFLOW_VERSION >= 2011000000\n"
        "inline GpuStreamHandle stream_executor::gpu::AsGpuStreamValue(Stream* stream) {\n"
        "  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);\n"
        "}\n"
        "#endif // HAVE_GPU\n",
    ),
    # The ranks of a process set listened at the address of the host's name instead of HOROVOD_GLOO_IFACE, and crashed
    # where that name has no address.
    Edit(
        "horovod/common/gloo/gloo_context.cc",
        "  device_attr.iface = gloo_iface_;\n"
        "  device_attr.ai_family = AF_UNSPEC;\n"
        "  auto dev = CreateDevice(device_attr);\n\n"
        "  global_ctx = global_context.ctx;\n",
        "  gloo_iface_ = global_context.gloo_iface_;\n"
        "  device_attr.iface = gloo_iface_;\n"
        "  device_attr.ai_family = AF_UNSPEC;\n"
        "  auto dev = CreateDevice(device_attr);\n\n"
        "  global_ctx = global_context.ctx;\n",
    ),
)


def main() -> None:
    arguments = sys.argv[1:]
    if arguments and Path(arguments[0], "horovod").is_dir():
        edit(Path(arguments[0]))
        includes = " ".join(f"-include {header}" for header in HEADERS)
        os.environ["CXXFLAGS"] = f"{os.environ.get('CXXFLAGS', '')} {includes}".strip()
    os.execvp("cmake", ["cmake", *arguments])


def edit(source: Path) -> None:
    """Applies the edits to Horovod's source.

    Raises:
        SystemExit: a file is not that of Horovod 0.28.1.
    """
    for file, before, after in EDITS:
        text = (source / file).read_text()
        if text.count(before) != 1:
            sys.exit(f"error: {source / file} is not that of Horovod 0.28.1: it lacks {before!r}")
        (source / file).write_text(text.replace(before, after))


if __name__ == "__main__":
    main()
