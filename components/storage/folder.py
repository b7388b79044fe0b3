"""A folder on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from components.errors import KfrecError, explain_os_error
from components.private import require_followed
from components.storage.blocked import require_no_file_uri
from components.storage.store import BLOCK, Changed, ObjectInfo, Store


class FolderStore(Store):
    """The files of a folder. Their version is the time of their last modification."""

    def __init__(self, uri: str, timeout: float = 60.0) -> None:
        super().__init__(uri)
        require_no_file_uri(uri)
        self.folder = Path(unquote(urlsplit(uri).path) if uri.startswith("file://") else uri).expanduser()
        if self.folder.is_file():
            raise KfrecError(f"{uri}: is a file; give the folder that holds it, {self.folder.parent}")
        if not self.folder.is_dir():
            raise KfrecError(f"{uri}: no such folder; check the path, or use a URL such as https:// or gs://")

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_file())

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())

    def stat(self, name: str) -> ObjectInfo:
        try:
            require_followed(self.folder, self.folder / name, supplied=True)
            status = (self.folder / name).stat()
        except FileNotFoundError:
            raise KfrecError(f"{self.folder / name}: no such file; check the names of the files") from None
        return ObjectInfo(name, status.st_size, str(status.st_mtime_ns), modified=status.st_mtime)

    def read(self, info: ObjectInfo, offset: int = 0) -> Iterator[bytes]:
        if self.stat(info.name) != info:
            raise Changed(f"{self.folder / info.name} was modified")
        with (self.folder / info.name).open("rb") as file:
            file.seek(offset)
            while block := file.read(BLOCK):
                yield block

    def path(self, name: str) -> Path:
        return self.folder / name

    def write(self, name: str, source: Path) -> None:
        target = self.folder / name
        partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, partial)
            partial.replace(target)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise explain_os_error(error, target) or error from error

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)
