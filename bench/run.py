#!/usr/bin/env python3
"""The gain of `sakiyomi run`, and its cost where nothing can be gained.

    bench/run.py                        # builds, then all cases, some minutes
    bench/run.py --case gain harmless   # only these; --rounds 3 --megabytes 96
    bench/run.py --case gain --program xz md5sum

Cases are run interleaved, medians are printed, and what is wanted beside what was measured:

gain        on a mount whose accesses take 10 ms: plain, with run, with a read_ahead_kb of 1024, with a cat beside it.
            Wanted: blocked time (elapsed - on a core - waiting for a core) falls by 95 %, and md5sum is 4.5 times as fast
harmless    a file in memory, one ten times as slow to read as to process, reads at random places, 10,000 small files, a
            group with less memory than the file, a throttled disk with a long read-ahead of its own.
            Wanted: elapsed, or elapsed less waiting for a core, at most 1.02 times plain + 20 ms, and CPU at most 3 % + 30 ms more
estimate    programs that read in different ways, on the mount of `gain`, 64 side by side and 200 MB/s: what run saves, and what
            it says that it has saved, and --dry-run that could be saved.
            Wanted: --dry-run within 20 % of what is saved
disk        gzip on an emulated hard disk that takes its output as well.
            Wanted: plain / run at least the lesser of 1.39 and 0.97 * plain / max(I/O, computing)

Needs root and /dev/fuse. Other work on the machine makes elapsed times mean little: the load is printed. Exit code 1 if
something is not as wanted.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from served import Served

ROOT = Path(__file__).resolve().parent.parent
PREAD = """
import hashlib, os, sys
file, sum, at = os.open(sys.argv[1], os.O_RDONLY), hashlib.md5(), 0
while block := os.pread(file, 65536, at):
    sum.update(block)
    at += len(block)
"""
MAPPING = """
import hashlib, mmap, os, sys
with open(sys.argv[1], "rb") as file:
    bytes = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sum = hashlib.md5()
for at in range(0, len(bytes), 65536):
    sum.update(bytes[at:at + 65536])
"""
SCATTERED = """
import os, random, sys
random.seed(1)
file = os.open(sys.argv[1], os.O_RDONLY)
pages = os.fstat(file).st_size // 4096
for _ in range(200):
    os.pread(file, 4096, 4096 * random.randrange(pages))
"""
FOUR_THREADS = """
import os, sys, threading
file = os.open(sys.argv[1], os.O_RDONLY)
part = os.fstat(file).st_size // 4
def read(at, end):
    while at < end:
        at += len(os.pread(file, 65536, at))
threads = [threading.Thread(target=read, args=(index * part, (index + 1) * part)) for index in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
CASES = ["gain", "harmless", "estimate", "disk"]
MODES = ["plain", "run", "read_ahead_kb", "cat"]


def shim(report, words):
    """Runs a program, and writes down how long it was neither on a core nor waiting for one."""
    begun = time.monotonic_ns()
    child = os.fork()
    if child == 0:
        os.execvp(words[0], words)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    elapsed = time.monotonic_ns() - begun
    ran, queued, _ = map(int, Path(f"/proc/{child}/schedstat").read_text().split())
    _, status, _ = os.wait4(child, 0)
    times = {"elapsed": elapsed, "blocked": max(0, elapsed - ran - queued), "own": max(0, elapsed - queued)}
    Path(report).write_text(json.dumps({name: time / 1e9 for name, time in times.items()}))
    sys.exit(os.waitstatus_to_exitcode(status))


class Bench:
    def __init__(self, options, scratch):
        self.options, self.scratch, self.failed = options, Path(scratch), False
        release = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
        self.sakiyomi = release / "sakiyomi"
        self.backing, self.mounted = self.scratch / "backing", self.scratch / "mounted"
        self.backing.mkdir()
        self.mounted.mkdir()
        self.size = options.megabytes << 20
        self.make_file(self.backing / "data")

    def make_file(self, path):
        words = "tar cf - --ignore-failed-read /usr/share /usr/lib 2>/dev/null | head -c %d > %s"
        subprocess.run(words % (self.size, path), shell=True, check=True)
        missing = self.size - path.stat().st_size
        with open(path, "ab") as file:
            file.write(os.urandom(max(0, missing)))
            os.fsync(file.fileno())

    def mount(self, drive, *more):
        return Served(self.sakiyomi, self.backing, self.mounted, "--drive", drive, *more)

    def once(self, words, mode="plain", group=None, cold=()):
        """One run: elapsed and blocked of the program, CPU time of all there is."""
        for path in cold:
            drop(path)
        report = self.scratch / "shim.json"
        command = [sys.executable, __file__, "--shim", str(report), *map(str, words)]
        if mode == "run":
            command = [str(self.sakiyomi), "run", "--", *command]
        beside = None
        if mode == "cat":
            beside = subprocess.Popen(["cat", *map(str, cold)], stdout=subprocess.DEVNULL)
        enter = (lambda: [Path(tasks).write_text(str(os.getpid())) for tasks in group]) if group else None
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=enter, cwd=self.scratch)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if beside:
            beside.kill()
            beside.wait()
        measured = json.loads(report.read_text())
        measured["cpu"] = usage.ru_utime + usage.ru_stime
        return measured

    def compare(self, name, words, modes, cold=(), group=None, around=None):
        rows = {mode: [] for mode in modes}
        for _ in range(self.options.rounds):
            for mode in modes:
                with around(mode) if around else contextlib.nullcontext():
                    rows[mode].append(self.once(words, "plain" if mode == "read_ahead_kb" else mode, group, cold))
        medians = {}
        for mode in modes:
            medians[mode] = {key: statistics.median(row[key] for row in rows[mode]) for key in rows[mode][0]}
            of = medians[mode]
            print(f"{name:<22} {mode:<14} elapsed {of['elapsed']:7.3f} s  blocked {of['blocked']:7.3f} s  "
                  f"CPU {of['cpu']:6.3f} s", flush=True)
        return medians

    def want(self, what, measured, wanted, good):
        self.failed |= not good
        print(f"    {'ok  ' if good else 'MISS'} {what}: measured {measured}, wanted {wanted}", flush=True)

    def gain(self):
        data = self.mounted / "data"
        programs = {
            "gzip -3": ["gzip", "-3", "-c", data], "md5sum": ["md5sum", data], "xz -1": ["xz", "-1", "-T1", "-c", data],
            "pread": [sys.executable, "-c", PREAD, data], "mapping": [sys.executable, "-c", MAPPING, data],
            "zstd": ["zstd", "-q", "--single-thread", "-c", data], "tar": ["sh", "-c", f"tar cf - {data} 2>/dev/null | cat > /dev/null"],
        }
        with self.mount("fixed:latency=10ms,parallel=64"):
            device = os.stat(data).st_dev
            knob = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")

            @contextlib.contextmanager
            def around(mode):
                knob.write_text("1024" if mode == "read_ahead_kb" else "128")
                yield

            for name, words in programs.items():
                if self.options.program and words[0] not in self.options.program:
                    continue
                if shutil.which(words[0]) is None:
                    print(f"{name}: left out, it is not installed")
                    continue
                of = self.compare(name, words, MODES, [data], around=around)
                plain, run = of["plain"], of["run"]
                # For a pipeline, measures the shell, which waits for its end.
                if name != "tar" and plain["blocked"] < 0.05 * plain["elapsed"]:
                    print("    it hardly waits: what the kernel reads ahead suffices")
                elif name != "tar":
                    fall = 1 - run["blocked"] / max(plain["blocked"], 1e-9)
                    self.want("blocked falls by", f"{fall:.1%}", "95 %", fall >= 0.95)
                if name == "md5sum":
                    times = plain["elapsed"] / run["elapsed"]
                    self.want("times as fast", f"{times:.1f}", "4.5", times >= 4.5)

    def estimate(self):
        data, small, python = self.mounted / "data", self.mounted / "small", sys.executable
        (self.backing / "small").mkdir()
        for index in range(300):
            (self.backing / "small" / f"{index:03}").write_bytes(random.randbytes(20_000))
        programs = {
            "md5sum": ["md5sum", data], "cat": ["cat", data], "gzip -1": ["gzip", "-1", "-c", data],
            "zstd": ["zstd", "-q", "--single-thread", "-c", data], "wc -l": ["wc", "-l", data], "grep": ["grep", "-ac", "e", data],
            "pread": [python, "-c", PREAD, data], "mapping": [python, "-c", MAPPING, data],
            "four threads": [python, "-c", FOUR_THREADS, data], "pipe": ["sh", "-c", f"cat {data} | md5sum"],
            "files": ["sh", "-c", f"md5sum {small}/*"], "tar": ["sh", "-c", f"tar cf - -C {small} . | cat > /dev/null"],
        }
        with self.mount("fixed:latency=10ms,parallel=64,bandwidth=200MB/s"):
            for name, words in programs.items():
                if shutil.which(words[0]) is None:
                    print(f"{name}: left out, it is not installed")
                    continue
                rows = [self.estimates(words, data, small) for _ in range(self.options.rounds)]
                plain, run, told, could = (statistics.median(column) for column in zip(*rows))
                saved = max(plain - run, 1e-9)
                print(f"{name:<14} alone {plain:6.2f} s  run {run:6.2f} s  saved {saved:6.2f} s  "
                      f"estimated {told:6.2f} s ({told / saved - 1:+.0%})", flush=True)
                self.want("--dry-run", f"{could:.2f} s ({could / saved - 1:+.0%})", "20 %", abs(could / saved - 1) <= 0.2)

    def estimates(self, words, data, small):
        """Elapsed alone and with run, and what run says that it has saved and --dry-run that could be."""
        times, said = [], []
        for options in None, [], ["--dry-run"]:
            for path in [data, *small.iterdir()]:
                drop(path)
            command = list(map(str, words))
            if options is not None:
                command = [str(self.sakiyomi), "run", "--json", *options, "--", *command]
            begun = time.monotonic()
            told = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True).stderr
            times.append(time.monotonic() - begun)
            said.append(json.loads(told[told.index(b"{"):])["result"] if options is not None else {})
        run, watched = said[1:]
        return times[0], times[1], run.get("saved_ns", 0) / 1e9, watched.get("could_save_ns", 0) / 1e9

    def harmless(self):
        data, local = self.mounted / "data", self.backing / "data"
        local.read_bytes()
        self.is_harmless("in memory", ["gzip", "-3", "-c", local])
        small = self.scratch / "small"
        small.mkdir()
        for index in range(10_000):
            (small / f"{index:05}").write_bytes(random.randbytes(4096))
        self.is_harmless("10,000 small files", ["sh", "-c", f"tar cf - {small} 2>/dev/null | cat > /dev/null"])
        script = ("import random\nrandom.seed(1)\nf = open(%r, 'rb', buffering=0)\n"
                  "for _ in range(200):\n f.seek(4096 * random.randrange(%d)); f.read(4096)")
        with self.mount("fixed:latency=10ms,parallel=64"):
            words = [sys.executable, "-c", script % (str(data), self.size // 4096)]
            self.is_harmless("random places", words, [data])
            self.is_harmless("pread at random", [sys.executable, "-c", SCATTERED, data], [data])
        self.is_harmless("pread in memory", [sys.executable, "-c", PREAD, local])
        with open(local, "rb") as file:
            (self.backing / "slice").write_bytes(file.read(16 << 20))
        with self.mount("fixed:latency=1ms,parallel=64,bandwidth=5MB/s"):
            self.is_harmless("ten times as slow", ["gzip", "-3", "-c", self.mounted / "slice"], [self.mounted / "slice"])
        self.in_small_group(local)
        self.on_throttled_disk(local)

    def is_harmless(self, name, words, cold=(), group=None):
        of = self.compare(name, words, ["plain", "run"], cold, group)
        plain, run = of["plain"], of["run"]
        # Other processes make the program wait for a core, with or without sakiyomi.
        within = {key: run[key] <= plain[key] * 1.02 + 0.02 for key in ("elapsed", "own")}
        key = "elapsed" if within["elapsed"] else "own"
        name = "elapsed" if key == "elapsed" else "elapsed, less waiting for a core"
        self.want(name, f"{run[key]:.3f} s", f"{plain[key] * 1.02 + 0.02:.3f} s", within[key])
        most = plain["cpu"] * 1.03 + 0.03
        self.want("CPU", f"{run['cpu']:.3f} s", f"{most:.3f} s", run["cpu"] <= most)

    @contextlib.contextmanager
    def group(self, controller, settings):
        """A group of our own of the first version's."""
        path = Path(f"/sys/fs/cgroup/{controller}/sakiyomi-bench-{os.getpid()}")
        path.mkdir()
        try:
            for name, value in settings.items():
                (path / name).write_text(value)
            yield [path / "tasks"]
        finally:
            path.rmdir()

    def in_small_group(self, local):
        if not Path("/sys/fs/cgroup/memory").is_dir():
            return print("less memory than file: left out, there is no v1 memory controller")
        with self.group("memory", {"memory.limit_in_bytes": str(self.size // 3)}) as tasks:
            self.is_harmless("less memory than file", ["gzip", "-3", "-c", local], [local], tasks)

    def on_throttled_disk(self, local):
        device = os.stat(local).st_dev
        numbers = f"{os.major(device)}:{os.minor(device)}"
        disk = Path(f"/sys/dev/block/{numbers}")
        if not Path("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device").exists() or not disk.exists():
            return print("throttled disk: left out, there is no v1 blkio controller or no disk")
        knob = disk / "bdi/read_ahead_kb"
        before = knob.read_text()
        try:
            knob.write_text("8192")
            with self.group("blkio", {"blkio.throttle.read_bps_device": f"{numbers} {60 << 20}"}) as tasks:
                self.is_harmless("throttled disk", ["gzip", "-3", "-c", local], [local], tasks)
        finally:
            knob.write_text(before)

    def disk(self):
        with self.mount("deskstar-7k250", "--writeback"):
            data, packed = self.mounted / "data", self.mounted / "packed"
            words = ["sh", "-c", f"gzip -3 -c {data} > {packed}"]
            of = self.compare("gzip on a disk", words, ["plain", "run"], [data, packed])
            plain, run = of["plain"]["elapsed"], of["run"]["elapsed"]
            drop(data)
            reading = self.once(["cat", data])["elapsed"]
            content = packed.read_bytes()
            begun = time.monotonic()
            with open(packed, "wb") as file:
                file.write(content)
                os.fsync(file.fileno())
            io = reading + time.monotonic() - begun
            data.read_bytes()
            computing = self.once(["gzip", "-3", "-c", data])["elapsed"]
            print(f"    plain {plain:.2f} s, run {run:.2f} s, I/O {io:.2f} s, computing {computing:.2f} s")
            wanted = min(1.39, 0.97 * plain / max(io, computing))
            self.want("plain / run", f"{plain / run:.2f}", f"{wanted:.2f}", plain / run >= wanted)


def drop(path):
    """Drops a file's pages from the page cache."""
    if not Path(path).exists():
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def main():
    if sys.argv[1:2] == ["--shim"]:
        shim(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--program", nargs="+", help="of the case gain, only these: gzip md5sum xz zstd sh (which runs tar)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=96)
    options = parser.parse_args()
    subprocess.run(["cargo", "build", "--release", "-q", "-p", "sakiyomi"], check=True, cwd=ROOT)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {options.megabytes} MiB, {options.rounds} rounds")
    # Beside the build, which lies on a disk more often than /tmp does.
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        bench = Bench(options, scratch)
        for case in options.case:
            getattr(bench, case)()
    print(f"load {os.getloadavg()[0]:.1f}")
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
