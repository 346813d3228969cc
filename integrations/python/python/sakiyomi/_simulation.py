"""Simulated drives: the commands `sim`, `sweep`, `compare`, `validate` and `scenario run`."""

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Unpack

from sakiyomi import _native
from sakiyomi._native import MemoryTrace
from sakiyomi._options import MeasuredOptions, ReplayOptions, reading_options, replay_options, takes
from sakiyomi._reading import PathLike
from sakiyomi._result import CompareResult, Record, ScenarioResult, SimResult, SweepResult, ValidateResult

if TYPE_CHECKING:
    from concurrent.futures import Executor


class ArrowTable(Protocol):
    """A table that gives its columns by the Arrow PyCapsule interface: of pyarrow, pandas, Polars, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Trace: TypeAlias = PathLike | MemoryTrace | ArrowTable


def drives() -> list[Record]:
    """Return the built-in drives: ``id``, ``name``, ``capacity_bytes``, ``rpm``, ``cache_bytes``, ``queue_depth``.

    >>> [drive.id for drive in drives()][:1]
    ['deskstar-7k250']
    """
    return [Record(drive) for drive in json.loads(_native.drives())]


def generate_pc(
    *,
    span: str = "200GB",
    duration: str = "1020s",
    count: int = 11_500,
    closed_loop: bool = False,
    gap: str = "14ms",
    sequential: float = 0.52,
    skip: float = 0.25,
    seed: int = 1,
) -> MemoryTrace:
    """Generate a trace of the workload of a PC: application start, media import, virus scan, video, gaming.

    The arguments are the options of ``sakiyomi trace generate pc``: the size of the disk, the duration, the number of commands,
    whether each waits for the one before, the mean time between the commands of a burst, and the shares of reads that go on
    where the last one ended and of those that skip 64 to 112 KiB. The same arguments give the same trace, that of the command.

    >>> generate_pc(count=100)
    <sakiyomi.MemoryTrace "pc" of 100 records>
    """
    options = {
        "span": span,
        "duration": duration,
        "count": count,
        "closed_loop": closed_loop,
        "gap": gap,
        "sequential": sequential,
        "skip": skip,
    }
    return _native.generate_pc(options, seed)


@takes(ReplayOptions)
def simulate(
    trace: Trace,
    drive: PathLike,
    settings: Mapping[str, Any] | None = None,
    *,
    array: str | None = None,
    chunk: str = "time=1s",
    **options: Unpack[ReplayOptions],
) -> SimResult:
    """Simulate a block trace on a hard disk, in virtual time.

    trace: a file in any format of ``sakiyomi trace formats``, plain or compressed; or a table in memory, such as a DataFrame,
        with the columns that ``MemoryTrace`` describes.
    drive: the name of a built-in drive, or a .toml, .diskspecs or .parv file.
    settings: changes of the drive, as ``--set`` has them: ``{"cache.read_ahead.max": "1MiB"}``.

    The other arguments are the options of ``sakiyomi sim``, and so are the figures of the result. Times and sizes are
    strings with units. ``closed_loop`` is None for the way in which the trace was recorded, False for ``--open-loop``.
    Ctrl-C ends the simulation; other threads run meanwhile.

    >>> result = simulate("trace.csv.gz", "deskstar-7k250", {"cache.read_ahead.max": "1MiB"})  # doctest: +SKIP
    >>> result.hit_ratio, result.response_ns.p99  # doctest: +SKIP
    (0.41, 21053112)
    """
    document, notes = _native.simulate(
        trace_of(trace),
        drive_options(drive, settings, array),
        reading_options(options),
        replay_options(options),
        chunk,
    )
    warn(notes)
    return SimResult(document)


@takes(ReplayOptions)
def sweep(
    trace: Trace,
    drive: PathLike,
    vary: Mapping[str, Iterable[Any]],
    executor: "Executor | None" = None,
    *,
    settings: Mapping[str, Any] | None = None,
    array: str | None = None,
    **options: Unpack[ReplayOptions],
) -> SweepResult:
    """Simulate all combinations of settings.

    vary: the values of each key, ``{"cache.segments.count": [4, 16, 64]}``; the last key varies fastest.
    executor: without one, the combinations are simulated by threads on all cores. Or anything that is a
        ``concurrent.futures.Executor``, on this machine or many, such as ``client.get_executor()`` of Dask: it gets one task
        for each combination. A trace that is a file must be there under the same path; a table is sent with each task. The
        file of a drive is only needed here.
    settings: changes of the drive at every point, as ``--set`` has them.

    The other arguments are those of ``simulate``. The result is that of ``sakiyomi sweep --reproducible``, byte for byte,
    whatever the executor is; ``points`` are in the order of the combinations. As a table it has a row for each point, and the
    values as numbers.

    >>> from concurrent.futures import ProcessPoolExecutor
    >>> with ProcessPoolExecutor() as executor:  # doctest: +SKIP
    ...     result = sweep("trace.csv.gz", "deskstar-7k250", {"cache.segments.count": [4, 16]}, executor)
    >>> [(point["values"], point.response_mean_ns) for point in result.points]  # doctest: +SKIP
    [(['4'], 12053112), (['16'], 11420340)]
    >>> polars.DataFrame(result.table())  # doctest: +SKIP
    """
    varied = _varied(vary)
    source = trace_of(trace)
    changes = drive_options(drive, settings, array)
    reading = reading_options(options)
    replay = replay_options(options)
    planned, notes, values = _native.sweep_plan(changes, varied)
    warn(notes)
    if executor is None:
        points = _native.sweep_all(source, planned, reading, replay, varied)
    else:
        keys = [key for key, _ in varied]
        futures = [
            executor.submit(_native.sweep_one, source, planned, reading, replay, keys, point) for point in values
        ]
        try:
            points = [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    return SweepResult(*_native.sweep_result(source, planned, changes["set"], varied, points))


def compare(a: "SimResult | PathLike", b: "SimResult | PathLike", fail_if: Sequence[str] = ()) -> CompareResult:
    """Compare two simulations.

    a, b: results of ``simulate``, or the directories that ``sakiyomi sim --out`` made, or their result.json.
    fail_if: limits of relative changes from ``a`` to ``b``, such as ``"response_ns.p99>+5%"`` and ``"hit_ratio<-1%"``;
        ``failures`` of the result has a sentence for each that was exceeded.

    >>> short = simulate("pc.csv", "deskstar-7k250", {"cache.read_ahead.max": "64KiB"})  # doctest: +SKIP
    >>> long = simulate("pc.csv", "deskstar-7k250", {"cache.read_ahead.max": "1MiB"})  # doctest: +SKIP
    >>> compare(short, long, ["response_ns.p99>+5%"]).failures  # doctest: +SKIP
    []
    """
    if isinstance(fail_if, str):
        fail_if = (fail_if,)
    sides = [
        {"document": side.to_json(), "path": None}
        if isinstance(side, SimResult)
        else {"document": None, "path": os.fsdecode(side)}
        for side in (a, b)
    ]
    return CompareResult(*_native.compare(sides[0], sides[1], list(fail_if)))


@takes(MeasuredOptions)
def validate(
    trace: Trace,
    drive: PathLike,
    settings: Mapping[str, Any] | None = None,
    *,
    from_: str = "0",
    until: str | None = None,
    array: str | None = None,
    **options: Unpack[MeasuredOptions],
) -> ValidateResult:
    """Compare a simulated drive with a measured one.

    trace: a trace with measured response times, as for ``simulate``; a table has them as the column ``response_ns``.
    from_, until: compare only requests issued at this time or later, and before this time. Earlier ones are replayed to warm
        up the drive.

    The other arguments are those of ``simulate``. The figures are those of ``sakiyomi validate``.

    >>> result = validate("cheetah9LP.trace.gz", "cheetah.toml")  # doctest: +SKIP
    >>> result.free.rms_ratio, result.anchored.request_error_ns.median  # doctest: +SKIP
    (0.021, 310000)
    """
    document, notes = _native.validate(
        trace_of(trace),
        drive_options(drive, settings, array),
        reading_options(options),
        options["wrap"],
        from_,
        until,
    )
    warn(notes)
    return ValidateResult(document)


def scenario(
    file: PathLike,
    vary: Mapping[str, Iterable[Any]] | None = None,
    *,
    seed: int | None = None,
    repetitions: int | None = None,
) -> ScenarioResult:
    """Run an experiment in virtual time: programs, page cache, prefetching, regulation and a drive together.

    file: the experiment, a TOML file (docs/reference/scenario.md).
    vary: values to try for keys, instead of those of the file: ``{"memory.size": ["256MiB", "1GiB"]}``.
    seed: seed of the random numbers, instead of the file's.
    repetitions: number of runs of each point, 1 to 1000, each with the next seed, instead of the file's.

    Runs take all cores. The result is that of ``sakiyomi scenario run --reproducible``, byte for byte.

    >>> result = scenario("scenarios/waseda2006-a.toml", {"prefetch.limit": ["off", "auto"]})  # doctest: +SKIP
    >>> [(point.limit, point.elapsed_ns) for point in result.points]  # doctest: +SKIP
    [('off', 61200000000), ('auto', 44800000000)]
    """
    if repetitions is not None and not 1 <= repetitions <= 1000:
        raise ValueError(f"repetitions is {repetitions}; give 1 to 1000")
    document, notes = _native.scenario(os.fsdecode(file), _varied(vary or {}), seed, repetitions)
    warn(notes, stacklevel=3)
    return ScenarioResult(document)


def trace_of(trace: Trace) -> str | MemoryTrace:
    """Return a trace as the native functions take it, which also can be pickled."""
    if isinstance(trace, MemoryTrace):
        return trace
    if isinstance(trace, (str, bytes, os.PathLike)):
        return os.fsdecode(trace)
    return MemoryTrace(trace)


def drive_options(drive: PathLike, settings: Mapping[str, Any] | None, array: str | None) -> dict[str, Any]:
    """Return the options of a drive."""
    return {
        "drive": os.fsdecode(drive),
        "set": [(str(key), _text(value)) for key, value in (settings or {}).items()],
        "array": array,
    }


def _varied(vary: Mapping[str, Iterable[Any]]) -> list[tuple[str, list[str]]]:
    varied = []
    for key, values in vary.items():
        if isinstance(values, (str, bytes)):
            raise TypeError(f"{key}: the values are {values!r}; give a list of them")
        texts = [_text(value) for value in values]
        if not texts:
            raise ValueError(f"{key}: there are no values; give one or more")
        varied.append((str(key), texts))
    return varied


def _text(value: Any) -> str:
    """Return a value as TOML has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def warn(notes: list[str], stacklevel: int = 4) -> None:
    """Pass the warnings among the notes of a command to the caller of its function, which is called by that of ``takes``."""
    for note in notes:
        if note.startswith("warning: "):
            warnings.warn(note.removeprefix("warning: "), stacklevel=stacklevel)
