#!/usr/bin/env python3
"""Tasks of `sakiyomi-exec` beside rayon's, on two threads each: a million empty ones, and blocked Cholesky
factorizations in which tiles go from task to task, beside rayon with a barrier after each step, and beside a flow graph of
oneTBB, where c++ and libtbb-dev are installed.

    bench/tasks.py [--rounds 5]

A round has three runs of each case in turn on our tasks and on rayon, in one process
(crates/exec/examples/tasks_beside_rayon.rs), then three on oneTBB (bench/peers/tasks_tbb.cpp); the figures are medians. On
a machine that others use, few of the rounds have both cores: compare ratios. Exit code 1 if rayon is faster.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# Runs of a case in a round.
RUNS = 3
NAMES = {
    "empty": "a million empty tasks",
    "cholesky_64_x_8": "64 x 64 tiles of 8 x 8",
    "cholesky_16_x_64": "16 x 16 tiles of 64 x 64",
}


def peer(directory):
    """The program on oneTBB; none where its headers or a compiler are missing."""
    source, program = ROOT / "bench/peers/tasks_tbb.cpp", Path(directory) / "tasks_tbb"
    command = ["c++", "-std=c++17", "-O3", "-o", program, source, "-ltbb"]
    if shutil.which("c++") is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        print("oneTBB is left out: c++ and libtbb-dev are needed")
        return None
    return program


def measured(program):
    """A line for each case: its name and microseconds."""
    lines = subprocess.run([program, str(RUNS)], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0]: [int(number) / 1000 for number in line.split()[1:]] for line in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    example = "tasks_beside_rayon"
    build = ["cargo", "build", "-q", "--release", "-p", "sakiyomi-exec", "--example", example]
    subprocess.run(build, check=True, cwd=ROOT)
    with tempfile.TemporaryDirectory() as directory:
        programs = [TARGET / "release/examples" / example]
        programs += [program for program in [peer(directory)] if program]
        rounds = [[measured(program) for program in programs] for _ in range(options.rounds)]
    missed = False
    for name, title in NAMES.items():
        sides = zip(*([time for side in sides for time in side[name]] for sides in rounds))
        ours, rayon, *tbb = (statistics.median(side) for side in sides)
        missed |= ours > rayon
        others = f"rayon {rayon:8.1f} ms" + "".join(f", oneTBB {time:8.1f} ms" for time in tbb)
        print(f"{'MISSED' if ours > rayon else 'ok    '} {title:26} {ours:8.1f} ms, {others}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
