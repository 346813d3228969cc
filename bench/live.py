#!/usr/bin/env python3
"""Holds a mounted drive, as fio measures it, against a simulation of the same drive with another seed.

    bench/live.py                       # builds, then some minutes for each drive
    bench/live.py --seconds 20 --drive barracuda-st2000dm006 --depth 1 32

Random reads of 4 KiB at several depths: the means must be within 2 %, p50 and p99 within 5 %, IOPS within 3 %; reads in
sequence within 3 %; a trace taken on the way must be met by `validate` with a demerit below 3 %; and 99 % of the answers
must be less than 500 us late. Needs root and /dev/fuse; installs fio by apt-get where it is missing. Other work on the
machine makes answers late, so the load is printed with each row. Exit code 1 if anything is off.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from served import REPOSITORY, Served, have_fio, run

BLOCK = 4096
LIMITS = {"mean": 0.02, "p50": 0.05, "p99": 0.05, "iops": 0.03}
SEQUENTIAL = 0.03
DEMERIT = 0.03
LATENESS_NS = 500_000
SIMULATED = 60_000


def result(*words):
    return json.loads(run(*words, "--json", "--quiet"))["result"]


class Mount(Served):
    """A drive whose one file covers it: sparse, so that it takes no room, and laid out as if it were all data."""

    def __init__(self, sakiyomi, scratch, drive, *options):
        self.sakiyomi, backing = sakiyomi, scratch / "backing"
        backing.mkdir(exist_ok=True)
        blocks = capacity(sakiyomi, drive) // BLOCK
        with open(backing / "all", "wb") as file:
            file.truncate(blocks * BLOCK)
        layout = scratch / "layout"
        inode = (backing / "all").stat().st_ino
        layout.write_text(f"sakiyomi layout 1\nblocks {blocks}\nfile 0 {inode}\n0 0 {blocks}\n")
        super().__init__(sakiyomi, backing, scratch / "mounted", "--drive", drive, "--layout", layout, *options)


def capacity(sakiyomi, drive):
    lines = json.loads(run(sakiyomi, "drive", "list", "--json"))["result"]
    return next(line["capacity_bytes"] for line in lines if line["id"] == drive)


def fio(mount, seconds, depth, pattern, size, seed):
    words = ["fio", "--name=live", f"--filename={mount.at / 'all'}", "--direct=1", "--ioengine=libaio",
             f"--rw={pattern}", f"--bs={size}", f"--iodepth={depth}", "--time_based", f"--runtime={seconds}",
             f"--randseed={seed}", "--random_generator=tausworthe64", "--norandommap", "--lat_percentiles=1",
             "--percentile_list=50:99", "--output-format=json"]
    reads = json.loads(run(*words, timeout=seconds + 120))["jobs"][0]["read"]
    latency = reads["lat_ns"]
    return {"mean": latency["mean"], "p50": latency["percentile"]["50.000000"],
            "p99": latency["percentile"]["99.000000"], "iops": reads["iops"], "rate": reads["bw_bytes"]}


def simulate(sakiyomi, scratch, drive, depth, kind, *options):
    trace = scratch / "trace.csv"
    run(sakiyomi, "trace", "generate", kind, trace, "--seed", 4711, *options, "--quiet")
    found = result(sakiyomi, "sim", trace, "--drive", drive, "--closed-loop", "--outstanding", depth)
    response = found["read_response_ns"]
    seconds = found["simulated_ns"] / 1e9
    return {"mean": response["mean"], "p50": response["p50"], "p99": response["p99"],
            "iops": found["reads"] / seconds, "rate": found["read_bytes"] / seconds}


class Table:
    """Prints each comparison, and keeps whether all were within their limits."""

    def __init__(self):
        self.good = True
        print(f"{'drive':24} {'what':14} {'figure':9} {'fio':>12} {'sim':>12} {'off':>8}  load")

    def row(self, drive, what, figure, measured, expected, limit, unit=1.0):
        off = measured / expected - 1
        self.show(drive, what, figure, measured / unit, expected / unit, f"{off:+.2%}", abs(off) <= limit)

    def show(self, drive, what, figure, measured, expected, off, good):
        self.good &= good
        wrong = "" if good else "  <-- OFF"
        print(f"{drive:24} {what:14} {figure:9} {measured:12.3f} {expected:12.3f} {off:>8}  "
              f"{os.getloadavg()[0]:.1f}{wrong}", flush=True)


def compare_random(table, arguments, scratch, drive, depth):
    span = capacity(arguments.binary, drive) // BLOCK * BLOCK
    expected = simulate(arguments.binary, scratch, drive, depth, "random",
                        "--count", SIMULATED, "--span", span, "--sizes", "4KiB")
    trace = scratch / "recorded.parquet"
    mount = Mount(arguments.binary, scratch, drive, "--record", trace)
    try:
        measured = fio(mount, arguments.seconds, depth, "randread", "4k", arguments.seed + depth)
    finally:
        seen = mount.end()
    what = f"random, {depth}"
    for figure, limit in LIMITS.items():
        unit = 1.0 if figure == "iops" else 1e6
        table.row(drive, what, figure, measured[figure], expected[figure], limit, unit)
    late = seen["lateness_ns"]
    table.show(drive, what, "late p99", late["p99"] / 1e6, LATENESS_NS / 1e6, "", late["p99"] < LATENESS_NS)
    replayed = result(arguments.binary, "validate", trace, "--drive", drive)
    demerit = replayed["free"]["rms_ratio"]
    table.show(drive, what, "demerit", demerit, DEMERIT, "", demerit < DEMERIT)


def compare_sequential(table, arguments, scratch, drive):
    expected = simulate(arguments.binary, scratch, drive, 4, "sequential",
                        "--count", 4000, "--span", "8GiB", "--sizes", "1MiB")
    mount = Mount(arguments.binary, scratch, drive)
    try:
        measured = fio(mount, min(arguments.seconds, 20), 4, "read", "1M", 1)
    finally:
        mount.end()
    table.row(drive, "sequential, 4", "MB/s", measured["rate"], expected["rate"], SEQUENTIAL, 1e6)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="sakiyomi, if it is built already")
    parser.add_argument("--drive", nargs="+", default=["deskstar-7k250", "barracuda-st2000dm006"])
    parser.add_argument("--depth", nargs="+", type=int, default=[1, 4, 8, 32])
    parser.add_argument("--seconds", type=int, default=60, help="for each depth")
    parser.add_argument("--seed", type=int, default=100, help="of what fio reads; the simulation has its own")
    parser.add_argument("--scratch", type=Path, help="a directory on a file system with large sparse files")
    arguments = parser.parse_args()
    have_fio()
    if arguments.binary is None:
        subprocess.run(["cargo", "build", "--release", "-p", "sakiyomi"], check=True, cwd=REPOSITORY)
        target = json.loads(run("cargo", "metadata", "--no-deps", "--format-version=1", cwd=REPOSITORY))
        arguments.binary = Path(target["target_directory"]) / "release" / "sakiyomi"
    table = Table()
    for drive in arguments.drive:
        with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="sakiyomi-live-") as scratch:
            for depth in arguments.depth:
                compare_random(table, arguments, Path(scratch), drive, depth)
            compare_sequential(table, arguments, Path(scratch), drive)
    sys.exit(0 if table.good else 1)


if __name__ == "__main__":
    main()
