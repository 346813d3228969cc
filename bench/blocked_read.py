#!/usr/bin/env python3
"""The gain of blocked reads: counting a text that is in memory, one that is not while the disk is as fast as the
computation, and one that is twice as large as the page cache may be. Runs are interleaved, figures are medians.

    bench/blocked_read.py cached [--rounds 9]            GNU wc, uutils and cw (installed by cargo), mmap + rayon
    bench/blocked_read.py cold [--rounds 5] [--plain]    on an emulated drive, or with --plain on the disk of the
                                                         directory; beside it the bounds max(I/O, computing), and
                                                         with the work of both shared by all cores
    bench/blocked_read.py matched [--rounds 5]           on an emulated drive exactly as fast as the computation
    bench/blocked_read.py many [--rounds 3] [--plain]    2,000 files of 64 KiB and 20 of 32 MiB; --against PROGRAM
                                                         names another sakiyomi to compare with
    bench/blocked_read.py twice [--rounds 3]             in a memory cgroup (v1) of half the file's size; needs root

Exit code 1 if a figure misses what docs/results/blocked-reads.md says. --urgent runs what is measured at the highest ordinary priority,
for machines that others use too (needs root); --directory says where the files go.
"""

import argparse
import contextlib
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from served import Served

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SAKIYOMI = TARGET / "release/sakiyomi"
RAYON = TARGET / "release/examples/rayon_wc"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CYRILLIC = "абвгдежзийклмнопрстуфхцчшщъыьэюя"


def text(path, size, letters=LETTERS):
    """A text of lower-case words, some ten to a line; the same for every run."""
    chance = random.Random(1)
    words = ["".join(chance.choices(letters, k=chance.randint(1, 9))) for _ in range(5000)]
    pieces = []
    for _ in range(16):
        lines = [" ".join(chance.choices(words, k=chance.randint(4, 17))) for _ in range(18000)]
        pieces.append(("\n".join(lines) + "\n").encode())
    with open(path, "wb") as file:
        while file.tell() < size:
            file.write(chance.choice(pieces))
        file.truncate(size)
        os.fsync(file.fileno())


def drop(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(command, urgent=False, **more):
    command = (["nice", "-n", "-20"] if urgent else []) + [str(word) for word in command]
    begun = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"}, **more)
    return time.monotonic() - begun


def cpu(command):
    """CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    timed(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def interleaved(cases, rounds, warm_up=0):
    """The median time of each case, given as a name and a function."""
    times = {name: [] for name, _ in cases}
    for turn in range(warm_up + rounds):
        for name, case in cases:
            took = case()
            if turn >= warm_up:
                times[name].append(took)
    return {name: statistics.median(all) for name, all in times.items()}


def installed(crate, directory):
    """A rival's program, or none if it cannot be installed."""
    root = directory / "rivals" / crate
    subprocess.run(["cargo", "install", "-q", "-j1", "--root", str(root), crate])
    return next(iter(root.glob("bin/*")), None)


def cached(options, directory):
    file = directory / "text"
    text(file, 1 << 30)
    timed(["cat", file])
    cases = [
        ("sakiyomi wc -lw", [SAKIYOMI, "wc", "-lw", file]),
        ("mmap + rayon, the same kernel", [RAYON, file]),
        ("GNU wc -lw", ["wc", "-lw", file]),
        ("sakiyomi wc -l", [SAKIYOMI, "wc", "-l", file]),
        ("GNU wc -l", ["wc", "-l", file]),
    ]
    if not options.no_rivals:
        uutils, cw = installed("uu_wc", directory), installed("cw", directory)
        cases += [("uutils wc -lw", [uutils, "-lw", file])] if uutils else []
        cases += [("cw -lw", [cw, "-lw", file])] if cw else []
    runs = [(name, lambda command=command: timed(command, options.urgent)) for name, command in cases]
    times = interleaved(runs, options.rounds, warm_up=1)
    for name, took in times.items():
        print(f"{name:32} {took * 1e3:9.1f} ms {(1 << 30) / took / 1e9:7.2f} GB/s")
    ours = times["sakiyomi wc -lw"]
    rivals = [name for name in times if name.endswith("-lw") and name != "sakiyomi wc -lw"]
    return [
        ("at least 9 GB/s", (1 << 30) / ours >= 9e9),
        ("at least 40 x GNU wc", times["GNU wc -lw"] / ours >= 40),
        ("at least 0.95 of mmap + rayon", times["mmap + rayon, the same kernel"] / ours >= 0.95),
        ("ahead of every other", all(times[name] > ours for name in rivals)),
        ("wc -l ahead of GNU's", times["sakiyomi wc -l"] < times["GNU wc -l"]),
    ]


def mounted(backing, directory, drive, urgent):
    before = ["nice", "-n", "-20"] if urgent else []
    return Served(SAKIYOMI, backing, directory, "--drive", drive, before=before)


# Computations about as fast as a disk, and the letters of what they are about: a word count in which every byte is
# looked at by itself, and a pattern that has no short cut.
PROGRAMS = {
    "wc -lwL": (["wc", "-lwL"], CYRILLIC),
    "regex": (["grep", "-c", "[a-f]+[g-m]+ [^ ]+e[a-d]? .*s$"], LETTERS),
}


def texts(backing, size):
    """The text of each program."""
    backing.mkdir()
    for name, (_, letters) in PROGRAMS.items():
        text(backing / name, size, letters)


def cold(options, directory):
    backing = directory / "backing"
    texts(backing, options.size << 20)
    checks = []
    with contextlib.ExitStack() as stack:
        where = backing
        if not options.plain:
            where = stack.enter_context(mounted(backing, directory / "mounted", options.drive, options.urgent))
        for name, (program, _) in PROGRAMS.items():
            checks += cold_program(options, name, program, where / name)
    return checks


def cold_program(options, name, program, file):
    def ours(*more, dropped=True):
        if dropped:
            drop(file)
        return timed([SAKIYOMI, *program, *more, file], options.urgent)

    def in_order_of_time(*more):
        drop(file)
        read = timed(["dd", f"if={file}", "of=/dev/null", "bs=1M", "status=none"], options.urgent)
        return read + timed([SAKIYOMI, *program, *more, file], options.urgent)

    def read_alone():
        drop(file)
        return timed(["dd", f"if={file}", "of=/dev/null", "bs=1M", "status=none"], options.urgent)

    cases = [
        ("I/O alone", read_alone),
        ("blocked read, I/O thread", lambda: ours()),
        ("blocked read on any", lambda: ours("--io-thread", "shared", "--method", "pread:1")),
        ("mmap", lambda: ours("--io-thread", "shared", "--method", "mmap")),
        ("read, then compute", in_order_of_time),
        ("computing alone", lambda: ours(dropped=False)),
    ]
    times = interleaved(cases, options.rounds)
    bound = max(times["I/O alone"], times["computing alone"])
    # Where reading is work of the CPU too, the two cannot be hidden behind each other entirely.
    drop(file)
    work = cpu(["dd", f"if={file}", "of=/dev/null", "bs=1M", "status=none"])
    work += cpu([SAKIYOMI, *program, file])
    cores = os.cpu_count()
    shared = max(bound, work / cores)
    print(f"{name}: {file.stat().st_size / 1e6:.0f} MB")
    print(f"  max(I/O, computing) {bound:.3f} s; with (I/O CPU + computing CPU) / {cores} cores {shared:.3f} s")
    for case, took in times.items():
        print(f"  {case:28} {took:7.3f} s   {took / bound:5.2f} x max(I/O, computing)")
    took = times["blocked read, I/O thread"]
    others = ["blocked read on any", "mmap", "read, then compute"]
    return [
        (f"{name}: at most 1.05 x the bound", took <= 1.05 * bound),
        (f"{name}: ahead of the others", all(took < times[other] for other in others)),
    ]


def matched(options, directory):
    """The hardest case for overlap: neither side waits for the other if nothing is lost."""
    backing = directory / "backing"
    size = options.size << 20
    texts(backing, size)
    checks = []
    for name, (program, _) in PROGRAMS.items():
        timed([SAKIYOMI, *program, backing / name])
        took = statistics.median(
            timed([SAKIYOMI, *program, backing / name], options.urgent) for _ in range(options.rounds)
        )
        drive = f"fixed:latency=100us,parallel=8,bandwidth={size / took / 1e6:.0f}MB/s"
        print(f"{name}: a drive of {drive}")
        with mounted(backing, directory / "mounted", drive, options.urgent) as where:
            checks += cold_program(options, name, program, where / name)
        (directory / "mounted").rmdir()
    return checks


def many(options, directory):
    backing = directory / "backing"
    for kind, count, size in [("small", 2000, 64 << 10), ("large", 20, 32 << 20)]:
        (backing / kind).mkdir(parents=True)
        text(backing / kind / "0", size)
        for index in range(1, count):
            shutil.copyfile(backing / kind / "0", backing / kind / str(index))
    os.sync()
    programs = [("sakiyomi wc -lw", SAKIYOMI), ("the other", options.against), ("GNU wc -lw", None)]
    with contextlib.ExitStack() as stack:
        where = backing
        if not options.plain:
            drive = "fixed:latency=10ms,parallel=64,bandwidth=200MB/s"
            where = stack.enter_context(mounted(backing, directory / "mounted", drive, options.urgent))
        for kind in ["small", "large"]:
            files = sorted((where / kind).iterdir())

            def run(program, dropped):
                if dropped:
                    for file in files:
                        drop(file)
                command = ["wc"] if program is None else [program, "wc"]
                return timed([*command, "-lw", *files], options.urgent)

            for state, dropped in [("cold", True), ("cached", False)]:
                cases = [
                    (name, lambda program=program: run(program, dropped))
                    for name, program in programs
                    if (name != "the other" or program) and (name != "GNU wc -lw" or not dropped)
                ]
                for name, took in interleaved(cases, options.rounds, warm_up=0 if dropped else 1).items():
                    size = sum(file.stat().st_size for file in files)
                    print(f"{kind}, {state}: {name:20} {took:7.3f} s {size / took / 1e6:8.0f} MB/s")
    return []


@contextlib.contextmanager
def memory_cgroup(limit):
    group = Path("/sys/fs/cgroup/memory") / f"sakiyomi-bench-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        yield group
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.05)


def twice(options, directory):
    backing = directory / "backing"
    backing.mkdir()
    size = options.size << 20
    text(backing / "text", size)
    times = {"in order": [], "what is cached first": []}
    with contextlib.ExitStack() as stack:
        where = backing
        if not options.plain:
            where = stack.enter_context(mounted(backing, directory / "mounted", options.drive, options.urgent))
        file = where / "text"
        for _ in range(options.rounds):
            for name, more in [("in order", ["--method", "read"]), ("what is cached first", [])]:
                drop(file)
                with memory_cgroup(size // 2) as group:
                    enter = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
                    runs = [timed([SAKIYOMI, "wc", "-lw", *more, file], options.urgent, preexec_fn=enter) for _ in range(2)]
                print(f"{name:24} first {runs[0]:.3f} s, second {runs[1]:.3f} s")
                times[name].append(runs[1])
    order, first = (statistics.median(all) for all in times.values())
    print(f"second run: {order / first:.2f} x as fast as in order")
    return [("at least 1.5 x as fast as in order", order / first >= 1.5)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cached", "cold", "matched", "many", "twice"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=512, help="MiB of the cold file")
    parser.add_argument("--drive", default="fixed:latency=100us,parallel=8,bandwidth=250MB/s")
    parser.add_argument("--plain", action="store_true", help="the disk itself instead of an emulated drive")
    parser.add_argument("--urgent", action="store_true")
    parser.add_argument("--no-rivals", action="store_true", help="without uutils and cw")
    parser.add_argument("--against", type=Path, help="another sakiyomi, for `many`")
    parser.add_argument("--directory", type=Path, default=TARGET)
    options = parser.parse_args()
    build = ["cargo", "build", "-q", "--release", "-p", "sakiyomi", "-p", "sakiyomi-text", "--bins", "--examples"]
    subprocess.run(build, check=True, cwd=ROOT)
    options.directory.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="blocked-read-", dir=options.directory))
    try:
        checks = {"cached": cached, "cold": cold, "matched": matched, "many": many, "twice": twice}[options.what](options, directory)
    finally:
        shutil.rmtree(directory)
    for what, holds in checks:
        print(f"{'ok    ' if holds else 'MISSED'} {what}")
    sys.exit(0 if all(holds for _, holds in checks) else 1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    main()
