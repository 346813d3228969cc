"""Tables within a memory limit: the commands `sort`, `join` and `aggregate`."""

import atexit
import os
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack, overload

from sakiyomi import _native
from sakiyomi._native import Table
from sakiyomi._options import TableOptions, table_options, takes
from sakiyomi._progress import display
from sakiyomi._result import QueryResult

if TYPE_CHECKING:
    from sakiyomi._simulation import ArrowTable

# A thread that asks an ending interpreter for record batches would abort the process.
atexit.register(_native.end_statements)

# One name of a column, or a list of names as the commands have it, or several.
Columns: TypeAlias = str | Sequence[str]
Path: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = "Path | Sequence[Path] | ArrowTable"


class RecordBatches(Iterator[Table]):
    """The rows of a result, as a stream of record batches that is computed while it is read.

    It gives its rows once: to a loop, whose items are tables of one batch each, or to a library that takes a stream of the
    Arrow PyCapsule interface without a copy, such as pyarrow, pandas, Polars and DuckDB.

    A result that is left early ends its work, and removes its spill files, when it is closed (``close()`` or ``with``) or
    collected. Several threads can share it: each batch goes to one of them.

    >>> pyarrow.RecordBatchReader.from_stream(sort("a.parquet", "k"))  # doctest: +SKIP
    >>> polars.DataFrame(sort("a.parquet", "k"))  # doctest: +SKIP
    >>> duckdb.sql("select count(*) from rows")  # doctest: +SKIP
    """

    __slots__ = ("_stream",)

    def __init__(self, stream: _native.QueryStream) -> None:
        self._stream = stream

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self._stream.column_names

    @property
    def result(self) -> QueryResult:
        """The figures of the statement, once all rows were read; ``ValueError`` before."""
        document = self._stream.document()
        if document is None:
            raise ValueError("the figures of a result are complete when all of its rows were read")
        return QueryResult(document)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Table:
        batch = self._stream.take()
        if batch is None:
            raise StopIteration
        return batch

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows that are left as a stream of the Arrow PyCapsule interface."""
        return self._stream.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Return the schema of the rows."""
        return self._stream.__arrow_c_schema__()

    def close(self) -> None:
        """End the statement. Batches that were taken stay valid."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle rows that are computed while they are read; write them to a file by output=")

    def __repr__(self) -> str:
        return f"<sakiyomi.RecordBatches: {', '.join(self.column_names)}>"


@overload
def sort(
    table: Source,
    by: Columns,
    output: None = None,
    *,
    limit: int | None = None,
    stable: bool = False,
    **options: Unpack[TableOptions],
) -> RecordBatches: ...
@overload
def sort(
    table: Source,
    by: Columns,
    output: Path,
    *,
    limit: int | None = None,
    stable: bool = False,
    **options: Unpack[TableOptions],
) -> QueryResult: ...
@takes(TableOptions)
def sort(
    table: Source,
    by: Columns,
    output: Path | None = None,
    *,
    limit: int | None = None,
    stable: bool = False,
    **options: Unpack[TableOptions],
) -> RecordBatches | QueryResult:
    """Sort a table within a memory limit; rows that exceed it are spilled.

    table: a file or a directory in Parquet, Arrow IPC or CSV; a list of files of one table; or record batches by the Arrow
        PyCapsule interface: a DataFrame, a table or a reader of pyarrow, a relation of DuckDB, a result of this package.
    by: the columns to order by, the most significant first, as ``"a,b:desc:nulls-first"`` or ``["a", "b:desc"]``. A name
        that contains ``:`` or ``,`` is written in double quotes.
    output: the file of the result, which appears when it is complete, and may replace the input. Without it the rows are
        returned as a stream, of which as much as the memory allows is computed ahead.
    limit: keep the first rows.
    stable: keep the order of rows with equal keys.

    The other arguments are those of ``sakiyomi sort``. Rows: ``where``, an SQL condition on the columns of the table;
    ``select``, SQL expressions that replace them, such as ``"a, b * 2 as c"``. Resources: ``memory`` (bytes, or a string such as
    ``"64MiB"``), ``threads``, ``method`` (``"uring:8"``), ``direct`` (True for ``--direct``, False for ``--buffered``),
    ``block``, ``spill`` (directories), ``spill_compression``. Result: ``format``, ``compression``, ``row_group``; ``input_format``
    names the format of the input. The limit is that of sakiyomi's own memory: record batches of other libraries, as arguments or
    results, are not counted.

    ``progress`` shows the progress, on standard error or in the notebook: True, False, or None for terminals and notebooks
    only. Ctrl-C ends the work; other threads run meanwhile.

    >>> sort("lineitem.parquet", "l_partkey", "sorted.parquet", memory="256MiB")  # doctest: +SKIP
    <QueryResult of sort by l_partkey: 6001215 rows>
    >>> polars.DataFrame(sort(frame, ["l_partkey", "l_suppkey:desc"], limit=1000))  # doctest: +SKIP
    """
    show = display("sort", options["progress"])
    native = table_options(options, output)
    return _done(_native.sort(_source(table, "table"), _columns(by), limit, stable, native, show))


@overload
def join(
    left: Source,
    right: Source,
    on: Columns,
    output: None = None,
    *,
    kind: str = "inner",
    ordered: bool = False,
    **options: Unpack[TableOptions],
) -> RecordBatches: ...
@overload
def join(
    left: Source,
    right: Source,
    on: Columns,
    output: Path,
    *,
    kind: str = "inner",
    ordered: bool = False,
    **options: Unpack[TableOptions],
) -> QueryResult: ...
@takes(TableOptions)
def join(
    left: Source,
    right: Source,
    on: Columns,
    output: Path | None = None,
    *,
    kind: str = "inner",
    ordered: bool = False,
    **options: Unpack[TableOptions],
) -> RecordBatches | QueryResult:
    """Join two tables on equal columns within a memory limit, by hashing or by sorting.

    on: the columns that are equal in joined rows: ``"id"``, which both tables have, ``"l_orderkey=o_orderkey"``, or several,
        as a list or separated by commas. Null keys never join.
    kind: ``"inner"``, ``"left"``, ``"right"``, ``"full"``, ``"semi"`` or ``"anti"``.
    ordered: return the rows in the order of the key, even if a hash join would be faster.

    ``left`` and ``right`` are as ``table`` of ``sort``, and so are ``output`` and the other arguments; ``where`` and ``select``
    apply to the joined rows. Record batches are copied into an unnamed file first, in the directory of the spill files.

    >>> join("lineitem.parquet", orders, "l_orderkey=o_orderkey", "joined.parquet")  # doctest: +SKIP
    <QueryResult of join inner on l_orderkey=o_orderkey: 6001215 rows>
    >>> pyarrow.table(join("orders.parquet", "returned.parquet", "id", kind="anti"))  # doctest: +SKIP
    """
    show = display("join", options["progress"])
    native = table_options(options, output)
    sides = _source(left, "left"), _source(right, "right")
    return _done(_native.join(*sides, _columns(on), kind, ordered, native, show))


@overload
def aggregate(
    table: Source,
    by: Columns | None = None,
    output: None = None,
    *,
    sum: Columns = (),
    avg: Columns = (),
    min: Columns = (),
    max: Columns = (),
    distinct: Columns = (),
    count: bool = False,
    **options: Unpack[TableOptions],
) -> RecordBatches: ...
@overload
def aggregate(
    table: Source,
    by: Columns | None = None,
    output: Path = ...,
    *,
    sum: Columns = (),
    avg: Columns = (),
    min: Columns = (),
    max: Columns = (),
    distinct: Columns = (),
    count: bool = False,
    **options: Unpack[TableOptions],
) -> QueryResult: ...
@takes(TableOptions)
def aggregate(
    table: Source,
    by: Columns | None = None,
    output: Path | None = None,
    *,
    sum: Columns = (),
    avg: Columns = (),
    min: Columns = (),
    max: Columns = (),
    distinct: Columns = (),
    count: bool = False,
    **options: Unpack[TableOptions],
) -> RecordBatches | QueryResult:
    """Compute sums, means, extremes and counts of groups of rows within a memory limit.

    by: the columns whose values form the groups; without them all rows are one group.
    sum, avg, min, max, distinct: columns, or expressions of columns, to sum, to average, whose extremes to find, or whose
        distinct values to count.
    count: count the rows.

    ``table``, ``output`` and the other arguments are as those of ``sort``. Sums of integers and decimals are exact.

    >>> import sakiyomi
    >>> rows = sakiyomi.Table([("host", "text", ["a", "b", "a"]), ("bytes", "i64", [1, 2, 3])])
    >>> groups = aggregate(rows, "host", sum="bytes", count=True)
    >>> groups.column_names
    ['host', 'sum(bytes)', 'count']
    >>> [len(batch) for batch in groups]
    [2]
    """
    show = display("aggregate", options["progress"])
    columns = {
        "by": None if by is None else _columns(by),
        "sum": _lists(sum),
        "avg": _lists(avg),
        "min": _lists(min),
        "max": _lists(max),
        "distinct": _lists(distinct),
        "count": count,
    }
    native = table_options(options, output)
    return _done(_native.aggregate(_source(table, "table"), columns, native, show))


sort_parquet = sort
join_parquet = join


def _done(done: str | _native.QueryStream) -> RecordBatches | QueryResult:
    return QueryResult(done) if isinstance(done, str) else RecordBatches(done)


def _source(table: Any, name: str) -> dict[str, Any]:
    """Return a table as the native functions take it: paths, or an object with record batches."""
    if isinstance(table, (str, os.PathLike)):
        return {"files": [os.fsdecode(table)], "batches": None}
    if hasattr(table, "__arrow_c_stream__"):
        return {"files": [], "batches": table}
    if isinstance(table, (list, tuple)):
        return {"files": [os.fsdecode(path) for path in table], "batches": None}
    raise TypeError(
        f"{name} is neither a path nor a table: {type(table).__name__} has no method __arrow_c_stream__; give paths, a "
        "DataFrame, or a table of Arrow's"
    )


def _columns(columns: Columns) -> str:
    return columns if isinstance(columns, str) else ",".join(columns)


def _lists(columns: Columns) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)
