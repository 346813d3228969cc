"""simulate, sweep and drives: the numbers of the command, wrong arguments, executors, signals."""

import _thread
import concurrent.futures
import inspect
import json
import multiprocessing
import os
import pickle
import random
import shutil
import subprocess
import threading
import time

import pytest

import sakiyomi
from sakiyomi import drives, simulate, sweep

DRIVE = "deskstar-7k250"


def command():
    """The program sakiyomi, of SAKIYOMI or in PATH."""
    program = os.environ.get("SAKIYOMI") or shutil.which("sakiyomi")
    return program or pytest.skip("the program sakiyomi is not in PATH, and SAKIYOMI does not name it")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A trace in the format of fio: mixed reads and writes of 4 to 64 KiB."""
    return write_trace(tmp_path_factory.mktemp("trace") / "trace.txt", 2000)


def write_trace(path, commands):
    """The format of DiskSim: time in ms, device, block, blocks, whether it is a read."""
    numbers, at, lines = random.Random(5), 0.0, []
    for _ in range(commands):
        at += numbers.expovariate(1 / 12)
        block, blocks = numbers.randrange(1 << 20) * 8, numbers.choice([8, 32, 128])
        lines.append(f"{at:.6f} 0 {block} {blocks} {numbers.randrange(2)}\n")
    path.write_text("".join(lines))
    return path


def test_the_built_in_drives_are_those_of_the_command():
    names = [drive.id for drive in drives()]
    assert DRIVE in names and len(names) > 5
    listed = json.loads(subprocess.run([command(), "drive", "list", "--json"], stdout=-1, check=True).stdout)
    assert [drive.to_dict() for drive in drives()] == listed["result"]


@pytest.mark.parametrize(
    "settings, options, words",
    [
        ({}, {}, []),
        ({"cache.read_ahead.max": "1MiB", "cache.write.enabled": False}, {}, [
            "--set", "cache.read_ahead.max=1MiB", "--set", "cache.write.enabled=false",
        ]),
        ({}, {"closed_loop": True, "outstanding": 8, "chunk": "commands=100"}, [
            "--closed-loop", "--outstanding", "8", "--chunk", "commands=100",
        ]),
        ({}, {"warm_up": "2s", "time_scale": 0.5, "wrap": True, "host_queue": 4, "array": "raid5:4:64KiB"}, [
            "--warm-up", "2s", "--time-scale", "0.5", "--wrap", "--host-queue", "4", "--array", "raid5:4:64KiB",
        ]),
    ],
)
def test_the_numbers_are_those_of_the_command(trace, settings, options, words):
    result = simulate(trace, DRIVE, settings, format="disksim", **options)
    words = [command(), "sim", trace, "--drive", DRIVE, "--format", "disksim", "--json", *words]
    document = json.loads(subprocess.run(words, stdout=-1, check=True).stdout)
    assert result.to_dict() == document["result"]
    assert json.loads(result.to_json())["schema"] == document["schema"]


def test_a_result_is_the_json_as_an_object_and_a_page(trace):
    result = simulate(trace, DRIVE, format="disksim")
    assert result.commands == result["commands"] == 2000 and "commands" in result and "commands" in dir(result)
    assert result.response_ns.p99 >= result.response_ns["p50"] > 0
    assert sum(result.disk_time_ns.values()) == result.simulated_ns
    assert result.chunks[0].start_ns == 0
    assert result.to_html().startswith("<!DOCTYPE html>") and "trace" in result.to_html()
    assert result._repr_html_().startswith("<iframe srcdoc=")
    copy = pickle.loads(pickle.dumps(result))
    assert copy == result and type(copy) is type(result) and copy.to_json() == result.to_json()
    assert pickle.loads(pickle.dumps(result.response_ns)) == result.response_ns
    assert repr(result).startswith("<SimResult of ")
    with pytest.raises(AttributeError, match="no key 'response'; it has trace, drive"):
        result.response
    with pytest.raises(AttributeError, match="cannot be changed"):
        result.commands = 3
    plain = result.to_dict()
    plain["commands"] = 3
    assert result.commands == 2000


@pytest.mark.parametrize(
    "arguments, error, sentence",
    [
        ({"trace": "missing"}, FileNotFoundError, "cannot open the trace missing: No such file"),
        ({"drive": "deskstar-7k251"}, sakiyomi.Error, "deskstar-7k250"),
        ({"drive": "./missing.toml"}, sakiyomi.Error, "cannot read the drive ./missing.toml"),
        ({"settings": {"cache.sice": 1}}, sakiyomi.Error, "cache.sice"),
        ({"settings": {"cache.read_ahead.max": "many"}}, sakiyomi.Error, "cache.read_ahead.max"),
        ({"chunk": "1s"}, ValueError, "chunk: write it like time=1s"),
        ({"chunk": "time=1us"}, ValueError, "at least 1ms"),
        ({"chunk": "commands=0"}, ValueError, "more than 0"),
        ({"warm_up": "soon"}, ValueError, "warm_up: "),
        ({"warm_up": "100000s"}, sakiyomi.Error, "no command completed after the warm-up"),
        ({"format": "disksin"}, ValueError, "format: "),
        ({"map": "all"}, ValueError, "map is"),
        ({"array": "raid7:3"}, ValueError, "array: "),
        ({"action": "QQ"}, ValueError, "action is"),
        ({"outstanding": 3}, ValueError, "outstanding=3: only a closed loop"),
        ({"outstanding": 0, "closed_loop": True}, ValueError, "outstanding 1 to 65536"),
        ({"host_queue": 0}, ValueError, "host_queue is at least 1"),
        ({"time_scale": -1.0}, sakiyomi.Error, ""),
        ({"time_scale": float("nan")}, sakiyomi.Error, ""),
        ({"time_scale": "x"}, TypeError, "time_scale|must be real number"),
        ({"unknown": 1}, TypeError, "unknown"),
    ],
)
def test_wrong_arguments_are_said_in_a_sentence(trace, arguments, error, sentence):
    with pytest.raises(error, match=sentence or None):
        simulate(**{"trace": trace, "drive": DRIVE, "format": "disksim"} | arguments)


def result_bytes(document):
    """The bytes of a document from its result on: `run` names the build."""
    return document[document.index('"result":') :]


def of_command(*words):
    """What the command writes, without the end of the line."""
    return subprocess.run([command(), *map(str, words)], stdout=-1, check=True, text=True).stdout.strip()


def sweep_of_500(trace, executor):
    vary = {"cache.segments.count": range(1, 51), "cache.read_ahead.max": ["0", "64KiB", "1MiB", "2MiB", "4MiB"]}
    vary["cache.write.enabled"] = [True, False]
    return sweep(trace, DRIVE, vary, executor, format="disksim")


@pytest.fixture(scope="module")
def points_of_500(tmp_path_factory):
    """A short trace, and the document of a sweep of 500 points on it."""
    trace = write_trace(tmp_path_factory.mktemp("trace") / "short.txt", 40)
    numbers = ",".join(map(str, range(1, 51)))
    vary = [f"cache.segments.count={numbers}", "cache.read_ahead.max=0,64KiB,1MiB,2MiB,4MiB"]
    vary = [word for one in [*vary, "cache.write.enabled=true,false"] for word in ("--vary", one)]
    words = ["sweep", trace, "--drive", DRIVE, "--format", "disksim", "--reproducible", "--json", *vary]
    return trace, of_command(*words)


@pytest.mark.parametrize("executor", ["own threads", "threads", "fork", "spawn", "dask"])
def test_a_sweep_of_500_points_has_the_bytes_of_the_command_on_any_executor(points_of_500, executor):
    trace, expected = points_of_500
    if executor == "own threads":
        result = sweep_of_500(trace, None)
    elif executor == "threads":
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            result = sweep_of_500(trace, pool)
    elif executor == "dask":
        distributed = pytest.importorskip("distributed")
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            with distributed.Client(cluster) as client:
                result = sweep_of_500(trace, client.get_executor())
    else:
        with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context(executor)) as pool:
            result = sweep_of_500(trace, pool)
    assert len(result.points) == 500
    assert result_bytes(result.to_json()) == result_bytes(expected)
    run = json.loads(result.to_json())["run"]
    assert run.keys() <= {"version", "commit"} and run["version"]


def test_a_sweep_has_the_report_and_the_table_of_the_command(trace, tmp_path):
    words = ["sweep", trace, "--drive", DRIVE, "--format", "disksim", "--vary", "cache.read_ahead.max=64KiB,1MiB"]
    words += ["--vary", "queue.policy=fcfs,sptf", "--set", "cache.segments.count=8", "--reproducible"]
    of_command(*words, "--out", tmp_path / "out")
    vary = {"cache.read_ahead.max": ["64KiB", "1MiB"], "queue.policy": iter(["fcfs", "sptf"])}
    result = sweep(trace, DRIVE, vary, settings={"cache.segments.count": 8}, format="disksim")
    document = (tmp_path / "out" / "result.json").read_text()
    assert json.loads(document)["result"] == result.to_dict()
    copy = pickle.loads(pickle.dumps(result))
    assert copy == result and copy.to_json() == result.to_json() and type(copy) is type(result)
    # The picture is that of the command, for the same circumstances.
    assert sakiyomi._native.page(document, json.loads(document)["schema"]) == (
        (tmp_path / "out" / "report.html").read_text()
    )
    assert "<svg" in result.to_html() and result._repr_html_().startswith("<iframe srcdoc=")
    assert repr(result).startswith("<SweepResult of ")
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    expected = parquet.read_table(tmp_path / "out" / "points.parquet")
    for one in (result, copy, result.table("points")):
        table = pyarrow.table(one)
        assert table.column_names == expected.column_names
        assert table.to_pydict() == expected.to_pydict()
    assert table["cache.read_ahead.max_bytes"].to_pylist() == [65536, 65536, 1 << 20, 1 << 20]


@pytest.mark.parametrize(
    "vary, error, sentence",
    [
        ({"cache.sice": [1, 2]}, sakiyomi.Error, "cache.sice"),
        ({"cache.segments.count": [4, "4"]}, ValueError, "cache.segments.count: the value 4 is given twice"),
        ({"cache.read_ahead.max": ["64KiB", 65536]}, ValueError, "64KiB and 65536 are the same value; remove one"),
        ({"cache.segments.count": []}, ValueError, "cache.segments.count: there are no values"),
        ({"cache.segments.count": "4,16"}, TypeError, "the values are '4,16'; give a list"),
        ({"cache.segments.count": range(1, 400), "seed": range(400)}, ValueError, "more than 100000 combinations"),
    ],
)
def test_a_wrong_sweep_is_said_before_a_point_is_run(trace, vary, error, sentence):
    class Refusing(concurrent.futures.Executor):
        def submit(self, *_):
            raise AssertionError("a point was run")

    with pytest.raises(error, match=sentence):
        sweep(trace, DRIVE, vary, Refusing(), format="disksim")


def test_an_error_of_a_point_ends_a_sweep(trace, tmp_path):
    for executor in (None, concurrent.futures.ProcessPoolExecutor(1), concurrent.futures.ThreadPoolExecutor(1)):
        with pytest.raises(FileNotFoundError, match="cannot open the trace"):
            sweep(tmp_path / "missing", DRIVE, {"cache.segments.count": range(1, 100)}, executor)
        if executor is not None:
            executor.shutdown()


def test_ctrl_c_ends_a_sweep(tmp_path):
    trace = write_trace(tmp_path / "long", 300_000)
    threading.Timer(0.5, _thread.interrupt_main).start()
    since = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sweep(trace, DRIVE, {"cache.segments.count": range(1, 200)}, format="disksim")
    assert time.monotonic() - since < 10


def test_a_result_is_a_table_for_pyarrow_pandas_polars_and_duckdb(trace):
    pyarrow = pytest.importorskip("pyarrow")
    result = simulate(trace, DRIVE, format="disksim")
    assert {"chunks", "response_curve", "response_histogram", "breakdown_mean_ns"} == set(result.tables)
    table = pyarrow.table(result)
    assert table.num_rows == len(result.chunks) == len(result.table("chunks"))
    assert table["response_ns.mean"].to_pylist() == [chunk.response_ns.mean for chunk in result.chunks]
    assert pyarrow.types.is_int64(table.schema.field("start_ns").type)
    assert pyarrow.schema(result.table("chunks")) == table.schema
    curve = pyarrow.table(result.table("response_curve"))
    assert pyarrow.types.is_float64(curve.schema.field("share_ratio").type)
    with pytest.raises(KeyError, match="no table 'chunk'; it has"):
        result.table("chunk")
    pandas = pytest.importorskip("pandas")
    assert len(pandas.DataFrame.from_arrow(result)) == table.num_rows
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(result.table())["commands"].sum() == 2000
    duckdb = pytest.importorskip("duckdb")
    chunks = result.table("chunks")
    assert duckdb.sql("select sum(commands) from chunks").fetchall() == [(2000,)] and chunks


def test_a_table_has_nulls_large_numbers_and_text():
    pyarrow = pytest.importorskip("pyarrow")
    columns = [("a", "i64", [1, None]), ("b", "u64", [1 << 63, 0]), ("c", "text", ["ä", None]), ("d", "bool", [True, False])]
    table = sakiyomi.Table(columns)
    assert pyarrow.table(table).to_pydict() == {name: values for name, _, values in columns}
    assert len(table) == 2 and table.column_names == ["a", "b", "c", "d"] and "2 rows" in repr(table)
    assert len(pyarrow.table(sakiyomi.Table([]))) == 0
    with pytest.raises(sakiyomi.Error):
        sakiyomi.Table([("a", "i64", [1]), ("b", "i64", [1, 2])])
    with pytest.raises(OverflowError):
        sakiyomi.Table([("a", "i64", [1 << 63])])


def test_ctrl_c_ends_a_simulation_and_threads_run_meanwhile(tmp_path):
    trace, counted = write_trace(tmp_path / "long", 600_000), []

    def interrupt():
        since = time.monotonic()
        while time.monotonic() - since < 0.4:
            counted.append(1)
            time.sleep(0.001)
        _thread.interrupt_main()

    since = time.monotonic()
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            simulate(trace, DRIVE, format="disksim")
    assert time.monotonic() - since < 10 and len(counted) > 50


def test_signatures_show_the_shared_options_and_others_are_refused():
    reading = {"format": None, "device": None, "map": None, "sort_window": "1s", "time_scale": 1.0, "action": "Q"}
    replay = {"warm_up": "0", "closed_loop": None, "outstanding": None, "host_queue": 1 << 20, "wrap": False}
    options = {
        sakiyomi.simulate: reading | replay,
        sakiyomi.sweep: reading | replay,
        sakiyomi.validate: reading | {"wrap": False},
        sakiyomi.drive.fit: reading | {"wrap": False},
    }
    for function, expected in options.items():
        shown = inspect.signature(function).parameters
        assert {name: shown[name].default for name in expected} == expected
        assert "options" not in shown and all(one.annotation is not one.empty for one in shown.values())
        with pytest.raises(TypeError, match=r"has no argument 'warmup'; it has action, .*time_scale"):
            function("trace.csv", DRIVE, warmup="1s")
        assert pickle.loads(pickle.dumps(function)) is function
