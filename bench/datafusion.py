#!/usr/bin/env python3
"""DataFusion's own spill files and sort against those of this project, by `sakiyomi-sql` and `sakiyomi-sql --stock`.

    cargo build --profile optimized --manifest-path integrations/datafusion/Cargo.toml
    bench/datafusion.py --binary integrations/datafusion/target/optimized/sakiyomi-sql TABLE.parquet
        [--key l_partkey,l_suppkey] [--memory 512MiB] [--threads 2] [--rounds 5] [--spill DIR] [--cold] [--out FILE]

Each run is a fresh process that sorts the table by the key and writes it as uncompressed Parquet; the runs of all sides
are interleaved. The table has medians with the range of all runs: wall time of the statement, CPU time of the whole
process (`wait4`), largest resident memory (VmHWM), bytes of spill files.

| side | sort | spill files | reads |
|---|---|---|---|
| stock | DataFusion's | DataFusion's | DataFusion's |
| ours | DataFusion's | this project's, compression chosen while spilling | this project's |
| ours-buffered | DataFusion's | the same through the page cache | this project's |
| operators | this project's | its own, compression chosen while spilling | this project's |
| unlimited | DataFusion's, with --unlimited memory: the bound | none | DataFusion's |

The numbers of rows are compared, and with `--check` the count, sum and ends of the first key. `--cold` empties the page cache before each
run (needs root).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIDES = {
    "stock": ["--stock"],
    "ours": ["--operators", "stock"],
    "ours-buffered": ["--operators", "stock", "--spill-access", "buffered"],
    "operators": ["--operators", "sakiyomi"],
    "unlimited": ["--stock"],
}


def run(options, side, directory):
    """One process; its figures."""
    output = Path(directory) / "sorted.parquet"
    statement = f"select * from '{options.table.resolve()}' order by {options.key}"
    command = [str(options.binary), "--memory", options.unlimited if side == "unlimited" else options.memory, "--threads", str(options.threads),
               "--spill", str(options.spill or directory), "--analyze", "--json", "-o", str(output),
               "--set", "datafusion.execution.parquet.compression=uncompressed", *SIDES[side], statement]
    if options.cold:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    with tempfile.TemporaryFile("w+") as printed:
        begun = time.monotonic()
        child = subprocess.Popen(command, stdout=printed)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - begun
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"{' '.join(command)} failed")
        printed.seek(0)
        figures = json.load(printed)
    spill = figures["spill"] or {}
    # Bytes on disk: of the factory and of operators with their own files, or as DataFusion's operators report them.
    stored = spill.get("stored_bytes", 0) + sum(found["stored_bytes"] for found in figures["operators"])
    stored = stored or figures["operators_spilled_bytes"]
    found = {
        "side": side, "wall_s": figures["elapsed_ns"] / 1e9, "process_s": wall,
        "user_s": usage.ru_utime, "system_s": usage.ru_stime,
        "peak_mib": figures["peak_resident_bytes"] / (1 << 20),
        "spilled_mib": figures["operators_spilled_bytes"] / (1 << 20),
        "stored_mib": stored / (1 << 20),
        "rows": figures["rows"],
    }
    if options.check:
        first = options.key.split(",")[0]
        order = f"select count(*), sum({first}), min({first}), max({first}) from '{output}'"
        found["digest"] = subprocess.run([str(options.binary), order], check=True, capture_output=True, text=True).stdout
    output.unlink()
    return found


def row(name, runs):
    def figure(key, digits):
        values = [run[key] for run in runs]
        return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"

    cells = [figure("wall_s", 2), figure("user_s", 2), figure("system_s", 2), figure("peak_mib", 0), figure("stored_mib", 0)]
    return f"| {name} | " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--key", default="l_partkey,l_suppkey")
    parser.add_argument("--memory", default="512MiB")
    parser.add_argument("--unlimited", default="4GiB", help="memory of the side `unlimited`")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spill", type=Path)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--check", action="store_true", help="also compare the keys")
    parser.add_argument("--sides", default="stock,ours,ours-buffered,operators")
    parser.add_argument("--out", type=Path, help="all runs as JSON")
    options = parser.parse_args()
    sides = options.sides.split(",")
    unknown = [side for side in sides if side not in SIDES]
    if unknown:
        parser.error(f"--sides {unknown[0]}: give {', '.join(SIDES)}")
    runs = []
    with tempfile.TemporaryDirectory(prefix="sakiyomi-bench-", dir=options.spill) as directory:
        for number in range(options.rounds):
            # Another side begins in each round.
            turn = number % len(sides)
            for side in sides[turn:] + sides[:turn]:
                runs.append({**run(options, side, directory), "load": os.getloadavg()[0]})
                print(f"{side}: {runs[-1]['wall_s']:.2f} s", file=sys.stderr)
    if len({(found["rows"], found.get("digest")) for found in runs}) != 1:
        sys.exit("the results differ")
    print("| side | wall s | user s | system s | peak MiB | spill files MiB |\n|---|---|---|---|---|---|")
    for side in sides:
        print(row(side, [found for found in runs if found["side"] == side]))
    loads = [found["load"] for found in runs]
    print(f"\n{runs[0]['rows']} rows, {options.rounds} rounds, load {min(loads):.1f} to {max(loads):.1f}")
    if options.out:
        options.out.write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
