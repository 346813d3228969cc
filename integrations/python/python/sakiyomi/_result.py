"""Results: the JSON of the commands as objects."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from sakiyomi import _native


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

    In a notebook it is shown as the report of the command.
    """

    __slots__ = ("_document",)
    _document: str

    def __init__(self, document: str) -> None:
        object.__setattr__(self, "_document", document)
        super().__init__(json.loads(document)["result"])

    def __reduce__(self) -> Any:
        return type(self), (self._document,)

    def to_json(self) -> str:
        """Return the document, ``{"schema", "run", "result"}``, as a command writes it with ``--json``."""
        return self._document

    def to_html(self) -> str:
        """Return the report as a page of its own."""
        return _native.page(self._document, json.loads(self._document)["schema"])

    def _repr_html_(self) -> str:
        import html

        # A frame: the styles and the script of the page do not meet those of the notebook.
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 640px; border: 0"></iframe>'


class SimResult(Result):
    """All indices of a trace on a drive: those of ``sakiyomi sim --json``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<SimResult of {self.trace!r} on {self.drive!r}: {self.commands} commands, {self.response_ns.mean} ns>"


class RunResult(Result):
    """The report of a command: that of ``sakiyomi run --json``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<RunResult of {self.to_dict().get('program')!r}>"
