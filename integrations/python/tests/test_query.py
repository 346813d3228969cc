"""sort, join and aggregate: their rows beside other libraries, results as files and as streams, limits, errors, ends."""

import _thread
import gc
import json
import math
import os
import random
import subprocess
import sys
import threading
import time
from decimal import Decimal

import pytest
from conftest import resident_bytes
from test_simulation import command

import sakiyomi
from sakiyomi import aggregate, join, sort

pyarrow = pytest.importorskip("pyarrow")
compute = pytest.importorskip("pyarrow.compute")
parquet = pytest.importorskip("pyarrow.parquet")

# Ctrl-C is raised within half a second; the rest is for a busy machine.
INTERRUPTED_S = 2.0


def random_table(rows, seed, keys=1000):
    """A table of many types with nulls; "id" is unique."""
    numbers = random.Random(seed)

    def column(value, nulls=0.1):
        return [None if numbers.random() < nulls else value() for _ in range(rows)]

    order = list(range(rows))
    numbers.shuffle(order)
    return pyarrow.table(
        {
            "id": pyarrow.array(order, pyarrow.int64()),
            "key": pyarrow.array(column(lambda: numbers.randrange(keys)), pyarrow.int32()),
            "text": pyarrow.array(column(lambda: "äb" * numbers.randrange(20) + str(numbers.randrange(50)))),
            "view": pyarrow.array(column(lambda: "x" * numbers.randrange(30)), pyarrow.string_view()),
            "real": pyarrow.array(column(lambda: numbers.gauss(0, 1e6)), pyarrow.float64()),
            "flag": pyarrow.array(column(lambda: numbers.random() < 0.5), pyarrow.bool_()),
            "day": pyarrow.array(column(lambda: numbers.randrange(20_000)), pyarrow.date32()),
            "time": pyarrow.array(column(lambda: numbers.randrange(1 << 50)), pyarrow.timestamp("us")),
            "price": pyarrow.array(
                column(lambda: Decimal(numbers.randrange(10**10)) / 100), pyarrow.decimal128(12, 2)
            ),
            "list": pyarrow.array(
                column(lambda: [numbers.randrange(9)] * numbers.randrange(4)), pyarrow.list_(pyarrow.int16())
            ),
        }
    )


def rows_of(table):
    """The rows, comparable whatever the types of text."""
    return pyarrow.table(table).to_pylist()


@pytest.fixture(scope="module")
def table():
    return random_table(20_000, 1)


@pytest.fixture(params=["table", "batches", "parquet", "arrow", "stream"])
def source(request, table, tmp_path):
    """The same rows as each kind of input."""
    if request.param == "table":
        return table
    if request.param == "batches":
        return pyarrow.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=700)))
    path = tmp_path / f"source.{request.param}"
    if request.param == "parquet":
        parquet.write_table(table, path, row_group_size=3000)
    else:
        make = pyarrow.ipc.new_file if request.param == "arrow" else pyarrow.ipc.new_stream
        with make(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=3000)
    return path


def test_rows_are_sorted_as_by_pyarrow(source, table):
    # pyarrow has no kernel that takes views.
    known = table.set_column(3, "view", table["view"].cast(pyarrow.string()))
    expected = known.take(compute.sort_indices(known, [("key", "descending"), ("id", "ascending")]))
    found = pyarrow.table(sort(source, ["key:desc", "id"], memory="64MiB"))
    assert found.column_names == table.column_names
    assert found["id"].to_pylist() == expected["id"].to_pylist()
    assert rows_of(found) == rows_of(expected)


def test_types_of_results_are_those_of_the_input(table):
    found = pyarrow.schema(sort(table, "id"))
    assert found.types == table.schema.types


def test_more_rows_than_memory_are_spilled(tmp_path):
    rows = 600_000
    numbers = random.Random(3)
    wide = pyarrow.table(
        {
            "k": pyarrow.array([numbers.getrandbits(62) for _ in range(rows)]),
            "text": pyarrow.array([f"{at:0100d}" for at in range(rows)]),
        }
    )
    path = tmp_path / "wide.parquet"
    parquet.write_table(wide, path, compression="none", use_dictionary=False)
    expected = sorted(wide["k"].to_pylist())
    for one in (wide, path):
        batches = sort(one, "k", memory="32MiB", threads=2, spill=tmp_path)
        assert pyarrow.table(batches)["k"].to_pylist() == expected
        assert batches.result.spilled_bytes > 10_000_000 and batches.result.memory_limit_bytes == 32 << 20
        assert os.listdir(tmp_path) == ["wide.parquet"]
    groups = aggregate(path, "text", sum="k", count=True, memory="32MiB", spill=tmp_path)
    found = pyarrow.table(groups)
    assert found.num_rows == rows and sum(found[1].to_pylist()) == sum(expected)


@pytest.mark.parametrize("kind", ["inner", "left outer", "right outer", "full outer", "left semi", "left anti"])
def test_rows_are_joined_as_by_pyarrow(table, kind, tmp_path):
    left = table.select(["id", "key", "text", "list"]).slice(0, 1500)
    other = random_table(900, 2)
    other = other.select(["key", "real"]).append_column("number", pyarrow.array(range(900)))
    path = tmp_path / "other.arrow"
    with pyarrow.ipc.new_file(path, other.schema) as writer:
        writer.write_table(other, max_chunksize=200)
    ours = {"left outer": "left", "right outer": "right", "full outer": "full", "left semi": "semi", "left anti": "anti"}
    # pyarrow cannot join tables with list columns.
    expected = left.drop_columns("list").join(other, "key", join_type=kind)

    def comparable(rows):
        return sorted([sorted(row.items(), key=str) for row in rows], key=str)

    for ordered in (False, True):
        for right in (other, path):
            found = pyarrow.table(join(left, right, "key", kind=ours.get(kind, kind), ordered=ordered))
            lists = {row["id"]: row["list"] for row in rows_of(left)}
            rows = rows_of(found)
            for row in rows:
                assert row.pop("list") == lists.get(row["id"])
            assert comparable(rows) == comparable(rows_of(expected))


def test_batches_of_a_join_are_kept_without_holding_it_up(tmp_path):
    # A semi join passes the memory of an Arrow file on, which is that of the buffers it is read into.
    rows = 1_000_000
    left = pyarrow.table({"k": range(rows), "text": [f"{at:060d}" for at in range(rows)]})
    path = tmp_path / "left.arrow"
    with pyarrow.ipc.new_file(path, left.schema) as writer:
        writer.write_table(left, max_chunksize=20_000)
    right = pyarrow.table({"k": range(rows)})
    kept = list(join(path, right, "k", kind="semi", memory="64MiB", threads=2))
    assert sum(map(len, kept)) == rows
    assert pyarrow.concat_tables(map(pyarrow.table, kept)).sort_by("k").equals(left)


def test_groups_are_those_of_pyarrow(source, table):
    found = pyarrow.table(
        aggregate(source, "key", sum="price,id", avg="real", min=["day", "text"], max="time", distinct="view", count=True)
    )
    expected = table.group_by("key").aggregate(
        [
            ("price", "sum"),
            ("id", "sum"),
            ("real", "mean"),
            ("day", "min"),
            ("text", "min"),
            ("time", "max"),
            ("id", "count"),
        ]
    )
    names = dict(zip(found.column_names, found.column_names, strict=True))
    assert found.column_names[0] == "key" and found.num_rows == expected.num_rows
    ours = {row["key"]: row for row in rows_of(found)}
    columns = list(names)
    for row in rows_of(expected):
        own = list(ours[row["key"]].values())
        assert own[1] == row["price_sum"] and own[2] == row["id_sum"]
        assert own[3] is None and row["real_mean"] is None or math.isclose(own[3], row["real_mean"], rel_tol=1e-9)
        assert own[4:7] == [row["day_min"], row["text_min"], row["time_max"]]
        assert own[-1] == row["id_count"]
    distinct = {}
    for key, view in zip(table["key"].to_pylist(), table["view"].to_pylist(), strict=True):
        distinct.setdefault(key, set()).update({view} - {None})
    assert {key: row[columns[7]] for key, row in ours.items()} == {key: len(found) for key, found in distinct.items()}


def test_rows_and_columns_are_taken_by_expressions(table):
    found = pyarrow.table(sort(table, "twice", where="key > 500 and flag", select="id, key * 2 as twice"))
    expected = [row for row in table.to_pylist() if (row["key"] or 0) > 500 and row["flag"]]
    assert found["twice"].to_pylist() == sorted(row["key"] * 2 for row in expected)
    assert found.column_names == ["id", "twice"]
    assert pyarrow.table(sort(table, "id", limit=7))["id"].to_pylist() == list(range(7))
    assert pyarrow.table(sort(table, "key", stable=True, where="key is not null"))["id"].to_pylist() == [
        row["id"] for row in sorted((row for row in table.to_pylist() if row["key"] is not None), key=lambda row: row["key"])
    ]


def test_an_empty_table_has_no_rows_and_all_columns(table):
    empty = table.slice(0, 0)
    assert pyarrow.table(sort(empty, "key")).column_names == table.column_names
    assert pyarrow.table(join(empty, table, "id")).num_rows == 0
    assert rows_of(aggregate(empty, count=True))[0] == {"count": 0}
    assert list(sort(empty, "key")) == []


def test_polars_pandas_and_duckdb_take_and_give_rows(table):
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    duckdb = pytest.importorskip("duckdb")
    plain = table.select(["id", "key", "text", "real"])
    expected = list(range(plain.num_rows))
    frame = polars.DataFrame(plain)
    assert polars.DataFrame(sort(frame, "id"))["id"].to_list() == expected
    assert sorted(polars.DataFrame(sort(frame.lazy().collect(), "id")).columns) == ["id", "key", "real", "text"]
    other = pandas.DataFrame({"id": [3, 1, 2], "name": ["c", "a", None]})
    assert pyarrow.table(sort(other, "id"))["name"].to_pylist() == ["a", None, "c"]
    categories = pandas.DataFrame({"id": [3, 1, 2], "name": pandas.Categorical(["c", "a", "a"])})
    assert pyarrow.table(sort(categories, "name,id"))["id"].to_pylist() == [1, 2, 3]
    relation = duckdb.sql("select i, i % 7 as k from range(50000) t(i)")
    groups = rows_of(aggregate(relation, "k", count=True))
    assert sum(row["count"] for row in groups) == 50_000 and len(groups) == 7
    rows = sort(frame, "id")
    reader = pyarrow.RecordBatchReader.from_stream(rows)
    assert duckdb.sql("select count(*), min(id), max(id) from reader").fetchall() == [(20_000, 0, 19_999)]
    if hasattr(pandas.DataFrame, "from_arrow"):
        assert len(pandas.DataFrame.from_arrow(sort(frame, "id"))) == plain.num_rows


def test_a_result_is_an_input(table):
    late = sort(table, "day:desc", where="day is not null", limit=1000)
    assert rows_of(aggregate(late, max="day", count=True))[0]["count"] == 1000


def test_batches_are_handed_over_without_a_copy(table):
    batch = next(sort(table, "id"))
    assert isinstance(batch, sakiyomi.Table) and len(batch) > 0
    addresses = [
        [buffer.address if buffer is not None else None for buffer in pyarrow.record_batch(batch)["id"].buffers()]
        for _ in range(2)
    ]
    assert addresses[0] == addresses[1] and addresses[0][1] is not None
    whole = pyarrow.table(batch)
    assert whole["id"].chunk(0).buffers()[1].address == addresses[0][1]
    # The memory of a batch is its own: it is valid when all else is gone.
    first = pyarrow.record_batch(batch)
    del batch, whole
    gc.collect()
    assert first["id"].to_pylist() == list(range(first.num_rows))


def test_a_stream_is_read_lazily_within_the_memory_limit():
    made = []
    block = pyarrow.record_batch({"k": pyarrow.array(range(100_000), pyarrow.int64()), "t": ["x" * 100] * 100_000})

    def batches():
        for at in range(40):
            made.append(at)
            yield block

    reader = pyarrow.RecordBatchReader.from_batches(block.schema, batches())
    before = resident_bytes()
    with sort(reader, "k", memory="64MiB", threads=2) as rows:
        count, highest = 0, 0
        for batch in rows:
            count += len(batch)
            highest = max(highest, resident_bytes() - before)
    assert count == 4_000_000 and len(made) == 40
    # The limit, the batches of the generator, and what the allocator keeps; all rows are 440 MB.
    assert highest < 200 << 20, highest


def test_a_file_is_that_of_the_command(table, tmp_path):
    path, ours, theirs = tmp_path / "in.parquet", tmp_path / "ours.parquet", tmp_path / "theirs.parquet"
    parquet.write_table(table, path)
    result = sort(path, "key,id", ours, memory="64MiB", threads=2)
    words = [command(), "sort", path, "--by", "key,id", "-o", theirs, "--memory", "64MiB", "--threads", "2", "--json"]
    document = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    assert ours.read_bytes() == theirs.read_bytes()
    assert isinstance(result, sakiyomi.QueryResult)
    found = json.loads(result.to_json())
    assert found["schema"] == document["schema"] and found["result"].keys() == document["result"].keys()
    same = ["operation", "description", "inputs", "input_rows", "output_rows", "written_bytes", "threads", "memory_limit_bytes"]
    assert {key: found["result"][key] for key in same} == {key: document["result"][key] for key in same}
    assert found["result"]["outputs"][0]["rows"] == 20_000
    assert result.to_html().startswith("<!DOCTYPE html>") and repr(result).startswith("<QueryResult of sort by key, id")
    assert pyarrow.table(result).column_names[0] == "name"


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.arrows", "a.csv"])
def test_results_are_written_in_each_format(table, tmp_path, name):
    plain = table.select(["id", "key", "real"])
    result = join(plain, plain, "id", tmp_path / name, select="id, key_right as key", kind="inner")
    assert result.output_rows == 20_000 and result.outputs[0].path == str(tmp_path / name)
    assert result.inputs[0].path == "record batches"
    back = sort(tmp_path / name, "id")
    assert [row["id"] for row in rows_of(back)] == list(range(20_000))
    assert aggregate(tmp_path / name, "key", str(tmp_path / "g.parquet"), count=True).output_rows == 1001


def test_the_names_of_the_issue_are_those_functions():
    assert sakiyomi.sort_parquet is sort and sakiyomi.join_parquet is join


def test_figures_are_complete_at_the_end(table):
    rows = sort(table, "id", where="flag")
    with pytest.raises(ValueError, match="complete when all"):
        _ = rows.result
    assert rows.column_names == table.column_names and repr(rows).startswith("<sakiyomi.RecordBatches: id, key")
    count = sum(map(len, rows))
    assert rows.result.output_rows == count and rows.result.input_rows == 20_000
    assert rows.result.outputs == [] and rows.result.operation == "sort"
    assert list(rows) == []
    with pytest.raises(TypeError, match="cannot pickle"):
        __import__("pickle").dumps(rows)


ERRORS = [
    (lambda table: sort(table, "no"), sakiyomi.Error, "no"),
    (lambda table: sort(table, "id:up"), sakiyomi.Error, "up"),
    (lambda table: sort(table, "id", where="id +"), sakiyomi.Error, ""),
    (lambda table: sort(table, "id", memory="1MiB"), ValueError, "--memory 1MiB: too small"),
    (lambda table: sort(table, "id", memory="much"), ValueError, "memory: "),
    (lambda table: sort(table, "id", threads=0), ValueError, "threads is 1 to"),
    (lambda table: sort(table, "id", method="tape"), ValueError, "method: "),
    (lambda table: sort(table, "id", spill="/no/such"), ValueError, "--spill /no/such: it is not a directory"),
    (lambda table: sort(table, "id", spill_compression="zip"), ValueError, "give one of auto, none, lz4, zstd"),
    (lambda table: sort(table, "id", input_format="orc"), ValueError, "give one of parquet"),
    (lambda table: sort(table, "id", "/tmp/a.orc"), ValueError, "the format does not follow from the name"),
    (lambda table: sort(table, "id", "/tmp/a.csv", compression="zstd"), ValueError, "CSV is not compressed"),
    (lambda table: sort(table, "id", "/tmp/a.csv", row_group=0), ValueError, "row_group is 1 to"),
    (lambda table: sort(table, "id", "-"), ValueError, "give a path"),
    (lambda table: sort("-", "id"), ValueError, "give a path, or record batches"),
    (lambda table: sort("/no/such/file", "id"), FileNotFoundError, "/no/such/file"),
    (lambda table: sort(table, "id", "/no/such/dir/a.parquet"), FileNotFoundError, "/no/such/dir"),
    (lambda table: sort(3, "id"), TypeError, "table is neither a path nor a table: int"),
    (lambda table: join(table, None, "id"), TypeError, "right is neither a path nor a table: NoneType"),
    (lambda table: join(table, table, "id", kind="cross"), ValueError, "the kinds are inner"),
    (lambda table: join(table, table, "id=text"), sakiyomi.Error, ""),
    (lambda table: aggregate(table), ValueError, "no aggregate to compute"),
    (lambda table: aggregate(table, sum="text"), sakiyomi.Error, "text"),
    (lambda table: sort(table, "id", speed=1), TypeError, "has no argument 'speed'"),
    (lambda table: sort([], "id"), sakiyomi.Error, "no file is given"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors_are_one_sentence_and_come_at_once(table, number):
    wrong, kind, words = ERRORS[number]
    with pytest.raises(kind) as caught:
        wrong(table)
    message = str(caught.value)
    assert words in message and "\n" not in message and len(message) < 300


def test_an_error_of_the_input_is_raised_in_its_sentence(table, tmp_path):
    def batches():
        yield from table.to_batches(max_chunksize=5000)
        raise RuntimeError("the sensor is unplugged")

    def reader():
        return pyarrow.RecordBatchReader.from_batches(table.schema, batches())

    output = tmp_path / "o.parquet"
    for use in (
        lambda: list(sort(reader(), "id")),
        lambda: list(join(table, reader(), "id")),
        lambda: list(aggregate(reader(), count=True)),
        lambda: sort(reader(), "id", output),
        lambda: pyarrow.table(sort(reader(), "id")),
    ):
        with pytest.raises(Exception, match="the sensor is unplugged"):
            use()
    assert os.listdir(tmp_path) == []
    assert list(sort(pyarrow.table({"a": [1]}), "a"))
    damaged = tmp_path / "d.parquet"
    damaged.write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(sakiyomi.Error, match="d.parquet"):
        sort(damaged, "a")


def endless(started=None):
    """Record batches without an end."""
    batch = pyarrow.record_batch({"k": pyarrow.array(range(50_000), pyarrow.int64())})

    def batches():
        while True:
            if started is not None:
                started.set()
            yield batch

    return pyarrow.RecordBatchReader.from_batches(batch.schema, batches())


@pytest.mark.parametrize("use", ["file", "schema", "loop", "pyarrow"])
def test_ctrl_c_ends_the_work_promptly(use, tmp_path):
    since = []

    def interrupt():
        time.sleep(0.5)
        since.append(time.monotonic())
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        if use == "file":
            aggregate(endless(), "k", tmp_path / "o.parquet", count=True)
        elif use == "pyarrow":
            try:
                pyarrow.table(aggregate(endless(), "k", count=True))
            finally:
                # An exception of pyarrow's comes first; the interpreter raises Ctrl-C when it runs.
                for _ in range(100):
                    time.sleep(0.001)
        else:
            for _ in aggregate(endless(), "k", count=True):
                pass
    assert time.monotonic() - since[0] < INTERRUPTED_S
    assert os.listdir(tmp_path) == []


def test_other_threads_run_meanwhile(tmp_path):
    counted = []

    def interrupt():
        since = time.monotonic()
        while time.monotonic() - since < 0.4:
            counted.append(1)
            time.sleep(0.001)
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        aggregate(endless(), "k", tmp_path / "o.parquet", count=True)
    assert len(counted) > 50


def threads():
    """The threads of statements: those that one starts have its name, and other libraries have their own."""
    count = 0
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm", "rb") as name:
                count += name.read() == b"sakiyomi-query\n"
        except (FileNotFoundError, ProcessLookupError):
            pass
    return count


def wait_for(holds):
    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_result_that_is_left_ends_its_work_and_removes_its_spill_files(table, tmp_path):
    rows = sort(table, "id", spill=tmp_path)
    next(rows)
    rows.close()
    wait_for(lambda: threads() == 0)
    with pytest.raises(ValueError, match="closed"):
        next(rows)
    started = threading.Event()
    rows = sort(endless(started), "k", spill=tmp_path, memory="32MiB")
    assert started.wait(10)
    del rows
    gc.collect()
    wait_for(lambda: threads() == 0)
    assert os.listdir(tmp_path) == []
    stream = sort(table, "id").__arrow_c_stream__()
    del stream
    gc.collect()
    wait_for(lambda: threads() == 0)


def test_many_calls_leak_neither_memory_nor_descriptors_nor_threads(table, tmp_path):
    small = table.slice(0, 2000)
    path = tmp_path / "small.parquet"
    parquet.write_table(small, path)

    def calls(count):
        for _ in range(count):
            assert sum(map(len, sort(path, "id", memory="32MiB"))) == 2000
            pyarrow.table(aggregate(small, "key", count=True, memory="32MiB"))
            next(join(path, small, "id", memory="32MiB"))
            with pytest.raises(sakiyomi.Error):
                sort(small, "no")
        gc.collect()

    calls(20)
    wait_for(lambda: threads() == 0)
    memory, descriptors = resident_bytes(), len(os.listdir("/proc/self/fd"))
    calls(100)
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= descriptors + 2 and threads() == 0)
    assert resident_bytes() - memory < 100 << 20


def test_several_threads_share_a_result(table):
    rows = sort(table, "id", memory="32MiB")
    ids = []
    workers = [
        threading.Thread(target=lambda: [ids.extend(pyarrow.table(batch)["id"].to_pylist()) for batch in rows])
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(ids) == list(range(20_000))


def test_a_forked_process_does_not_use_the_result_of_its_parent(table):
    rows = sort(table, "id")
    child = os.fork()
    if child == 0:
        try:
            next(rows)
        except sakiyomi.Error as error:
            os._exit(0 if "belongs to process" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert sum(map(len, rows)) == 20_000


@pytest.mark.parametrize("keep", ["", "sys.kept = results"])
def test_a_program_may_end_while_statements_run(keep):
    program = f"""
import pyarrow, sakiyomi, sys
batch = pyarrow.record_batch({{"k": pyarrow.array(range(50_000), pyarrow.int64())}})
def endless():
    while True:
        yield batch
def reader():
    return pyarrow.RecordBatchReader.from_batches(batch.schema, endless())
results = [
    sakiyomi.sort(reader(), "k", memory="64MiB"),
    sakiyomi.aggregate(reader(), "k", count=True),
    sakiyomi.sort(pyarrow.table({{"k": range(1_000_000)}}), "k").__arrow_c_stream__(),
]
{keep}
"""
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
        assert (ended.returncode, ended.stderr) == (0, b"")


def test_the_progress_is_shown_on_a_terminal_and_erased():
    program = """
import sakiyomi, sakiyomi._progress, sys, pyarrow, time
sakiyomi._progress._SILENT_S = 0.0
batch = pyarrow.record_batch({"k": range(1000)})
def batches():
    for _ in range(8):
        yield batch
        time.sleep(0.1)
reader = pyarrow.RecordBatchReader.from_batches(batch.schema, batches())
assert sum(map(len, sakiyomi.sort(reader, "k", progress=PROGRESS))) == 8000
"""

    def shown(progress):
        code = program.replace("PROGRESS", progress)
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stderr.decode()

    text = shown("True")
    assert "sakiyomi sort: reading: " in text and text.endswith("\r\x1b[K")
    assert shown("None") == shown("False") == ""


def test_the_progress_is_shown_in_notebooks(monkeypatch):
    import types

    from sakiyomi import _progress

    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    shown = []
    handle = types.SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))

    def show(data, raw, display_id):
        shown.append(data["text/plain"])
        return handle

    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=show))
    monkeypatch.setattr(_progress, "_SILENT_S", 0.0)
    progress = _progress.display("join", None)
    progress("reading", 1000, 4000)
    progress()
    assert shown == ["sakiyomi join: reading: 1,000 rows (25%)", ""]
    assert _progress.display("join", False) is None


def test_the_types_of_the_interface_hold(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "use.py"
    program.write_text(
        """
import sakiyomi
rows: sakiyomi.RecordBatches = sakiyomi.sort("a.parquet", "k", memory=1 << 26)
result: sakiyomi.QueryResult = sakiyomi.sort(rows, ["k"], "b.parquet", limit=3)
joined: sakiyomi.RecordBatches = sakiyomi.join(["a.csv", "b.csv"], joined_with := sakiyomi.join("a", "b", "k"), "k=l")
groups: sakiyomi.QueryResult = sakiyomi.aggregate(joined, None, "c.csv", sum="k", count=True)
for batch in rows:
    size: int = len(batch)
reveal_type(joined_with)
"""
    )
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(program)]
    found = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    lines = [line for line in found.stdout.splitlines() if "Revealed type" not in line]
    assert lines == [], found.stdout
    assert "RecordBatches" in found.stdout


def test_columns_without_a_type_are_named_with_a_remedy():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"a": [2, 1], "b": [None, None]})
    try:
        found = pyarrow.table(sakiyomi.sort(table, "a"))
    except (sakiyomi.Error, pyarrow.ArrowException) as error:
        assert "cast it to another type" in str(error)
    else:
        assert found["a"].to_pylist() == [1, 2]
