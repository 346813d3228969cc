"""Options that several functions share: those of the commands, by which a trace is read and replayed."""

import functools
import inspect
from collections.abc import Callable, Mapping
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

# The names and types of the options of a kind are those of its TypedDict, and the defaults are these.
_DEFAULTS: Mapping[str, Any] = {**_READING, **_REPLAY}


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
