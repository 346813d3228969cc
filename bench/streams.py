#!/usr/bin/env python3
"""Placed streams held to their goals: the experiment of Ueda et al. (2013), pauses of relocations, the controller, the
simulation beside the machine, and a long run that loses nothing.

    cargo build --release -p sakiyomi-stream --examples
    cargo build --release -p sakiyomi-scenario --example stream_curve
    bench/streams.py [--quick] [--patterns 3] [--seed 1] [--page streams.html] [--json streams.json] [--wait 120]

It prints a table of goals and what was measured, and exits with 1 if one was missed. The page, which needs nothing
else, shows latencies and cores in use over time, with the relocations. `--quick` takes less than 5 minutes; without it the
experiment has the paper's times (changes at 10, 15, 20, 25, 30 and 35 s), random patterns, with which nothing was tuned, and
a run of 10^9 tuples.

Rules, declared beforehand:

- A phase of a run is left out if other programs or other guests of the host took more than 2 % of the CPUs while it was
  steady, which is from a second after the change on. A figure is the median over the rounds that are left.
- A relocation is left out with its phase. The 100 ms around it are the tenth of a second in which it was complete, and
  they are compared with the same tenth of the static run of the same round.
- A goal for which nothing is left is not judged, and counts as neither met nor missed.
- Moves are left out as `relocate` says in its file, and are counted.

`--wait` says for how many seconds at most to wait before each program until the machine is quiet.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from streams_page import page

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples"

DISTURBED_RATIO = 0.02
"""Share of the CPUs that others may take."""

SETTLE_NS = 1_000_000_000
"""Time from a change of the load until a phase is steady."""

BIN_NS = 100_000_000
"""Length of the parts for which there are latencies."""


def others_ratio(seconds):
    """Share of the CPUs that is in use."""
    def ticks():
        fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]
    before = ticks()
    time.sleep(seconds)
    after = ticks()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


def run(name, options, wait):
    """The JSON of an example."""
    program = EXAMPLES / name
    if not program.exists():
        sys.exit(f"{program} does not exist; build it as the head of this file says")
    end = time.monotonic() + wait
    while others_ratio(2) > DISTURBED_RATIO and time.monotonic() < end:
        pass
    words = [str(program), *(str(option) for option in options), "--json"]
    print(" ".join(words[0:1] + words[1:]).replace(str(EXAMPLES) + "/", ""), file=sys.stderr)
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout.strip():
        sys.exit(f"{name} failed with exit code {done.returncode}")
    return json.loads(done.stdout)


# The experiment

class Experiment:
    """A pattern and the runs of all arms."""

    def __init__(self, result):
        self.name, self.phases, self.runs = result["name"], result["phases"], result["runs"]
        self.left_out = sum(ratio > DISTURBED_RATIO for run in self.runs for ratio in run["others_ratio"])
        self.in_all = len(self.runs) * len(self.phases)

    def of(self, arm):
        return [run for run in self.runs if run["arm"] == arm]

    def is_kept(self, run, phase):
        return run["others_ratio"][phase] <= DISTURBED_RATIO

    def steady(self, arm, phase):
        """Mean latency of an arm in a phase, in nanoseconds; none if all rounds were disturbed."""
        first, last = self.phases[phase]["from_ns"] + SETTLE_NS, self.phases[phase]["to_ns"]
        means = []
        for run in self.of(arm):
            bins = [bin for bin in run["bins"] if first <= bin[0] < last]
            results = sum(bin[1] for bin in bins)
            if self.is_kept(run, phase) and results:
                means.append(sum(bin[1] * bin[2] for bin in bins) / results)
        return statistics.median(means) if means else None

    def ratios(self, arm, other):
        """Latency of an arm in relation to that of another, by phase."""
        pairs = [(self.steady(arm, phase), self.steady(other, phase)) for phase in range(len(self.phases))]
        return [one / two if one and two else None for one, two in pairs]

    def excess_s(self):
        """The longest time for which the adaptive arm had more cores than the oracle, later than a second after a
        change."""
        worst = None
        for run in self.of("adaptive"):
            steps = [(0, run["cores"])] + [(change["at_ns"], change["cores"]) for change in run["changes"]]
            for index, phase in enumerate(self.phases):
                if not self.is_kept(run, index):
                    continue
                first, last = phase["from_ns"] + SETTLE_NS, phase["to_ns"]
                ends = [at for at, _ in steps[1:]] + [last]
                excess = sum(max(0, min(end, last) - max(at, first))
                             for (at, cores), end in zip(steps, ends) if cores > phase["best_cores"])
                worst = max(worst or 0, excess)
        return None if worst is None else worst * 1e-9

    def relocations(self, arm):
        """Mean and 99th percentile around each relocation in relation to the static arm's."""
        static = {run["round"]: {bin[0]: bin for bin in run["bins"]} for run in self.of("static")}
        found = []
        for run in self.of(arm):
            bins = {bin[0]: bin for bin in run["bins"]}
            for change in run["changes"]:
                start = change["at_ns"] // BIN_NS * BIN_NS
                phase = max(index for index, phase in enumerate(self.phases) if phase["from_ns"] <= change["at_ns"])
                ours, theirs = bins.get(start), static[run["round"]].get(start)
                if ours and theirs and self.is_kept(run, phase):
                    found.append((ours[2] / theirs[2], ours[3] / theirs[3]))
        return found


def judged(goal, bound, measured, met):
    return {"goal": goal, "bound": bound, "measured": measured, "met": met}


def judge_experiment(experiment):
    name = experiment.name
    known = [ratio for ratio in experiment.ratios("static", "oracle") if ratio]
    valid = sum(ratio >= 1.5 for ratio in known)
    yield judged(f"{name}: phases in which the best static division takes 1.5 times the oracle's", ">= 2",
                 f"{valid} of {len(known)} judged", None if not known else valid >= 2)
    known = [ratio for ratio in experiment.ratios("adaptive", "oracle") if ratio]
    yield judged(f"{name}: mean in relation to the oracle's, worst steady phase", "<= 1.05",
                 f"{max(known):.3f} (of {len(known)} phases)" if known else "-", max(known) <= 1.05 if known else None)
    excess = experiment.excess_s()
    yield judged(f"{name}: more cores than the oracle, beyond a second after a change", "0 s",
                 "-" if excess is None else f"{excess:.2f} s", None if excess is None else excess == 0)
    found = experiment.relocations("adaptive")
    inside = sum(mean <= 1 and p99 <= 1 for mean, p99 in found)
    worst = f"{inside} of {len(found)} relocations; worst mean x {max(m for m, _ in found):.1f}, " \
            f"p99 x {max(p for _, p in found):.1f}" if found else "-"
    yield judged(f"{name}: mean and p99 around a relocation not above the static arm's", "all", worst,
                 inside == len(found) if found else None)
    violations = sum(run["violations"] for run in experiment.runs)
    yield judged(f"{name}: tuples out of order, lost or doubled", "0", str(violations), violations == 0)


def print_experiment(experiment):
    print(f"\n{experiment.name}: mean latency in us by phase, while steady; "
          f"{experiment.left_out} of {experiment.in_all} phases of runs were disturbed and left out\n")
    phases = range(len(experiment.phases))
    titles = [f"{phase['from_ns'] * 1e-9:g} s, {phase['rate_per_s'] * 1e-3:.0f} k/s" for phase in experiment.phases]
    print(f"| arm | {' | '.join(titles)} | CPU s | around relocations, mean and p99 / static |\n|---|{'---|' * len(titles)}---|---|")
    for arm in dict.fromkeys(run["arm"] for run in experiment.runs):
        means = [experiment.steady(arm, phase) for phase in phases]
        cells = [f"{mean * 1e-3:.1f}" if mean else "-" for mean in means]
        cpu = statistics.median(run["cpu_s"] for run in experiment.of(arm))
        found = experiment.relocations(arm)
        around = f"{statistics.median(m for m, _ in found):.2f}, {statistics.median(p for _, p in found):.2f}" if found else ""
        print(f"| {arm} | {' | '.join(cells)} | {cpu:.1f} | {around} |")
    print(f"| cut of the oracle | {' | '.join(str(phase['best_cut']) for phase in experiment.phases)} | | |")


# The other programs

def judge_pauses(result):
    kept, raw = result["pauses"]["kept"], result["pauses"]["raw"]
    left_out = f"{result['pauses']['preempted']} preempted and {result['pauses']['stolen']} stolen left out"
    yield judged("pause of a relocation, p99", "<= 5 us",
                 f"{kept['p99_ns'] * 1e-3:.1f} us of {kept['moves']} moves; raw {raw['p99_ns'] * 1e-3:.1f} us of {raw['moves']}; {left_out}",
                 kept["p99_ns"] <= 5_000 if kept["moves"] >= 100 else None)


def judge_endurance(result):
    yield judged(f"{result['tuples']:.0e} tuples, {result['relocations']} relocations, {result['panics']} panics: "
                 "out of order, lost or doubled", "0", str(result["violations"]), result["violations"] == 0)


def judge_steps(result):
    steps, is_quiet = result["steps"], result["others_ratio"] <= DISTURBED_RATIO
    missing = sum(step["live_ns"] is None for step in steps)
    goals = (("live_ns", "step of the rate until its plan is live, longest", 100), ("detected_ns", "the same from its detection on", 10))
    for key, goal, bound_ms in goals:
        times = [step[key] * 1e-6 for step in steps if step[key] is not None]
        text = f"{max(times):.1f} ms of {len(times)} steps, median {statistics.median(times):.1f} ms" if times else "-"
        met = not missing and bool(times) and max(times) <= bound_ms
        yield judged(goal, f"<= {bound_ms} ms", text + (f"; {missing} without a plan" if missing else "")
                     + ("" if is_quiet else f"; others took {result['others_ratio']:.0%}"), met if is_quiet else None)


def judge_simulation(result):
    is_quiet = result["others_ratio"] <= DISTURBED_RATIO
    note = "" if is_quiet else f"; others took {result['others_ratio']:.0%}"
    for key, goal, bound in (("mean_error_ratio", "mean", 0.10), ("p99_error_ratio", "p99", 0.25)):
        worst = max((abs(one[key]), one["cores"], one["share"]) for one in result["compared"])
        yield judged(f"simulated {goal} beside the machine's, worst of {len(result['compared'])} loads", f"<= {bound:.0%}",
                     f"{worst[0]:.1%} ({worst[1]} cores at {worst[2]:.1f}){note}", worst[0] <= bound if is_quiet else None)


def print_simulation(result):
    print("\nlive and simulated, in us\n\n| cores | share | live mean | simulated | live p99 | simulated |\n|---|---|---|---|---|---|")
    for one in result["compared"]:
        times = [one[key] * 1e-3 for key in ("live_mean_ns", "simulated_mean_ns", "live_p99_ns", "simulated_p99_ns")]
        print(f"| {one['cores']} | {one['share']} | " + " | ".join(f"{value:.1f}" for value in times) + " |")


def measure(options):
    quick, wait = options.quick, options.wait
    unit = ["--unit", 2, "--rounds", 1, "--search", 0.25] if quick else ["--unit", 5, "--rounds", 2, "--search", 0.5]
    results = {"experiment": run("experiment", [*unit, "--seed", options.seed], wait)}
    if options.patterns:
        more = run("experiment", [*unit, "--seed", options.seed, "--patterns", options.patterns], wait)
        results["experiment"]["patterns"] += more["patterns"]
    tuples = 20_000_000 if quick else 1_000_000_000
    results["relocate"] = run("relocate", ["--moves", 1_000 if quick else 5_000], wait)
    results["adapt"] = run("adapt", ["--steps", 6 if quick else 20], wait)
    results["simulation"] = run("stream_curve", ["--live", "--time", 0.6 if quick else 2], wait)
    results["endurance"] = run("relocate", ["--tuples", tuples, "--relocations", tuples // 10_000], 0)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--patterns", type=int, help="random patterns; 3, and none with --quick")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--results", type=Path, help="a file of --json to judge again, in place of measuring")
    parser.add_argument("--wait", type=float, default=10)
    options = parser.parse_args()
    if options.patterns is None:
        options.patterns = 0 if options.quick else 3
    results = json.loads(options.results.read_text()) if options.results else measure(options)
    if options.json:
        options.json.write_text(json.dumps(results))
    experiments = [Experiment(pattern) for pattern in results["experiment"]["patterns"]]
    goals = [goal for experiment in experiments for goal in judge_experiment(experiment)]
    goals += [*judge_pauses(results["relocate"]), *judge_steps(results["adapt"]),
              *judge_simulation(results["simulation"]), *judge_endurance(results["endurance"])]
    for experiment in experiments:
        print_experiment(experiment)
    print_simulation(results["simulation"])
    words = {True: "met", False: "missed", None: "not judged"}
    print("\n| goal | bound | measured | |\n|---|---|---|---|")
    for goal in goals:
        print(f"| {goal['goal']} | {goal['bound']} | {goal['measured']} | {words[goal['met']]} |")
    if options.page:
        options.page.write_text(page(results["experiment"]["patterns"], goals))
    sys.exit(any(goal["met"] is False for goal in goals))


if __name__ == "__main__":
    main()
