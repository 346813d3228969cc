#!/usr/bin/env python3
"""Tasks of `sakiyomi-exec` beside rayon's, on two threads each: a million empty ones, and blocked Cholesky
factorizations in which tiles go from task to task, beside rayon with a barrier after each step.

    bench/tasks.py [--rounds 7]

Both are measured in turn by one process (crates/exec/examples/tasks_beside_rayon.rs). On a machine that others use, few
of the rounds have both cores: compare ratios. Exit code 1 if a goal is missed.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
NAMES = {
    "empty": "a million empty tasks",
    "cholesky_64_x_8": "64 x 64 tiles of 8 x 8",
    "cholesky_16_x_64": "16 x 16 tiles of 64 x 64",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    example = "tasks_beside_rayon"
    build = ["cargo", "build", "-q", "--release", "-p", "sakiyomi-exec", "--example", example]
    subprocess.run(build, check=True, cwd=ROOT)
    command = [TARGET / "release/examples" / example, str(options.rounds)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    missed = False
    for line in lines:
        name, ours, rayon = line.split()
        ours, rayon = int(ours) / 1000, int(rayon) / 1000
        missed |= ours > rayon
        print(f"{'MISSED' if ours > rayon else 'ok    '} {NAMES[name]:26} {ours:8.1f} ms, rayon {rayon:8.1f} ms")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
