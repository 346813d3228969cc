"""Watching: the waits of this process for storage."""

from types import TracebackType
from typing import Any, Self

from sakiyomi import _native
from sakiyomi._result import Result, _Tabular


class IoReport(Result, _Tabular):
    """What this process waited for, by file; ``io_report`` returns it. As a table it has a row for each file and call.

    It has its keys when its ``with`` block has ended, also by an exception: ``elapsed_ns``, ``computing_ns``, ``io_wait_ns``,
    ``core_wait_ns``, ``read_bytes``, ``storage_read_bytes``, ``storage_written_bytes``, ``major_faults``, and ``files`` with
    ``path``, ``call``, ``io_wait_ns`` and ``samples``. ``notes`` says what is not seen.
    """

    __slots__ = ("_watch",)
    _TABLE = "files"
    # Of a process that has not waited.
    _COLUMNS = (("path", "text"), ("call", "text"), ("io_wait_ns", "i64"), ("samples", "i64"))
    _watch: _native.IoWatch | None

    def __init__(self, document: str | None = None) -> None:
        object.__setattr__(self, "_watch", None)
        if document is None:
            object.__setattr__(self, "_fields", {})
        else:
            super().__init__(document)

    def __enter__(self) -> Self:
        if self._watch is not None or self._fields:
            raise ValueError("this report has been used; call io_report() for another one")
        object.__setattr__(self, "_watch", _native.IoWatch())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        watch = self._watch
        object.__setattr__(self, "_watch", None)
        if watch is not None:
            Result.__init__(self, watch.finish())

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and not self._fields:
            raise AttributeError(f"the report has no {name!r} yet; it is complete when its with block has ended")
        return super().__getattr__(name)

    def __repr__(self) -> str:
        if not self._fields:
            return "<IoReport, not complete yet>"
        return f"<IoReport of {self.elapsed_ns} ns, of which {self.io_wait_ns} ns waiting for I/O>"


def io_report() -> IoReport:
    """Watch what this process waits for, by file, while a ``with`` block runs.

    A thread looks at the other threads of the process once a millisecond, which takes about a hundredth of a core, and needs no
    rights. It sees waits of any code in the process, such as NumPy, DuckDB or PyTorch: reads and writes, opening, listing,
    making durable, and page faults of mappings, whose file is not visible. It does not see waits of child processes,
    asynchronous I/O, or waits for pipes, sockets and locks; those of sakiyomi's own threads, which read ahead, are left out.

    >>> with io_report() as report:
    ...     total = sum(range(10))
    >>> report.io_wait_ns <= report.elapsed_ns
    True
    >>> [(file.path, file.call, file.io_wait_ns) for file in report.files]  # doctest: +SKIP
    [('/data/large.csv', 'read', 1204000000), ('/data/index', 'open', 31000000)]
    """
    return IoReport()
