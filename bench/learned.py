#!/usr/bin/env python3
"""The start of a command that opens many files: alone, with what `sakiyomi run` has learned, and with everything cached.

    cargo build --release
    bench/learned.py [--rounds 4] --chill 'COMMAND' -- python3 -c 'import pandas'

`--chill` is a shell command that makes the storage cold, such as unmounting and mounting it again; the script starts no mounts
itself. The profile is learned in one run before, in a cache directory of the script's own. Printed: medians of elapsed seconds of
the command alone and cold; repeated at once, with everything cached; helped by `run` and cold; and started by itself and cold,
while `sakiyomi daemon` runs, after one such run in which it has learned.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

BINARY = Path(__file__).resolve().parent.parent / "target/release/sakiyomi"


@contextlib.contextmanager
def daemon(binary, cache):
    """Runs the daemon with profiles of its own; it has saved what it learned when this ends."""
    socket = f"{cache}/socket"
    environment = dict(os.environ, XDG_CACHE_HOME=f"{cache}/daemon")
    process = subprocess.Popen([binary, "daemon", "start", "--socket", socket], env=environment)
    status = [binary, "daemon", "status", "--socket", socket]
    while subprocess.run(status, capture_output=True).returncode != 0:
        time.sleep(0.05)
    time.sleep(1)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--chill", required=True)
    parser.add_argument("--binary", type=Path, default=BINARY)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    def seconds(words, cache, is_cold=True):
        if is_cold:
            subprocess.run(options.chill, shell=True, check=True, stdout=subprocess.DEVNULL)
        begun = time.monotonic()
        environment = dict(os.environ, XDG_CACHE_HOME=cache)
        subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.monotonic() - begun

    with tempfile.TemporaryDirectory(prefix="learned-") as cache:
        binary = str(options.binary.absolute())
        learning = [binary, "run", "--learn", "--", *options.command]
        print(f"learning: {seconds(learning, cache):.2f} s")
        found = {"alone": [], "cached": [], "learned": [], "daemon": []}
        for _ in range(options.rounds):
            found["alone"].append(seconds(options.command, cache))
            found["cached"].append(seconds(options.command, cache, is_cold=False))
            found["learned"].append(seconds([binary, "run", "--", *options.command], cache))
            with daemon(binary, cache):
                found["daemon"].append(seconds(options.command, cache))
        print(f"first under the daemon: {found['daemon'].pop(0):.2f} s")
    for name, times in found.items():
        print(f"{name}: {statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})")


if __name__ == "__main__":
    main()
