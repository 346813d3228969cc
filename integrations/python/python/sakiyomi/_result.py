"""Results: the JSON of the commands as objects."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from sakiyomi import _native
from sakiyomi._native import Table


class Record(Mapping[str, Any]):
    """An object of JSON, whose keys are also attributes: ``result.response_ns.p99`` is ``result["response_ns"]["p99"]``."""

    __slots__ = ("_fields",)
    _fields: dict[str, Any]

    def __init__(self, fields: dict[str, Any]) -> None:
        object.__setattr__(self, "_fields", fields)

    def __getitem__(self, key: str) -> Any:
        return _wrapped(self._fields[key])

    def __getattr__(self, name: str) -> Any:
        # Names of Python's own are asked for while an object is copied, when there are no fields yet.
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._fields:
            raise AttributeError(f"{type(self).__name__} has no key {name!r}; it has {', '.join(self._fields)}")
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a result cannot be changed; change the dict that to_dict() returns")

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._fields == other._fields

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return type(self), (self._fields,)

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of it as plain dicts, lists, numbers and strings."""
        return copy.deepcopy(self._fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._fields!r})"


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrapped(one) for one in value]
    return value


class Result(Record):
    """The result of a command. Its keys are those of its JSON (docs/reference/json.md).

    Lists of records in it are tables for pyarrow, pandas, Polars and DuckDB: ``result.table("chunks")``. In a notebook it is
    shown as the report of the command.
    """

    __slots__ = ("_document",)
    _document: str
    _TABLE: ClassVar[str] = ""
    # Columns of that table when it has no rows: name and kind.
    _COLUMNS: ClassVar[tuple[tuple[str, str], ...]] = ()

    def __init__(self, document: str) -> None:
        object.__setattr__(self, "_document", document)
        super().__init__(json.loads(document)["result"])

    def __reduce__(self) -> Any:
        return type(self), (self._document,)

    def to_json(self) -> str:
        """Return the document, ``{"schema", "run", "result"}``, as a command writes it with ``--json``."""
        return self._document

    def to_html(self) -> str:
        """Return the report as a page of its own, which is the one that the command writes."""
        return _native.page(self._document, json.loads(self._document)["schema"])

    @property
    def tables(self) -> list[str]:
        """The keys whose values are lists of records, which ``table`` takes."""
        return [key for key, value in self._fields.items() if _is_table(value)]

    def table(self, key: str | None = None) -> Table:
        """Return a list of records as a table, by the Arrow PyCapsule interface; the most important one without a key.

        A column is a figure of the records, named by its key; figures within a figure have both keys, as in
        ``response_ns.mean``. Values of varied keys are columns of text. Lists within records are left out.

        >>> frame = polars.DataFrame(result.table("chunks"))  # doctest: +SKIP
        """
        key = self._TABLE if key is None else key
        if key == self._TABLE and self._fields.get(key) == []:
            return _native.Table([(name, kind, []) for name, kind in self._COLUMNS])
        if key not in self.tables:
            raise KeyError(f"{type(self).__name__} has no table {key!r}; it has {', '.join(self.tables) or 'none'}")
        return _native.Table(_columns(self._fields[key], self._fields.get("varied", [])))

    def _repr_html_(self) -> str:
        import html

        # A frame: the styles and the script of the page do not meet those of the notebook.
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 640px; border: 0"></iframe>'


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _columns(rows: list[dict[str, Any]], varied: list[str]) -> list[tuple[str, str, list[Any]]]:
    """Return the records as columns: name, kind, values."""
    columns: dict[str, list[Any]] = {}
    for number, row in enumerate(rows):
        for name, value in _figures(row, varied):
            column = columns.setdefault(name, [None] * number)
            column.append(value)
        for column in columns.values():
            column.extend([None] * (number + 1 - len(column)))
    return [(name, _kind(values), values) for name, values in columns.items()]


def _figures(row: dict[str, Any], varied: list[str]) -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, dict):
            for name, figure in _figures(value, []):
                yield f"{key}.{name}", figure
        elif key == "values" and isinstance(value, list) and len(value) == len(varied):
            yield from zip(varied, value)
        elif not isinstance(value, list):
            yield key, value


def _kind(values: list[Any]) -> str:
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {bool} and kinds:
        return "bool"
    if kinds <= {int}:
        return "i64" if all(value is None or value < 1 << 63 for value in values) else "u64"
    return "f64" if kinds <= {int, float} else "text"


class _Tabular:
    """A result that is a table itself, by the Arrow PyCapsule interface: that of its most important list of records."""

    __slots__ = ()

    def table(self, key: str | None = None) -> Table:
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the table as a stream of the interface."""
        return self.table().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Return the schema of the table."""
        return self.table().__arrow_c_schema__()


class SimResult(Result, _Tabular):
    """All indices of a trace on a drive: those of ``sakiyomi sim --json``. As a table it has the chunks of time."""

    __slots__ = ()
    _TABLE = "chunks"

    def __repr__(self) -> str:
        return f"<SimResult of {self.trace!r} on {self.drive!r}: {self.commands} commands, {self.response_ns.mean} ns>"


class SweepResult(Result, _Tabular):
    """A trace on a drive with all combinations of settings: ``sakiyomi sweep --json``.

    As a table it is the points.parquet of the command: a row for each point, its settings as numbers in base units.
    """

    __slots__ = ("_points",)
    _TABLE = "points"
    _points: list[tuple[str, str, list[Any]]]

    def __init__(self, document: str, points: list[tuple[str, str, list[Any]]]) -> None:
        object.__setattr__(self, "_points", points)
        super().__init__(document)

    def __reduce__(self) -> Any:
        return type(self), (self._document, self._points)

    def table(self, key: str | None = None) -> Table:
        """Return the points as a table; ``key`` is ``"points"``, if it is given."""
        return _native.Table(self._points) if key in (None, "points") else super().table(key)

    def __repr__(self) -> str:
        keys = ", ".join(self.varied)
        return f"<SweepResult of {self.trace!r} on {self.drive!r}: {len(self._fields['points'])} points of {keys}>"


class CompareResult(Result):
    """Two simulations side by side: ``sakiyomi compare --json``. ``a`` and ``b`` are their documents."""

    __slots__ = ("_failures",)
    _failures: list[str]

    def __init__(self, document: str, failures: list[str]) -> None:
        object.__setattr__(self, "_failures", failures)
        super().__init__(document)

    def __reduce__(self) -> Any:
        return type(self), (self._document, self._failures)

    @property
    def failures(self) -> list[str]:
        """A sentence for each limit of ``fail_if`` that was exceeded."""
        return list(self._failures)

    def __repr__(self) -> str:
        a, b = self.a.result, self.b.result
        return f"<CompareResult of {a.trace!r} on {a.drive!r} and {b.trace!r} on {b.drive!r}>"


class ValidateResult(Result, _Tabular):
    """A simulated drive beside a measured one: ``sakiyomi validate --json``. As a table it has the quantiles of times."""

    __slots__ = ()
    _TABLE = "quantile_curve"

    def __repr__(self) -> str:
        return f"<ValidateResult of {self.trace!r} on {self.drive!r}: rms {self.free.rms_ns} ns of {self.judged} requests>"


class ScenarioResult(Result, _Tabular):
    """An experiment in virtual time: ``sakiyomi scenario run --json``. As a table it has a row for each point."""

    __slots__ = ()
    _TABLE = "points"

    def __repr__(self) -> str:
        return f"<ScenarioResult of {self.name!r}: {len(self._fields['points'])} points>"


class FitResult(Record, _Tabular):
    """A drive identified from a measured trace: ``sakiyomi drive fit --json``. As a table it has the parameters."""

    __slots__ = ("_document", "_toml", "_verdict")
    _document: str
    _toml: str | None
    _verdict: str

    def __init__(self, document: str, toml: str | None, verdict: str) -> None:
        object.__setattr__(self, "_document", document)
        object.__setattr__(self, "_toml", toml)
        object.__setattr__(self, "_verdict", verdict)
        super().__init__(json.loads(document)["result"])

    def __reduce__(self) -> Any:
        return type(self), (self._document, self._toml, self._verdict)

    def to_json(self) -> str:
        """Return the document, ``{"schema", "result"}``, as the command writes it with ``--json``."""
        return self._document

    @property
    def verdict(self) -> str:
        """Whether the fit is a gain, and how much the trace does not identify, in sentences."""
        return self._verdict

    def to_toml(self) -> str:
        """Return the fitted drive as the text of a file, or raise ``sakiyomi.Error`` if the fit is refused."""
        if self._toml is None:
            raise _native.Error(self._verdict)
        return self._toml

    @property
    def tables(self) -> list[str]:
        """The keys that ``table`` takes."""
        return [key for key, value in self._fields.items() if _is_table(value)]

    def table(self, key: str | None = None) -> Table:
        """Return a list of records as a table, as results do: the parameters without a key."""
        key = "parameters" if key is None else key
        if key not in self.tables:
            raise KeyError(f"FitResult has no table {key!r}; it has {', '.join(self.tables)}")
        return _native.Table(_columns(self._fields[key], []))

    def __repr__(self) -> str:
        return f"<FitResult of {self.trace!r} on {self.drive!r}: {self._verdict}>"


class QueryResult(Result, _Tabular):
    """The figures of a sort, a join or an aggregation: ``sakiyomi sort --json``. As a table it has the phases.

    CPU times and the peak of memory (``user_ns``, ``system_ns``, ``memory_peak_bytes``) are those of the whole process.
    """

    __slots__ = ()
    _TABLE = "phases"

    def __repr__(self) -> str:
        return f"<QueryResult of {self.operation} {self.description}: {self.output_rows} rows>"


class RunResult(Result):
    """The report of a command: that of ``sakiyomi run --json``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<RunResult of {self.to_dict().get('program')!r}>"
