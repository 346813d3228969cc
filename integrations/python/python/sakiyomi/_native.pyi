"""Types of the native part of sakiyomi."""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeAlias, final


class Error(Exception):
    """An error that is not one of the system."""

@final
class Block:
    """A block of a file, or whole records, with the buffer protocol."""

    @property
    def offset(self) -> int:
        """Offset of its first byte from the beginning of the file, in bytes."""
    @property
    def number(self) -> int | None:
        """Its number in the file, from 0; None for records."""
    @property
    def file(self) -> int:
        """The number of its file, from 0, in the order of the paths."""
    @property
    def path(self) -> str:
        """The path of its file."""
    def count(self, byte: bytes) -> int:
        """Count a byte, without the interpreter's lock."""
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class BlockedReads(Iterator[Block]):
    """An iterator over blocks of files, which are read ahead."""

    def __new__(
        cls, paths: tuple[str, ...], block: int | None, records: bytes | int | None, threads: int | None
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Block: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the records that are left as a stream of the Arrow PyCapsule interface."""
    def close(self) -> None:
        """End the reading. Blocks that were taken stay valid."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class Reader:
    """The reader under ``AheadFile``."""

    def __new__(cls, path: str, limit: int | None, step: int | None, memory: int | None) -> Self: ...
    def readinto(self, target: Any) -> int: ...
    def readall(self) -> bytes: ...
    def seek(self, offset: int, whence: int) -> int: ...
    def tell(self) -> int: ...
    def statistics(self) -> dict[str, int]: ...
    def close(self) -> None: ...

@final
class Prefetch:
    """Ranges of a file, read into the page cache in their order, ahead of the program."""

    def __new__(cls, path: str, ranges: list[tuple[int, int]], memory: int | None) -> Self: ...
    @property
    def size(self) -> int:
        """Size of the file when it was opened, in bytes."""
    def range(self, index: int) -> tuple[int, int]:
        """Return a range, cut at the end of the file: (start, stop)."""
    def wait(self, index: int) -> bool:
        """Wait until a range is cached; return False if the kernel does not cache this file."""
    def advance(self, count: int) -> None:
        """Report that the first ``count`` ranges have been used, so that prefetching goes on behind them."""
    def statistics(self) -> dict[str, int]:
        """Return the figures so far: prefetched_bytes, ahead_bytes, waits, io_wait_ns."""
    def close(self) -> None:
        """End prefetching. What is cached stays cached."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class MappedFile:
    """A mapped file whose ranges are prefetched in their order."""

    def __new__(cls, path: str, ranges: list[tuple[int, int]], memory: int | None) -> Self: ...
    @property
    def size(self) -> int: ...
    def range(self, index: int) -> MappedRange: ...

@final
class MappedRange:
    """Bytes of a mapped file, with the buffer protocol."""

    @property
    def is_truncated(self) -> bool: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Table:
    """A table in memory, which pyarrow, pandas, Polars and DuckDB take by the Arrow PyCapsule interface."""

    def __new__(cls, columns: list[tuple[str, str, list[Any]]]) -> Self: ...
    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __len__(self) -> int: ...

@final
class QueryStream:
    """The rows under ``RecordBatches``."""

    @property
    def column_names(self) -> list[str]: ...
    def take(self) -> Table | None: ...
    def document(self) -> str | None: ...
    def close(self) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class MemoryTrace:
    """A block trace in memory, made from any table of Arrow's."""

    def __new__(cls, table: Any, name: str = "table") -> Self: ...
    @property
    def name(self) -> str:
        """The name of the trace in results."""
    def __len__(self) -> int: ...

@final
class IoWatch:
    """A watch over the threads of this process."""

    def __new__(cls) -> Self: ...
    def finish(self) -> str: ...

_Varied: TypeAlias = list[tuple[str, list[str]]]
_Columns: TypeAlias = list[tuple[str, str, list[Any]]]
_Options: TypeAlias = dict[str, Any]

def drives() -> str: ...
def generate_pc(options: _Options, seed: int) -> MemoryTrace: ...
def simulate(
    trace: str | MemoryTrace, drive: _Options, reading: _Options, replay: _Options, chunk: str
) -> tuple[str, list[str]]: ...
def sweep_plan(drive: _Options, varied: _Varied) -> tuple[str, list[str], list[list[str]]]: ...
def sweep_one(
    trace: str | MemoryTrace, drive: str, reading: _Options, replay: _Options, keys: list[str], values: list[str]
) -> str: ...
def sweep_all(
    trace: str | MemoryTrace, drive: str, reading: _Options, replay: _Options, varied: _Varied
) -> list[str]: ...
def sweep_result(
    trace: str | MemoryTrace, drive: str, settings: list[tuple[str, str]], varied: _Varied, points: list[str]
) -> tuple[str, _Columns]: ...
def compare(a: _Options, b: _Options, fail_if: list[str]) -> tuple[str, list[str]]: ...
def validate(
    trace: str | MemoryTrace, drive: _Options, reading: _Options, wrap: bool, from_: str, until: str | None, /
) -> tuple[str, list[str]]: ...
def fit(
    trace: str | MemoryTrace,
    drive: _Options,
    reading: _Options,
    wrap: bool,
    fit_share: float,
    fit_until: str | None,
) -> tuple[str, str | None, str, list[str]]: ...
def scenario(file: str, varied: _Varied, seed: int | None, repetitions: int | None) -> tuple[str, list[str]]: ...
def page(document: str, schema: str) -> str: ...

_Show: TypeAlias = Callable[..., None] | None

def sort(
    table: _Options, by: str, limit: int | None, stable: bool, options: _Options, show: _Show
) -> str | QueryStream: ...
def join(
    left: _Options, right: _Options, on: str, kind: str, ordered: bool, options: _Options, show: _Show
) -> str | QueryStream: ...
def end_statements() -> None: ...
def aggregate(table: _Options, columns: _Options, options: _Options, show: _Show) -> str | QueryStream: ...
