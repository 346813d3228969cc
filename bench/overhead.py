#!/usr/bin/env python3
"""The cost of a mount without a drive: 10 callers that read 4 KiB anywhere in a cached file, against a file system that
answers zeros at once, interleaved.

    bench/overhead.py [--pairs 9] [--seconds 3]

Prints the reads per second of both, with and without a trace being recorded, and the median of the ratios; exit code 1 if
one is below 0.85. Needs root and /dev/fuse; installs fio by apt-get where it is missing.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from served import have_fio

ROOT = Path(__file__).resolve().parent.parent
SIZE = 256 << 20
LEAST = 0.85


@contextlib.contextmanager
def mounted(command, directory):
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
    try:
        for _ in range(500):
            if (directory / "all").exists():
                break
            time.sleep(0.01)
        else:
            raise SystemExit(f"{command[0]} has mounted nothing")
        yield
    finally:
        subprocess.run(["umount", directory], check=True)
        process.wait(30)


def reads_a_second(file, seconds):
    command = [
        "fio", "--name=x", f"--filename={file}", "--rw=randread", "--bs=4k", "--ioengine=psync", "--numjobs=10",
        "--thread", "--group_reporting", "--direct=1", "--time_based", f"--runtime={seconds}", "--invalidate=0",
        "--output-format=json",
    ]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output)["jobs"][0]["read"]["iops"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    have_fio()
    subprocess.run(
        ["cargo", "build", "--release", "-q", "-p", "sakiyomi", "-p", "sakiyomi-mount", "--examples", "--bins"],
        check=True, cwd=ROOT,
    )
    release = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    with tempfile.TemporaryDirectory() as scratch:
        backing, ours, zeros = (Path(scratch) / name for name in ("backing", "ours", "zeros"))
        for directory in (backing, ours, zeros):
            directory.mkdir()
        with open(backing / "all", "wb") as file:
            for _ in range(SIZE >> 20):
                file.write(os.urandom(1 << 20))
        plain = [release / "sakiyomi", "mount", backing, ours, "--direct-io", "--quiet"]
        recording = [*plain, "--record", Path(scratch) / "trace.csv"]
        nothing = [release / "examples" / "zeros", zeros, str(SIZE)]
        worst = 1.0
        for name, command in [("plain", plain), ("recording", recording)]:
            pairs = []
            for _ in range(options.pairs):
                with mounted(command, ours):
                    (ours / "all").read_bytes()
                    rate = reads_a_second(ours / "all", options.seconds)
                with mounted(nothing, zeros):
                    pairs.append((rate, reads_a_second(zeros / "all", options.seconds)))
            ratio = statistics.median(rate / zero for rate, zero in pairs)
            rate, zero = (statistics.median(side) for side in zip(*pairs))
            print(f"{name}: {rate:,.0f} reads a second, zeros {zero:,.0f}, ratio {ratio:.2f}", flush=True)
            worst = min(worst, ratio)
    sys.exit(0 if worst >= LEAST else 1)


if __name__ == "__main__":
    main()
