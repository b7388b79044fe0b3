"""KFP's published description of its API, to hold the stand-in against."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema

Answer = tuple[str, str, int, dict[str, Any]]


def check_answers(schemas: Path, answered: Iterable[Answer]) -> None:
    """Every answer has the fields and types that the description gives for its path, and no others.

    Args:
        schemas: the folder with the description.
        answered: (method, path, status, answer).

    Raises:
        jsonschema.ValidationError: one has not.
    """
    paths, validator = _description(schemas)
    for method, path, status, answer in answered:
        # Only a run is asked for in v1beta1, which has a description of its own.
        if path.startswith("/apis/v1beta1/") or (status == 404 and "no such path" in str(answer.get("message"))):
            continue
        # A path without parameters is the better match: /pipelines/upload is no pipeline's identifier.
        operation = next(methods[method] for pattern, methods in paths if pattern.fullmatch(path) and method in methods)
        answers = operation["responses"]
        schema = (answers["200"] if status == 200 else answers["default"])["schema"]
        validator.evolve(schema={**schema, "definitions": validator.schema["definitions"]}).validate(answer)


@functools.cache
def _description(schemas: Path) -> tuple[list[tuple[re.Pattern[str], dict[str, Any]]], Any]:
    body = json.loads((schemas / "kfp_api_single_file.swagger.json").read_text())
    paths = [
        (
            re.compile(re.sub(r"\{[^}]*\}", "[^/:]+", path)),
            {verb.upper(): operation for verb, operation in verbs.items()},
        )
        for path, verbs in sorted(body["paths"].items(), key=lambda item: item[0].count("{"))
    ]
    # The server says more of itself than is described.
    health = body["definitions"]["v2beta1GetHealthzResponse"]["properties"]
    health.update({name: {"type": "string"} for name in ("commit_sha", "tag_name")})
    for definition in body["definitions"].values():
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
    return paths, jsonschema.Draft4Validator({"definitions": body["definitions"]})
