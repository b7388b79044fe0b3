"""Where a step may write: a new or empty folder, or an earlier artifact of the same step; nothing else is replaced."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from components.artifacts.folder import MANIFEST, files_below, manifest_head, parse_manifest
from components.errors import KfrecError, explain_os_error


def output_folder(output: Path | str, step: str, reads: Iterable[Path | str] = ()) -> Path:
    """Resolves ``output``, following links, if the step ``step`` may replace its content.

    Raises:
        KfrecError: it is empty text, a file, the working folder or one above it; it holds something that the step did
            not write; it equals, contains or lies inside a folder that is read, or inside any artifact.
    """
    if not str(output).strip() or (isinstance(output, Path) and output == Path()):
        raise KfrecError(
            f"{step}: the output folder is '{output if isinstance(output, str) else '.'}', the working directory; "
            "name a folder of its own"
        )
    try:
        resolved = Path(output).resolve()
        if resolved.is_symlink():  # a loop, from Python 3.13 on
            raise RuntimeError
        _require_apart(resolved, [Path(folder).expanduser().resolve() for folder in reads])
        _require_replaceable(resolved, step)
    except OSError as error:
        raise explain_os_error(error, output) or error from error
    except RuntimeError:  # a loop of symbolic links, before Python 3.13 as resolve() finds it
        raise KfrecError(f"{output}: its symbolic links form a loop; choose another folder") from None
    return resolved


def _require_apart(output: Path, reads: Sequence[Path]) -> None:
    here = Path.cwd()
    if output == here or output in here.parents:
        raise KfrecError(f"{output}: is or contains the working directory; name another folder for the output")
    for folder in reads:
        if output == folder:
            raise KfrecError(f"{output}: is an input of this step; name another folder for the output")
        if output in folder.parents:
            raise KfrecError(f"{output}: contains {folder}, an input of this step; name another folder for the output")
        if folder in output.parents:
            raise KfrecError(f"{output}: lies inside {folder}, an input of this step; name a folder outside of it")
    for above in output.parents:
        if (above / MANIFEST).is_file():
            raise KfrecError(f"{output}: lies inside the artifact {above}; name a folder outside of it")


def _require_replaceable(folder: Path, step: str) -> None:
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise KfrecError(f"{folder}: is a file; name a folder for the output")
    first = next(iter(sorted(path.name for path in folder.iterdir())), None)
    if first is None:
        return
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise KfrecError(f"{folder}: holds {first}, which the {step} step did not write; name a new or empty folder")
    text = manifest.read_text(errors="replace")
    head = manifest_head(step)
    if head.startswith(text):
        return  # truncated by a crash of the machine
    try:
        artifact = parse_manifest(text, str(manifest), folder)
    except KfrecError:
        if text.startswith(head):
            return
        raise KfrecError(
            f"{manifest}: not a manifest of the {step} step, so the step will not replace its folder; "
            "name another folder"
        ) from None
    if artifact.step != step:
        raise KfrecError(
            f"{folder}: holds an artifact of the step {artifact.step}, not of {step}; name another "
            "folder for the output"
        )
    listed = {entry.path for entry in artifact.files}
    for path in files_below(folder):
        if path.relative_to(folder).as_posix() not in listed:
            raise KfrecError(f"{path}: not listed in {MANIFEST}, so the {step} step will not delete it; move it away")
