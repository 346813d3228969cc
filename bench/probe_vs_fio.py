#!/usr/bin/env python3
"""Our methods of I/O against fio's, on the same kind of file: the same engine, depth, block and kind of buffer; direct,
but for mappings. Reads, and writes over a file that is there already.

    cargo build --release
    sudo bench/probe_vs_fio.py [--dir DIR | --loop] [--op read,write] [--pairs 21] [--seconds 0.7] [--out FILE]

Runs of both are interleaved, and each pair gives one ratio; the table has the median of the ratios with its interval of
95 % (order statistics), because the storage varies far more from moment to moment than the two differ. CPU is user and
system time for 10^9 bytes, with the kernel's threads of io_uring on both sides: `probe` counts them while it measures;
fio does not, so its CPU time is that of the whole process, less that of one which transfers a single block. Reads are of
the same file;
`sakiyomi probe` writes only to test files of its own, so writes are to two files of one size in the same directory. With
--loop, both use a loop device over a file in memory.

Buffers are compared like with like: ordinary pages on both sides, then, as root, huge pages on both, which are reserved
for `--mem=mmaphuge` and given back. fio's mmap engine copies from a mapping of the whole file, which it reads once here,
so that each page is mapped once as in ours, which maps block by block and touches each page. fio is installed by apt-get
where it is missing.
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

# fio's engine, jobs and depth, our method, block, random places
CASES = [
    ("psync", 1, 1, "read", "1MiB", False),
    ("psync", 1, 1, "pread:1", "1MiB", False),
    ("psync", 4, 1, "pread:4", "1MiB", False),
    ("libaio", 1, 8, "aio:8", "1MiB", False),
    ("io_uring", 1, 8, "uring:8", "1MiB", False),
    ("io_uring", 1, 8, "uring:8", "64KiB", False),
    ("io_uring-sqpoll", 1, 8, "uring-sqpoll:8", "1MiB", False),
    ("libaio", 1, 32, "aio:32", "4KiB", True),
    ("io_uring", 1, 32, "uring:32", "4KiB", True),
    ("mmap", 1, 1, "mmap:1", "1MiB", False),
]

# fio's options, ours, and how both are called
BUFFERS = [
    ([], "ordinary", "ordinary pages"),
    (["--mem=mmaphuge"], "huge", "huge pages"),
]


def fio(path, case, op, memory, seconds):
    engine, jobs, depth, _, block, is_random = case
    is_mapped = engine == "mmap"
    command = [
        "fio", "--name=x", f"--filename={path}", f"--ioengine={engine.removesuffix('-sqpoll')}", f"--iodepth={depth}",
        f"--numjobs={jobs}", "--thread", "--group_reporting", f"--bs={block.removesuffix('iB')}",
        f"--rw={'rand' if is_random else ''}{op}", f"--direct={int(not is_mapped)}", "--invalidate=0",
        "--randrepeat=0", "--output-format=json", *memory,
    ]
    if engine.startswith("io_uring"):
        command.append("--registerfiles=1")
    if engine.endswith("sqpoll"):
        command.append("--sqthread_poll=1")
    if jobs > 1:
        # Each its own part: the same blocks at the same time are another, easier task.
        part = path.stat().st_size // jobs
        command += [f"--offset_increment={part}", f"--size={part}"]
    if path.is_block_device():
        command.append("--allow_file_create=0")
    _, start_up = timed([*command, f"--io_size={block.removesuffix('iB')}"])
    duration = [] if is_mapped else ["--time_based", f"--runtime={int(seconds * 1000)}ms"]
    printed, cpu = timed(command + duration)
    job = json.loads(printed)["jobs"][0]
    # Milliseconds are too coarse for one pass over a file in memory.
    elapsed = job[op]["runtime"] / 1000 if not is_mapped else job[op]["io_bytes"] / (1024 * job[op]["bw"])
    return job[op]["io_bytes"] / elapsed, (cpu - start_up) / job[op]["io_bytes"] * 1e9


def ours(binary, target, case, op, buffers, seconds):
    engine, _, _, method, block, is_random = case
    where = [target.path]
    if op == "write":
        where = ["--on", "loop"] if target.is_loop else [target.path.parent]
        where += ["--size", str(target.size)]
    command = [
        binary, "probe", *where, "--method", method, "--block", block, "--buffers", buffers, "--op", op,
        "--cached" if engine == "mmap" else "--direct", "--repetitions", "1", "--no-control-runs",
        "--runtime", f"{seconds}s", "--quiet", "--json",
    ]
    result = json.loads(run(command + (["--random"] if is_random else [])))["result"]
    (found,) = result["cases"]
    assert found["direct"] or engine == "mmap", result["notes"]
    return found["throughput_bytes_per_s"], found["cpu_ns_per_byte"]


def run(command):
    words = [str(part) for part in command]
    with tempfile.TemporaryDirectory() as state:
        environment = os.environ | {"XDG_STATE_HOME": state}
        return subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout


def timed(command):
    """Runs a command; gives what it printed and its CPU time, with that of its threads in the kernel, in seconds."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, process.args)
        out.seek(0)
        return out.read(), usage.ru_utime + usage.ru_stime


def interval(values):
    """The interval of 95 % of the median, by order statistics."""
    values = sorted(values)
    count, below, rank = len(values), 0.0, 0
    while rank < count // 2 and below + math.comb(count, rank) / 2**count <= 0.025:
        below += math.comb(count, rank) / 2**count
        rank += 1
    lower = max(rank - 1, 0)
    return statistics.median(values), values[lower], values[count - 1 - lower]


def compare(binary, target, case, op, buffers, options):
    memory, own, name = buffers
    rates, costs, absolute = [], [], []
    seconds = options.seconds
    for pair in range(options.pairs):
        sides = [
            lambda: fio(target.path, case, op, memory, seconds),
            lambda: ours(binary, target, case, op, own, seconds),
        ]
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        results = {side: sides[side]() for side in order}
        (theirs, their_cpu), (own_rate, own_cpu) = results[0], results[1]
        rates.append(own_rate / theirs)
        costs.append(own_cpu / their_cpu)
        absolute.append((theirs, own_rate, their_cpu, own_cpu))
    middle = [statistics.median(values) for values in zip(*absolute)]
    rate, cost = interval(rates), interval(costs)
    print(
        f"| {label(case, op)} | {name} | {middle[0] / 1e6:,.0f} | {middle[1] / 1e6:,.0f} | "
        f"{'%.3f (%.3f–%.3f)' % rate} | {middle[2]:.4f} | {middle[3]:.4f} | {'%.2f (%.2f–%.2f)' % cost} |",
        flush=True,
    )
    return {
        "case": label(case, op), "buffers": name,
        "fio_bytes_per_s": middle[0], "bytes_per_s": middle[1], "fio_cpu_ns_per_byte": middle[2],
        "cpu_ns_per_byte": middle[3], "rate_ratio": rate, "cpu_ratio": cost,
    }


def label(case, op):
    engine, jobs, depth, method, block, is_random = case
    depth = f"x{jobs}" if jobs > 1 else f"qd{depth}"
    return f"{op}: {engine} {depth} / {method}, {block}{' random' if is_random else ''}"


class Target:
    """A file full of random bytes, or a loop device over one."""

    def __init__(self, directory, size, is_loop):
        self.size, self.is_loop = size, is_loop
        self.file = tempfile.NamedTemporaryFile(dir="/dev/shm" if is_loop else directory, prefix="probe-vs-fio-")
        for _ in range(0, size, 1 << 20):
            self.file.write(os.urandom(1 << 20))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.path = Path(self.file.name).resolve()
        if is_loop:
            self.path = Path(run(["losetup", "--find", "--show", self.path]).strip())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.is_loop:
            subprocess.run(["losetup", "--detach", str(self.path)], check=True)
        self.file.close()


def machine():
    cpu = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    return {
        "kernel": os.uname().release, "cpu": cpu[0] if cpu else "", "cores": os.cpu_count(),
        "load_average": os.getloadavg(), "commit": commit.strip(), "fio": run(["fio", "--version"]).strip(),
    }


def measure(binary, target, options):
    rows = []
    for buffers in BUFFERS:
        if buffers[0]:
            if os.geteuid() != 0:
                print("huge pages are left out: only root can reserve them")
                continue
            HUGE_PAGES.write_text(str(HUGE_PAGES_WANTED))
        for op in options.op.split(","):
            for case in CASES:
                is_mapped = case[0] == "mmap"
                if is_mapped and (op == "write" or buffers[0]) or options.only not in f"{label(case, op)} {buffers[2]}":
                    continue
                rows.append(compare(binary, target, case, op, buffers, options))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default=".", help="where test files are made")
    parser.add_argument("--loop", action="store_true", help="a loop device over a file in memory instead")
    parser.add_argument("--op", default="read,write")
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--size", type=int, default=512 << 20)
    parser.add_argument("--only", default="", help="only cases whose names hold this")
    parser.add_argument("--out", type=Path, help="the same as JSON")
    options = parser.parse_args()
    build = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = build / "release" / "sakiyomi"
    if not binary.exists():
        parser.error(f"{binary} is not there; run `cargo build --release` first")
    if shutil.which("fio") is None:
        subprocess.run(["apt-get", "install", "-y", "-qq", "fio"], check=True)
    about = machine() | {"target": "loop" if options.loop else options.dir, "pairs": options.pairs, "seconds": options.seconds}
    reserved = HUGE_PAGES.read_text().strip()
    print("| fio / sakiyomi | buffers | fio MB/s | ours MB/s | ratio (95 %) | fio CPU s/GB | ours | ratio (95 %) |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    try:
        with Target(options.dir, options.size, options.loop) as target:
            rows = measure(binary, target, options)
    finally:
        if os.geteuid() == 0:
            HUGE_PAGES.write_text(reserved)
    missed = [row for row in rows if row["rate_ratio"][0] < 0.97 or row["cpu_ratio"][0] > 1.05]
    print(f"\n{len(rows) - len(missed)} of {len(rows)} rows have throughput >= 0.97 and CPU <= 1.05")
    if options.out:
        options.out.write_text(json.dumps(about | {"rows": rows}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
