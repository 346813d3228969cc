#!/usr/bin/env python3
"""Shuffles of Ballista against those of this project: TPC-H on two executors, on a disk and in memory.

    cargo build --profile optimized --workspace --manifest-path integrations/datafusion/Cargo.toml
    sakiyomi query gen --sf 1 --tables customer,orders,lineitem,supplier,nation,region,part,partsupp -o tpch
    bench/ballista.py --binary integrations/datafusion/target/optimized/sakiyomi-ballista --tables tpch
        --place disk=/var/tmp --place memory=/dev/shm [--queries 3,5,9,18] [--rounds 3] [--limit 2GiB]
        [--sides stock,ours] [--set NAME=VALUE] [--out FILE]

Each run is a fresh cluster on loopback: a scheduler, two executors of one core, and a client that runs one statement. A
place is a directory for the work directories of the executors: of shuffle files, and of spill files. All places, sides and
statements are interleaved; another side begins in each round. As root, with cgroup v1 at /sys/fs/cgroup/memory, each
executor is in a memory group of its own with `--limit`, which includes the page cache of the files that it writes. Files
in a tmpfs count as memory that cannot be reclaimed, so the limit of places in one is `--limit` and `--memory-extra`.
`--no-groups` leaves the groups out. Tables are read into the page cache before each run, outside of the groups.

If all shuffles fit into the page cache, a disk is as fast as memory. A mount with a latency, such as that of a network
volume, is slower, and joins that broadcast nothing make larger shuffles:

    sakiyomi mount back slow --drive fixed:latency=2ms,parallel=16,bandwidth=100MB/s
    bench/ballista.py … --place slow=slow --place memory=/dev/shm --set ballista.optimizer.broadcast_join_threshold_bytes=0
        --set ballista.optimizer.broadcast_join_threshold_rows=0

| side | shuffles | spill files, reads, operators |
|---|---|---|
| stock | Ballista's | Ballista's |
| ours | this project's | this project's; sorts and joins by the cost model |
| shuffle | this project's | this project's; DataFusion's sorts and joins |

Printed are medians with the range of all runs: wall time as the client sees it, CPU time of both executors (`wait4`),
largest memory of a group, bytes left in the work directories. The last table has the share of the first place's gap to
the second, with stock executors, that the other sides close. Results of all sides must be equal. Three minutes a round at
scale factor 1.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUERIES = ROOT / "integrations/ballista/queries"
TABLES = ["customer", "orders", "lineitem", "supplier", "nation", "region", "part", "partsupp"]
SIDES = {"stock": ["--stock"], "ours": [], "shuffle": ["--operators", "stock"]}
MEMORY = Path("/sys/fs/cgroup/memory")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text):
    """Bytes of a size, as the command takes them: a bare K, M or G is the 1024 kind."""
    found = re.fullmatch(r"(\d+)([KMG])(?:iB)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text}: give a size such as 2GiB")
    return int(found[1]) * UNITS[found[2]]


def free_ports(count):
    """Ports that nothing listens at."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def has_ended(child):
    """Whether a process has ended, without taking its CPU time from `ended`."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_for(port, child):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if has_ended(child):
            child.wait()
            sys.exit(f"{' '.join(child.args)} has ended with {child.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    sys.exit(f"nothing listens at port {port}")


class Group:
    """A memory group, if `limit` is not None."""

    def __init__(self, name, limit):
        self.path = limit and MEMORY / f"sakiyomi-ballista-{os.getpid()}-{name}"
        if self.path:
            self.path.mkdir()
            (self.path / "memory.limit_in_bytes").write_text(str(limit))

    def enter(self):
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        return int((self.path / "memory.max_usage_in_bytes").read_text()) if self.path else 0

    def killed(self):
        return self.path is not None and "oom_kill 0" not in (self.path / "memory.oom_control").read_text()

    def close(self):
        deadline = time.monotonic() + 10
        while self.path and time.monotonic() < deadline:
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)


def ended(child):
    """Ends a process; its CPU time. Nothing else may wait for it: `poll` would take its CPU time."""
    os.kill(child.pid, signal.SIGKILL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime, usage.ru_stime


def run(options, place, side, query):
    """One cluster; its figures."""
    for table in TABLES:
        with open(options.tables / f"{table}.parquet", "rb") as file:
            while file.read(1 << 22):
                pass
    directory = Path(options.places[place]) / f"sakiyomi-ballista-{os.getpid()}"
    directory.mkdir()
    in_memory = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=True).stdout.strip() == "tmpfs"
    limit = None if options.no_groups else options.limit + (options.memory_extra if in_memory else 0)
    ports = free_ports(3)
    address = f"127.0.0.1:{ports[0]}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    stock = ["--stock"] if side == "stock" else []
    children, groups, executors = [], [], []
    try:
        scheduler = subprocess.Popen([str(options.binary), "scheduler", "--bind", address, *stock], **quiet)
        children.append(scheduler)
        wait_for(ports[0], scheduler)
        for number, port in enumerate(ports[1:]):
            work = directory / f"work{number}"
            work.mkdir()
            group = Group(number, limit)
            groups.append(group)
            command = [str(options.binary), "executor", "--scheduler", address, "--bind", f"127.0.0.1:{port}", "--threads", "1",
                       "--work-dir", str(work), "--memory", options.pool, *SIDES[side]]
            if side != "stock":
                command += ["--shuffle-memory", options.shuffle_memory]
            executor = subprocess.Popen(command, preexec_fn=group.enter, **quiet)
            children.append(executor)
            executors.append(executor)
            wait_for(port, executor)
        command = [str(options.binary), "query", "--scheduler", address, "--time"]
        for setting in options.set:
            command += ["--set", setting]
        for table in TABLES:
            command += ["--table", f"{table}={options.tables / table}.parquet"]
        client = subprocess.run([*command, (QUERIES / f"q{query}.sql").read_text()], capture_output=True, text=True, timeout=900)
        if any(group.killed() for group in groups):
            sys.exit(f"{place}, {side}, query {query}: the memory limit has ended an executor; raise --limit")
        if client.returncode != 0:
            sys.exit(f"{place}, {side}, query {query}: {client.stderr}")
        left = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
        cpu = [ended(child) for child in executors]
        found = {
            "place": place, "side": side, "query": query,
            "wall_s": float(re.search(r"in ([\d.]+) s", client.stderr)[1]),
            "user_s": sum(user for user, _ in cpu), "system_s": sum(system for _, system in cpu),
            "cpu_s": sum(user + system for user, system in cpu),
            "peak_mib": max(group.peak() for group in groups) / (1 << 20),
            "written_mib": left / (1 << 20), "load": os.getloadavg()[0], "result": client.stdout,
        }
        return found
    finally:
        for child in children:
            if child.returncode is None:
                ended(child)
        shutil.rmtree(directory)
        # Writes of this run do not disturb the next one.
        os.sync()
        for group in groups:
            group.close()


def cell(runs, key, digits):
    values = [found[key] for found in runs]
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def of(runs, **wanted):
    return [found for found in runs if all(found[key] == value for key, value in wanted.items())]


def median(runs, **wanted):
    return statistics.median(found["wall_s"] for found in of(runs, **wanted))


def tables(options, runs, sides):
    print("| query | place | side | wall s | CPU s | peak MiB of a group | files MiB |\n|---|---|---|---|---|---|---|")
    for query in options.queries:
        for place in options.places:
            for side in sides:
                found = of(runs, place=place, side=side, query=query)
                cells = [cell(found, "wall_s", 2), cell(found, "cpu_s", 2), cell(found, "peak_mib", 0), cell(found, "written_mib", 0)]
                print(f"| {query} | {place} | {side} | " + " | ".join(cells) + " |")
    names = list(options.places)
    if len(names) < 2 or "stock" not in sides:
        return
    first, second = names[:2]
    print(f"\n| query | stock, {first}: {second} | gap | " + " | ".join(f"closed by {side}" for side in sides if side != "stock") + " |")
    print("|---|---|---|" + "---|" * (len(sides) - 1))
    for query in [*options.queries, "all"]:
        sums = lambda place, side: sum(median(runs, place=place, side=side, query=one) for one in (options.queries if query == "all" else [query]))
        slow, fast = sums(first, "stock"), sums(second, "stock")
        closed = []
        for side in sides:
            if side != "stock":
                ours = sums(first, side)
                closed.append(f"{(slow - ours) / (slow - fast):.0%}" if slow > fast * 1.02 else f"no gap ({ours:.2f} s)")
        print(f"| {query} | {slow:.2f} : {fast:.2f} s | {slow / fast - 1:.0%} | " + " | ".join(closed) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--tables", type=Path, required=True, help="directory with TPC-H as Parquet files")
    parser.add_argument("--place", action="append", required=True, metavar="NAME=DIR")
    parser.add_argument("--queries", default="3,5,9,18")
    parser.add_argument("--sides", default="stock,ours")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=size, default="2GiB", help="memory of a group, such as 2GiB")
    parser.add_argument("--memory-extra", type=size, default="2GiB", help="more of it for places in a tmpfs")
    parser.add_argument("--pool", default="512MiB", help="memory of an executor's operators")
    parser.add_argument("--shuffle-memory", default="128MiB", help="encoded rows that an executor keeps in memory")
    parser.add_argument("--no-groups", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, help="all runs as JSON")
    options = parser.parse_args()
    options.places = dict(place.split("=", 1) for place in options.place)
    options.queries = [int(query) for query in options.queries.split(",")]
    options.tables = options.tables.resolve()
    options.binary = options.binary.resolve()
    sides = options.sides.split(",")
    unknown = [side for side in sides if side not in SIDES]
    if unknown:
        parser.error(f"--sides {unknown[0]}: give {', '.join(SIDES)}")
    if not options.no_groups and not os.access(MEMORY, os.W_OK):
        sys.exit("memory groups need root and cgroup v1 at /sys/fs/cgroup/memory; --no-groups leaves them out")
    runs = []
    for number in range(options.rounds):
        for query in options.queries:
            for place in options.places:
                turn = number % len(sides)
                for side in sides[turn:] + sides[:turn]:
                    runs.append(run(options, place, side, query))
                    print(f"query {query}, {place}, {side}: {runs[-1]['wall_s']:.2f} s, {runs[-1]['cpu_s']:.2f} s CPU", file=sys.stderr)
                    if options.out:
                        options.out.write_text(json.dumps(runs, indent=1) + "\n")
    for query in options.queries:
        if len({found["result"] for found in of(runs, query=query)}) != 1:
            sys.exit(f"the results of query {query} differ")
    tables(options, runs, sides)
    loads = [found["load"] for found in runs]
    print(f"\n{options.rounds} rounds, load {min(loads):.1f} to {max(loads):.1f}, results equal")


if __name__ == "__main__":
    main()
