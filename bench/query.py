#!/usr/bin/env python3
"""Sakiyomi's queries against DuckDB, DataFusion and Polars: the same statement on the same files, with the same threads,
memory limit and compression.

    cargo build --release
    bench/query.py [--case q1,sort,…] [--sf 1] [--rounds 5] [--memory 512MiB] [--out FILE]

Each run is a fresh process, and the runs of all engines are interleaved. The table has medians: the statement's time,
taken inside each process from before the statement to its last row; the whole process's wall and CPU time (`wait4`); its
largest resident memory (VmHWM, by the process itself); the size of its output. `ratio` is sakiyomi's figure over that of the best peer.

| case | statement |
|---|---|
| q1 | TPC-H query 1 in memory: each engine on its best format, and all on the same Parquet |
| q1-cold | the same after the page cache was emptied (needs root) |
| sort | `select * from lineitem order by l_partkey, l_suppkey`, shuffled rows, Parquet to Parquet |
| sort-wide-strings, sort-nullable, sort-string-key | 12 columns of text; columns with 20 % nulls, including the key; a key of text |
| join | `select * from lineitem join orders on l_orderkey = o_orderkey`, both shuffled |
| limits | 12 million rows of 60 bytes sorted at 512, 256, 128, 96 and 64 MiB |

The peers come from PyPI into a virtual environment outside of the tree (`--venv`); tables are generated once in `--data`.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sakiyomi-bench"
VERSIONS = {"duckdb": "2.0.0", "datafusion": "55.0.0", "polars": "2.1.0"}
PEERS = ["duckdb", "datafusion", "polars"]
Q1_COLUMNS = "l_quantity,l_extendedprice,l_discount,l_tax,l_returnflag,l_linestatus,l_shipdate"
LIMITS_MIB = [512, 256, 128, 96, 64]
MIB = 1 << 20

# Tables besides TPC-H: name, rows at SF 1, columns in DuckDB's SQL; deterministic, like `hash`.
TABLES = {
    "wide-strings": (2_000_000, ["(hash(i) >> 1)::bigint as k"] + [
        f"substr(md5((i * 31 + {n})::varchar), 1, {4 + 2 * n}) as s{n}" for n in range(12)]),
    "nullable": (6_000_000, ["case when hash(i) % 5 = 0 then null else (hash(i) % 1000000)::bigint end as k"] + [
        f"case when hash(i + {n}) % 5 = 0 then null else {value} end as c{n}" for n, value in enumerate([
            "(i * 7)::integer", "i * 0.5", "(i % 97)::smallint", "'name ' || (i % 5000)",
            "(i * 3)::decimal(15, 2)", "date '2020-01-01' + (i % 3000)::integer"])]),
    "string-key": (4_000_000, ["'key-' || md5(i::varchar) as k", "i::bigint as i", "(hash(i) >> 1)::bigint as a",
                               "'value ' || (i % 100000) as v"]),
    "limits": (12_000_000, ["(hash(i) >> 1)::bigint as k", "i::bigint as i", "(i * 3)::bigint as j", "md5(i::varchar) as m"]),
}


def environment(venv):
    """The peers' Python interpreter; creates its virtual environment if missing."""
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    wanted = [f"{name}=={version}" for name, version in VERSIONS.items()] + ["pyarrow"]
    installed = subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout
    if not all(f"{name}=={version}" in installed for name, version in VERSIONS.items()):
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    return python


def built(binary):
    """The sakiyomi to measure: the given one, or that of `cargo build --release`."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = binary or target / "release" / "sakiyomi"
    if not binary.exists():
        sys.exit(f"{binary} does not exist; run `cargo build --release` first")
    return binary


class Bench:
    def __init__(self, options):
        self.binary = built(options.binary)
        self.options = options
        self.data = options.data
        self.python = environment(options.venv)
        self.threads = options.threads
        self.data.mkdir(parents=True, exist_ok=True)

    # Tables

    def tpch(self, format, columns=None):
        """LINEITEM and ORDERS, shuffled."""
        kind = "q1-" if columns else ""
        directory = self.data / f"sf{self.options.sf}-{kind}{format}"
        if not (directory / "made").exists():
            shutil.rmtree(directory, ignore_errors=True)
            tables = "lineitem" if columns else "lineitem,orders"
            words = ["query", "gen", "--sf", self.options.sf, "--tables", tables, "--format", format, "--shuffle", "1",
                     "--compression", "none" if format == "arrow" else "snappy", "--output", directory, "--quiet"]
            subprocess.run([str(word) for word in [self.binary, *words, *(["--columns", columns] if columns else [])]],
                           check=True, stdout=subprocess.DEVNULL)
            (directory / "made").touch()
        return {path.stem: path for path in directory.iterdir() if path.suffix}

    def database(self):
        path = self.data / f"sf{self.options.sf}.duckdb"
        if not path.exists():
            table = self.tpch("parquet")["lineitem"]
            self.duckdb(f"create table lineitem as select * from read_parquet('{table}')", path)
        return path

    def made(self, name):
        rows, columns = TABLES[name]
        rows = round(rows * float(self.options.sf))
        path = self.data / f"{name}-{rows}.parquet"
        if not path.exists():
            table = f"select {', '.join(columns)} from range({rows}) as r(i)"
            self.duckdb(f"copy ({table}) to '{path}.part' (format parquet, compression snappy)")
            os.rename(f"{path}.part", path)
        return path

    def duckdb(self, statement, database=":memory:"):
        script = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute(sys.argv[2])"
        subprocess.run([self.python, "-c", script, str(database), statement], check=True)

    # Runs

    def peer(self, name, job):
        variables = {"POLARS_MAX_THREADS": str(self.threads)}
        if job.get("memory"):
            variables["POLARS_OOC_MEMORY_BUDGET_MB"] = str(job["memory"] // MIB)
            variables["POLARS_OOC_SPILL_DIR"] = job["spill"]
        command = [self.python, HERE / "peers" / f"peer_{name}.py", json.dumps(job)]
        found = timed(command, variables)
        if found["ok"]:
            said = json.loads(found.pop("stdout").splitlines()[-1])
            found |= {"statement_s": said["statement_s"], "peak_bytes": said["peak_bytes"], "rows": said["rows"]}
        return found | output_size(job)

    def ours(self, job):
        words = {
            "q1": ["query", "q1", *job["inputs"]],
            "join": ["join", *job["inputs"], "--on", job.get("on", "").replace(" ", "")],
        }.get(job["case"]) or ["sort", *job["inputs"], "--by", keys(job["by"])]
        words += ["--threads", self.threads, "--quiet", "--json"]
        if job["case"] != "q1":
            words += ["--compression", job["compression"], "--spill", job["spill"], "--output", job["output"]]
        if job.get("memory"):
            words += ["--memory", f"{job['memory'] // MIB}MiB"]
        found = timed([self.binary, *words, *self.options.ours.split()], {})
        if found["ok"]:
            result = json.loads(found.pop("stdout"))["result"]
            found |= {"statement_s": result["elapsed_ns"] / 1e9, "peak_bytes": result["memory_peak_bytes"],
                      "phases": result["phases"], "rows": (result.get("rows") or {}).get("rows")}
        return found | output_size(job)

    def compare(self, title, engines, cold=False):
        """Interleaves the runs of all engines; `engines` maps a name to its run."""
        runs = {name: [] for name in engines}
        order = list(engines)
        for round in range(self.options.rounds):
            for name in order[round % len(order):] + order[:round % len(order)]:
                if cold:
                    subprocess.run(["sync"], check=True)
                    Path("/proc/sys/vm/drop_caches").write_text("3")
                runs[name].append(engines[name]())
        rows = [summary(name, found) for name, found in runs.items()]
        show(title, rows)
        return {"case": title, "engines": rows, "load_average": os.getloadavg()}

    # Cases

    def job(self, case, inputs, **more):
        self.directory = self.options.spill
        return {"case": case, "inputs": [str(path) for path in inputs], "threads": self.threads,
                "compression": self.options.compression, "spill": str(self.directory),
                "memory": size(self.options.memory)} | more

    def statement(self, title, job):
        """Runs a Parquet-to-Parquet statement on all engines."""
        engines = {"sakiyomi": lambda: self.ours(job | {"output": self.output("sakiyomi")})}
        for name in self.options.peers.split(","):
            engines[name] = lambda name=name: self.peer(name, job | {"output": self.output(name)})
        found = self.compare(title, engines)
        for name in engines:
            Path(self.output(name)).unlink(missing_ok=True)
        return found

    def output(self, name):
        return str(Path(self.options.output) / f"query-bench-{os.getpid()}-{name}.parquet")

    def run_q1(self, cold=False):
        parquet = self.job("q1", [self.tpch("parquet")["lineitem"]], memory=None)
        arrow = self.job("q1", [self.tpch("arrow", Q1_COLUMNS)["lineitem"]], memory=None)
        own = parquet | {"database": str(self.database())}
        engines = {"sakiyomi (Arrow)": lambda: self.ours(arrow), "sakiyomi (Parquet)": lambda: self.ours(parquet)}
        if "duckdb" in self.options.peers:
            engines["duckdb (own table)"] = lambda: self.peer("duckdb", own)
        for name in self.options.peers.split(","):
            engines[f"{name} (Parquet)"] = lambda name=name: self.peer(name, parquet)
        return [self.compare(f"q1{', cold' if cold else ''}", engines, cold)]

    def run_limits(self):
        table = self.made("limits")
        job = self.job("sort", [table], by="k")
        return [self.statement(f"limits: {limit} MiB", job | {"memory": limit * MIB}) for limit in LIMITS_MIB]

    def run_case(self, case):
        if case in ("q1", "q1-cold"):
            return self.run_q1(case == "q1-cold")
        if case == "limits":
            return self.run_limits()
        if case == "join":
            tables = self.tpch("parquet")
            job = self.job("join", [tables["lineitem"], tables["orders"]], on="l_orderkey = o_orderkey")
        elif case == "sort":
            job = self.job("sort", [self.tpch("parquet")["lineitem"]], by="l_partkey, l_suppkey")
        else:
            job = self.job("sort", [self.made(case.removeprefix("sort-"))], by="k")
        return [self.statement(f"{case}, {self.options.memory}", job)]


def keys(order):
    return order.replace(", ", ",").replace(" desc", ":desc")


def size(text):
    return int(text.removesuffix("MiB")) * MIB


def output_size(job):
    path = Path(job.get("output") or "/nonexistent")
    return {"output_bytes": path.stat().st_size} if path.exists() else {}


def timed(command, variables):
    """Runs a fresh process; returns its wall and CPU time and its output."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        begun = time.perf_counter()
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=errors,
                                   env=os.environ | variables)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()
        return {"ok": process.returncode == 0, "stdout": out.read().decode(), "error": said[-300:], "wall_s": wall,
                "user_s": usage.ru_utime, "system_s": usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024}


def summary(name, runs):
    good = [run for run in runs if run["ok"]]
    if not good:
        return {"engine": name, "ok": False, "error": runs[-1]["error"].splitlines()[-1:]}
    of = lambda key: statistics.median(run[key] for run in good)
    return {
        "engine": name, "ok": True, "runs": len(good), "failed": len(runs) - len(good), "statement_s": of("statement_s"),
        "wall_s": of("wall_s"), "user_s": of("user_s"), "system_s": of("system_s"),
        "cpu_s": statistics.median(run["user_s"] + run["system_s"] for run in good),
        "peak_bytes": max(run["peak_bytes"] for run in good), "output_bytes": good[-1].get("output_bytes", 0),
        "all_statement_s": [run["statement_s"] for run in good], "phases": good[-1].get("phases"),
    }


def show(title, rows):
    print(f"\n{title}\n")
    print("| engine | statement s | wall s | CPU s (user + system) | peak MiB | output MB | statement ratio | CPU ratio |")
    print("|---|---|---|---|---|---|---|---|")
    best = {key: min((row[key] for row in rows if row["ok"] and not row["engine"].startswith("sakiyomi")), default=None)
            for key in ("statement_s", "cpu_s")}
    for row in rows:
        if not row["ok"]:
            print(f"| {row['engine']} | failed: {' '.join(row['error'])} | | | | | | |")
            continue
        is_ours = row["engine"].startswith("sakiyomi")
        ratio = [f"{row[key] / best[key]:.2f}" if is_ours and best[key] else "" for key in best]
        print(f"| {row['engine']} | {row['statement_s']:.2f} | {row['wall_s']:.2f} | {row['cpu_s']:.2f} "
              f"({row['user_s']:.2f} + {row['system_s']:.2f}) | {row['peak_bytes'] / MIB:.0f} | "
              f"{row['output_bytes'] / 1e6:.0f} | {ratio[0]} | {ratio[1]} |", flush=True)


def machine():
    cpu = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    return {"kernel": os.uname().release, "cpu": cpu[0] if cpu else "", "cores": os.cpu_count(),
            "commit": commit.strip(), "peers": VERSIONS, "command": sys.argv[1:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="q1,sort,sort-wide-strings,sort-nullable,sort-string-key,join,limits")
    parser.add_argument("--sf", default="1", help="TPC-H scale factor; the other tables grow with it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", default="512MiB")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compression", default="none", choices=["none", "snappy", "zstd"])
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--ours", default="", help="more options of sakiyomi's, such as '--method uring:8'")
    parser.add_argument("--binary", type=Path, help="the sakiyomi to measure [default: target/release/sakiyomi]")
    parser.add_argument("--data", type=Path, default=CACHE / "data", help="where tables are kept")
    parser.add_argument("--spill", type=Path, default=Path("/var/tmp"), help="where engines spill")
    parser.add_argument("--output", type=Path, default=Path("/var/tmp"), help="where results are written")
    parser.add_argument("--venv", type=Path, default=CACHE / "venv")
    parser.add_argument("--out", type=Path, help="the same as JSON, such as bench/results/query.json")
    options = parser.parse_args()
    bench = Bench(options)
    cases = [found for case in options.case.split(",") for found in bench.run_case(case)]
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(machine() | {"cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
