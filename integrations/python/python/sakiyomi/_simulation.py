"""Simulated drives."""

import itertools
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sakiyomi import _native
from sakiyomi._reading import PathLike
from sakiyomi._result import Record, SimResult

if TYPE_CHECKING:
    from concurrent.futures import Executor


def drives() -> list[Record]:
    """Return the built-in drives: ``id``, ``name``, ``capacity_bytes``, ``rpm``, ``cache_bytes``, ``queue_depth``.

    >>> [drive.id for drive in drives()][:1]
    ['deskstar-7k250']
    """
    return [Record(drive) for drive in json.loads(_native.drives())]


def simulate(
    trace: PathLike,
    drive: PathLike,
    settings: Mapping[str, Any] | None = None,
    *,
    array: str | None = None,
    chunk: str = "time=1s",
    warm_up: str = "0",
    format: str | None = None,
    device: int | str | None = None,
    map: str | None = None,
    sort_window: str = "1s",
    time_scale: float = 1.0,
    action: str = "Q",
    closed_loop: bool | None = None,
    outstanding: int | None = None,
    host_queue: int = 1 << 20,
    wrap: bool = False,
) -> SimResult:
    """Simulate a block trace on a hard disk, in virtual time.

    trace: a file in any format of ``sakiyomi trace formats``, plain or compressed.
    drive: the name of a built-in drive, or a .toml, .diskspecs or .parv file.
    settings: changes of the drive, as ``--set`` has them: ``{"cache.read_ahead.max": "1MiB"}``.

    The other arguments are the options of ``sakiyomi sim``, and so are the figures of the result. Times and sizes are
    strings with units. ``closed_loop`` is None for the way in which the trace was recorded, False for ``--open-loop``.
    Ctrl-C ends the simulation; other threads run meanwhile.

    >>> result = simulate("trace.csv.gz", "deskstar-7k250", {"cache.read_ahead.max": "1MiB"})  # doctest: +SKIP
    >>> result.hit_ratio, result.response_ns.p99  # doctest: +SKIP
    (0.41, 21053112)
    """
    options = {
        "set": [(str(key), _text(value)) for key, value in (settings or {}).items()],
        "array": array,
        "chunk": chunk,
        "warm_up": warm_up,
        "format": format,
        "device": None if device is None else str(device),
        "map": map,
        "sort_window": sort_window,
        "time_scale": time_scale,
        "action": action,
        "closed_loop": closed_loop,
        "outstanding": outstanding,
        "host_queue": host_queue,
        "wrap": wrap,
    }
    document, notes = _native.simulate(os.fsdecode(trace), os.fsdecode(drive), options)
    for note in notes:
        if note.startswith("warning: "):
            warnings.warn(note.removeprefix("warning: "), stacklevel=2)
    return SimResult(document)


def _text(value: Any) -> str:
    """Return a value as TOML has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def sweep(
    trace: PathLike,
    drive: PathLike,
    settings: Mapping[str, Iterable[Any]],
    executor: "Executor | None" = None,
    **options: Any,
) -> list[SimResult]:
    """Simulate all combinations of settings.

    settings: the values of each key, ``{"cache.segments.count": [4, 16, 64]}``; the last key varies fastest.
    executor: anything that is a ``concurrent.futures.Executor``, on this machine or many: it calls ``simulate`` once for
        each combination, whose trace must be a file there. Without one, the combinations follow each other. Threads are as
        good as processes, because simulations run without the interpreter's lock.
    options: further arguments of ``simulate``.

    Returns the results in the order of the combinations; ``settings`` of a result are its values.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor() as executor:  # doctest: +SKIP
    ...     results = sweep("trace.csv.gz", "deskstar-7k250", {"cache.segments.count": [4, 16]}, executor)
    ...     [(result.settings, result.response_ns.mean) for result in results]
    """
    # Iterators are used up by the first pass.
    values = {key: list(values) for key, values in settings.items()}
    for key, tried in values.items():
        texts = [_text(value) for value in tried]
        for text in texts:
            if texts.count(text) > 1:
                raise ValueError(f"{key}: the value {text} is given twice; remove one")
    points = [dict(zip(values, combination)) for combination in itertools.product(*values.values())]
    if executor is None:
        return [simulate(trace, drive, point, **options) for point in points]
    futures = [executor.submit(simulate, trace, drive, point, **options) for point in points]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        raise
