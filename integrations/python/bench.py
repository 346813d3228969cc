#!/usr/bin/env python3
"""Measures the installed package: time of the import, and lines of a cached file counted by several means.

    python integrations/python/bench.py [FILE]

Without FILE, a file of 1 GB is made in a temporary directory. The means take turns; their medians are printed as JSON.
"""

import json
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time

import sakiyomi

BLOCK = 1 << 20
ROUNDS = 11


def by_read(path):
    lines = 0
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK):
            lines += block.count(b"\n")
    return lines


def by_readinto(path):
    """Without an object for each block; `bytearray.count` needs no copy of a full one."""
    lines, block = 0, bytearray(BLOCK)
    with open(path, "rb", buffering=0) as file:
        while (length := file.readinto(block)) == BLOCK:
            lines += block.count(b"\n")
    return lines + block[:length].count(b"\n")


def by_lines(path):
    with open(path, "rb") as file:
        return sum(1 for _ in file)


def by_mmap(path):
    """A mapping cannot count: slices are copies."""
    lines = 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        for at in range(0, len(mapping), BLOCK):
            lines += mapping[at : at + BLOCK].count(b"\n")
    return lines


def by_blocks(path):
    return sum(block.count(b"\n") for block in sakiyomi.blocked_reads(path))


def by_ahead(path):
    lines = 0
    with sakiyomi.open_ahead(path) as file:
        while block := file.raw.read(BLOCK):
            lines += block.count(b"\n")
    return lines


def by_lines_ahead(path):
    with sakiyomi.open_ahead(path) as file:
        return sum(1 for _ in file)


def by_numpy(path):
    import numpy

    return sum(int((numpy.fromfile(path, "u1", BLOCK, offset=at) == 10).sum()) for at in range(0, os.path.getsize(path), BLOCK))


def by_numpy_blocks(path):
    import numpy

    return sum(int((numpy.frombuffer(block, "u1") == 10).sum()) for block in sakiyomi.blocked_reads(path))


MEANS = [
    by_read, by_readinto, by_mmap, by_blocks, by_ahead, by_lines, by_lines_ahead, by_numpy, by_numpy_blocks,
]


def import_ms():
    """Medians of a process that imports the package, and of one that imports nothing."""
    times = {"nothing": [], "sakiyomi": []}
    for _ in range(21):
        for name, code in [("nothing", "pass"), ("sakiyomi", "import sakiyomi")]:
            since = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times[name].append(time.perf_counter() - since)
    return {name: round(statistics.median(taken) * 1e3, 1) for name, taken in times.items()}


def main():
    with tempfile.TemporaryDirectory() as directory:
        path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(directory, "lines")
        if len(sys.argv) < 2:
            part = b"".join(b"%d" % (number * 7919 % 100003) * (number % 15) + b"\n" for number in range(30_000))
            with open(path, "wb") as file:
                for _ in range(10**9 // len(part)):
                    file.write(part)
        times = {mean: [] for mean in MEANS}
        expected = by_read(path)
        for _ in range(ROUNDS):
            for mean in MEANS:
                since, cpu = time.perf_counter(), time.process_time()
                assert mean(path) == expected, mean
                times[mean].append((time.perf_counter() - since, time.process_time() - cpu))
        result = {
            mean.__name__: {
                "wall_ms": round(statistics.median(wall for wall, _ in taken) * 1e3),
                "cpu_ms": round(statistics.median(cpu for _, cpu in taken) * 1e3),
            }
            for mean, taken in times.items()
        }
        size = os.path.getsize(path)
    print(json.dumps({"file_bytes": size, "rounds": ROUNDS, "means": result, "import_ms": import_ms()}, indent=1))


if __name__ == "__main__":
    main()
