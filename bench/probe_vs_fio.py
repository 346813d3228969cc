#!/usr/bin/env python3
"""Our methods of I/O against fio's, on the same file: the same engine, depth, block and kind of buffer, direct.

    cargo build --release
    sudo bench/probe_vs_fio.py [--dir DIR] [--pairs 21] [--seconds 0.7] [--size 1073741824]

Runs of both are interleaved, and each pair gives one ratio; the table has the median of the ratios with its interval of
95 % (order statistics), because the storage varies far more from moment to moment than the two differ. CPU is user and
system time of the process for 10^9 bytes, as each tool counts its own while it measures. As root, huge pages are reserved
for `--mem=mmaphuge` and given back; fio is installed by apt-get where it is missing.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
HUGE_PAGES_WANTED = 160

# fio's engine and number of jobs, our method, block, random places
CASES = [
    ("psync", 1, 1, "read", "1MiB", False),
    ("psync", 1, 1, "pread:1", "1MiB", False),
    ("psync", 4, 1, "pread:4", "1MiB", False),
    ("libaio", 1, 8, "aio:8", "1MiB", False),
    ("io_uring", 1, 8, "uring:8", "1MiB", False),
    ("io_uring", 1, 8, "uring:8", "64KiB", False),
    ("libaio", 1, 32, "aio:32", "4KiB", True),
    ("io_uring", 1, 32, "uring:32", "4KiB", True),
]

# fio's options, ours, and how both are called
BUFFERS = [
    ([], "ordinary", "default (ordinary pages)"),
    (["--mem=mmaphuge"], "huge", "mmaphuge"),
]


def fio(path, case, memory, seconds):
    engine, jobs, depth, _, block, is_random = case
    command = [
        "fio", "--name=x", f"--filename={path}", f"--ioengine={engine}", f"--iodepth={depth}",
        f"--numjobs={jobs}", "--thread", "--group_reporting", f"--bs={block.removesuffix('iB')}",
        f"--rw={'randread' if is_random else 'read'}", "--direct=1", "--time_based", "--invalidate=0",
        f"--runtime={int(seconds * 1000)}ms", "--randrepeat=0", "--output-format=json", *memory,
    ]
    if engine == "io_uring":
        command.append("--registerfiles=1")
    if jobs > 1:
        # Each its own part: reading the same blocks at the same time is another, easier task.
        part = path.stat().st_size // jobs
        command += [f"--offset_increment={part}", f"--size={part}"]
    job = json.loads(run(command))["jobs"][0]
    elapsed = job["read"]["runtime"] / 1000
    gigabytes = job["read"]["io_bytes"] / 1e9
    # With several jobs, fio adds up their times and then gives percentages of the sum of their run times.
    busy = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    return gigabytes * 1e9 / elapsed, busy / gigabytes


def ours(binary, path, case, buffers, seconds):
    _, _, _, method, block, is_random = case
    command = [
        binary, "probe", path, "--method", method, "--block", block, "--buffers", buffers, "--direct",
        "--repetitions", "1", "--no-control-runs", "--runtime", f"{seconds}s", "--quiet", "--json",
    ]
    result = json.loads(run(command + (["--random"] if is_random else [])))["result"]
    (found,) = result["cases"]
    assert found["direct"], result["notes"]
    return found["throughput_bytes_per_s"], found["cpu_ns_per_byte"]


def run(command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def interval(values):
    """The interval of 95 % of the median, by order statistics."""
    values = sorted(values)
    count, below, rank = len(values), 0.0, 0
    while rank < count // 2 and below + math.comb(count, rank) / 2**count <= 0.025:
        below += math.comb(count, rank) / 2**count
        rank += 1
    lower = max(rank - 1, 0)
    return statistics.median(values), values[lower], values[count - 1 - lower]


def compare(binary, path, case, buffers, pairs, seconds):
    memory, own, name = buffers
    rates, costs, absolute = [], [], []
    for pair in range(pairs):
        sides = [lambda: fio(path, case, memory, seconds), lambda: ours(binary, path, case, own, seconds)]
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        results = {side: sides[side]() for side in order}
        (theirs, their_cpu), (own_rate, own_cpu) = results[0], results[1]
        rates.append(own_rate / theirs)
        costs.append(own_cpu / their_cpu)
        absolute.append((theirs, own_rate, their_cpu, own_cpu))
    middle = [statistics.median(values) for values in zip(*absolute)]
    engine, jobs, depth, method, block, is_random = case
    label = f"{engine} {'x' + str(jobs) if jobs > 1 else 'qd' + str(depth)} / {method}, {block}{' random' if is_random else ''}"
    rate = "%.3f (%.3f–%.3f)" % interval(rates)
    cost = "%.2f (%.2f–%.2f)" % interval(costs)
    print(
        f"| {label} | {name} | {middle[0] / 1e6:,.0f} | {middle[1] / 1e6:,.0f} | {rate} "
        f"| {middle[2]:.4f} | {middle[3]:.4f} | {cost} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default=".", help="where the test file is made")
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--size", type=int, default=1 << 30)
    parser.add_argument("--only", default="", help="only cases whose names hold this")
    options = parser.parse_args()
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = target / "release" / "sakiyomi"
    if not binary.exists():
        parser.error(f"{binary} is not there; run `cargo build --release` first")
    if shutil.which("fio") is None:
        subprocess.run(["apt-get", "install", "-y", "-qq", "fio"], check=True)
    reserved = HUGE_PAGES.read_text().strip()
    is_root = os.geteuid() == 0
    with tempfile.NamedTemporaryFile(dir=options.dir, prefix="probe-vs-fio-") as file:
        for _ in range(0, options.size, 1 << 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        print("| fio / sakiyomi | buffers | fio MB/s | ours MB/s | ratio (95 %) | fio CPU s/GB | ours | ratio (95 %) |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        try:
            for buffers in BUFFERS:
                if buffers[0]:
                    if not is_root:
                        print("mmaphuge is left out: only root can reserve huge pages")
                        continue
                    HUGE_PAGES.write_text(str(HUGE_PAGES_WANTED))
                for case in CASES:
                    if options.only in f"{case[0]} {case[3]} {buffers[2]}":
                        compare(binary, Path(file.name), case, buffers, options.pairs, options.seconds)
        finally:
            if is_root:
                HUGE_PAGES.write_text(reserved)


if __name__ == "__main__":
    main()
