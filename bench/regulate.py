#!/usr/bin/env python3
"""Rates on real mounts, as fio meets them: one regulated process and nine rivals that read at random.

    bench/regulate.py                   # builds, then about twenty minutes
    bench/regulate.py --quick           # about three, less sure
    bench/regulate.py --only live       # or writers, disk, overhead, schedulers

live        An emulated disk. The service time is measured with the process alone and fixed; then, with a rate, alone and
            among nine rivals: accuracy <= 1.05, coefficient of variation <= 0.10, both means within 5 %; and all together
            do >= 97 % of what ten unregulated processes do when the drive has as many requests as it had then.
writers     The same drive with nine that write at random, into its cache, beside the regulated reader: the same accuracy;
            the CoV is <= 0.10 once the first harm is over.
disk        The same on the disk that --scratch lies on, where the rate is a time: ten times what one read takes alone.
overhead    What --regulate costs each read when no process has a rate, and what it costs when the reader has one.
schedulers  The same emulated disk as a loop device, under the kernel's schedulers, with and without real-time priority.

Needs root and /dev/fuse; installs fio by apt-get where it is missing. Exit code 1 if a limit is exceeded.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from live import Mount
from served import REPOSITORY, Served, have_fio, run

AREA = 2 << 30
RIVALS = 9
LIMITS = {"accuracy": 1.05, "cov": 0.10, "alone": 0.05, "total": 0.97}
MESSAGE = 0x3FF8
CODE = 3 << 30 | MESSAGE << 16 | ord("s") << 8 | 1


def ask(path, call):
    """The answer of a mount (crates/iorate/src/protocol.rs)."""
    message = bytearray(json.dumps({"version": 2, "asker": os.getpid(), "call": call}).encode().ljust(MESSAGE, b"\0"))
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(file, CODE, message, True)
    finally:
        os.close(file)
    return json.loads(message.rstrip(b"\0"))


def look(path):
    return ask(path, {"look": {"after": 0, "all": False}})["seen"]


def give(path, pid, rate):
    """Gives a rate to a process and its descendants, as fio reads in a child."""
    answer = ask(path, {"set": {"target": {"kind": "tree", "pid": pid}, "rate": rate, "best_effort": False}})
    if "given" not in answer:
        raise SystemExit(f"no rate is given: {answer}")


class Accesses:
    """fio: processes that read or write at random, each in a separate area."""

    def __init__(self, path, first, count, seconds, area=AREA, priority=None, ramp=0, op="read"):
        self.op = op
        words = ["fio", "--name=access", f"--filename={path}", "--direct=1", "--ioengine=psync", f"--rw=rand{op}",
                 "--bs=4k", f"--numjobs={count}", f"--offset={first * area}", f"--size={area}",
                 f"--offset_increment={area}", "--time_based", f"--runtime={seconds}", f"--ramp_time={ramp}",
                 f"--randseed={first + 1}", "--norandommap", "--group_reporting", "--lat_percentiles=1",
                 "--percentile_list=50:99", "--output-format=json"]
        words += [f"--prioclass={priority}"] if priority else []
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.limit = seconds + ramp + 120

    def seen(self):
        try:
            out, errors = self.process.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if self.process.returncode != 0:
            sys.exit(f"fio has failed: {errors}")
        seen = json.loads(out[out.index("{"):])["jobs"][0][self.op]
        latency = seen["lat_ns"]
        return {"mean": latency["mean"], "cov": latency["stddev"] / max(latency["mean"], 1), "max": latency["max"],
                "p50": latency["percentile"]["50.000000"], "p99": latency["percentile"]["99.000000"],
                "iops": seen["iops"]}


class Depth:
    """Mean number of requests in flight at a device."""

    def __init__(self, path, seconds):
        self.path, self.ends, self.seen = path, time.monotonic() + seconds, []
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while time.monotonic() < self.ends:
            self.seen.append(look(self.path)["device"]["in_device"])
            time.sleep(0.05)

    def mean(self):
        self.thread.join()
        return sum(self.seen) / max(len(self.seen), 1)


class Report:
    """Prints rows, and keeps whether all were within their limits."""

    def __init__(self):
        self.good, self.rows = True, []

    def head(self, title):
        print(f"\n{title}\n{'':34} {'mean ms':>9} {'ideal ms':>9} {'accuracy':>9} {'CoV':>6} {'p99 ms':>9} {'IOPS':>8} "
              f"{'all IOPS':>9} {'others max ms':>14}  load")

    def row(self, what, target, ideal=None, others=None):
        show = lambda value, digits, unit=1.0: "-" if value is None else f"{value / unit:.{digits}f}"
        accuracy = target["mean"] / ideal if ideal else None
        total = target["iops"] + (others["iops"] if others else 0)
        print(f"{what:34} {show(target['mean'], 3, 1e6):>9} {show(ideal, 3, 1e6):>9} {show(accuracy, 3):>9} "
              f"{target['cov']:6.3f} {target['p99'] / 1e6:9.3f} {target['iops']:8.1f} {total:9.1f} "
              f"{show(others and others['max'], 1, 1e6):>14}  {os.getloadavg()[0]:.1f}", flush=True)
        self.rows.append({"what": what, "target": target, "ideal": ideal, "others": others})

    def check(self, what, value, limit, good):
        self.good &= good
        print(f"    {what}: {value:.3f} (limit {limit}){'' if good else '  <-- OFF'}", flush=True)


def together(path, at, seconds, rate=None, priority=None, area=AREA, ramp=5, others="read"):
    """One reader beside nine: what both saw, the ideal time, and how many requests the device had."""
    rivals = Accesses(path, 1, RIVALS, seconds + 6, area=area, ramp=ramp, op=others)
    time.sleep(3)
    target = Accesses(path, 0, 1, seconds, area=area, priority=priority, ramp=ramp)
    ideal = depth = None
    if rate:
        give(at, target.process.pid, rate)
        time.sleep(ramp)
        depth = Depth(at, seconds - 1)
    seen = watch_ideal(at, target, seconds) if rate else {"ideal": None}
    target, rivals = target.seen(), rivals.seen()
    if others == "write" and rate:
        # Once the rate is withdrawn, the rivals write as much as the cache takes, which fio counts.
        rivals["iops"] = seen["iops"] - target["iops"]
    return target, rivals, seen["ideal"] or ideal, depth and depth.mean()


def alone(path, at, seconds, rate=None, area=AREA, ramp=5):
    target = Accesses(path, 0, 1, seconds, area=area, ramp=ramp)
    if rate:
        give(at, target.process.pid, rate)
        time.sleep(ramp)
    ideal = watch_ideal(at, target, seconds)["ideal"] if rate else None
    return target.seen(), ideal


def watch_ideal(at, target, seconds):
    """The mean of the ideal time while it reads, and what all do meanwhile."""
    ends, ideals, looks = time.monotonic() + seconds - 1, [], []
    while time.monotonic() < ends and target.process.poll() is None:
        seen = look(at)
        looks.append((seen["device"]["requests"], seen["at_ns"]))
        ideals += [owner["ideal_ns"] for owner in seen["owners"] if owner["target"].get("pid") == target.process.pid]
        time.sleep(0.2)
    (first, begun), (last, ended) = looks[0], looks[-1]
    return {"ideal": sum(ideals) / len(ideals) if ideals else None,
            "iops": (last - first) * 1e9 / max(ended - begun, 1)}


def unregulated(arguments, scratch, depth):
    """Throughput of ten processes at a queue depth of the drive, interpolated between whole depths."""
    low = max(int(depth), 1)
    rates = {}
    for limit in {low, low + 1}:
        mount = Mount(arguments.binary, scratch, arguments.drive, "--set", f"queue.depth={limit}")
        try:
            rates[limit] = Accesses(mount.at / "all", 0, RIVALS + 1, arguments.seconds, ramp=5).seen()
        finally:
            mount.end()
    share = min(max(depth - low, 0), 1)
    print(f"    unregulated with {low} and {low + 1} in the drive: {rates[low]['iops']:.1f}, {rates[low + 1]['iops']:.1f} IOPS")
    return rates[low]["iops"] * (1 - share) + rates[low + 1]["iops"] * share


def live(arguments, report):
    for percent in arguments.percent:
        with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="sakiyomi-regulate-") as scratch:
            report.head(f"{arguments.drive}, one process at {percent} % and {RIVALS} rivals")
            scratch = Path(scratch)
            mount = Mount(arguments.binary, scratch, arguments.drive, "--regulate")
            try:
                found, _ = alone(mount.at / "all", mount.at, arguments.seconds)
                service = look(mount.at)["device"]["service_ns"]
                report.row("alone, no rate", found)
                beside, others, _, _ = together(mount.at / "all", mount.at, arguments.seconds)
                report.row("beside, no rate", beside, None, others)
            finally:
                mount.end()
            rate = {"percent": percent}
            mount = Mount(arguments.binary, scratch, arguments.drive, "--regulate", "--service", f"{service}ns")
            try:
                one, ideal = alone(mount.at / "all", mount.at, arguments.seconds, rate)
                report.row("alone", one, ideal)
                beside, others, ideal, depth = together(mount.at / "all", mount.at, arguments.seconds, rate)
                report.row("beside", beside, ideal, others)
            finally:
                summary = mount.end()
            print(f"    the mount says: {summary['rates']}")
            check(report, one, beside, ideal)
            free = unregulated(arguments, scratch, depth)
            total = (beside["iops"] + others["iops"]) / free
            report.check(f"all, of what is done unregulated with {depth:.2f} in the drive", total, LIMITS["total"],
                         total >= LIMITS["total"])


def writers(arguments, report):
    for percent in arguments.percent:
        with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="sakiyomi-regulate-") as scratch:
            report.head(f"{arguments.drive}, one process at {percent} % and {RIVALS} that write")
            mount = Mount(arguments.binary, Path(scratch), arguments.drive, "--regulate")
            rate = {"percent": percent}
            try:
                beside, others, _, _ = together(mount.at / "all", mount.at, arguments.seconds, others="write")
                report.row("beside, no rate", beside, None, others)
                # During the ramp the drive writes out its cache, which disturbs the reader at first.
                beside, others, ideal, _ = together(mount.at / "all", mount.at, arguments.seconds, rate, ramp=30,
                                                    others="write")
                report.row("beside", beside, ideal, others)
            finally:
                print(f"    the mount says: {mount.end()['rates']}")
            check_kept(report, beside, ideal)


def check(report, one, beside, ideal):
    check_kept(report, beside, ideal)
    off = beside["mean"] / one["mean"] - 1
    report.check("beside, of alone", 1 + off, LIMITS["alone"], abs(off) <= LIMITS["alone"])


def check_kept(report, beside, ideal):
    accuracy = beside["mean"] / ideal
    report.check("accuracy", accuracy, LIMITS["accuracy"], accuracy <= LIMITS["accuracy"])
    report.check("CoV", beside["cov"], LIMITS["cov"], beside["cov"] <= LIMITS["cov"])


class PlainMount(Served):
    """The disk itself, with a file that is all data."""

    def __init__(self, sakiyomi, scratch, size, *options):
        backing = scratch / "backing"
        backing.mkdir(exist_ok=True)
        if not (backing / "all").exists():
            run("dd", "if=/dev/urandom", f"of={backing / 'all'}", "bs=1M", f"count={size >> 20}", "conv=fsync")
        super().__init__(sakiyomi, backing, scratch / "mounted", *options)
        self.file = self.at / "all"


def disk(arguments, report):
    area = 64 << 20
    with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="sakiyomi-regulate-") as scratch:
        mount = PlainMount(arguments.binary, Path(scratch), area * (RIVALS + 1), "--regulate")
        try:
            report.head(f"the disk of {scratch}")
            found, _ = alone(mount.file, mount.at, arguments.seconds, area=area, ramp=2)
            report.row("alone, no rate", found)
            beside, others, _, _ = together(mount.file, mount.at, arguments.seconds, area=area, ramp=2)
            report.row("beside, no rate", beside, None, others)
            rate = {"every_ns": int(found["mean"] * 10)}
            one, ideal = alone(mount.file, mount.at, arguments.seconds, rate, area=area, ramp=2)
            report.row("alone", one, ideal)
            beside, others, ideal, _ = together(mount.file, mount.at, arguments.seconds, rate, area=area, ramp=2)
            report.row("beside", beside, ideal, others)
            device = look(mount.at)["device"]
            print(f"    {device}")
        finally:
            print(f"    the mount says: {mount.end()['rates']}")
        check(report, one, beside, ideal)


def overhead(arguments, report):
    """Interleaves the runs, as the machine's noise exceeds the effect."""
    with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="sakiyomi-regulate-") as scratch:
        kinds = {"without": ["--direct-io"], "--regulate": ["--regulate"], "with a rate": ["--regulate"]}
        times = {kind: [] for kind in kinds}
        for _ in range(arguments.rounds):
            for kind, options in kinds.items():
                mount = PlainMount(arguments.binary, Path(scratch), 64 << 20, "--drive", "fixed:latency=1us,parallel=32", *options)
                try:
                    target = Accesses(mount.file, 0, 1, 3, area=64 << 20, ramp=1)
                    if kind == "with a rate":
                        give(mount.at, target.process.pid, {"every_ns": 2000})
                    begun = cpu(mount.process.pid)
                    found = target.seen()
                    used = cpu(mount.process.pid) - begun
                    times[kind].append((found["mean"] / 1e3, used * 1e6 / max(found["iops"] * 4, 1)))
                finally:
                    mount.end()
        print(f"\n{'one reader, 4 KiB, no time on the device':44} {'us a read':>10} {'CPU us in the mount':>20}")
        for kind, found in times.items():
            middle = [sorted(part)[len(part) // 2] for part in zip(*found)]
            print(f"{kind:44} {middle[0]:10.2f} {middle[1]:20.2f}")


def cpu(pid):
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def schedulers(arguments, report):
    with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="sakiyomi-regulate-") as scratch:
        mount = Mount(arguments.binary, Path(scratch), arguments.drive)
        device = None
        try:
            device = run("losetup", "--find", "--show", "--direct-io=on", mount.at / "all").strip()
            queue = Path("/sys/block") / Path(device).name / "queue/scheduler"
            before = queue.read_text().split("[")[1].split("]")[0]
            report.head(f"{arguments.drive} as {device}, {RIVALS} rivals")
            for scheduler in queue.read_text().replace("[", "").replace("]", "").split():
                queue.write_text(scheduler)
                for name, priority in [("", None), (", real-time", 1)]:
                    found, others, _, _ = together(device, None, arguments.seconds, priority=priority)
                    report.row(f"{scheduler}{name}", found, None, others)
        finally:
            if device:
                queue.write_text(before)
                subprocess.run(["losetup", "--detach", device], check=False)
                time.sleep(1)
            mount.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="sakiyomi, if it is built already")
    parser.add_argument("--drive", default="deskstar-p7k500")
    parser.add_argument("--percent", nargs="+", type=int, default=[20])
    parser.add_argument("--seconds", type=int, default=60, help="for each row")
    parser.add_argument("--rounds", type=int, default=7, help="of the overhead")
    parser.add_argument("--only", nargs="+", choices=["live", "writers", "disk", "overhead", "schedulers"])
    parser.add_argument("--quick", action="store_true", help="short rows, few rounds")
    parser.add_argument("--scratch", type=Path, help="a directory on a file system with large sparse files")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds, arguments.rounds = 15, 3
    have_fio()
    if arguments.binary is None:
        subprocess.run(["cargo", "build", "--release", "-p", "sakiyomi"], check=True, cwd=REPOSITORY)
        target = json.loads(run("cargo", "metadata", "--no-deps", "--format-version=1", cwd=REPOSITORY))
        arguments.binary = Path(target["target_directory"]) / "release" / "sakiyomi"
    report = Report()
    for part in [live, writers, disk, overhead, schedulers]:
        if arguments.only is None or part.__name__ in arguments.only:
            part(arguments, report)
    sys.exit(0 if report.good else 1)


if __name__ == "__main__":
    main()
