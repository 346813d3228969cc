"""Options that several functions share: those of the commands, by which a trace is read and replayed."""

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypedDict, TypeVar, get_type_hints

_P = ParamSpec("_P")
_R = TypeVar("_R")


class ReadingOptions(TypedDict, total=False):
    """How a trace is read."""

    format: str | None
    device: int | str | None
    map: str | None
    sort_window: str
    time_scale: float
    action: str


class MeasuredOptions(ReadingOptions, total=False):
    """How a trace with measured times is read."""

    wrap: bool


class ReplayOptions(MeasuredOptions, total=False):
    """How a trace is read and replayed."""

    warm_up: str
    closed_loop: bool | None
    outstanding: int | None
    host_queue: int


_READING: ReadingOptions = {
    "format": None,
    "device": None,
    "map": None,
    "sort_window": "1s",
    "time_scale": 1.0,
    "action": "Q",
}
_REPLAY: Mapping[str, Any] = {
    "warm_up": "0",
    "closed_loop": None,
    "outstanding": None,
    "host_queue": 1 << 20,
    "wrap": False,
}


class TableOptions(TypedDict, total=False):
    """Options of all statements on tables."""

    where: str | None
    select: str | None
    input_format: str | None
    format: str | None
    compression: str | None
    row_group: int
    memory: str | int
    threads: int | None
    method: str | None
    direct: bool | None
    block: str | int | None
    spill: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
    spill_compression: str
    progress: bool | None


_TABLE: TableOptions = {
    "where": None,
    "select": None,
    "input_format": None,
    "format": None,
    "compression": None,
    "row_group": 122_880,
    "memory": "512MiB",
    "threads": None,
    "method": None,
    "direct": None,
    "block": None,
    "spill": (),
    "spill_compression": "auto",
    "progress": None,
}

# The names and types of the options of a kind are those of its TypedDict, and the defaults are these.
_DEFAULTS: Mapping[str, Any] = {**_READING, **_REPLAY, **_TABLE}


def takes(kind: type) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let a function take the options of a kind, which it has as ``**options: Unpack[kind]``.

    They show in its signature with their defaults, are checked, and all of them are passed to it.
    """
    types = get_type_hints(kind)
    own = {name: default for name, default in _DEFAULTS.items() if name in types}

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)
        explicit = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=own[name], annotation=types[name]) for name in own
        ]
        known = {one.name for one in explicit} | own.keys()

        @functools.wraps(function)
        def called(*arguments: _P.args, **options: _P.kwargs) -> _R:
            for name in options:
                if name not in known:
                    raise TypeError(f"{function.__name__}() has no argument {name!r}; it has {', '.join(sorted(known))}")
            all_options: Any = own | options
            return function(*arguments, **all_options)

        called.__signature__ = signature.replace(parameters=explicit + shared)  # type: ignore[attr-defined]
        return called

    return decorate


def reading_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a trace is read, as the native functions take it."""
    device = options["device"]
    return {name: options[name] for name in _READING} | {"device": None if device is None else str(device)}


def replay_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a trace is replayed, as the native functions take it."""
    return {name: options[name] for name in _REPLAY}


def table_options(options: Mapping[str, Any], output: Any) -> dict[str, Any]:
    """Return the options of a statement on tables, as the native functions take them."""
    native: dict[str, Any] = {name: options[name] for name in _TABLE if name != "progress"}
    spill = native["spill"]
    native["spill"] = [os.fsdecode(path) for path in ((spill,) if isinstance(spill, (str, os.PathLike)) else spill)]
    for size in ("memory", "block"):
        native[size] = None if native[size] is None else str(native[size])
    return native | {"output": None if output is None else os.fsdecode(output)}
