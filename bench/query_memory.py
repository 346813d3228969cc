#!/usr/bin/env python3
"""Memory of queries on adversarial tables: the peak of the whole command at limits from 512 to 64 MiB.

    cargo build --release
    bench/query_memory.py [--limits 512,256,128,96,64] [--scale 1] [--case sort-group,…] [--out FILE]

Each run is a fresh process. It must end well with a peak of at most the limit and 32 MiB, both by its own account
(`memory_peak_bytes` of --json) and by the kernel's (`wait4`); or it must fail before it writes anything, with a sentence
that names memory as the reason. As root, with cgroup v1 at /sys/fs/cgroup/memory, the same runs in a group of that size
without swapping, which also counts tmpfs and the page cache that cannot be reclaimed; otherwise this part is skipped.

| case | table and statement |
|---|---|
| sort-group | 6 million rows in a single row group, sorted by a random key |
| sort-long | one string of 50 MB between short ones; fits at 512 MiB |
| sort-columns | 1,000 columns |
| sort-equal | 4 million rows with the same key |
| join-equal | 12,000 by 40 rows of 16 KB with the same key, joined; the key and the lengths of the texts are selected |
| groups | LINEITEM, shuffled, grouped by `l_orderkey`; as many groups as orders |
| groups-rows | 6 million groups of one row |
| sort-lineitem | LINEITEM, shuffled, sorted by `l_partkey` and `l_suppkey` |

The tables come from DuckDB and PyArrow in the virtual environment of `bench/query.py`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from query import CACHE, MIB, built, environment  # noqa: E402

SLACK_BYTES = 32 * MIB
CGROUP = Path("/sys/fs/cgroup/memory")
KEY = "(hash(i) >> 1)::bigint as k"

# Name, rows at scale 1, columns in DuckDB's SQL, rows of a row group.
TABLES = {
    "group": (6_000_000, [KEY, "i::bigint as i", "(i * 3)::bigint as j", "md5(i::varchar) as m"], 1 << 30),
    "equal": (4_000_000, ["7 as k", "i::bigint as i", "md5(i::varchar) as m"], 122_880),
    "left": (12_000, ["7 as k", "repeat(md5(i::varchar), 512) as t"], 2048),
    "right": (40, ["7 as k", "repeat(md5(i::varchar), 512) as t"], 2048),
    "rows": (6_000_000, [KEY, "i::bigint as i"], 122_880),
}
# In Python, with PyArrow.
MADE = {
    "long": "pa.table({'k': list(range(1000)), 't': ['x' * (size if i == 500 else 20) for i in range(1000)]})",
    "columns": "pa.table({'k' if c == 0 else f'c{c}': pa.array([hash((c, i)) for i in range(rows)]) for c in range(1000)})",
}

CASES = {
    "sort-group": (["group"], ["sort", "group", "--by", "k"]),
    "sort-long": (["long"], ["sort", "long", "--by", "k"]),
    "sort-columns": (["columns"], ["sort", "columns", "--by", "k"]),
    "sort-equal": (["equal"], ["sort", "equal", "--by", "k"]),
    "join-equal": (["left", "right"], ["join", "left", "right", "--on", "k", "--select", "k, length(t) + length(t_right) as n"]),
    "groups": (["lineitem"], ["aggregate", "lineitem", "--by", "l_orderkey", "--sum", "l_quantity"]),
    "groups-rows": (["rows"], ["aggregate", "rows", "--by", "k", "--sum", "i"]),
    "sort-lineitem": (["lineitem"], ["sort", "lineitem", "--by", "l_partkey,l_suppkey"]),
}


class Tables:
    def __init__(self, options):
        self.options, self.python = options, environment(options.venv)
        self.directory = options.data / f"memory-{options.scale:g}"
        self.directory.mkdir(parents=True, exist_ok=True)

    def path(self, name):
        path = self.directory / f"{name}.parquet"
        if not path.exists():
            self.make(name, path)
        return path

    def make(self, name, path):
        scale, part = self.options.scale, f"{path}.part"
        if name == "lineitem":
            made = self.directory / "tpch"
            words = ["query", "gen", "--sf", scale, "--tables", "lineitem", "--format", "parquet", "--shuffle", 1,
                     "--compression", "snappy", "--output", made, "--quiet"]
            subprocess.run([str(word) for word in [self.options.binary, *words]], check=True, stdout=subprocess.DEVNULL)
            os.rename(next(made.glob("lineitem*")), path)
            shutil.rmtree(made)
            return
        if name in TABLES:
            rows, columns, group = TABLES[name]
            rows = rows if name == "right" else round(rows * scale)
            script = (f"import duckdb; duckdb.connect().execute('''set threads=1; copy (select {', '.join(columns)} "
                      f"from range({rows}) as r(i)) to '{part}' (format parquet, row_group_size {group})''')")
        else:
            script = (f"import pyarrow as pa, pyarrow.parquet as pq; rows, size = {round(20_000 * scale)}, 50_000_000; "
                      f"pq.write_table({MADE[name]}, '{part}', use_dictionary=False, compression='none')")
        subprocess.run([self.python, "-c", script], check=True)
        os.rename(part, path)


class Group:
    """A memory cgroup of its own, without swap; it holds the processes that enter it in their `preexec_fn`."""

    def __init__(self, limit):
        self.path = CGROUP / f"sakiyomi-query-memory-{os.getpid()}"
        self.path.mkdir()
        self.write("memory.limit_in_bytes", limit)
        try:
            self.write("memory.memsw.limit_in_bytes", limit)
        except OSError:
            self.write("memory.swappiness", 0)

    def write(self, name, value):
        (self.path / name).write_text(str(value))

    def enter(self):
        self.write("tasks", os.getpid())

    def remove(self):
        for _ in range(50):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.1)
        print(f"{self.path} cannot be removed", file=sys.stderr)


def has_cgroup():
    return os.geteuid() == 0 and os.access(CGROUP / "memory.limit_in_bytes", os.W_OK)


def run(options, tables, case, limit, group):
    """Runs a case; returns what happened."""
    _, words = CASES[case]
    words = [tables.get(word, word) for word in words]
    with tempfile.TemporaryDirectory(dir=options.spill) as spill, tempfile.TemporaryFile() as out, \
            tempfile.TemporaryFile() as errors:
        output = Path(spill) / "result.parquet"
        words = [options.binary, *words, "--threads", options.threads, "--memory", f"{limit}MiB", "--spill", spill,
                 "--compression", "none", "--output", output, "--json", "--quiet"]
        begun = time.perf_counter()
        process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=errors,
                                   preexec_fn=group.enter if group else None)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        found = {"case": case, "limit_mib": limit, "cgroup": group is not None, "ok": process.returncode == 0,
                 "wall_s": time.perf_counter() - begun, "code": process.returncode,
                 "peak_bytes": usage.ru_maxrss * 1024, "left_file": output.exists()}
        out.seek(0)
        errors.seek(0)
        if found["ok"]:
            result = json.loads(out.read())["result"]
            found |= {"own_peak_bytes": result["memory_peak_bytes"], "rows": result.get("output_rows")}
        else:
            found["error"] = errors.read().decode(errors="replace").strip()[-400:]
    return found


def verdict(found):
    allowed = found["limit_mib"] * MIB + SLACK_BYTES
    if found["ok"]:
        peak = max(found["peak_bytes"], found["own_peak_bytes"])
        return "ok" if peak <= allowed else "TOO MUCH"
    is_refused = found["code"] > 0 and "memory" in found["error"].lower() and not found["left_file"]
    return "refused" if is_refused else "FAILED"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--case", default=",".join(CASES))
    parser.add_argument("--limits", default="512,256,128,96,64")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--spill", type=Path, default=Path("/var/tmp"), help="a directory on disk")
    parser.add_argument("--data", type=Path, default=CACHE / "data")
    parser.add_argument("--venv", type=Path, default=CACHE / "venv")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.binary = built(options.binary)
    made, runs, bad = Tables(options), [], 0
    groups = [False, True] if has_cgroup() else [False]
    if len(groups) == 1:
        print("skipped: the runs in a memory cgroup (needs root and cgroup v1)")
    for case in options.case.split(","):
        tables = {name: made.path(name) for name in CASES[case][0]}
        for limit in map(int, options.limits.split(",")):
            for is_grouped in groups:
                group = Group(limit * MIB + SLACK_BYTES) if is_grouped else None
                try:
                    found = run(options, tables, case, limit, group)
                finally:
                    if group:
                        group.remove()
                found["verdict"] = verdict(found)
                bad += found["verdict"] not in ("ok", "refused")
                runs.append(found)
                peak = max(found["peak_bytes"], found.get("own_peak_bytes", 0)) / MIB
                where = "cgroup" if is_grouped else "      "
                print(f"{case:14} {limit:4} MiB {where} {found['verdict']:8} peak {peak:6.1f} MiB {found['wall_s']:6.2f} s  "
                      f"{found.get('error', '')}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(runs, indent=1))
    sys.exit(f"{bad} runs neither kept the limit nor were refused" if bad else 0)


if __name__ == "__main__":
    main()
