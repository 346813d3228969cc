#!/usr/bin/env python3
"""Holds a block device of `sakiyomi serve`, as fio's engine `nbd` measures it, against the simulation and nbdkit.

    bench/nbd.py                        # builds, then about ten minutes
    bench/nbd.py --parts drive --drive barracuda-st2000dm006 --seconds 60
    bench/nbd.py --parts nbdkit late --json nbd.json

drive   Reads at several depths, of 4 KiB and of 1 MiB. The simulation runs another random trace in a closed loop, whose
        think time is the turnaround that the recorded trace of the run has: the time from a reply to the next request.
        `served` compares the responses of that trace with the simulated ones. `fio` compares what fio measures with the
        simulated response plus the time of the path, which is what fio measures on a device of a fixed latency, less
        that latency. Means and medians must be within 2 %, the 99th percentile within 5 %.
nbdkit  A file in memory beside nbdkit's memory plug-in, and beside its file plug-in on the same file, in turns: the
        median of the ratios must be at least 0.8. Beside its filters `delay` and `rate`: how near each is to the time or the rate that was asked for.
late    99 % of the replies of a served and of a mounted drive must be at most 1 ms late while two loops compile.

Needs fio with the engine nbd, and nbdkit for its part; installs them by apt-get where they are missing. `late` needs root
and /dev/fuse for the mount. Exit code 1 if anything is off.
"""

import argparse
import atexit
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from live import SIMULATED, Mount, Table, capacity, result
from served import REPOSITORY, run

LIMITS = {"mean": 0.02, "p50": 0.02, "p99": 0.05, "iops": 0.02}
RATIO_MIN = 0.8
LATE_NS = 1_000_000
FIXED_NS = 10_000_000


def have(program, *packages):
    if shutil.which(program) is None:
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], check=True)


def undisturbed():
    """The beginning of a command that other work on the machine is not to delay: server and client alike."""
    return ["nice", "-n", "-15"] if os.geteuid() == 0 else []


class Server:
    """A process that listens on a socket until it is ended."""

    def __init__(self, socket, *words, priority=None):
        self.socket = socket
        priority = undisturbed() if priority is None else priority
        socket.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [str(word) for word in (*priority, *words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(1000):
            if socket.exists() or self.process.poll() is not None:
                break
            time.sleep(0.01)
        atexit.register(self.process.kill)
        if not socket.exists():
            sys.exit(f"no server: {self.process.communicate()[1]}")

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=30)[0]


class Serve(Server):
    def __init__(self, sakiyomi, scratch, *options, **how):
        socket = scratch / "disk.sock"
        super().__init__(socket, sakiyomi, "serve", *options, "--nbd", socket, "--json", "--quiet", **how)

    def end(self):
        return json.loads(super().end())["result"]


class Nbdkit(Server):
    def __init__(self, scratch, *options, name="nbdkit"):
        socket = scratch / f"{name}.sock"
        super().__init__(socket, "nbdkit", "-f", "-U", socket, *options)


def fio(server, seconds, depth, pattern, size, seed, *options):
    words = [*undisturbed(), "fio", "--name=nbd", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={server.socket}", f"--rw={pattern}",
             f"--bs={size}", f"--iodepth={depth}", "--time_based", f"--runtime={seconds}", f"--randseed={seed}",
             "--random_generator=tausworthe64", "--norandommap", "--lat_percentiles=1", "--percentile_list=50:99",
             "--output-format=json", *options]
    # The engine prints a line before the result.
    printed = run(*words, timeout=seconds + 120)
    job = json.loads(printed[printed.index("{"):])["jobs"][0]
    done = job["write" if "write" in pattern else "read"]
    latency = done["lat_ns"]
    return {"mean": latency["mean"], "p50": latency["percentile"]["50.000000"],
            "p99": latency["percentile"]["99.000000"], "iops": done["iops"], "rate": done["bw_bytes"]}


def recorded(trace, depth):
    """The responses of a recorded closed loop, and its mean turnaround, in nanoseconds."""
    lines = trace.read_text().splitlines()
    columns = lines[0].split(",")
    time_column, response_column = columns.index("time_ns"), columns.index("response_ns")
    rows = [line.split(",") for line in lines[1:]]
    arrivals = sorted((int(row[time_column]), int(row[response_column])) for row in rows)
    replies = sorted(arrival + response for arrival, response in arrivals)
    # The request after the first ones is the consequence of the first reply, and so on.
    turnaround = [arrival - reply for (arrival, _), reply in zip(arrivals[depth:], replies)]
    responses = sorted(response for _, response in arrivals)
    seen = {"mean": statistics.fmean(responses), "p50": statistics.median(responses),
            "p99": responses[int(len(responses) * 0.99)]}
    return seen, max(0.0, statistics.fmean(turnaround))


def simulate(arguments, scratch, drive, depth, size, count, span, think_ns):
    trace = scratch / "simulated.csv"
    run(arguments.binary, "trace", "generate", "random", trace, "--seed", 4711, "--count", count, "--span", span,
        "--sizes", size, "--arrival", f"closed:{round(think_ns)}ns", "--quiet")
    found = result(arguments.binary, "sim", trace, "--drive", drive, "--closed-loop", "--outstanding", depth)
    response = found["read_response_ns"]
    return {"mean": response["mean"], "p50": response["p50"], "p99": response["p99"],
            "iops": found["reads"] / (found["simulated_ns"] / 1e9)}


def compare_drive(table, arguments, scratch, drive, depth, size, bytes_each):
    span = capacity(arguments.binary, drive) // bytes_each * bytes_each
    fixed = Serve(arguments.binary, scratch, "--drive", f"fixed:latency={FIXED_NS}ns,parallel=64,size={span}B")
    path = fio(fixed, min(arguments.seconds, 10), depth, "randread", size, 1)["mean"] - FIXED_NS
    fixed.end()
    trace = scratch / "recorded.csv"
    server = Serve(arguments.binary, scratch, "--drive", drive, "--record", trace)
    measured = fio(server, arguments.seconds, depth, "randread", size, arguments.seed + depth)
    seen = server.end()
    served, turnaround = recorded(trace, depth)
    # The model's completion is earlier than the reply by the lateness.
    late = seen["lateness_ns"]
    count = SIMULATED if bytes_each < 1 << 20 else SIMULATED // 4
    expected = simulate(arguments, scratch, drive, depth, size.upper() + "iB", count, span,
                        turnaround + late["mean"])
    what = f"{size}, {depth}"
    for figure in ("mean", "p50", "p99"):
        table.row(drive, what, f"{figure} served", served[figure], expected[figure], LIMITS[figure], 1e6)
    for figure in ("mean", "p50", "p99"):
        table.row(drive, what, f"{figure} fio", measured[figure], expected[figure] + path, LIMITS[figure], 1e6)
    table.row(drive, what, "iops fio", measured["iops"], expected["iops"], LIMITS["iops"])
    table.note(drive, what, path_us=path / 1e3, turnaround_us=turnaround / 1e3, late_p99_us=late["p99"] / 1e3)


class Recorded(Table):
    """Keeps what it prints."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def show(self, drive, what, figure, measured, expected, off, good):
        super().show(drive, what, figure, measured, expected, off, good)
        self.rows.append([drive, what, figure, measured, expected, off, good])

    def note(self, drive, what, **figures):
        words = ", ".join(f"{name} {value:.0f}" for name, value in figures.items())
        print(f"{drive:24} {what:14} {words}", flush=True)
        self.rows.append([drive, what, figures])


# Pattern, block, depth, jobs.
LOADS = [("randread", "4k", 1, 1), ("randread", "4k", 32, 1), ("randwrite", "4k", 32, 1), ("randread", "4k", 16, 2),
         ("randread", "64k", 8, 1), ("read", "1m", 4, 1), ("write", "1m", 4, 1)]


def compare_nbdkit(table, arguments, scratch):
    memory = Path("/dev/shm") / f"sakiyomi-nbd-{os.getpid()}"
    try:
        with open(memory, "wb") as file:
            file.truncate(512 << 20)
        ours = Serve(arguments.binary, scratch, memory)
        others = {"nbdkit memory": Nbdkit(scratch, "memory", "size=512M"),
                  "nbdkit file": Nbdkit(scratch, "file", memory, name="file")}
        for server in (ours, others["nbdkit memory"]):
            run("fio", "--name=fill", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={server.socket}", "--rw=write",
                "--bs=1m", "--iodepth=4", "--size=512m")
        for pattern, size, depth, jobs in LOADS:
            options = [f"--numjobs={jobs}", "--group_reporting"]
            rounds = [[fio(server, arguments.short, depth, pattern, size, number, *options)["iops"]
                       for server in (ours, *others.values())] for number in range(arguments.rounds)]
            for side, name in enumerate(others, 1):
                ratio = statistics.median(figures[0] / figures[side] for figures in rounds)
                own, other = (statistics.median(figures[place] for figures in rounds) for place in (0, side))
                table.show(name, f"{pattern} {size} {depth}x{jobs}", "IOPS", own, other, f"{ratio:.2f}x",
                           ratio >= RATIO_MIN)
        for server in (ours, *others.values()):
            server.end()
    finally:
        memory.unlink(missing_ok=True)
    for delay in (1, 5):
        fixed = Serve(arguments.binary, scratch, "--drive", f"fixed:latency={delay}ms,parallel=64,size=512MB")
        delayed = Nbdkit(scratch, "--filter=delay", "memory", "size=512M", f"rdelay={delay}ms")
        for server, name in ((fixed, "sakiyomi"), (delayed, "nbdkit delay")):
            seen = fio(server, arguments.short, 8, "randread", "4k", 1)
            table.show(name, f"{delay} ms, 8", "mean", seen["mean"] / 1e6, delay, f"{seen['mean'] / delay / 1e6 - 1:+.2%}",
                       True)
            server.end()
    rate = 50_000_000
    fixed = Serve(arguments.binary, scratch, "--drive",
                  f"fixed:latency=100us,parallel=64,bandwidth={rate}B/s,size=512MB")
    limited = Nbdkit(scratch, "--filter=rate", "memory", "size=512M", f"rate={rate * 8}")
    for server, name in ((fixed, "sakiyomi"), (limited, "nbdkit rate")):
        seen = fio(server, arguments.short * 2, 4, "read", "256k", 1)
        table.show(name, "256k, 4", "MB/s", seen["rate"] / 1e6, rate / 1e6, f"{seen['rate'] / rate - 1:+.2%}", True)
        server.end()


def compiling(scratch):
    """Two loops that compile, until they are killed."""
    source = scratch / "busy.c"
    functions = "\n".join(f"double f{index}(double x) {{ double y = x; for (int i = 0; i < 99; i++) y = y * x + {index} / "
                          "(x + i); return y; }" for index in range(3000))
    source.write_text(functions)
    words = ["sh", "-c", f"while :; do cc -O2 -c {source} -o /dev/null; done"]
    return [subprocess.Popen(words, start_new_session=True) for _ in range(os.cpu_count() or 2)]


def compare_late(table, arguments, scratch):
    drive = arguments.drive[0]
    loops = compiling(scratch)
    try:
        time.sleep(1)
        server = Serve(arguments.binary, scratch, "--drive", drive, priority=[])
        fio(server, arguments.seconds, 4, "randread", "4k", 1)
        seen = {"serve": server.end()}
        if os.path.exists("/dev/fuse") and os.geteuid() == 0:
            from live import fio as mount_fio
            mount = Mount(arguments.binary, scratch, drive)
            mount_fio(mount, arguments.seconds, 4, "randread", "4k", 1)
            seen["mount"] = mount.end()
    finally:
        for loop in loops:
            os.killpg(loop.pid, signal.SIGKILL)
            loop.wait()
    for name, found in seen.items():
        late = found["lateness_ns"]
        for figure, limit in (("p50", LATE_NS), ("p99", LATE_NS), ("max", None)):
            good = limit is None or late[figure] <= limit
            table.show(name, "while compiling", f"late {figure}", late[figure] / 1e6, LATE_NS / 1e6, "", good)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="sakiyomi, if it is built already")
    parser.add_argument("--parts", nargs="+", choices=["drive", "nbdkit", "late"], default=["drive", "nbdkit", "late"])
    parser.add_argument("--drive", nargs="+", default=["deskstar-7k250", "barracuda-st2000dm006"])
    parser.add_argument("--depth", nargs="+", type=int, default=[1, 4, 32])
    parser.add_argument("--seconds", type=int, default=45, help="for each depth")
    parser.add_argument("--short", type=int, default=3, help="seconds of a run beside nbdkit")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each load beside nbdkit")
    parser.add_argument("--seed", type=int, default=100, help="of what fio reads; the simulation has its own")
    parser.add_argument("--scratch", type=Path, help="a directory on a file system with large sparse files")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    arguments = parser.parse_args()
    have("fio", "fio")
    if arguments.binary is None:
        subprocess.run(["cargo", "build", "--release", "-p", "sakiyomi"], check=True, cwd=REPOSITORY)
        target = json.loads(run("cargo", "metadata", "--no-deps", "--format-version=1", cwd=REPOSITORY))
        arguments.binary = Path(target["target_directory"]) / "release" / "sakiyomi"
    table = Recorded()
    with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="sakiyomi-nbd-") as scratch:
        scratch = Path(scratch)
        os.environ["TMPDIR"] = str(scratch)
        if "drive" in arguments.parts:
            for drive in arguments.drive:
                for depth in arguments.depth:
                    compare_drive(table, arguments, scratch, drive, depth, "4k", 4 << 10)
                compare_drive(table, arguments, scratch, drive, 2, "1m", 1 << 20)
        if "nbdkit" in arguments.parts:
            have("nbdkit", "nbdkit")
            compare_nbdkit(table, arguments, scratch)
        if "late" in arguments.parts:
            compare_late(table, arguments, scratch)
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": table.rows}, indent=1))
    sys.exit(0 if table.good else 1)


if __name__ == "__main__":
    main()
