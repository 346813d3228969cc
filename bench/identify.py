#!/usr/bin/env python3
"""Drives identified from the first half of a measured trace, judged on the second half.

    cargo build --release -p sakiyomi
    bench/identify.py           # prints the table, and whether each drive is at DiskSim's published figure
    bench/identify.py --write   # also writes the first table of bench/results/measured-drives.json

Each drive begins at DiskSim's files for it, whose policies are hypotheses. No option is set for a single drive.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "bench" / "results" / "measured-drives.json"
# A drive, and the root mean square that DiskSim's authors publish for the whole trace, in milliseconds.
DRIVES = {
    "atlas_III": 0.378,
    "barracuda": 0.348,
    "cheetah9LP": 0.107,
    "hp_c2247a": 0.089,
    "hp_c2490a": 0.254,
}


def trace(drive):
    beside = ROOT / "traces" / "disksim" / f"{drive}.trace.gz"
    return beside if beside.exists() else ROOT / "traces" / f"{drive}.trace.gz"


def identified(program, drive):
    """Returns the result of `drive fit`; a fit that is refused has one as well, and exits with 1."""
    specs = ROOT / "traces" / "disksim" / f"{drive}.diskspecs"
    words = [program, "drive", "fit", trace(drive), "--drive", specs, "--json", "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"{drive}: {done.stderr.strip()}")
    return json.loads(done.stdout)["result"]


def row(drive, published, result):
    before, after = (round(result[which]["rms_ns"] / 1e6, 3) for which in ("before", "after"))
    counts = []
    for what in ("policies", "parameters"):
        known = sum(one["identified"] for one in result[what])
        counts.append(f"{known} of {len(result[what])}")
    return [drive, published, before, after, result["accepted"].replace("_", " "), *counts]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "target" / "release" / "sakiyomi", type=Path)
    parser.add_argument("--write", action="store_true", help="write the table of the results")
    args = parser.parse_args()
    rows = []
    for drive, published in DRIVES.items():
        rows.append(row(drive, published, identified(args.program, drive)))
        print(*rows[-1], "ok" if rows[-1][3] <= published else "MORE THAN PUBLISHED", sep="\t", flush=True)
    if args.write:
        text = PAGE.read_text()
        page = json.loads(text)
        old = page["tables"][0]["rows"]
        begin = text.index('"rows": [', text.index(page["tables"][0]["title"])) + len('"rows": [')
        end = text.index("\n      ]", begin)
        assert old, "the first table has rows"
        lines = ",\n".join("        " + json.dumps(one) for one in rows)
        PAGE.write_text(text[:begin] + "\n" + lines + text[end:])


if __name__ == "__main__":
    main()
