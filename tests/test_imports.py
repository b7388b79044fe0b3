"""The picture of imports: packages and modules form no circle, and no package imports one above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STEPS = {path.parent.name for path in ROOT.glob("components/*/step.py")}
# Groups of packages that provide a data set, a model or a task each.
PROVIDED = ("datasets", "models", "tasks")
# Of components/models: shared by the models.
SHARED = {"layers", "ops", "optimizers", "tables"}
# The tasks of 0/1 labels build on a common one.
BINARY = ("click", "ranking", "replaced_token")
# The data sets of users' histories are readers beside a common room.
READERS = ("amazon_reviews", "events", "movielens")
# A mixture of two models is made of both.
MIXED = ("sasrec", "item_knn")
SHARING = (
    {(f"components.tasks.{task}", "components.tasks.binary") for task in BINARY}
    | {(f"components.datasets.{name}", "components.datasets.histories") for name in READERS}
    | {("components.models.sasrec_knn", f"components.models.{name}") for name in MIXED}
)


@cache
def imports() -> dict[str, set[str]]:
    """Module to the modules of this project that it imports anywhere, for types included."""
    files = {path: path.relative_to(ROOT).with_suffix("") for top in ("components", "pipelines")
             for path in ROOT.glob(f"{top}/**/*.py")}  # fmt: skip
    modules = {".".join(name.parts).removesuffix(".__init__"): path for path, name in files.items()}
    return {module: set(_imported(path, set(modules))) - {module} for module, path in modules.items()}


def _imported(path: Path, modules: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                yield from {name if name in modules else node.module} & modules
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & modules


def package(module: str) -> str:
    """``components.train``, or ``components.models.sim`` of a package that provides a model; ``pipelines``."""
    parts = module.split(".")
    if parts[0] == "pipelines":
        return "pipelines"
    folder = ROOT.joinpath(*parts[:3])
    if len(parts) > 2 and parts[1] in PROVIDED and parts[2] not in SHARED and folder.is_dir():
        return ".".join(parts[:3])
    return ".".join(parts[:2])


def edges() -> set[tuple[str, str]]:
    """The arrows between packages."""
    every = {(package(module), package(other)) for module, others in imports().items() for other in others}
    return {(one, other) for one, other in every if one != other}


def test_modules_import_each_other_in_no_circle() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(f"circle of modules: {' <- '.join(error.args[1])}")


def test_packages_import_each_other_in_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for one, other in edges():
        graph.setdefault(one, set()).add(other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"circle of packages: {' <- '.join(error.args[1])}")


def test_no_step_imports_another_and_nothing_shared_imports_a_step() -> None:
    steps = {f"components.{step}" for step in STEPS}
    assert len(steps) == 10
    assert not {(one, other) for one, other in edges() if other in steps and one.startswith("components.")}


def test_data_sets_models_and_tasks_import_neither_each_other_nor_are_they_imported() -> None:
    provided = {
        f"components.{group}.{folder.parent.name}" for group in PROVIDED
        for folder in ROOT.glob(f"components/{group}/*/__init__.py") if folder.parent.name not in SHARED
    }  # fmt: skip
    assert len(provided) > 10
    arrows = {(one, other) for one, other in edges() if other in provided}
    assert arrows == SHARING, "a data set, model or task is imported"
