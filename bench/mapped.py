#!/usr/bin/env python3
"""Programs that read a file through a mapping, alone and with `sakiyomi run`, beside the bound.

    cargo build --release
    bench/mapped.py DIR [--megabytes 256] [--modes in-order,shuffled,…] [--rounds 3] [--user 65534]

DIR is a directory on slow storage; the script starts no mounts. For storage B of the results page, an independent file system
in user space answered each read after 5 ms, 64 at a time, at 1 GB/s; `sakiyomi mount files DIR --drive
fixed:latency=5ms,parallel=64,bandwidth=1GB/s` is similar.

Each run maps the file in a fresh Python process, with the file cold, and computes adler32 of the parts in the order of its mode;
the time is that from the open to the last part. The bound is measured: 32 threads read the needed bytes, then the program runs.
With `--user` the helped runs belong to that user, who does not own the file; this needs root.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from random import Random

MIB = 1 << 20
PIECE = 4 * MIB
BINARY = Path(__file__).resolve().parent.parent / "target/release/sakiyomi"
READER = r"""
import mmap, os, sys, threading, time, zlib
from concurrent.futures import ThreadPoolExecutor
path, is_bound, parts = sys.argv[1], sys.argv[2] == "bound", [tuple(map(int, part.split(":"))) for part in sys.stdin.read().split()]
begun = time.monotonic()
if is_bound:
    file, own = os.open(path, os.O_RDONLY), threading.local()
    def read(part):
        if not hasattr(own, "buffer"): own.buffer = bytearray(4 << 20)
        os.preadv(file, [memoryview(own.buffer)[:part[1]]], part[0])
    with ThreadPoolExecutor(32) as threads: list(threads.map(read, parts))
with open(path, "rb") as file: mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
total = 0
for start, length in parts:
    for at in range(start, start + length, 65536): total ^= zlib.adler32(mapped[at:min(at + 65536, start + length)])
print(f"{time.monotonic() - begun:.4f} {total:08x}")
"""


def parts(mode, size):
    """Offsets and lengths in the order in which the program touches them."""
    pieces = [(at, min(PIECE, size - at)) for at in range(0, size, PIECE)]
    half_slices = [(at + 131072, 131072) for at in range(0, size - 131072, 262144)]
    order = Random(7)
    match mode:
        case "in-order":
            return pieces
        case "shuffled":
            order.shuffle(pieces)
            return pieces
        case "backward":
            return [(at, 65536) for at in range(size - 65536, -1, -65536)]
        case "half-slices":
            return half_slices
        case "half-slices-backward":
            return half_slices[::-1]
        case "unaligned":
            return [(at + 100_000, 100_000) for at in range(0, size - 200_000, 200_000)]
        case "sparse":
            return [(page * 4096, 4096) for page in order.sample(range(size // 4096), size // 4096 // 100)]
    sys.exit(f"no mode {mode}; there are: {', '.join(MODES)}")


MODES = ["in-order", "shuffled", "backward", "half-slices", "half-slices-backward", "unaligned", "sparse"]


def run(prefix, path, order, kind):
    """One cold run; gives its seconds and checksum."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
    words = " ".join(f"{at}:{length}" for at, length in order)
    command = [*prefix, "python3", "-c", READER, str(path), kind]
    done = subprocess.run(command, input=words, capture_output=True, text=True, check=True)
    seconds, total = re.match(r"([\d.]+) (\w+)", done.stdout).groups()
    return float(seconds), total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--user", help="number of the user of the helped runs")
    parser.add_argument("--binary", type=Path, default=BINARY)
    options = parser.parse_args()
    path = options.directory / "mapped.bin"
    with open(path, "wb") as file:
        for seed in range(options.megabytes):
            file.write(Random(seed).randbytes(MIB))
        os.fsync(file.fileno())
    size = path.stat().st_size
    other = ["setpriv", "--reuid", options.user, "--regid", options.user, "--clear-groups"] if options.user else []
    helped = [*other, str(options.binary.absolute()), "run", "--no-learn", "--"]
    sides = {"alone": ([], "read"), "bound": ([], "bound"), "with run": (helped, "read")}
    print("| order | " + " | ".join(f"{side}, s" for side in sides) + " |\n|---|" + "---|" * len(sides))
    try:
        for mode in options.modes.split(","):
            order = parts(mode, size)
            found = {side: [] for side in sides}
            for _ in range(options.rounds):
                for side, (prefix, kind) in sides.items():
                    found[side].append(run(prefix, path, order, kind))
            if len({total for runs in found.values() for _, total in runs}) != 1:
                sys.exit(f"{mode}: the checksums differ")
            cells = (f"{statistics.median(seconds for seconds, _ in found[side]):.2f}" for side in sides)
            print(f"| {mode} | " + " | ".join(cells) + " |", flush=True)
    finally:
        path.unlink()


if __name__ == "__main__":
    main()
