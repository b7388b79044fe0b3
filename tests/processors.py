"""The numeric tests as other processors, back ends and numbers of threads compute: ``make test-processors``.

Each configuration runs in fresh processes, with all that computes limited to one instruction set: oneDNN, Numba's
kernels, NumPy, OpenBLAS and the C library. Numba caches machine code by the name and the features of the processor, so
that no configuration calls the kernels of another.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.binding

# Tests that compute floats, or pack and unpack bytes.
TESTS = tuple(
    f"tests/{name}"
    for name in (
        "models", "tasks", "metrics", "scoring", "native", "records/test_encoding.py", "records/test_words.py",
        "train/loop/test_averages.py", "train/loop/test_gpu_step.py", "train/loop/test_loss_scale.py",
        "train/loop/test_training_step.py", "train/loop/test_transfer.py",
    )
)  # fmt: skip
_LLVM_V2 = ("crc32", "cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2")
_LLVM_V3 = (*_LLVM_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_LLVM_V4 = (*_LLVM_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_AMX = (*_LLVM_V4, "avx512bf16", "avx512vnni", "amx-bf16", "amx-int8", "amx-tile")
# On a processor with AVX512_FP16, TensorFlow's product of float16 matrices crashes under a limit of oneDNN.
_AVX512_FP16, _LIMIT = "avx512fp16", "ONEDNN_MAX_CPU_ISA"
_WITHOUT_FLOAT16 = ("-k", "not (float16 or half_precision or mixed_precision)")
_NUMPY_AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"


@dataclass(frozen=True)
class Configuration:
    """What the tests run on.

    Attributes:
        name: of the configuration; an instruction set goes by oneDNN's name.
        threads: of each operation.
        needs: LLVM's names of the features without which it cannot run.
        variables: of the environment.
        plugin: of pytest.
    """

    name: str
    threads: int
    needs: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    plugin: str = ""

    def environment(self) -> dict[str, str]:
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
        return os.environ | dict.fromkeys(names, str(self.threads)) | dict(self.variables)


def _limited(
    name: str, threads: int, features: tuple[str, ...], openblas: str, numpy_lacks: str, libc_lacks: str
) -> Configuration:
    variables = {
        _LIMIT: name,
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in features),
        "OPENBLAS_CORETYPE": openblas,
        "NPY_DISABLE_CPU_FEATURES": numpy_lacks,
        "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={libc_lacks}",
    }
    return Configuration(name, threads, features, tuple((key, value) for key, value in variables.items() if value))


CONFIGURATIONS = (
    _limited("SSE41", 1, _LLVM_V2, "Nehalem", f"AVX2 FMA3 {_NUMPY_AVX512}", "-AVX2,-FMA,-AVX512F"),
    _limited("AVX2", 2, _LLVM_V3, "Haswell", _NUMPY_AVX512, "-AVX512F"),
    _limited("AVX512_CORE", 2, _LLVM_V4, "SkylakeX", "", ""),
    Configuration("AVX512_CORE_AMX", 2, _AMX, ((_LIMIT, "AVX512_CORE_AMX"),)),
    Configuration("without oneDNN", 1, variables=(("TF_ENABLE_ONEDNN_OPTS", "0"),)),
    Configuration("other rounding", 2, plugin="tests.rounding"),
)


def features() -> frozenset[str]:
    """This processor's features, by their LLVM names."""
    return frozenset(name for name, has in llvmlite.binding.get_host_cpu_features().items() if has)


def lacking(configuration: Configuration, features: frozenset[str]) -> tuple[str, ...]:
    """What a processor with these features lacks for the configuration."""
    return tuple(feature for feature in configuration.needs if feature not in features)


def run(configuration: Configuration, tests: Sequence[str]) -> tuple[bool, str]:
    """Runs the tests.

    Returns:
        Whether all passed, and one line with their numbers, followed by pytest's output if not.
    """
    began = time.monotonic()
    workers = len(os.sched_getaffinity(0))
    crashes = _LIMIT in dict(configuration.variables) and _AVX512_FP16 in features()
    command = [
        sys.executable, "-m", "pytest", "--tb=short", "-p", "no:cacheprovider", "-m", "not slow",
        "-n", str(workers), "--dist", "loadfile", *(["-p", configuration.plugin] if configuration.plugin else []),
        *(_WITHOUT_FLOAT16 if crashes else ()), *tests,
    ]  # fmt: skip
    done = subprocess.run(
        command, env=configuration.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    summaries = re.findall(r"^\W*(\d+ .*) in [\d.:]+s", done.stdout, re.MULTILINE) or ["no tests ran"]
    line = f"{summaries[-1]} in {time.monotonic() - began:.0f} s"
    if done.returncode == 0:
        return True, line
    return False, f"{line}\n{done.stdout}"


def main(words: Sequence[str] | None = None) -> int:
    """Prints a line for each configuration.

    Returns:
        1 if a test failed, or if no configuration ran.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.processors", description=__doc__)
    names = [configuration.name for configuration in CONFIGURATIONS]
    parser.add_argument("only", nargs="*", metavar="CONFIGURATION", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files and folders of tests")
    given = parser.parse_args(words)
    if unknown := set(given.only) - set(names):
        parser.error(f"no configuration is called {', '.join(sorted(unknown))}; choose from {', '.join(names)}")
    found, passed = features(), []
    for configuration in CONFIGURATIONS:
        if given.only and configuration.name not in given.only:
            continue
        threads = f"{configuration.threads} thread{'s' if configuration.threads > 1 else ''}"
        print(f"{f'{configuration.name}, {threads}':<28}", end="", flush=True)
        if missing := lacking(configuration, found):
            print(f"not run: this processor lacks {configuration.name} ({', '.join(missing)})", flush=True)
            continue
        good, told = run(configuration, given.tests)
        print(told, flush=True)
        passed.append(good)
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
