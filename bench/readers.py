#!/usr/bin/env python3
"""Programs that read one file in ways other than from its beginning to its end: alone, with a long read-ahead of the kernel, with
`sakiyomi run`.

    cargo build --release
    bench/readers.py DIR [--rounds 3] [--readers pread,sort,…] [--user 65534]

DIR is a directory on slow storage; the script starts no mounts. For storage A of the results page, an independent file system in
user space answered each read after 10 ms, 64 at a time, at 200 MB/s; `sakiyomi mount files DIR --drive
fixed:latency=10ms,parallel=64,bandwidth=200MB/s` is similar.

Each run is a fresh process with the file cold. Printed: medians of elapsed seconds of the program alone; with `read_ahead_kb` 1024 for
the file system of DIR, which needs root and is set back; with `run`; and with `run` as another user (`--user`), who does not own the
file and may not trace. `sort`, `xz` and `sqlite3` are left out where they are not installed.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from random import Random

MIB = 1 << 20
BINARY = Path(__file__).resolve().parent.parent / "target/release/sakiyomi"
PYTHON = "import os, random\nfile = os.open(path, os.O_RDONLY)\nsize = os.fstat(file).st_size\nrandoms = random.Random(2)\n"
MODES = {
    "two-streams": "half = size // 2\nfor at in range(0, 48 << 20, 65536):\n"
    "  for start in (0, half): os.lseek(file, start + at, 0); os.read(file, 65536)",
    "sequential-random-sequential": "for _ in range(512): os.read(file, 65536)\n"
    "for _ in range(50): os.lseek(file, randoms.randrange(size), 0); os.read(file, 4096)\n"
    "os.lseek(file, 64 << 20, 0)\nfor _ in range(512): os.read(file, 65536)",
    "backward": "for at in range(64 << 20, 0, -65536): os.lseek(file, at, 0); os.read(file, 65536)",
    "stride": "for at in range(0, 128 << 20, 262144): os.lseek(file, at, 0); os.read(file, 65536)",
    "pread": "for at in range(0, 96 << 20, 65536): os.pread(file, 65536, at)",
    "random": "for _ in range(150): os.pread(file, 4096, randoms.randrange(size))",
    "one-read": "os.read(file, size)",
    "long-preads": "parts = list(range(0, size, 16 << 20)); randoms.shuffle(parts)\n"
    "for at in parts: os.pread(file, 16 << 20, at)",
    "long-preads-apart": "for at in range(0, size, 16 << 20): os.pread(file, 4 << 20, at)",
    "long-preads-threads": "from concurrent.futures import ThreadPoolExecutor\n"
    "with ThreadPoolExecutor(3) as threads: list(threads.map(lambda at: len(os.pread(file, 8 << 20, at)), range(0, size, 8 << 20)))",
}


def tables(directory, megabytes, python):
    """Makes the files; gives the path and the command of each reader."""
    data, lines, database = (directory / name for name in ("readers.bin", "readers.txt", "readers.sqlite"))
    with open(data, "wb") as file:
        for seed in range(megabytes):
            file.write(Random(seed).randbytes(MIB))
    readers = {name: (data, [python, "-c", f"path = {str(data)!r}\n{PYTHON}{mode}"]) for name, mode in MODES.items()}
    order = Random(1)
    with open(lines, "w") as file:
        for _ in range(1_500_000):
            file.write(f"{order.randrange(10**9)},{order.randrange(10**7)},{order.random():.6f}\n")
    if shutil.which("sort"):
        readers["sort"] = (lines, ["sort", "-o", "/dev/null", str(lines)])
    if shutil.which("xz"):
        with open(f"{lines}.xz", "wb") as file:
            subprocess.run(["xz", "-1", "--stdout", str(lines)], stdout=file, check=True)
        readers["xz -d"] = (Path(f"{lines}.xz"), ["sh", "-c", f"xz -dc '{lines}.xz' > /dev/null"])
    if shutil.which("sqlite3"):
        database.unlink(missing_ok=True)
        rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000) "
        script = f"create table t(a integer primary key, b text); {rows} insert into t select i, hex(randomblob(30)) from n;"
        subprocess.run(["sqlite3", str(database), script], check=True)
        query = ["sqlite3", f"file:{database}?immutable=1", "select sum(length(b)) from t"]
        readers["sqlite3"] = (database, query)
    os.sync()
    return readers


def cold_run(path, command):
    """One run with the file cold; gives its seconds."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
    environment = dict(os.environ, LC_ALL="C")
    begun = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
    return time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--readers", help="names, divided by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--user", help="number of another user, for a further column")
    # The interpreter itself: a shim would start other processes first. The other user must be able to execute it.
    parser.add_argument("--python", default=os.path.realpath(sys.executable))
    parser.add_argument("--binary", type=Path, default=BINARY)
    options = parser.parse_args()
    readers = tables(options.directory, options.megabytes, options.python)
    wanted = options.readers.split(",") if options.readers else list(readers)
    helped = [str(options.binary.absolute()), "run", "--no-learn", "--quiet", "--"]
    other = ["setpriv", "--reuid", str(options.user), "--regid", str(options.user), "--clear-groups"]
    sides = {"alone": [], "`read_ahead_kb` 1024": [], "with `run`": helped}
    if options.user:
        sides["another user's file"] = other + helped
    device = os.stat(options.directory).st_dev
    read_ahead = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    before = read_ahead.read_text()
    print("| reader | " + " | ".join(f"{side}, s" for side in sides) + " |\n|---|" + "---|" * len(sides))
    try:
        for name in wanted:
            path, command = readers[name]
            found = {side: [] for side in sides}
            for _ in range(options.rounds):
                for side, prefix in sides.items():
                    read_ahead.write_text("1024" if "kb" in side else before)
                    found[side].append(cold_run(path, prefix + command))
            cells = (f"{statistics.median(found[side]):.2f}" for side in sides)
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    finally:
        read_ahead.write_text(before)
        for path, _ in readers.values():
            path.unlink(missing_ok=True)
        (options.directory / "readers.txt").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
