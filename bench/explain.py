#!/usr/bin/env python3
"""Predictions of `sakiyomi whatif` against measured times: jobs recorded on one storage, predicted on others, and run there.

    cargo build --release && sudo bench/explain.py [--only NAME] [--on STORAGE] [--tries] [--result FILE]

Each job is recorded once, cold, on storage that takes 10 ms an access and serves 64 at a time at 200 MB/s, an emulated
mount. It is predicted for five other mounts, for the disk with the temporary files, for a control group of 256 MiB on the
same mount, and for the same mount with `sakiyomi run`. Then it is run on each three times, cold. Some of the jobs were
looked at while the model was made; `held out` ones were not. The error is that of the median.

--result writes a file of bench/results, of which bench/results.py makes a page.

With --tries, `explain --try` runs each job on the recorded mount, and the best of the tried remedies is compared with the
two best of the predicted ones.

Needs root and FUSE; python3, gzip, tar, sort and git; cc and make for a build; pip and a package index for pandas. Without
one of them its job is left out. SAKIYOMI=FILE measures another executable.
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

from served import Served

ROOT = Path(__file__).resolve().parent.parent
SAKIYOMI = Path(os.environ.get("SAKIYOMI", ROOT / "target" / "release" / "sakiyomi"))
RECORDED = "fixed:latency=10ms,parallel=64,bandwidth=200MB"
MOUNTS = [
    "fixed:latency=5ms,parallel=64,bandwidth=200MB",
    "fixed:latency=1ms,parallel=8,bandwidth=500MB",
    "fixed:latency=30ms,parallel=128,bandwidth=100MB",
    "deskstar-7k250",
    "nearline-18tb",
]
DISK = "the disk"
GROUP = "256 MiB of memory"
GROUP_BYTES = 256 << 20
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
PANDAS = "import sys; sys.path.insert(0, 'site'); import pandas"
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
    ("two passes", "cat large | wc -c; md5sum large", True),
    ("C build", "make -s -C source -B OUT=/dev/shm", True),
    ("import pandas", "python3 -B PANDAS", True),
]
SCRIPTS = {"SCAN": SCAN, "LOOK_UPS": LOOK_UPS, "PREADS": PREADS, "MAPPING": MAPPING, "PANDAS": PANDAS}


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
    with open(directory / "large", "wb") as large:
        for _ in range(8):
            large.write(data)
    make_sources(directory / "source")
    packages = [sys.executable, "-m", "pip", "install", "-q", "--target", directory / "site", "pandas==2.3.3"]
    subprocess.run(packages, check=False, stderr=subprocess.DEVNULL)


def make_sources(directory):
    """Makes a program of 40 files in C with 60 headers, and a makefile that compiles and links it."""
    directory.mkdir()
    for index in range(60):
        lines = "".join(f"static inline int h{index}_{line}(int x) {{ return x * {line} + {index}; }}\n" for line in range(120))
        (directory / f"h{index}.h").write_text(f"#pragma once\n{lines}")
    for index in range(40):
        used = [(index * 7 + step * 11) % 60 for step in range(12)]
        includes = "".join(f'#include "h{header}.h"\n' for header in used)
        calls = " + ".join(f"h{header}_{index}(x)" for header in used)
        (directory / f"c{index}.c").write_text(f"{includes}int c{index}(int x) {{ return {calls}; }}\n")
    declared = "".join(f"int c{index}(int);\n" for index in range(40))
    (directory / "main.c").write_text(f"{declared}int main(void) {{ return {' + '.join(f'c{index}(1)' for index in range(40))}; }}\n")
    objects = " ".join(f"$(OUT)/c{index}.o" for index in range(40))
    (directory / "Makefile").write_text(
        f"$(OUT)/program: $(OUT)/main.o {objects}\n\tcc -o $@ $^\n$(OUT)/%.o: %.c\n\tcc -O1 -c -o $@ $<\n")


class Storage:
    """Somewhere to run jobs: where, how they are predicted, and how they are run."""

    def __init__(self, name, words, drive=None, group=False, prefix=()):
        self.name, self.words, self.drive, self.is_group, self.prefix = name, words, drive, group, prefix


def storages(files):
    return [
        Storage(RECORDED, ["--drive", RECORDED], RECORDED),
        Storage(f"{RECORDED}, prefetching", ["--drive", RECORDED, "--run"], RECORDED, prefix=(SAKIYOMI, "run", "--no-learn", "--")),
        *(Storage(drive, ["--drive", drive], drive) for drive in MOUNTS),
        Storage(DISK, ["--on", files]),
        Storage(GROUP, ["--memory", "256MiB"], RECORDED, group=True),
    ]


class Group:
    """A control group of memory that this process and its children are in; both versions of the hierarchy."""

    def __init__(self):
        first = Path("/sys/fs/cgroup/memory")
        is_first = (first / "memory.limit_in_bytes").exists()
        root = first if is_first else Path("/sys/fs/cgroup")
        self.leave = root / "cgroup.procs"
        self.directory = root / "sakiyomi-bench-explain"
        self.directory.mkdir(exist_ok=True)
        (self.directory / ("memory.limit_in_bytes" if is_first else "memory.max")).write_text(str(GROUP_BYTES))

    def __enter__(self):
        (self.directory / "cgroup.procs").write_text(str(os.getpid()))

    def __exit__(self, *_):
        self.leave.write_text(str(os.getpid()))
        self.directory.rmdir()


def run(command, place, prefix=(), capture=False):
    """Runs a job, cold; gives its elapsed time and what it said."""
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3")
    # The programs of the job are warm.
    subprocess.run(["sh", "-c", "true"], check=True)
    begun = time.monotonic()
    done = subprocess.run([*prefix, "sh", "-c", command], cwd=place, check=False, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE if capture else subprocess.DEVNULL, text=True)
    return time.monotonic() - begun, done.stderr


def measured(command, storage, files, place):
    """Runs a job on a storage, cold; gives its elapsed time."""
    if storage.drive is None:
        return run(command, files, storage.prefix)[0]
    # A new mount each time: the cache of the drive is cold as well. The mount itself is not in the group.
    with Served(SAKIYOMI, files, place, "--drive", storage.drive):
        if not storage.is_group:
            return run(command, place, storage.prefix)[0]
        with Group():
            return run(command, place, storage.prefix)[0]


def predict(jobs, chosen, files, place, record):
    """Records each job and predicts it on each storage; gives the predictions by job and storage."""
    predicted = {}
    for name, command, _ in jobs:
        with Served(SAKIYOMI, files, place, "--drive", RECORDED):
            run(command, place, [SAKIYOMI, "explain", "--save", record, "--"])
        for storage in chosen:
            done = subprocess.run([SAKIYOMI, "whatif", record, "--json", *storage.words], capture_output=True, text=True)
            if done.returncode:
                print(f"{name}, {storage.name}: {done.stderr.strip()}", file=sys.stderr)
                continue
            # With --run: without prefetching, with it, and as it has learned.
            predictions = json.loads(done.stdout)["result"]["predictions"]
            predicted[name, storage.name] = predictions[1 if storage.prefix else 0]
    return predicted


def compare(jobs, storage, files, place, predicted):
    """Runs the jobs on a storage; gives a row for each that was predicted."""
    for name, command, is_held_out in jobs:
        prediction = predicted.get((name, storage.name))
        if prediction is None:
            continue
        elapsed = statistics.median(measured(command, storage, files, place) for _ in range(RUNS))
        expected, low, high = (prediction[key] / 1e9 for key in ("predicted_ns", "low_ns", "high_ns"))
        print(f"{name:20} {storage.name:62} measured {elapsed:7.3f} s  predicted {expected:7.3f} ({low:.3f} to {high:.3f})  "
              f"{expected / elapsed - 1:+.0%}", flush=True)
        yield {"job": name, "change": storage.name, "held_out": is_held_out, "measured_s": elapsed, "predicted_s": expected,
               "low_s": low, "high_s": high, "error_ratio": abs(expected / elapsed - 1), "is_covered": low <= elapsed <= high}


def summary(rows):
    """Gives of the jobs that were looked at, and of those that were held out: how many predictions, their median error, the
    share within 25 %, and the share of measured times within the intervals."""
    for held_out, name in ((False, "looked at"), (True, "held out")):
        some = [row for row in rows if row["held_out"] == held_out]
        if some:
            errors = [row["error_ratio"] for row in some]
            within = sum(error <= 0.25 for error in errors) / len(errors)
            covered = sum(row["is_covered"] for row in some) / len(some)
            yield name, len(some), statistics.median(errors), within, covered


def result(rows):
    """Returns the object of a page of results."""
    jobs = list(dict.fromkeys(row["job"] for row in rows))
    changes = list(dict.fromkeys(row["change"] for row in rows))
    by = {(row["job"], row["change"]): row for row in rows}
    held_out = {row["job"] for row in rows if row["held_out"]}
    short = {change: change.removeprefix("fixed:latency=").replace(",parallel=", ", ").replace(",bandwidth=", ", ")
             for change in changes}
    matrix = lambda cell: [[f"{job}{' *' if job in held_out else ''}",
                            *(cell(by[job, change]) if (job, change) in by else None for change in changes)] for job in jobs]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    model = next(line.split(": ")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    return {
        "title": "Predictions of other storage, memory and prefetching",
        "about": f"Jobs recorded by `sakiyomi explain --save` on an emulated mount (`{RECORDED}`), predicted by `sakiyomi whatif` "
                 f"for other settings, and run there, cold: the median of {RUNS}.",
        "machine": f"{model}, {os.cpu_count()} cores",
        "kernel": os.uname().release,
        "load": f"{os.getloadavg()[2]:.1f} (15 minutes)",
        "commit": commit,
        "date": time.strftime("%Y-%m-%d"),
        "command": "sudo bench/explain.py --result bench/results/predictions.json",
        "tables": [
            {"title": "Summary",
             "about": "Jobs that were looked at while the model was made, and those that were held out (* below). The first "
                      "setting is the recorded one: its errors are the difference between two runs, which no prediction avoids.",
             "columns": ["jobs", "predictions", {"name": "median error", "unit": "%"}, {"name": "within 25 %", "unit": "%"},
                         {"name": "within the interval", "unit": "%"}],
             "rows": [[name, count, *(round(share * 100, 1) for share in shares)] for name, count, *shares in summary(rows)]},
            {"title": "Errors", "about": "Predicted against measured, in percent. Columns: latency, accesses at a time and bandwidth of "
                                         "a mount, or another setting.",
             "columns": ["job", *(short[change] for change in changes)],
             "rows": matrix(lambda row: f"{row['predicted_s'] / row['measured_s'] - 1:+.0%}".replace("%", " %"))},
            {"title": "Measured", "about": "Elapsed times in seconds.",
             "columns": ["job", *(short[change] for change in changes)],
             "rows": matrix(lambda row: f"{row['measured_s']:.2f}")},
        ],
        "notes": [],
    }


def tries(jobs, files, place):
    """Tries the remedies of each job; says how often the best one is among the predicted best two."""
    hits, all_jobs = 0, 0
    for name, command, _ in jobs:
        with Served(SAKIYOMI, files, place, "--drive", RECORDED):
            said = run(command, place, [SAKIYOMI, "explain", "--try", "--json", "--quiet", "--"], capture=True)[1]
        result = json.loads(said[said.index("{"):])["result"]
        remedies = [(row["predicted_ns"], row["tried_ns"], row["change"]) for row in result["predictions"] if "tried_ns" in row]
        if not remedies:
            print(f"{name:20} nothing to try: {result.get('not_predicted', 'no remedies')}")
            continue
        best = min(remedies, key=lambda remedy: remedy[1])
        is_hit = best in sorted(remedies)[:2]
        hits, all_jobs = hits + is_hit, all_jobs + 1
        times = ", ".join(f"{change} {predicted / 1e9:.3f}/{tried / 1e9:.3f}" for predicted, tried, change in remedies)
        print(f"{name:20} {'best two' if is_hit else 'MISSED'}: plain {result['tried_plain_ns'] / 1e9:.3f} s; predicted/tried {times}", flush=True)
    print(f"the best remedy is among the predicted best two in {hits} of {all_jobs} jobs")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="a job")
    parser.add_argument("--on", help="a storage, by a part of its name")
    parser.add_argument("--tries", action="store_true", help="try remedies")
    parser.add_argument("--result", type=Path, help="write a file of bench/results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        files, place = scratch / "files", scratch / "mount"
        files.mkdir()
        place.mkdir()
        make_files(files)
        jobs = []
        for name, command, is_held_out in JOBS:
            for script, text in SCRIPTS.items():
                (scratch / f"{script}.py").write_text(text)
                command = command.replace(f" {script}", f" {scratch / script}.py")
            if options.only not in (None, name):
                continue
            if subprocess.run(["sh", "-c", command], cwd=files, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode > 1:
                print(f"{name}: left out, since it cannot run here", file=sys.stderr)
                continue
            jobs.append((name, command, is_held_out))
        if options.tries:
            return tries(jobs, files, place)
        chosen = [storage for storage in storages(files) if not options.on or options.on in storage.name]
        rows = []
        # Recorded and run one job after the other, as the machine may be slower some minutes later.
        for job in jobs:
            predicted = predict([job], chosen, files, place, scratch / "job.rec")
            rows += [row for storage in chosen for row in compare([job], storage, files, place, predicted)]
        for name, count, error, within, covered in summary(rows):
            print(f"{name}: {count} predictions, median error {error:.1%}, within 25 %: {within:.0%}, covered by their "
                  f"intervals: {covered:.0%}")
        if options.result:
            options.result.write_text(json.dumps(result(rows), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("git"):
        sys.exit("needs root, and git")
    main()
