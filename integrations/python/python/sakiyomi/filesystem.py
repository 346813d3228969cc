"""A file system for fsspec: local files that are read ahead, under ``sakiyomi://``.

The package registers it, so that whatever opens files by fsspec takes such paths, and nothing has to be imported:

>>> pandas.read_csv("sakiyomi:///data/large.csv")  # doctest: +SKIP
>>> fsspec.open_files("sakiyomi:///data/*.csv", storage_options={"memory": 1 << 30})  # doctest: +SKIP
"""

import os
from typing import Any

from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped, import-not-found, unused-ignore]

from sakiyomi._reading import open_ahead

__all__ = ["AheadFileSystem"]

_PREFIX = "sakiyomi:"


class AheadFileSystem(LocalFileSystem):  # type: ignore[misc, unused-ignore]
    """The local file system, whose files are opened by ``sakiyomi.open_ahead`` for reading in binary mode.

    limit, step, memory: those of ``open_ahead``, for each file.

    All else, such as writing, listing and globbing, is as in fsspec's ``LocalFileSystem``.

    >>> files = AheadFileSystem()  # doctest: +SKIP
    >>> with files.open("/data/backup.tar") as file, tarfile.open(fileobj=file) as tar:  # doctest: +SKIP
    ...     tar.extractall("restored", filter="data")
    """

    protocol = ("sakiyomi",)

    def __init__(
        self,
        auto_mkdir: bool = False,
        *,
        limit: int | None = None,
        step: int | None = None,
        memory: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(auto_mkdir=auto_mkdir, **options)
        self._ahead = {"limit": limit, "step": step, "memory": memory}

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:
        path = self._strip_protocol(path)
        if mode != "rb":
            return super()._open(path, mode, block_size, **options)
        return open_ahead(path, **self._ahead)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        if path.startswith(_PREFIX):
            path = path.removeprefix(_PREFIX).removeprefix("//")
        return super()._strip_protocol(path)

    def unstrip_protocol(self, name: str) -> str:
        """Return a path as an address, ``sakiyomi:///data/large.csv``."""
        return f"{_PREFIX}//{self._strip_protocol(name)}"
