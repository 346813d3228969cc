#!/usr/bin/env python3
"""How fast the command simulates: `sakiyomi sim` as a whole process, from the trace file to the printed result.

    bench/sim.py [--runs 7] [--times 10] [--json FILE]

The traces are DiskSim's five measured drives, ten times over, and the PC workload. Each case is run in rounds with the
others, so that a busy spell meets all of them. Medians of requests per second of elapsed time and of CPU time; for the
PC workload also how many times faster than real time. Builds the release binary first.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAKIYOMI = ROOT / "target/release/sakiyomi"
DRIVES = ["atlas_III", "barracuda", "cheetah9LP", "hp_c2247a", "hp_c2490a"]
PC_SECONDS = 1020  # that `trace generate pc` covers


def trace_of(drive):
    folder = ROOT / "traces" if drive == "cheetah9LP" else ROOT / "traces/disksim"
    return folder / f"{drive}.trace.gz"


def repeated(drive, times, into):
    """Writes a drive's trace several times over, one after another; returns the number of requests."""
    once = into / f"{drive}.once.csv"
    subprocess.run([SAKIYOMI, "trace", "convert", trace_of(drive), once, "--quiet"], check=True)
    header, *lines = once.read_text().splitlines()
    if {line.split(",", 1)[0] for line in lines} != {"0"}:
        raise SystemExit(f"{drive}: its requests have times, and are not one after the other")
    (into / f"{drive}.csv").write_text("\n".join([header, *lines * times]) + "\n")
    return len(lines) * times


def timed(command):
    """Elapsed and CPU seconds of a process."""
    begun = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - begun
    if status != 0:
        raise SystemExit(f"{command}: status {status}")
    return elapsed, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--times", type=int, default=10, help="how often each trace stands in its file")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "sakiyomi"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory(prefix="sakiyomi-sim-") as directory:
        into = Path(directory)
        cases = {}
        for drive in DRIVES:
            requests = repeated(drive, options.times, into)
            specification = ROOT / f"traces/disksim/{drive}.diskspecs"
            cases[drive] = (requests, [SAKIYOMI, "sim", into / f"{drive}.csv", "--drive", specification, "--json", "--quiet"])
        pc = into / "pc.csv"
        subprocess.run([SAKIYOMI, "trace", "generate", "pc", pc, "--quiet"], check=True)
        requests = sum(1 for _ in open(pc)) - 1
        ahead = ["--set", "cache.read_ahead.min=384KiB", "--set", "cache.read_ahead.max=384KiB"]
        cases["pc"] = (requests, [SAKIYOMI, "sim", pc, "--drive", "deskstar-7k250", *ahead, "--json", "--quiet"])
        runs = {name: [] for name in cases}
        for _ in range(options.runs):
            for name, (_, command) in cases.items():
                runs[name].append(timed(command))
    results = []
    print(f"{'trace':12}{'requests':>10}{'elapsed':>10}{'CPU':>10}{'per s':>12}{'per CPU s':>12}")
    for name, (requests, _) in cases.items():
        elapsed, cpu = (statistics.median(run[at] for run in runs[name]) for at in (0, 1))
        note = f"  {PC_SECONDS / elapsed:,.0f} x real time ({PC_SECONDS / cpu:,.0f} by CPU time)" if name == "pc" else ""
        print(f"{name:12}{requests:>10,}{elapsed:>9.3f}s{cpu:>9.3f}s{requests / elapsed:>12,.0f}{requests / cpu:>12,.0f}{note}")
        results.append({"trace": name, "requests": requests, "elapsed_s": elapsed, "cpu_s": cpu})
    if options.json:
        options.json.write_text(json.dumps({"runs": options.runs, "times": options.times, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
