#!/usr/bin/env python3
"""How well the cost model predicts and chooses: predictions are written down before each run, from one calibration.

    cargo build --release
    bench/query_predict.py [--dirs DIR,…] [--sf 1] [--methods pread:4,uring:8] [--out DIR]

For each directory, the script measures its device once (`sakiyomi probe`), and then the operators once for the machine, with
corrections by jobs on all these devices (`sakiyomi query calibrate --dir`), with `XDG_STATE_HOME` in a directory of its own. The
tables are generated with a seed in that directory; no calibration has seen them, their keys, scale factor or limits. It starts no
mounts: `--dirs` names directories on the devices to be tested.

Each job is a command, a memory limit and a method. Its prediction (`query explain --json`) is appended to
`predictions.jsonl` and flushed to the disk before the job runs (`query explain --analyze --json`).

Printed for each device: the median and the largest relative error of the elapsed and of the CPU time, of each phase and of the
whole, with and without corrections; those of the model that counts bytes over bandwidth only and of REMOP's form (bytes and
rounds); and how many of the jobs were within the stated uncertainty of their prediction. For a sample of the jobs
the fastest rejected plans that options can force also run, in turns with the chosen one: the table has how often the chosen
plan was the fastest measured one (or no slower than it by more than the spread of its own repeats), and the regret: its
median time over the fastest's.
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
from random import Random

from query import built
SEED = 20
WIDE_COLUMNS = 40
PROBE = ["--op", "read,write", "--method", "pread:4,uring:8", "--block", "64KiB,256KiB,1MiB", "--direct", "--buffered",
         "--cached", "--buffers", "huge", "--runtime", "0.5s", "--no-control-runs"]
MODELS = {"elapsed_error_ratio": "model", "uncorrected_error_ratio": "uncorrected", "cpu_error_ratio": "CPU time",
          "uncorrected_cpu_error_ratio": "uncorrected CPU time", "storage_only_error_ratio": "storage only",
          "remop_error_ratio": "REMOP"}


def jobs(sf):
    """Commands by name, with the memory limits that make a sort or a join spill at this scale, and one that does not."""
    spilling = max(64, round(128 * sf))
    limits = sorted({spilling, 512})
    return [
        ("q1", ["q1", "lineitem.parquet"], [512]),
        ("sort", ["sort", "lineitem.parquet", "--by", "l_partkey,l_suppkey", "-o", "out.parquet"], limits),
        ("sort-text", ["sort", "orders.parquet", "--by", "o_clerk,o_comment", "-o", "out.parquet"], limits),
        ("top", ["sort", "lineitem.parquet", "--by", "l_extendedprice:desc", "--limit", "100"], [512]),
        ("join", ["join", "lineitem.parquet", "orders.parquet", "--on", "l_orderkey=o_orderkey", "-o", "out.parquet"],
         limits),
        ("aggregate", ["aggregate", "lineitem.parquet", "--by", "l_orderkey", "--sum", "l_quantity", "--count", "-o",
                       "out.parquet"], limits),
        ("narrow", ["sort", "narrow.parquet", "--by", "k", "-o", "out.parquet"], limits),
        ("wide", ["sort", "wide.parquet", "--by", "k", "-o", "out.parquet"], limits),
        ("log", ["sort", "log.parquet", "--by", "agent,url", "-o", "out.parquet"], limits),
        ("log-groups", ["aggregate", "log.parquet", "--by", "url", "--count", "-o", "out.parquet"], limits),
    ]


def write_others(directory, sf):
    """Tables unlike those of TPC-H, as CSV: two columns; many columns; long texts with common prefixes."""
    random = Random(SEED)
    agents = [f"Mozilla/5.0 (agent {number}; {'x' * (number % 40)})" for number in range(300)]

    def narrow(row):
        return random.getrandbits(40), row % 1000

    def wide(_):
        return [random.getrandbits(30), f"{random.random():.6f}", *(random.getrandbits(20) for _ in range(WIDE_COLUMNS))]

    def log(_):
        url = f"https://example.org/site/{random.randrange(3000)}/page/{random.randrange(100000)}"
        return url, random.choice(agents), f"{random.getrandbits(128):032x}", f"{100 * random.random():.3f}"

    tables = {"narrow": (5e6, ["k", "v"], narrow),
              "wide": (4e5, ["k", "f", *(f"c{number}" for number in range(WIDE_COLUMNS))], wide),
              "log": (1.5e6, ["url", "agent", "id", "ms"], log)}
    for name, (rows, columns, row) in tables.items():
        with open(directory / f"{name}.csv", "w") as file:
            file.write(",".join(columns) + "\n")
            file.writelines(",".join(map(str, row(number))) + "\n" for number in range(round(rows * sf)))
    return tables


class Bench:
    def __init__(self, options):
        self.binary = built(options.binary)
        self.options = options
        self.out = options.out or Path(tempfile.mkdtemp(prefix="query-predict-"))
        self.out.mkdir(parents=True, exist_ok=True)
        state = options.state or self.out / "state"
        self.environment = dict(os.environ, XDG_STATE_HOME=str(state.absolute()))
        self.predictions = open(self.out / "predictions.jsonl", "a")

    def run(self, directory, words):
        command = [str(self.binary.absolute()), *map(str, words)]
        done = subprocess.run(command, cwd=directory, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def calibrate(self, directories):
        if self.options.state:
            return
        for directory in directories:
            for pattern in [], ["--random"]:
                self.run(directory, ["probe", ".", *PROBE, *pattern, "--size", self.options.probe_size, "--quiet"])
        # The jobs of this calibration are predicted by those of the devices.
        sites = [word for directory in directories for word in ("--dir", directory)]
        begun = time.monotonic()
        found = json.loads(self.run(self.out, ["query", "calibrate", *sites, "--json", "--quiet"]))["result"]
        costs = found["operators"]
        corrections = costs["corrections"]
        print(f"calibrated in {time.monotonic() - begun:.0f} s: {corrections['jobs']} runs of jobs; two threads take "
              f"{costs['parallel_slowdown']:.2f} times the CPU time of one")
        for kind in corrections["phases"]:
            factors = [f"{kind[name]['ratio']:.2f} ± {100 * kind[name]['uncertainty_ratio']:.0f} %" for name in ("elapsed", "cpu")]
            print(f"  {kind['step']}{', spilled' if kind['is_spilled'] else ''}: {factors[0]} elapsed, {factors[1]} CPU time")

    def tables(self, directory):
        words = ["query", "gen", "--sf", self.options.sf, "--tables", "lineitem,orders", "--shuffle", SEED, "-o", ".",
                 "--quiet"]
        self.run(directory, words)
        for name, (_, columns, _) in write_others(directory, self.options.sf).items():
            # By the last column: in no order of the keys of the jobs.
            self.run(directory, ["sort", f"{name}.csv", "--by", columns[-1], "-o", f"{name}.parquet", "--quiet"])
            (directory / f"{name}.csv").unlink()
        # Writes of the generator must not disturb the first run.
        os.sync()

    def write_down(self, record):
        self.predictions.write(json.dumps(record) + "\n")
        self.predictions.flush()
        os.fsync(self.predictions.fileno())

    def explain(self, directory, words, analyze):
        flags = ["--analyze"] if analyze else []
        return json.loads(self.run(directory, ["query", "explain", *flags, *words, "--json", "--quiet"]))["result"]

    def job(self, device, directory, name, words, memory, method):
        """The prediction, written down, then a run with its errors."""
        forced = ["--method", method] if method else []
        words = [*words, "--memory", f"{memory}MiB", "--spill", self.options.spill, *forced]
        label = f"{name} {memory} MiB {method or 'chosen'}"
        try:
            predicted = self.explain(directory, words, analyze=False)
        except RuntimeError as error:
            print(f"  {label}: {error}", file=sys.stderr)
            return None
        self.write_down({"device": device, "job": label, "plan": predicted["plan"], "prediction": predicted["prediction"]})
        measured = self.explain(directory, words, analyze=True)
        analysis = measured["analysis"]
        is_same = measured["plan"] == predicted["plan"]
        uncertainty = measured["prediction"]["uncertainty"]
        result = {"device": device, "job": label, "is_same_plan": is_same, "uncertainty": uncertainty, "analysis": analysis}
        with open(self.out / "results.jsonl", "a") as file:
            file.write(json.dumps(result) + "\n")
        elapsed = analysis["measured"]["elapsed_ns"] / 1e9
        errors = ", ".join(f"{MODELS[key]} {percent(analysis[key])}" for key in MODELS)
        print(f"  {label}: {elapsed:.2f} s; {errors}{'' if is_same else '; the plan changed'}")
        return result

    # Choices

    def choice(self, device, directory, name, words, memory):
        """The chosen plan against the rejected ones that options can force, in turns."""
        base = [*words, "--memory", f"{memory}MiB", "--spill", self.options.spill]
        chosen = self.explain(directory, base, analyze=False)
        rivals = []
        for rejected in chosen["rejected"]:
            forced = force(rejected["difference"])
            if forced and len(rivals) < self.options.rivals:
                rivals.append((rejected["difference"], forced))
        if not rivals:
            return None
        plans = [("chosen", []), *rivals]
        self.write_down({"device": device, "job": f"choice {name} {memory} MiB", "plans": [plan for plan, _ in plans]})
        times = {plan: [] for plan, _ in plans}
        for _ in range(self.options.repeats):
            for plan, forced in plans:
                measured = self.explain(directory, [*base, *forced], analyze=True)
                times[plan].append(measured["analysis"]["measured"]["elapsed_ns"] / 1e9)
        medians = {plan: statistics.median(found) for plan, found in times.items()}
        best = min(medians, key=medians.get)
        noise = max(times["chosen"]) - min(times["chosen"])
        is_best = medians["chosen"] - medians[best] <= noise
        regret = medians["chosen"] / medians[best]
        listed = ", ".join(f"{plan} {medians[plan]:.2f} s" for plan in medians)
        print(f"  choice {name} {memory} MiB: {listed}; {'best' if is_best else 'not best'}, regret {regret:.2f}")
        return {"device": device, "is_best": is_best, "regret": regret}


def force(difference):
    """The options that make a rejected plan of this description the only one."""
    kind, _, value = difference.partition(" ")
    if kind == "engine":
        return ["--method", value]
    if kind == "input":
        return ["--direct"] if value == "direct" else ["--buffered"]
    if difference.endswith((" thread", " threads")):
        return ["--threads", kind]
    return None


def percent(ratio):
    return "–" if ratio is None else f"{100 * ratio:+.0f} %"


def table(rows):
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def summary(results):
    """Errors by device and phase: the median and the largest of their absolute values."""
    groups = {}
    for result in results:
        analysis = result["analysis"]
        groups.setdefault((result["device"], "whole"), []).append(analysis)
        for phase in analysis["phases"]:
            if phase.get("elapsed_error_ratio") is not None:
                groups.setdefault((result["device"], phase["name"]), []).append(phase)
    rows = [["device", "phase", "n", *(f"{model}: median, worst" for model in MODELS.values())]]
    for (device, phase), found in sorted(groups.items()):
        cells = []
        for key in MODELS:
            errors = sorted(abs(one[key]) for one in found if one[key] is not None)
            cells.append(f"{100 * statistics.median(errors):.0f} %, {100 * errors[-1]:.0f} %" if errors else "–")
        rows.append([device, phase, str(len(found)), *cells])
    table(rows)


def certainty(results):
    """Jobs whose measured time is within the uncertainty that was stated: two thirds if it is right."""
    stated = [(result["uncertainty"], result["analysis"]) for result in results if result["uncertainty"]]
    for name, key in (("elapsed", "elapsed_error_ratio"), ("cpu", "cpu_error_ratio")):
        within = [1 / (1 + uncertainty[f"{name}_ratio"]) <= 1 + analysis[key] <= 1 + uncertainty[f"{name}_ratio"]
                  for uncertainty, analysis in stated if analysis[key] is not None]
        if within:
            print(f"{sum(within)} of {len(within)} runs are within the stated uncertainty of their {name} time")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dirs", default=".", help="directories on the devices, separated by commas")
    parser.add_argument("--sf", type=float, default=1)
    parser.add_argument("--methods", default="pread:4,uring:8", help="methods to force, besides the chosen one")
    parser.add_argument("--probe-size", default="256MiB", help="size of the file that measures a device; less for slow ones")
    parser.add_argument("--spill", default=".", help="directory of spills: a tmpfs is refused beyond the memory limit")
    parser.add_argument("--only", help="names of jobs, separated by commas")
    parser.add_argument("--choices", type=int, default=4, help="jobs of each device whose rejected plans run, too")
    parser.add_argument("--rivals", type=int, default=3, help="rejected plans of each")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each plan")
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--state", type=Path, help="use the calibrations in this directory instead of measuring")
    parser.add_argument("--out", type=Path, help="directory of the calibration, the predictions and the results")
    return parser.parse_args()


def main():
    options = parsed()
    bench = Bench(options)
    parents = [Path(name).absolute() for name in options.dirs.split(",")]
    directories = [Path(tempfile.mkdtemp(prefix="query-predict-", dir=parent)) for parent in parents]
    results, choices = [], []
    try:
        bench.calibrate(directories)
        for parent, directory in zip(parents, directories):
            device = str(parent)
            print(device)
            bench.tables(directory)
            wanted = [job for job in jobs(options.sf) if not options.only or job[0] in options.only.split(",")]
            cases = [(name, words, memory) for name, words, limits in wanted for memory in limits]
            for name, words, memory in cases:
                for method in [None, *filter(None, options.methods.split(","))]:
                    results.append(bench.job(device, directory, name, words, memory, method))
            for name, words, memory in cases[: options.choices]:
                choices.append(bench.choice(device, directory, name, words, memory))
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)
    results, choices = [one for one in results if one], [one for one in choices if one]
    if results:
        print()
        summary(results)
        certainty(results)
    changed = sum(not result["is_same_plan"] for result in results)
    print(f"\n{len(results)} runs, {changed} with another plan than the one that was written down; {bench.out}")
    if choices:
        best = sum(choice["is_best"] for choice in choices)
        regrets = sorted(choice["regret"] for choice in choices)
        print(f"choice: {best} of {len(choices)} were the best measured; regret {statistics.median(regrets):.2f} (median), "
              f"{regrets[-1]:.2f} (worst)")


if __name__ == "__main__":
    main()
