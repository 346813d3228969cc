"""simulate, sweep and drives: the numbers of the command, wrong arguments, executors, signals."""

import _thread
import concurrent.futures
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
        ({"map": "all"}, ValueError, "map: "),
        ({"array": "raid7:3"}, ValueError, "array: "),
        ({"action": "QQ"}, ValueError, "action: "),
        ({"outstanding": 3}, ValueError, "outstanding=3: only a closed loop"),
        ({"outstanding": 0, "closed_loop": True}, ValueError, "outstanding: it is 1 to 65536"),
        ({"host_queue": 0}, ValueError, "host_queue: it is at least 1"),
        ({"time_scale": -1.0}, sakiyomi.Error, ""),
        ({"time_scale": float("nan")}, sakiyomi.Error, ""),
        ({"time_scale": "x"}, TypeError, "time_scale|must be real number"),
        ({"unknown": 1}, TypeError, "unknown"),
    ],
)
def test_wrong_arguments_are_said_in_a_sentence(trace, arguments, error, sentence):
    with pytest.raises(error, match=sentence or None):
        simulate(**{"trace": trace, "drive": DRIVE, "format": "disksim"} | arguments)


@pytest.mark.parametrize("executor", [None, "threads", "fork", "spawn"])
def test_a_sweep_is_its_simulations_on_any_executor(trace, executor):
    values = {"cache.read_ahead.max": ["64KiB", "1MiB"], "cache.write.enabled": iter([True, False])}
    expected = [
        simulate(trace, DRIVE, {"cache.read_ahead.max": size, "cache.write.enabled": enabled}, format="disksim")
        for size in ["64KiB", "1MiB"]
        for enabled in [True, False]
    ]
    if executor is None:
        assert sweep(trace, DRIVE, values, format="disksim") == expected
        return
    make = concurrent.futures.ThreadPoolExecutor
    if executor != "threads":
        def make(workers):
            return concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context(executor))
    with make(2) as pool:
        assert sweep(trace, DRIVE, values, pool, format="disksim") == expected
        with pytest.raises(sakiyomi.Error):
            sweep(trace, DRIVE, {"cache.sice": [1, 2]}, pool, format="disksim")
    with pytest.raises(ValueError, match="given twice"):
        sweep(trace, DRIVE, {"cache.segments.count": [4, "4"]})
    assert sweep(trace, DRIVE, {"cache.segments.count": []}) == []


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
