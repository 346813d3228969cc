#!/usr/bin/env python3
"""The figures of README.md, measured in one run.

    cargo build --release -p sakiyomi
    sudo bench/readme.py                # about ten minutes; prints the results
    sudo bench/readme.py --write        # also writes bench/results/readme.json, bench/results/rates.json and docs/run.svg
    sudo bench/readme.py --parts job,explain,rates,sim

job      `md5sum` of 200 MB on emulated storage of 10 ms a request, 64 in parallel, 200 MB/s: alone and with `run`, in turns,
         with an empty page cache. The run with the median time is kept, and drawn.
explain  `explain --try` on the same file.
rates    Readers of 4 KiB on an emulated Deskstar 7K250: one of them with and without a rate, alone and beside nine.
sim      The command of README.md, which does not depend on the machine.

`bench/results.py` then makes the pages, and names the claims of README.md whose figures have changed.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from served import REPOSITORY, Served, run

RESULTS = REPOSITORY / "bench" / "results"
STORAGE = "fixed:latency=10ms,parallel=64,bandwidth=200MB/s"
DRIVE = "deskstar-7k250"
RATES = [None, 10, 20, 25, 33, 40]
RIVALS = 9
SETTLED = 10  # I/Os of a reader that are left out: the first ones find no others in the queue
READER = """
import json, mmap, os, random, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print(json.dumps(times))))
file, count = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), int(sys.argv[2])
pages, page, places, times = os.fstat(file).st_size // 4096, mmap.mmap(-1, 4096), random.Random(int(sys.argv[3])), []
while len(times) < count:
    begun = time.perf_counter()
    os.preadv(file, [page], places.randrange(pages) * 4096)
    times.append(time.perf_counter() - begun)
print(json.dumps(times))
"""


def empty_page_cache():
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def ms(seconds):
    return float(f"{seconds * 1e3:.3g}")


def job(sakiyomi, directory, at, rounds, picture):
    """Elapsed times of the job alone and with `run`, and the result of the `run` of median time."""
    alone, helped = [], []
    for number in range(rounds):
        empty_page_cache()
        begun = time.perf_counter()
        run("md5sum", at / "big.tar")
        alone.append(time.perf_counter() - begun)
        empty_page_cache()
        out = directory / f"with-{number}"
        run(sakiyomi, "run", "--quiet", "--out", out, "--", "md5sum", at / "big.tar")
        helped.append((json.loads((out / "result.json").read_text())["result"], out))
    helped.sort(key=lambda one: one[0]["elapsed_ns"])
    result, out = helped[len(helped) // 2]
    if picture:
        empty_page_cache()
        run(sakiyomi, "run", "--quiet", "--dry-run", "--out", directory / "alone", "--", "md5sum", at / "big.tar")
        drawn = run(sys.executable, REPOSITORY / "bench" / "readme_picture.py", directory / "alone", out)
        (REPOSITORY / "docs" / "run.svg").write_text(drawn)
    share = 100 * result["io_wait_ns"] / result["elapsed_ns"]
    return [
        ["`md5sum`, alone", f"{statistics.median(alone):.3g} s"],
        ["`md5sum` with `run`", f"{result['elapsed_ns'] / 1e9:.3g} s"],
        ["of that, waiting for I/O", f"{ms(result['io_wait_ns'] / 1e9):g} ms, {share:.1f} %"],
        ["read ahead, wasted", f"{result['prefetched_bytes'] / 2**20:.0f} MiB, {result['wasted_bytes']} B"],
    ]


def explain(sakiyomi, at):
    """The sentences of `explain --try` about the job."""
    empty_page_cache()
    words = [sakiyomi, "explain", "--try", "--", "md5sum", str(at / "big.tar")]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    paragraphs = done.stderr.split("\n\n")
    said = next(" ".join(one.split()) for one in paragraphs if "md5sum waits for" in one)
    return [["said", said.replace(str(at) + "/", "")]]


class Readers:
    """Readers of a file, which are ended by SIGTERM and then give their times."""

    def __init__(self, path, seeds, count=10**9):
        words = [[sys.executable, "-c", READER, str(path), str(count), str(seed)] for seed in seeds]
        self.processes = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in words]

    def end(self):
        for process in self.processes:
            process.terminate()
        return [json.loads(process.communicate()[0]) for process in self.processes]


def described(times):
    times = times[SETTLED:]
    mean = statistics.mean(times)
    p99 = sorted(times)[int(len(times) * 0.99)]
    return f"{mean * 1e3:.1f} ms, {p99 * 1e3:.1f} ms, {statistics.pstdev(times) / mean:.3f}"


def rates(sakiyomi, directory):
    """The rows of the readers, and the report of the last one with a rate."""
    backing, at = directory / "drive", directory / "disk"
    backing.mkdir()
    rows, said = [], ""
    with Served(sakiyomi, backing, at, "--drive", DRIVE, "--regulate"):
        run("fallocate", "-l", "20G", at / "file")
        for rate in RATES:
            given = [sakiyomi, "iorate", "run", rate, at, "--report", "--"] if rate else []

            def reader(count, seed):
                words = [*given, sys.executable, "-c", READER, at / "file", count + SETTLED, seed]
                done = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)
                return json.loads(done.stdout), done.stderr.strip()

            alone, _ = reader(270 if rate else 540, 1)
            rivals = Readers(at / "file", range(2, 2 + RIVALS))
            time.sleep(1)
            beside, said = reader(540, 1)
            others = [each for times in rivals.end() for each in times[SETTLED:]]
            rows.append([f"{rate} %" if rate else "none", described(alone), described(beside),
                         round(statistics.mean(others) * 1e3)])
            print(*rows[-1], sep="\t", flush=True)
    return rows, said


def sim(sakiyomi):
    trace = REPOSITORY / "traces" / "msr_hm0.csv.gz"
    text = run(sakiyomi, "sim", trace, "--drive", DRIVE, "--quiet").split("\n\n")
    return [["said", " ".join(text[1].split())]]


def conditions(sakiyomi):
    cpu = next(line.split(":")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line)
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    version = run(sakiyomi, "--version").split("(")[-1].split()
    return {
        "machine": f"{os.cpu_count()} cores ({' '.join(cpu.replace('(R)', '').split())}), {memory:.0f} GiB",
        "kernel": platform.release(),
        "load": f"{os.getloadavg()[2]:.0f}: other programs kept the cores busy; measured with nice {os.nice(0)}"
                if os.getloadavg()[2] > 2 else "quiet",
        "commit": version[0],
        "date": time.strftime("%Y-%m-%d"),
        "command": "sudo bench/readme.py --write",
    }


def page(head, tables):
    """A result file with a row on each line."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}," for key, value in head.items()]
    lines += ['  "tables": [']
    for number, table in enumerate(tables, 1):
        lines += ["    {"]
        rest = {key: value for key, value in table.items() if key != "rows"}
        lines += [f"      {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}," for key, value in rest.items()]
        rows = ",\n".join(f"        {json.dumps(row, ensure_ascii=False)}" for row in table["rows"])
        lines += ['      "rows": [', rows, "      ]", "    }" + ("," if number < len(tables) else "")]
    return "\n".join(["{", *lines, "  ]", "}"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sakiyomi", default=REPOSITORY / "target" / "release" / "sakiyomi", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", default="job,explain,rates,sim")
    parser.add_argument("--write", action="store_true", help="write the results, and the picture; needs all parts")
    options = parser.parse_args()
    parts = options.parts.split(",")
    sakiyomi = options.sakiyomi.resolve()
    tables, rated = [], []
    with tempfile.TemporaryDirectory(prefix="sakiyomi-readme-", dir="/var/tmp") as name:
        directory = Path(name)
        files = directory / "files"
        files.mkdir()
        (files / "big.tar").write_bytes(os.urandom(200_000_000))
        if "job" in parts or "explain" in parts:
            with Served(sakiyomi, files, directory / "far", "--drive", STORAGE) as at:
                if "job" in parts:
                    tables.append({
                        "title": "A job on slow storage",
                        "about": f"`md5sum` of 191 MiB on `{STORAGE}`, page cache empty; medians of {options.rounds} "
                                 "interleaved runs.",
                        "columns": ["what", "measured"],
                        "rows": job(sakiyomi, directory, at, options.rounds, options.write),
                    })
                if "explain" in parts:
                    tables.append({
                        "title": "Summary by `explain`",
                        "about": "`sakiyomi explain --try -- md5sum big.tar`, once.",
                        "columns": ["", "sentence"],
                        "rows": explain(sakiyomi, at),
                    })
        if "rates" in parts:
            rated, said = rates(sakiyomi, directory)
            tables.append({
                "title": "Report of `iorate run`",
                "about": f"The last of the runs of the page [rates](rates.md), with {RATES[-1]} % beside nine others.",
                "columns": ["", "sentence"],
                "rows": [["said", said]],
            })
    if "sim" in parts:
        tables.append({
            "title": "Summary by `sim`",
            "about": f"`sakiyomi sim traces/msr_hm0.csv.gz --drive {DRIVE}`. Does not depend on the machine.",
            "columns": ["", "sentence"],
            "rows": sim(sakiyomi),
        })
    for table in tables:
        print(table["title"], *("\t".join(map(str, row)) for row in table["rows"]), sep="\n  ")
    if options.write:
        if len(parts) != 4:
            sys.exit("--write needs all parts: the figures are of one run")
        measured = conditions(sakiyomi)
        head = {"title": "The figures of the README", "about": "All from one run.", **measured}
        (RESULTS / "readme.json").write_text(page(head, tables))
        about = (f"A process reads 4 KiB at random places of one file of 20 GiB on an emulated {DRIVE}, as fast as it can, "
                 "alone and beside nine others without a rate; the mount regulates by the profile of the drive. Times are "
                 "measured by the process itself: 540 I/Os, 270 when alone with a rate.")
        head = {"title": "Rates of a process on a mount", "about": about, **measured}
        columns = ["rate", "alone: mean, p99, CoV", "beside nine: mean, p99, CoV", {"name": "mean of the nine", "unit": "ms"}]
        table = {"title": "With and without a rate", "columns": columns, "rows": rated}
        (RESULTS / "rates.json").write_text(page(head, [table]))


if __name__ == "__main__":
    main()
