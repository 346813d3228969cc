"""compare, validate, drive.fit and scenario: the numbers, reports and sentences of the commands."""

import _thread
import csv
import json
import pathlib
import pickle
import subprocess
import threading
import time

import pytest

import sakiyomi
from sakiyomi import MemoryTrace, compare, drive, scenario, simulate, validate
from test_simulation import DRIVE, command, of_command, result_bytes, trace  # noqa: F401

class Interrupt:
    """A Ctrl-C after a delay, in seconds."""

    def __init__(self, delay):
        self._since = time.monotonic() + delay
        threading.Timer(delay, _thread.interrupt_main).start()

    def elapsed(self):
        """Return the time since it was due, in seconds."""
        return time.monotonic() - self._since


def error_of_command(*words):
    """The sentence with which the command ends."""
    done = subprocess.run([command(), *map(str, words)], stdout=-1, stderr=-1, text=True)
    assert done.returncode == 2, done
    return done.stderr.strip().removeprefix("sakiyomi: ").removeprefix("error: ")


@pytest.fixture(scope="module")
def measured(trace, tmp_path_factory):  # noqa: F811
    """A trace with response times, those of another drive."""
    out = tmp_path_factory.mktemp("measured") / "out"
    words = ["sim", trace, "--drive", DRIVE, "--format", "disksim", "--set", "cache.read_ahead.max=0"]
    of_command(*words, "--out", out, "--log", "csv", "--json")
    lines = ["time_ns,op,offset_bytes,length_bytes,response_ns"]
    with open(out / "commands.csv", newline="") as log:
        for row in csv.DictReader(log):
            arrival, place, length = (int(row[key]) for key in ("arrival_ns", "lba", "sectors"))
            lines.append(f"{arrival},{row['op']},{place * 512},{length * 512},{int(row['finish_ns']) - arrival}")
    path = out / "measured.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def two(trace):  # noqa: F811
    return [simulate(trace, DRIVE, {"cache.read_ahead.max": size}, format="disksim") for size in ("64KiB", "1MiB")]


def test_a_comparison_is_that_of_the_command(two, tmp_path):
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for result, path in zip(two, paths):
        path.write_text(result.to_json())
    expected = of_command("compare", *paths, "--out", tmp_path / "out", "--json")
    both = compare(*two)
    assert both.to_json() == expected == compare(*paths).to_json() == compare(two[0], str(paths[1])).to_json()
    assert both.failures == [] and both.a.result == two[0] and both.b.result == two[1]
    assert both.to_html() == (tmp_path / "out" / "report.html").read_text()
    assert pickle.loads(pickle.dumps(both)) == both and repr(both).startswith("<CompareResult of ")


def test_limits_of_a_comparison_are_sentences(two):
    a, b = two
    failed = compare(a, b, ["response_ns.p99>-100%", "commands>+5%"]).failures
    assert len(failed) == 1 and failed[0].startswith(f"response_ns.p99: {a.response_ns.p99} → {b.response_ns.p99}, ")
    assert pickle.loads(pickle.dumps(compare(a, b, "commands<+1%"))).failures == [
        "commands: 2000 → 2000, +0.00 % < +1 %"
    ]


@pytest.mark.parametrize(
    "arguments, error, sentence",
    [
        ({"fail_if": ["x"]}, ValueError, "fail_if: there is no `>` or `<`; write it like response_ns.p99>"),
        ({"fail_if": ["x>1%"]}, ValueError, "--fail-if: the results have no figure x; result.json lists them"),
        ({"fail_if": ["response_ns>1%"]}, ValueError, "--fail-if: response_ns is not a single figure"),
        ({"a": "missing"}, sakiyomi.Error, "cannot read the result missing: No such file"),
        ({"a": "."}, sakiyomi.Error, "no result.json in .; `sakiyomi sim … --out .` makes one"),
        ({"a": __file__}, sakiyomi.Error, "is not a result of `sakiyomi sim`: it is not JSON from line 1 on"),
        ({"a": 3}, TypeError, ""),
    ],
)
def test_wrong_comparisons_are_said_in_a_sentence(two, arguments, error, sentence):
    with pytest.raises(error, match=sentence or None):
        compare(**{"a": two[0], "b": two[1]} | arguments)


def test_a_validation_is_that_of_the_command(measured, tmp_path):
    words = ["validate", measured, "--drive", DRIVE, "--set", "cache.write.enabled=false", "--from", "1s"]
    expected = of_command(*words, "--out", tmp_path / "out", "--json")
    result = validate(measured, DRIVE, {"cache.write.enabled": False}, from_="1s")
    assert result_bytes(result.to_json()) == result_bytes(expected)
    document = (tmp_path / "out" / "result.json").read_text()
    page = sakiyomi._native.page(document, json.loads(document)["schema"])
    assert page == (tmp_path / "out" / "report.html").read_text()
    assert pickle.loads(pickle.dumps(result)) == result and repr(result).startswith("<ValidateResult of ")
    # The drive that was measured has no error.
    assert validate(measured, DRIVE, {"cache.read_ahead.max": 0}).free.rms_ns == 0


def test_a_table_with_times_is_validated(measured):
    arrow_csv = pytest.importorskip("pyarrow.csv")
    pyarrow = pytest.importorskip("pyarrow")
    expected, result = validate(measured, DRIVE), validate(arrow_csv.read_csv(measured), DRIVE)
    assert result.trace == "table"
    assert result.to_dict() | {"trace": expected.trace} == expected.to_dict()
    assert pyarrow.table(result).num_rows == len(result.quantile_curve)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"from_": "5s", "until": "5s"}, ["--from", "5s", "--until", "5s"]),
        ({"from_": "5h"}, ["--from", "5h"]),
        ({"map": "concat"}, ["--map", "concat"]),
        ({"time_scale": 0.5}, ["--time-scale", "0.5"]),
    ],
)
def test_wrong_validations_have_the_sentences_of_the_command(measured, arguments, words):
    sentence = error_of_command("validate", measured, "--drive", DRIVE, *words)
    with pytest.raises(ValueError) as raised:
        validate(measured, DRIVE, **arguments)
    assert str(raised.value) == sentence


def test_a_trace_without_times_is_not_validated(trace):  # noqa: F811
    sentence = error_of_command("validate", trace, "--drive", DRIVE, "--format", "disksim")
    for function in (validate, drive.fit):
        with pytest.raises(sakiyomi.Error) as raised:
            function(trace, DRIVE, format="disksim")
        assert str(raised.value) == sentence


SMALL = """
name = "small"
cache.write.enabled = false
[geometry]
sector = "512B"
heads = 4
zones = [{ cylinders = 1000, sectors_per_track = 300 }]
[servo]
rpm = 7200
head_switch = "1ms"
seek = { curve = "datasheet", track_to_track = "1ms", average = "8ms", full_stroke = "16ms" }
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small drive, and reads and writes all over it, each with a time unlike that of the drive."""
    directory = tmp_path_factory.mktemp("small")
    (directory / "small.toml").write_text(SMALL)
    lines = []
    for number in range(240):
        op, service = ("W", 19_000) if number % 3 == 0 else ("R", 14_000)
        lines.append(f"{op} Hit {number * 7_919_003 % 1_100_000} 8 {service + number * 37 % 8_000}.0 9000.0\n")
    (directory / "measured.trace").write_text("".join(lines))
    return directory / "small.toml", directory / "measured.trace"


def test_a_fit_is_that_of_the_command(small, tmp_path):
    start, times = small
    words = ["drive", "fit", times, "--drive", start, "--fit-share", "0.6", "-o", tmp_path / "fitted.toml"]
    expected = of_command(*words, "--json")
    found = drive.fit(times, start, fit_share=0.6)
    assert found.to_json() == expected
    assert found.to_toml() == (tmp_path / "fitted.toml").read_text()
    assert found.is_gain and found.verdict.startswith("The fitted drive is more accurate")
    copy = pickle.loads(pickle.dumps(found))
    assert copy == found and copy.to_toml() == found.to_toml() and copy.verdict in repr(copy)
    (tmp_path / "mine.toml").write_text(found.to_toml())
    assert simulate(times, tmp_path / "mine.toml").commands == 240
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.table(found)["key"].to_pylist() == [one.key for one in found.parameters]
    assert set(found.tables) >= {"policies", "parameters", "changes"}
    assert pyarrow.table(found.table("changes")).num_rows == len(found.changes)


def test_a_refused_fit_has_no_drive(small):
    start, times = small
    pyarrow = pytest.importorskip("pyarrow")
    # Times that no drive explains.
    table = {"time_ns": [], "op": [], "offset_bytes": [], "length_bytes": [], "response_ns": []}
    for number in range(24):
        row = [number * 10**8, "read", number * 7_919_003 * 512 % (1_100_000 * 512), 4096, 1000 if number % 2 else 10**8]
        for values, value in zip(table.values(), row):
            values.append(value)
    found = drive.fit(pyarrow.table(table), start)
    assert (found.accepted, found.changes) == ("given", []) or pytest.skip(f"it was not refused: {found.verdict}")
    with pytest.raises(sakiyomi.Error, match="The fit is refused"):
        found.to_toml()


@pytest.mark.parametrize(
    "arguments, words",
    [({"fit_share": 1.5}, ["--fit-share", "1.5"]), ({"fit_until": "9h"}, ["--fit-until", "9h"])],
)
def test_wrong_fits_have_the_sentences_of_the_command(measured, arguments, words):
    sentence = error_of_command("drive", "fit", measured, "--drive", DRIVE, *words)
    with pytest.raises(ValueError) as raised:
        drive.fit(measured, DRIVE, **arguments)
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    # A single replay of the longer one takes seconds.
    "count, delay", [(3000, 1), (60_000, 1), (60_000, 3)]
)
def test_ctrl_c_ends_a_fit_at_once(count, delay):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({
        "time_ns": [number * 15_000_000 for number in range(count)],
        "op": ["read"] * count,
        "offset_bytes": [number * 99_991 * 4096 % (1 << 37) for number in range(count)],
        "length_bytes": [4096] * count,
        "response_ns": [9_000_000 + number * 7919 % 5_000_000 for number in range(count)],
    })
    trace_ = MemoryTrace(table)
    interrupt = Interrupt(delay)
    with pytest.raises(KeyboardInterrupt):
        drive.fit(trace_, DRIVE)
    assert interrupt.elapsed() < 2


SCENARIOS = pathlib.Path(__file__).parents[3] / "scenarios"


def test_an_experiment_is_that_of_the_command(tmp_path):
    file = SCENARIOS / "waseda2006-a.toml"
    vary = {"memory.size": ["256MiB", "1GiB"], "prefetch.limit": ["off", "auto"], "process.gzip.size": ["64MiB"]}
    words = [word for key, values in vary.items() for word in ("--vary", f"{key}={','.join(values)}")]
    words = ["scenario", "run", file, *words, "--seed", "3", "--repetitions", "2", "--reproducible", "--json"]
    expected = of_command(*words, "--out", tmp_path / "out")
    result = scenario(file, vary, seed=3, repetitions=2)
    assert result_bytes(result.to_json()) == result_bytes(expected)
    document = (tmp_path / "out" / "result.json").read_text()
    page = sakiyomi._native.page(document, json.loads(document)["schema"])
    assert page == (tmp_path / "out" / "report.html").read_text()
    assert repr(result).startswith("<ScenarioResult of ") and pickle.loads(pickle.dumps(result)) == result
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(result)
    assert set(table["memory.size"].to_pylist()) == {"256MiB", "1GiB"} and table.num_rows == 4
    assert table["elapsed_ns"].to_pylist() == [point.elapsed_ns for point in result.points]


@pytest.mark.parametrize(
    "content, vary, words",
    [
        (None, {"memory.sise": ["1GiB"]}, ["--vary", "memory.sise=1GiB"]),
        (None, {"memory.size": ["much"]}, ["--vary", "memory.size=much"]),
        ("name = ", {}, []),
        ("name = 'x'", {}, []),
    ],
)
def test_wrong_experiments_have_the_sentences_of_the_command(tmp_path, content, vary, words):
    file = tmp_path / "x.toml"
    file.write_text((SCENARIOS / "waseda2006-a.toml").read_text() if content is None else content)
    sentence = error_of_command("scenario", "run", file, *words)
    with pytest.raises(sakiyomi.Error) as raised:
        scenario(file, vary)
    assert str(raised.value) == sentence


def test_arguments_of_experiments_are_checked(tmp_path):
    file = SCENARIOS / "waseda2006-a.toml"
    with pytest.raises(ValueError, match="memory.size: 1GiB and 1024MiB are the same value"):
        scenario(file, {"memory.size": ["1GiB", "1024MiB"]})
    for repetitions in (0, 1001):
        with pytest.raises(ValueError, match=f"repetitions is {repetitions}; give 1 to 1000"):
            scenario(file, repetitions=repetitions)
    with pytest.raises(OverflowError):
        scenario(file, seed=-1)
    with pytest.raises(sakiyomi.Error, match="cannot read the experiment"):
        scenario(tmp_path / "missing")


def test_ctrl_c_ends_an_experiment():
    interrupt = Interrupt(0.5)
    with pytest.raises(KeyboardInterrupt):
        scenario(SCENARIOS / "waseda2006-a.toml", {"process.gzip.size": ["64MiB"]}, repetitions=1000)
    assert interrupt.elapsed() < 20
