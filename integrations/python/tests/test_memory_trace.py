"""Traces from tables of Arrow's and DataFrames."""

import datetime
import pickle

import pytest

import sakiyomi
from sakiyomi import MemoryTrace, generate_pc, simulate, sweep
from test_simulation import DRIVE, of_command, result_bytes

pyarrow = pytest.importorskip("pyarrow")

ROWS = 1500
COLUMNS = {
    "time_ns": [number * 3_000_000 for number in range(ROWS)],
    "op": ["write" if number % 3 else "read" for number in range(ROWS)],
    "offset_bytes": [number * 7_654_321 // 512 * 512 for number in range(ROWS)],
    "length_bytes": [4096 << number % 5 for number in range(ROWS)],
    "note": ["ignored"] * ROWS,
}


@pytest.fixture(scope="module")
def table():
    return pyarrow.table(COLUMNS)


@pytest.fixture(scope="module")
def of_file(tmp_path_factory):
    """The result of the same trace as a file."""
    path = tmp_path_factory.mktemp("trace") / "table"
    lines = ["time_ns,op,offset_bytes,length_bytes"]
    names = lines[0].split(",")
    lines += [",".join(str(COLUMNS[name][row]) for name in names) for row in range(ROWS)]
    path.write_text("\n".join(lines) + "\n")
    return simulate(path, DRIVE), path


def same(result, of_file):
    expected, path = of_file
    return result_bytes(result.to_json()) == result_bytes(expected.to_json()).replace(str(path), result.trace)


def test_a_table_is_the_trace_that_its_file_is(table, of_file):
    result = simulate(table, DRIVE)
    assert result.trace == "table" and result.commands == ROWS and same(result, of_file)
    # In several batches, by another order of columns, with narrower numbers, and with categories.
    batches = pyarrow.Table.from_batches(table.to_batches(max_chunksize=97))
    assert same(simulate(batches.select(["length_bytes", "op", "time_ns", "offset_bytes"]), DRIVE), of_file)
    narrow = table.set_column(3, "length_bytes", table["length_bytes"].cast("uint32"))
    for kind in (pyarrow.dictionary("int8", "string"), "large_string", "string_view"):
        assert same(simulate(narrow.set_column(1, "op", table["op"].cast(kind)), DRIVE), of_file)
    for kind in ("duration[ns]", "duration[us]", "duration[ms]", "timestamp[ns]", pyarrow.timestamp("us", "UTC")):
        times = table["time_ns"].cast("duration[ns]")
        if pyarrow.types.is_timestamp(pyarrow.scalar(None, kind).type):
            times = table["time_ns"].cast("timestamp[ns]")
        assert same(simulate(table.set_column(0, "time_ns", times.cast(kind)), DRIVE), of_file), kind
    reader = pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=500))
    assert same(simulate(reader, DRIVE), of_file)


def test_data_frames_are_traces(table, of_file):
    pandas = pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert same(simulate(frame, DRIVE), of_file)
    # Missing values make numbers of a DataFrame floating-point.
    frame["response_ns"] = [float("nan")] + [5e6] * (ROWS - 1)
    frame["device"] = pandas.array([0] * ROWS, "Int64")
    frame["op"] = frame["op"].astype("category")
    assert same(simulate(frame, DRIVE), of_file)
    polars = pytest.importorskip("polars")
    lazy = polars.DataFrame(COLUMNS).with_columns(polars.col("time_ns").cast(polars.Duration("ns")))
    assert same(simulate(lazy, DRIVE), of_file)
    duckdb = pytest.importorskip("duckdb")
    assert same(simulate(duckdb.sql("select * from frame"), DRIVE), of_file) and len(frame) == ROWS


def test_options_of_reading_hold_for_tables(table, tmp_path):
    two = table.append_column("device", pyarrow.array([number % 2 for number in range(ROWS)]))
    with pytest.raises(sakiyomi.Error, match="device"):
        simulate(two, DRIVE)
    assert simulate(two, DRIVE, device=1).commands == ROWS // 2
    both = simulate(two, DRIVE, map="concat", time_scale=2.0, wrap=True)
    assert both.commands == ROWS and "devices concatenated" in both.replay and "times x 2" in both.replay
    think = table.append_column("think_ns", pyarrow.array([1000] * ROWS))
    assert simulate(think, DRIVE).replay == ["closed loop, 1 outstanding"]


def test_a_memory_trace_is_named_kept_and_pickled(table, of_file):
    trace = MemoryTrace(table, "mine")
    assert (trace.name, len(trace)) == ("mine", ROWS) and "'mine'" in repr(trace).replace('"', "'")
    result = simulate(trace, DRIVE)
    assert result.trace == "mine" and same(result, of_file)
    copy = pickle.loads(pickle.dumps(trace))
    assert simulate(copy, DRIVE) == result
    full = {
        "time_ns": [5, 6], "op": ["discard", "flush"], "offset_bytes": [0, 0], "length_bytes": [512, 0], "fua": [True, False],
        "device": [3, 3], "stream": [9, 8], "response_ns": [1, None], "think_ns": [2, None], "started_ns": [None, 7],
        "label": [None, "Hit"],
    }  # fmt: skip
    whole = MemoryTrace(pyarrow.table(full))
    assert pickle.dumps(pickle.loads(pickle.dumps(whole))) == pickle.dumps(whole)
    for damaged in (b"", b"x" * 72, b"x" * 71):
        if damaged:
            with pytest.raises(sakiyomi.Error, match="pickled trace"):
                MemoryTrace._unpickle("x", damaged)


def test_a_sweep_of_a_table_is_the_same_in_other_processes(table):
    import concurrent.futures
    import multiprocessing

    vary = {"cache.segments.count": [1, 8]}
    own = sweep(table, DRIVE, vary)
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        assert sweep(table, DRIVE, vary, pool).to_json() == own.to_json()


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"count": 500}, ["--count", "500"]),
        (
            {"count": 300, "closed_loop": True, "duration": "20s", "gap": "1.5ms", "seed": 4, "span": "100GB"},
            ["--count", "300", "--closed-loop", "--duration", "20s", "--gap", "1.5ms", "--seed", "4", "--span", "100GB"],
        ),
        ({"count": 300, "sequential": 0.1, "skip": 0.6}, ["--count", "300", "--sequential", "0.1", "--skip", "0.6"]),
    ],
)
def test_a_generated_trace_is_that_of_the_command(tmp_path, arguments, words):
    of_command("trace", "generate", "pc", tmp_path / "pc.csv", *words, "--quiet")
    own, expected = simulate(generate_pc(**arguments), DRIVE), simulate(tmp_path / "pc.csv", DRIVE)
    assert own.trace == "pc" and own.to_dict() | {"trace": expected.trace} == expected.to_dict()


@pytest.mark.parametrize(
    "arguments, error, sentence",
    [
        ({"count": 10**8}, ValueError, "count is 100000000; give at most 10000000, because all are held in memory"),
        ({"span": "much"}, ValueError, "span: "),
        ({"duration": "long"}, ValueError, "duration: "),
        ({"gap": 3}, TypeError, ""),
        ({"sequential": 2.0}, sakiyomi.Error, "from 0 to 1"),
        ({"skip": float("nan")}, sakiyomi.Error, ""),
        ({"seed": -1}, OverflowError, ""),
    ],
)
def test_a_wrong_workload_is_said_in_a_sentence(arguments, error, sentence):
    with pytest.raises(error, match=sentence or None):
        generate_pc(**arguments)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"op": None}, "table.*no column op"),
        ({"op": ["read", "fetch"]}, "table:2: the column op holds `fetch`, but must be read, write, flush or discard"),
        ({"op": ["read", None]}, "table:2: the column op has no value"),
        ({"op": [1, 2]}, "its column op is of type Int64, which cannot hold it"),
        ({"offset_bytes": ["1", "2"]}, "its column offset_bytes is of type Utf8, which cannot hold it"),
        ({"offset_bytes": [0, -512]}, "table:2: the column offset_bytes holds -512"),
        ({"offset_bytes": [0.0, 0.5]}, "the column offset_bytes holds 0.5, but must be a whole number"),
        ({"offset_bytes": [0.0, float("inf")]}, "offset_bytes holds"),
        ({"length_bytes": [512, 0]}, "table:2: the write has no length"),
        ({"length_bytes": [512, 1 << 40]}, "longer than any command"),
        ({"device": [0, 1 << 32]}, "table:2: the column device holds 4294967296"),
        ({"device": [datetime.timedelta(1)] * 2}, "its column device is of type Duration"),
        ({"time_ns": [10**10, 0]}, "order"),
        ({"time_ns": pyarrow.array([0, 1 << 63], "uint64")}, "292 years"),
        ({"offset_bytes": [0, 1 << 62]}, "table:2: the record ends at byte 4611686018427388416"),
    ],
)
def test_what_is_not_a_trace_is_said_in_a_sentence(changes, sentence):
    columns = {"op": ["read", "write"], "offset_bytes": [0, 512], "length_bytes": [512, 512]} | changes
    columns = {name: values for name, values in columns.items() if values is not None}
    with pytest.raises(sakiyomi.Error, match=sentence):
        simulate(pyarrow.table(columns), DRIVE)


def test_what_is_no_table_is_refused(table):
    for thing in (3, None, [1, 2], {"op": ["read"]}):
        with pytest.raises(TypeError, match="neither a path nor a table"):
            simulate(thing, DRIVE)

    class Odd:
        def __init__(self, capsule):
            self.capsule = capsule

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    capsule = table.__arrow_c_stream__()
    simulate(Odd(capsule), DRIVE)
    with pytest.raises(sakiyomi.Error, match="consumed already"):
        simulate(Odd(capsule), DRIVE)
    for wrong in (3, table.schema.__arrow_c_schema__()):
        with pytest.raises((TypeError, ValueError)):
            simulate(Odd(wrong), DRIVE)
    twice = pyarrow.Table.from_arrays([table["op"], table["op"]], ["op", "op"])
    with pytest.raises(sakiyomi.Error, match="the column op twice"):
        simulate(twice, DRIVE)
    empty = table.slice(0, 0)
    with pytest.raises(sakiyomi.Error, match="no command completed"):
        simulate(empty, DRIVE)
    failing = pyarrow.RecordBatchReader.from_batches(table.schema, iter(()))
    with pytest.raises(sakiyomi.Error, match="no command completed"):
        simulate(failing, DRIVE)


def test_an_error_of_the_table_itself_is_passed_on(table):
    def batches():
        yield from table.to_batches()
        raise OSError("the source has failed")

    reader = pyarrow.RecordBatchReader.from_batches(table.schema, batches())
    with pytest.raises(sakiyomi.Error, match="the source has failed"):
        simulate(reader, DRIVE)
