#!/usr/bin/env python3
"""Predictions of `sakiyomi whatif` against measured times: jobs recorded on one storage, predicted on others, and run there.

    cargo build --release && sudo bench/explain.py [--only NAME] [--json FILE]

Each job is recorded once, cold, on storage that takes 10 ms an access and serves 64 at a time at 200 MB/s, an emulated
mount. It is predicted for four other mounts and for the same one with `sakiyomi run`, and then run on each three times,
cold. Of these, half of the jobs were looked at while the model was made; `held out` ones were not. The error is that of
the median. Needs root and FUSE; python3, gzip, tar, sort and git.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAKIYOMI = ROOT / "target" / "release" / "sakiyomi"
RECORDED = "fixed:latency=10ms,parallel=64,bandwidth=200MB"
OTHERS = [
    "fixed:latency=5ms,parallel=64,bandwidth=200MB",
    "fixed:latency=1ms,parallel=8,bandwidth=500MB",
    "fixed:latency=30ms,parallel=128,bandwidth=100MB",
    "deskstar-7k250",
    "nearline-18tb",
]
RUNS = 3
SCAN = "import sqlite3; print(sqlite3.connect('file:db?immutable=1', uri=True).execute('select sum(length(b)) from t').fetchone())"
LOOK_UPS = (
    "import sqlite3, random; random.seed(1); c = sqlite3.connect('file:db?immutable=1', uri=True)\n"
    "for _ in range(300): c.execute('select length(b) from t where rowid=?', (random.randrange(1, 20000),)).fetchone()"
)
MAPPING = (
    "import mmap, os\nf = os.open('data', os.O_RDONLY); m = mmap.mmap(f, 0, prot=mmap.PROT_READ)\n"
    "for at in range(0, len(m), 4096): m[at]"
)
PREADS = (
    "import os, random\nrandom.seed(2); f = os.open('data', os.O_RDONLY)\n"
    "for _ in range(200): os.pread(f, 16384, random.randrange(0, 5000) * 4096); sum(range(20000))"
)
# Name, command, and whether the model was made without it.
JOBS = [
    ("md5sum", "md5sum data", False),
    ("gzip", "gzip -1 -c data | wc -c", False),
    ("mapping", "python3 MAPPING", False),
    ("tar of small files", "tar cf - small | wc -c", False),
    ("sort", "sort text -o /dev/null", False),
    ("sqlite scan", "python3 SCAN", True),
    ("sqlite look-ups", "python3 LOOK_UPS", True),
    ("git grep", "git -C repository -c safe.directory='*' grep -c nothing_like_this", True),
    ("random preads", "python3 PREADS", True),
    ("sakiyomi sort", f"{SAKIYOMI} sort table.csv --by a --memory 64MiB -o /dev/shm/sorted.csv", True),
]
SCRIPTS = {"SCAN": SCAN, "LOOK_UPS": LOOK_UPS, "PREADS": PREADS, "MAPPING": MAPPING}


def make_files(directory):
    """Makes the files of all jobs."""
    data = os.urandom(40 << 20)
    (directory / "data").write_bytes(data)
    (directory / "text").write_bytes(b"".join(data[i : i + 16].hex().encode() + b"\n" for i in range(0, 16 << 20, 16)))
    small = directory / "small"
    small.mkdir()
    for index in range(200):
        (small / f"{index:03}").write_bytes(data[index * 3000 : (index + 1) * 3000])
    import sqlite3

    with sqlite3.connect(directory / "db") as base:
        base.execute("create table t (b blob)")
        base.executemany("insert into t values (?)", ((data[i * 1500 : (i + 1) * 1500],) for i in range(20000)))
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", "--depth", "1", f"file://{ROOT}", directory / "repository"], check=True)
    rows = (f"{int.from_bytes(data[i : i + 4])},{i}" for i in range(0, 8 << 20, 8))
    (directory / "table.csv").write_text("a,b\n" + "\n".join(rows) + "\n")


class Mount:
    def __init__(self, files, place, drive):
        self.place = place
        self.process = subprocess.Popen(
            [SAKIYOMI, "mount", files, place, "--drive", drive, "--quiet"], stdout=subprocess.DEVNULL)
        for _ in range(200):
            if os.path.ismount(place):
                return
            time.sleep(0.05)
        sys.exit(f"{place} is not mounted")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([SAKIYOMI, "umount", self.place], check=True)
        self.process.wait()


def run(command, place, prefix=()):
    """Runs a job, cold; gives its elapsed time."""
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3")
    subprocess.run(["sh", "-c", "true"], check=True)
    begun = time.monotonic()
    subprocess.run([*prefix, "sh", "-c", command], cwd=place, check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="a job")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        files, place = scratch / "files", scratch / "mount"
        files.mkdir()
        place.mkdir()
        make_files(files)
        for name, text in SCRIPTS.items():
            (scratch / f"{name}.py").write_text(text)
        jobs = []
        for name, command, is_held_out in JOBS:
            for script in SCRIPTS:
                command = command.replace(f"python3 {script}", f"python3 {scratch / script}.py")
            if options.only in (None, name):
                jobs.append((name, command, is_held_out))
        predicted = {}
        for name, command, _ in jobs:
            record = scratch / "job.rec"
            with Mount(files, place, RECORDED):
                run(command, place, [SAKIYOMI, "explain", "--save", record, "--"])
            words = ["--run", "--json", "--drive", RECORDED]
            for drive in OTHERS:
                words += ["--drive", drive]
            said = subprocess.run([SAKIYOMI, "whatif", record, *words], capture_output=True, text=True)
            if said.returncode:
                print(f"{name}: {said.stderr.strip()}", file=sys.stderr)
                continue
            for prediction in json.loads(said.stdout)["result"]["predictions"]:
                predicted[name, prediction["change"]] = prediction
        for drive in [RECORDED, *OTHERS]:
            measure(jobs, drive, files, place, predicted, rows, with_run=drive == RECORDED)
    for held_out in (False, True):
        some = [row for row in rows if row["held_out"] == held_out]
        if some:
            errors = sorted(row["error_ratio"] for row in some)
            within = sum(error <= 0.25 for error in errors) / len(errors)
            covered = sum(row["is_covered"] for row in some) / len(some)
            print(f"{'held out' if held_out else 'looked at'}: {len(some)} predictions, median error "
                  f"{statistics.median(errors):.1%}, within 25 %: {within:.0%}, covered by their intervals: {covered:.0%}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def measure(jobs, drive, files, place, predicted, rows, with_run):
    for name, command, is_held_out in jobs:
        variants = [(drive, [])] + ([(f"{drive}, prefetching", [SAKIYOMI, "run", "--no-learn", "--"])] if with_run else [])
        times = {change: [] for change, _ in variants}
        for _ in range(RUNS):
            for change, prefix in variants:
                # A new mount each time: the cache of the drive is cold as well.
                with Mount(files, place, drive):
                    times[change].append(run(command, place, prefix))
        for change, seconds in times.items():
            prediction = predicted.get((name, change))
            if prediction is None:
                continue
            measured = statistics.median(seconds)
            expected = prediction["predicted_ns"] / 1e9
            low, high = prediction["low_ns"] / 1e9, prediction["high_ns"] / 1e9
            row = {"job": name, "change": change, "held_out": is_held_out, "measured_s": measured, "predicted_s": expected,
                   "low_s": low, "high_s": high, "error_ratio": abs(expected / measured - 1), "is_covered": low <= measured <= high}
            rows.append(row)
            print(f"{name:20} {change:62} measured {measured:7.3f} s  predicted {expected:7.3f} ({low:.3f} to {high:.3f})  "
                  f"{expected / measured - 1:+.0%}", flush=True)


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("git"):
        sys.exit("needs root, and git")
    main()
