#!/usr/bin/env python3
"""TPC-H query 1 by I/O method: figure 2 of Ueda (2013), as a table and a picture.

    cargo build --release
    bench/query_methods.py [--sf 10,20,30] [--dirs /var/tmp,/dev/shm] [--rounds 3] [--picture query-methods.svg]

LINEITEM has the seven columns that query 1 reads (38 bytes a row, Arrow IPC, aligned for direct I/O), in two layouts:
record batches of 65,536 rows, which are read in blocks of up to 1 MiB, and record batches of 2 GiB, each read at once, as in
the report: one thread computes on a batch while the next one is read, in 4 GiB of buffers.
All reads are direct, on a tmpfs through its own memory. The methods of one table are interleaved; the figures are medians
of `--rounds` runs. Cores busy near the number of cores means that the CPU is the limit, near 0 that the device is.

The tables of one scale factor are deleted before those of the next are made; the largest needs 2.3 GB for each 10.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from query import CACHE, built, environment

METHODS = ["read", "aio", "pread:2", "pread:4", "pread:8", "pread:16", "uring"]
COLUMNS = "l_quantity,l_extendedprice,l_discount,l_tax,l_returnflag,l_linestatus,l_shipdate"
ROW_BYTES = 38
SMALL_ROWS = 65_536
LARGE_BYTES = 2 << 30
# Rows whose columns have no more than these bytes, with their padding.
LARGE_ROWS = LARGE_BYTES // ROW_BYTES - 64
# A block of 2 GiB that is read and one that is computed on are half of the buffers, which are five eighths of this.
LARGE_MEMORY = "13108MiB"
# Rewrites an Arrow file with larger record batches: the file, rows of a batch.
COMBINE = """
import os, sys, pyarrow as pa
path, rows = sys.argv[1], int(sys.argv[2])
reader = pa.ipc.open_file(path)
def combined():
    held, count = [], 0
    for index in range(reader.num_record_batches):
        batch = reader.get_batch(index)
        if count + batch.num_rows > rows:
            yield pa.concat_batches(held)
            held, count = [], 0
        held.append(batch)
        count += batch.num_rows
    yield pa.concat_batches(held)
with pa.ipc.new_file(path + '.part', reader.schema) as writer:
    for batch in combined():
        writer.write_batch(batch)
os.rename(path + '.part', path)
"""
COLORS = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2"]


def run(binary, words):
    done = subprocess.run([str(word) for word in [binary, *words]], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return json.loads(done.stdout)["result"] if "--json" in words else None


def table(options, directory, sf, layout):
    run(options.binary, ["query", "gen", "--sf", sf, "--tables", "lineitem", "--columns", COLUMNS, "--format", "arrow",
                         "--compression", "none", "--row-group", SMALL_ROWS, "--output", directory, "--quiet"])
    path = directory / "lineitem.arrow"
    if layout == "2 GiB":
        subprocess.run([environment(options.venv), "-c", COMBINE, path, str(LARGE_ROWS)], check=True)
    return path


def q1(binary, path, method, layout, threads):
    words = ["query", "q1", path, "--method", method, "--direct", "--quiet", "--json"]
    if layout == "1 MiB":
        words += ["--threads", threads, "--block", "1MiB"]
    else:
        words += ["--threads", 1, "--block", "2GiB", "--memory", LARGE_MEMORY]
    result = run(binary, words)
    return {"elapsed_s": result["elapsed_ns"] / 1e9, "bytes": result["read_bytes"],
            "cpu_s": (result["user_ns"] + result["system_ns"]) / 1e9, "system_s": result["system_ns"] / 1e9,
            "peak_bytes": result["memory_peak_bytes"]}


def measure(options, directory, sf, layout):
    place = directory / f"query-methods-{os.getpid()}"
    try:
        path = table(options, place, sf, layout)
        subprocess.run(["sync"], check=True)
        runs = {method: [] for method in METHODS}
        for _ in range(options.rounds):
            for method in METHODS:
                runs[method].append(q1(options.binary, path, method, layout, options.threads))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    rows = []
    for method, found in runs.items():
        of = {key: statistics.median(run[key] for run in found) for key in found[0]}
        rows.append({"directory": str(directory), "sf": float(sf), "layout": layout, "method": method, **of})
    return rows


def show(rows, threads):
    print(f"\n{rows[0]['directory']}, SF {rows[0]['sf']:g}, record batches of {rows[0]['layout']}\n")
    print("| method | elapsed s | GB/s | CPU s | in the kernel | cores busy | peak MiB |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['method']} | {row['elapsed_s']:.2f} | {row['bytes'] / row['elapsed_s'] / 1e9:.2f} | "
              f"{row['cpu_s']:.2f} | {row['system_s'] / row['cpu_s']:.0%} | {row['cpu_s'] / row['elapsed_s']:.2f} | "
              f"{row['peak_bytes'] / (1 << 20):.0f} |", flush=True)


def picture(rows, path):
    """Elapsed time over the scale factor, a panel for each directory and layout, a line for each method."""
    panels = list(dict.fromkeys((row["directory"], row["layout"]) for row in rows))
    width, height, left, top, bottom = 340, 260, 56, 40, 44
    factors = sorted({row["sf"] for row in rows})
    parts = []
    for at, (directory, layout) in enumerate(panels):
        own = [row for row in rows if (row["directory"], row["layout"]) == (directory, layout)]
        longest = max(row["elapsed_s"] for row in own)
        # At most five lines, at round numbers.
        power = 10 ** math.floor(math.log10(longest / 5))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * 5 >= longest)
        most = step * math.ceil(longest / step)
        x0, y0 = (at % 2) * width + left, (at // 2) * height + top
        w, h = width - left - 20, height - top - bottom
        x = lambda sf: x0 + w * (sf / factors[-1])
        y = lambda s: y0 + h * (1 - s / most)
        parts.append(f'<text x="{x0}" y="{y0 - 14}" class="title">{directory}, batches of {layout}</text>')
        for part in range(round(most / step) + 1):
            s = step * part
            parts.append(f'<path d="M{x0} {y(s):.1f}h{w}" class="grid"/>'
                         f'<text x="{x0 - 6}" y="{y(s) + 4:.1f}" text-anchor="end">{s:.6g} s</text>')
        parts += [f'<text x="{x(sf):.1f}" y="{y0 + h + 18}" text-anchor="middle">{sf:g}</text>' for sf in factors]
        parts.append(f'<text x="{x0 + w / 2}" y="{y0 + h + 34}" text-anchor="middle">scale factor</text>')
        for color, method in zip(COLORS, METHODS):
            points = sorted((row["sf"], row["elapsed_s"]) for row in own if row["method"] == method)
            line = " ".join(f"{x(sf):.1f},{y(s):.1f}" for sf, s in points)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.8"/>')
            parts += [f'<circle cx="{x(sf):.1f}" cy="{y(s):.1f}" r="2.6" fill="{color}"/>' for sf, s in points]
    lines = (len(panels) + 1) // 2
    for at, (color, method) in enumerate(zip(COLORS, METHODS)):
        x0, y0 = left + at * 88, lines * height + 16
        parts.append(f'<path d="M{x0} {y0 - 4}h16" stroke="{color}" stroke-width="3"/><text x="{x0 + 22}" y="{y0}">{method}</text>')
    size = (2 * width if len(panels) > 1 else width), lines * height + 30
    size = max(size[0], left + len(METHODS) * 88), size[1]
    style = ("text{font:12px system-ui,sans-serif;fill:#333}.title{font-weight:600}.grid{stroke:#8884;stroke-width:1}"
             "@media(prefers-color-scheme:dark){text{fill:#ddd}}")
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" role="img" '
                    f'aria-label="Elapsed time of query 1 by I/O method"><style>{style}</style>{"".join(parts)}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sf", default="10,20,30", help="scale factors")
    parser.add_argument("--dirs", default="/var/tmp", help="directories on the devices to measure")
    parser.add_argument("--layouts", default="1 MiB,2 GiB", help="bytes of record batches, about: '1 MiB', '2 GiB'")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--venv", type=Path, default=CACHE / "venv", help="where pyarrow is installed from PyPI")
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--picture", type=Path, help="write the picture to this SVG file")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    options.binary = built(options.binary)
    found = []
    for directory in options.dirs.split(","):
        for layout in options.layouts.split(","):
            for sf in options.sf.split(","):
                rows = measure(options, Path(directory), sf, layout)
                show(rows, options.threads)
                found += rows
    if options.picture:
        picture(found, options.picture)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
