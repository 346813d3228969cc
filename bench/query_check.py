#!/usr/bin/env python3
"""Sakiyomi's sorts, joins and aggregations against DuckDB's, on random tables, orders, kinds and memory limits.

    cargo build --release
    bench/query_check.py [--count 1000] [--seed 1]

Prints the seed of each case that differs and keeps its files; `bench/query_check.py --seed SEED --count 1` repeats it. DuckDB comes from PyPI into the environment of `bench/query.py`.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import query as bench

# DuckDB's type, and a random value of it from the row's number `i`: few different ones, many, and the extremes.
TYPES = {
    "boolean": ["i % 2 = 0"],
    "tinyint": ["((hash(i) % 256)::integer - 128)::tinyint"],
    "smallint": ["((hash(i) % 65536)::integer - 32768)::smallint"],
    "integer": ["(hash(i) % 10)::integer", "((hash(i) % 4294967296)::bigint - 2147483648)::integer"],
    "bigint": ["(hash(i) % 100)::bigint", "(hash(i)::hugeint - 9223372036854775808)::bigint"],
    "ubigint": ["hash(i)::ubigint"],
    "decimal(9, 2)": ["((hash(i) % 2000000) / 100 - 10000)::decimal(9, 2)"],
    "decimal(18, 4)": ["((hash(i) % 2000000000)::hugeint - 1000000000)::decimal(18, 4)"],
    "decimal(38, 10)": ["((hash(i) % 2000000)::hugeint * 1000000000000 - 7)::decimal(38, 10)"],
    "float": ["((hash(i) % 1000)::integer / 8 - 60)::float"],
    "double": ["hash(i) / 3.0 - 1e18", "case hash(i) % 9 when 0 then 'nan'::double when 1 then 'inf'::double "
                                       "when 2 then '-inf'::double when 3 then -0.0 else i / 7 end"],
    "varchar": ["'v' || hash(i) % 20", "substr(md5(i::varchar), 1, (hash(i) % 33)::integer)",
                "repeat('common prefix ', 2) || i", "case when i % 50 = 0 then repeat('long ', 3000) else '' end"],
    "date": ["date '1992-01-01' + (hash(i) % 3000)::integer"],
    "timestamp": ["timestamp '2000-01-01' + interval (hash(i) % 100000000) second"],
    "blob": ["encode(md5(i::varchar))"],
}
NUMBERS = ["tinyint", "smallint", "integer", "bigint", "decimal(9, 2)", "decimal(18, 4)", "float"]
ROWS = [0, 1, 2, 100, 1000, 5000, 40_000]
KINDS = ["inner", "left", "right", "full", "semi", "anti"]
LIMITS = ["64MiB", "96MiB", "512MiB"]


class Case:
    def __init__(self, seed, directory, binary, connection):
        self.random = random.Random(seed)
        self.directory, self.binary, self.connection = directory, binary, connection
        self.words = []

    def table(self, name, key=None, rows=None):
        """Writes a random table, the columns of `key` first; returns its path, columns with types, and rows."""
        rows = self.random.choice(ROWS) if rows is None else rows
        columns = list(key or [])
        columns += [(f"{name}{n}", self.random.choice(list(TYPES))) for n in range(self.random.randint(1, 8))]
        # Summed columns have no extreme values: on overflow sakiyomi fails, and DuckDB uses a wider type.
        values = [f"{self.value(kind, salt, column[0] == 'x')} as {column}" for salt, (column, kind) in enumerate(columns)]
        path = self.directory / f"{name}.parquet"
        groups = self.random.choice([1000, 3000, 122_880])
        options = f"(format parquet, compression {self.random.choice(['snappy', 'zstd', 'uncompressed'])}, row_group_size {groups})"
        self.run(f"copy (select {', '.join(values)} from range({rows}) as r(n)) to '{path}' {options}")
        return path, columns, rows

    def value(self, kind, salt, is_summed):
        value = TYPES[kind][0] if is_summed else self.random.choice(TYPES[kind])
        # A different sequence of numbers for each column, with a random share of duplicates.
        spread = self.random.choice([3, 50, 10**9])
        value = value.replace("hash(i)", f"hash(n % {spread} + {salt * 1000 + self.random.randint(0, 9)})")
        value = re.sub(r"\bi\b", f"(n % {spread})", value)
        nulls = self.random.choice([0, 0, 10, 2])
        return f"case when hash(n + {salt}) % {nulls} = 0 then null else {value} end" if nulls else value

    def run(self, statement):
        return self.connection.execute(statement).fetchall()

    def ours(self, *words):
        self.words = [str(word) for word in [self.binary, *words, "--quiet", "--spill", self.directory]]
        done = subprocess.run(self.words, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise AssertionError(f"exit code {done.returncode}: {shortened(done.stderr)}")

    def same_rows(self, ours, theirs):
        for one, other, what in [(ours, theirs, "too many"), (theirs, ours, "missing")]:
            found = self.run(f"select count(*) from (({one}) except all ({other}))")[0][0]
            assert found == 0, f"{found} rows are {what}"

    def options(self):
        words = ["--memory", self.random.choice(LIMITS), "--threads", str(self.random.choice([1, 2, 3]))]
        words += ["--method", self.random.choice(["read", "pread:2", "aio:4", "uring:4"])]
        return words + ["--compression", self.random.choice(["none", "snappy", "zstd", "lz4"])]

    def sort(self):
        path, columns, rows = self.table("a")
        keys = self.random.sample(columns, self.random.randint(1, min(3, len(columns))))
        orders = [(name, self.random.choice(["asc", "desc"]), self.random.choice(["first", "last"])) for name, _ in keys]
        out = self.directory / "out.parquet"
        limit = self.random.choice([None, None, None, 0, 1, 10, rows, rows + 1])
        words = ["--by", ",".join(f"{name}:{way}:nulls-{nulls}" for name, way, nulls in orders)]
        words += ["--limit", limit] if limit is not None else []
        self.ours("sort", path, *words, "-o", out, *self.options())
        order = ", ".join(f"{name} {way} nulls {nulls}" for name, way, nulls in orders)
        names = ", ".join(name for name, *_ in orders)
        limited = "" if limit is None else f"limit {limit}"
        theirs = self.run(f"select {names} from (select * from '{path}' order by {order} {limited})")
        found = self.run(f"select {names} from read_parquet('{out}', file_row_number = true) order by file_row_number")
        assert repr(found) == repr(theirs), "the keys are in another order"
        if limit is None:
            self.same_rows(f"select * from '{out}'", f"select * from '{path}'")
        else:
            extra = self.run(f"select count(*) from ((select * from '{out}') except all (select * from '{path}'))")
            assert extra[0][0] == 0, "rows that are not in the table"

    def join(self):
        kinds = [self.random.choice([kind for kind in TYPES if kind not in ("float", "double")])
                 for _ in range(self.random.randint(1, 2))]
        rows = lambda: self.random.choice([0, 1, 100, 1000, 3000])
        left, columns, _ = self.table("l", [(f"lk{n}", kind) for n, kind in enumerate(kinds)], rows())
        right, others, _ = self.table("r", [(f"rk{n}", kind) for n, kind in enumerate(kinds)], rows())
        on = [f"lk{n} = rk{n}" for n in range(len(kinds))]
        pairs = self.run(f"select count(*) from '{left}' join '{right}' on {' and '.join(on)}")[0][0]
        if pairs > 2_000_000:
            return
        kind, out = self.random.choice(KINDS), self.directory / "out.parquet"
        self.ours("join", left, right, "--on", ",".join(on).replace(" ", ""), "--kind", kind, "-o", out, *self.options())
        both = ", ".join(name for name, _ in columns + others)
        names = ", ".join(name for name, _ in columns) if kind in ("semi", "anti") else both
        theirs = f"select {names} from '{left}' {kind} join '{right}' on {' and '.join(on)}"
        self.same_rows(f"select {names} from '{out}'", theirs)

    def aggregate(self):
        groups = [(f"g{n}", self.random.choice([kind for kind in TYPES if kind != "double"]))
                  for n in range(self.random.randint(0, 2))]
        numbers = [(f"x{n}", self.random.choice(NUMBERS)) for n in range(2)]
        path, _, _ = self.table("a", groups + numbers)
        out = self.directory / "out.parquet"
        by = ["--by", ",".join(name for name, _ in groups)] if groups else []
        self.ours("aggregate", path, *by, "--sum", "x0", "--avg", "x1", "--min", "x0", "--max", "x1", "--distinct", "x1",
                  "--count", "-o", out, *self.options())
        names = ", ".join(name for name, _ in groups)
        grouped = f"group by {names}" if groups else ""
        listed = f"{names}, " if groups else ""
        theirs = self.run(f"select {listed}sum(x0)::double, avg(x1)::double, min(x0)::varchar, max(x1)::varchar, "
                          f"count(distinct x1)::bigint, count(*)::bigint from '{path}' {grouped}")
        columns = [row[0] for row in self.run(f"describe select * from '{out}'")][len(groups):]
        casts = zip(columns, ["double", "double", "varchar", "varchar", "bigint", "bigint"])
        found = self.run(f"select {listed}" + ", ".join(f'"{name}"::{kind}' for name, kind in casts) + f" from '{out}'")
        key = lambda row: repr(row[: len(groups)])
        assert len(found) == len(theirs), f"{len(found)} groups, DuckDB has {len(theirs)}"
        for one, other in zip(sorted(found, key=key), sorted(theirs, key=key)):
            assert all(close(a, b) for a, b in zip(one, other)), f"{one} instead of {other}"


def shortened(errors):
    """An error without its backtrace."""
    lines = errors.strip().splitlines()
    end = next((n for n, line in enumerate(lines) if line.startswith("stack backtrace")), len(lines))
    return " | ".join(lines[:min(end, 6)])


def close(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1e-3) or a != a and b != b
    return a == b


def check(options):
    import duckdb
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        directory = Path(tempfile.mkdtemp(prefix="query-check-", dir=options.directory))
        case = Case(seed, directory, options.binary, connection)
        what = case.random.choice(options.what.split(","))
        try:
            getattr(case, what)()
            shutil.rmtree(directory)
        except (AssertionError, subprocess.TimeoutExpired, duckdb.Error) as error:
            failed += 1
            print(f"seed {seed}: {what}: {error}\n  {' '.join(case.words)}", flush=True)
            if failed > options.failures:
                sys.exit("too many failures")
    print(f"{options.count - failed} of {options.count} cases agree with DuckDB")
    sys.exit(1 if failed else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--what", default="sort,join,aggregate")
    parser.add_argument("--failures", type=int, default=20, help="give up after this many")
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--venv", type=Path, default=bench.CACHE / "venv")
    options = parser.parse_args()
    options.binary = bench.built(options.binary)
    python = bench.environment(options.venv)
    if Path(sys.prefix) != options.venv:
        os.execv(python, [str(python), *sys.argv])
    check(options)


if __name__ == "__main__":
    main()
