#!/usr/bin/env python3
"""Compares a pipeline that runs on sakiyomi alone with one that Flink continues in the middle.

usage: check.py SAKIYOMI JAR [NAME...]

For each pipeline: sakiyomi reads the whole input; then it is suspended in the middle, its snapshot is exported, and the jar
reads the rest from there. What both have written before and after the hand-over must be the same rows as those of the
single run, as a multiset (of windows: per window, because the window's times are columns of its rows). It also compares
the values of expressions, where both engines read all records.

The inputs are made from a fixed seed. The time of the suspension is searched for: a snapshot counts if each input has been
read in part, one of them not to its end, and state is kept.
"""

import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

# Rows of an input: some hundred milliseconds of work, so that a suspension falls into the middle.
ROWS = 120_000

# Times at which a run is suspended, in milliseconds: any machine has read a part at one of them.
SUSPEND_MS = [int(40 * 1.15**step) for step in range(48)]

# Bounds of a run, in seconds.
RUN_MAX_S = 300

EVENTS = """
[source.events]
from = "file:events.csv"
format = "csv"
columns = { t = "timestamp(ms)", k = "text", x = "int64", f = "float64" }
event_time = "t"
out_of_order = "200ms"
"""

OTHERS = """
[source.others]
from = "file:others.json"
format = "json"
columns = { t = "timestamp(ms)", k = "text", y = "int64" }
event_time = "t"
out_of_order = "200ms"
"""

# Expressions whose values Flink has to compute as sakiyomi does, over records with nulls, extremes and letters beyond ASCII.
VALUES = """
[source.values]
from = "file:values.json"
format = "json"
columns = { i = "int64", j = "int64", s = "int8", u = "uint32", f = "float64", g = "float64", t = "text", p = "text", b = "bool", d = "date", at = "timestamp(ms)", ns = "timestamp(ns)" }

[[step]]
name = "all"
input = "values"
op = "select"
columns = """

# Expressions that have a value for each record.
TOTAL = [
    "*", "s + u", "s * 2 - u", "f + g", "f - i", "f * g", "f / g", "f % g", "-f", "abs(f)", "ceil(f)", "floor(g)",
    "i = j", "i <> j", "i < 5", "f <= g", "f > g", "t >= p", "t < p", "b = true", "d > date '2001-02-03'",
    "at < timestamp '2020-01-01 00:00:00'", "ns is distinct from at", "i is distinct from j", "f is not distinct from g",
    "b and i > 0", "b or f > g", "not b", "i is null", "t is not null", "b is true", "b is not false", "(i > j) is not true",
    "i between 0 and 100", "t in ('a', 'ab', 'é')", "s not in (1, 2)", "t like '%a_'", "t not like 'a%b%'", "t like p",
    "t || p || 'x'", "lower(t)", "upper(t)", "trim(t)", "length(t)", "substring(t, 2)", "substring(t, 0, 3)",
    "substring(t, i % 4, 2)", "starts_with(t, 'a')", "ends_with(t, p)", "contains(t, 'b')", "nullif(i, j)", "nullif(f, g)",
    "coalesce(i, j, -1)", "coalesce(t, 'none')", "case when i > 0 then 'more' when i < 0 then 'less' else t end",
    "case when b then f end", "cast(s as bigint)", "cast(i as double)", "cast(i as text)", "cast(b as text)",
    "cast(b as int)", "try_cast(f as bigint)", "try_cast(f as int)", "try_cast(t as bigint)", "try_cast(t as smallint)",
    "try_cast(i as smallint)", "try_cast(i as tinyint)", "extract(year from d)", "extract(quarter from d)",
    "extract(month from at)", "extract(day from ns)", "extract(dow from d)", "extract(doy from at)",
    "extract(hour from at)", "extract(minute from ns)", "extract(second from at)", "d - date '2000-01-01'",
    "1.5e300 * 1e300 > f", "i = 0 or 10 / i > 3",
]

# Expressions that some records have no value of: these rows are dropped by both.
PARTIAL = [
    "i + j", "i - j", "i * j", "i / j", "i % j", "-i", "abs(i)", "cast(i as int)", "cast(i as tinyint)", "cast(f as bigint)",
    "cast(f as smallint)", "cast(t as bigint)", "cast(p as int)", "substring(t, 1, i)",
    "case when i / j > 1 then 1 else 0 end", "coalesce(j, i / 0)", "b or i / j > 0",
]


def values_pipeline():
    total = ", ".join(text if text == "*" else f"{text} as v{at}" for at, text in enumerate(TOTAL))
    sinks = VALUES + json.dumps(total) + """
[sink.out]
input = "all"
to = "file:OUT"
append = true
format = "json"
"""
    for at, text in enumerate(PARTIAL):
        sinks += f"""
[[step]]
name = "partial{at}"
input = "values"
op = "select"
bad = "skip"
columns = {json.dumps(f"i, j, f, t, p, {text} as v")}

[sink.out{at}]
input = "partial{at}"
to = "file:OUT.{at}"
append = true
format = "json"
"""
    return sinks


PIPELINES = {
    "tumbling": EVENTS
    + """
[[step]]
name = "known"
op = "filter"
where = "x % 7 <> 0 and k not like 'k_9%' or x is null"

[[step]]
name = "values"
op = "select"
columns = "upper(k) as k, x * 3 - 1 as x, f / 4 as f, coalesce(x, -1) as y, cast(cast(x as text) || '0' as bigint) as z"

[[step]]
name = "counts"
op = "aggregate"
by = "k"
window = "tumbling:5s"
compute = "count(*) as n, count(x) as xs, sum(x) as sx, sum(f) as sf, avg(f) as af, avg(x) as ax, min(f) as least, max(k) as last, max(z) as z, sum(y) as sy"

[sink.out]
to = "file:OUT"
append = true
format = "json"
""",
    "session": EVENTS
    + """
[[step]]
name = "visits"
op = "aggregate"
by = "k, x % 3 as part"
window = "session:900ms"
compute = "count(*) as n, sum(x) as sx, min(f) as least, max(f) as greatest"

[sink.out]
to = "file:OUT"
append = true
format = "json"
""",
    "join": EVENTS
    + OTHERS
    + """
[[step]]
name = "pairs"
input = "events"
op = "join"
with = "others"
on = "k = k"
within = "300ms"

[sink.out]
to = "file:OUT"
append = true
format = "json"
""",
}


def make_inputs(directory):
    """Records that are out of order by less than the declared 200 ms, with nulls and quotes."""
    draw = random.Random(20)
    with open(os.path.join(directory, "events.csv"), "w", encoding="utf-8") as events:
        events.write("f,k,t,x\n")
        for row in range(ROWS):
            time = 1_700_000_000_000 + row * 5 + draw.randrange(190)
            key = draw.choice(['k_1', 'k_2', 'k_93', '"k ""q"", é"', '', 'k_7', 'K_8']) if row % 3 else f"k_{draw.randrange(400)}"
            number = '' if draw.random() < 0.05 else str(draw.randrange(-1000, 100000))
            events.write(f"{draw.randrange(-4000, 4000) / 8},{key},{time},{number}\n")
    with open(os.path.join(directory, "others.json"), "w", encoding="utf-8") as others:
        for row in range(ROWS):
            time = 1_700_000_000_000 + row * 5 + draw.randrange(190)
            key = None if draw.random() < 0.02 else f"k_{draw.randrange(400)}"
            others.write(json.dumps({"y": row, "k": key, "t": time, "unused": [row]}) + "\n")


def make_values(directory):
    draw = random.Random(7)
    integers = [0, 1, -1, 2, 5, 10, 127, 128, -129, 40000, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), None]
    floats = [0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 1e300, -1e300, 127.5, 32767.5, 9.3e18, 9223372036854774784.0, 1e-320, 3.7, None]
    texts = ["", "a", "ab", "b", "abab", " a b ", "é", "Éß", "\U0001f600x", "\uffee", "12", "-7", "+3", "1.5", " 4", "12 ", "\t+5\n", "- 5", "99999", "-",
             "9223372036854775807", "9223372036854775808", "a%", "_", "%b", "\\\\%", "İI", None]
    times = ["1969-12-31T23:59:59.999Z", "2000-02-29T12:34:56.5+01:30", "2024-12-31 23:59:60", "1970-01-01", 1700000000123, None]
    with open(os.path.join(directory, "values.json"), "w", encoding="utf-8") as values:
        for _ in range(4_000):
            record = {
                "i": draw.choice(integers), "j": draw.choice(integers), "s": draw.choice([-128, 127, 0, 1, 2, None]),
                "u": draw.choice([0, 1, 2**32 - 1, None]), "f": draw.choice(floats), "g": draw.choice(floats),
                "t": draw.choice(texts), "p": draw.choice(texts), "b": draw.choice([True, False, None]),
                "d": draw.choice(["1970-01-01", "1969-12-31", "2000-02-29", "0004-02-29", "9999-12-31", None]),
                "at": draw.choice(times), "ns": draw.choice(times),
            }
            values.write(json.dumps(record, ensure_ascii=draw.random() < 0.5) + "\n")


def run(command, directory, may_fail=False):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=RUN_MAX_S, check=False)
    if done.returncode != 0 and not may_fail:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return done


def remove(*paths):
    for path in paths:
        shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)


def rows(lines):
    """A multiset: whole numbers and floats of one value are equal."""
    return collections.Counter(
        json.dumps(json.loads(line), sort_keys=True, ensure_ascii=False) for line in lines if line.strip()
    )


def handed_over(sakiyomi, directory):
    """Suspends the pipeline in the middle and exports it; the job, and the number of lines of state."""
    snapshot, export = os.path.join(directory, "p.snapshot"), os.path.join(directory, "export")
    for after_ms in SUSPEND_MS:
        remove(snapshot, export, os.path.join(directory, "part.json"))
        run([sakiyomi, "stream", "run", "part.toml", "--unpinned", "--snapshot", "p.snapshot", "--for", f"{after_ms}ms", "-q"],
            directory)
        if not os.path.exists(snapshot):
            continue  # it had ended before
        run([sakiyomi, "stream", "export", "part.toml", "--to", "flink", "export", "--snapshot", "p.snapshot", "-q"], directory)
        with open(os.path.join(export, "job.json"), encoding="utf-8") as file:
            job = json.load(file)
        with open(os.path.join(export, "state.jsonl"), encoding="utf-8") as file:
            state = sum(1 for _ in file)
        sources = [node for node in job["nodes"] if node["kind"] == "source"]
        shares = [node["offset"] / os.path.getsize(node["path"]) for node in sources]
        if min(shares) > 0.05 and min(shares) < 0.9 and state > 0:
            return job, state
    sys.exit("no suspension fell into the middle of the input")


def check_values(sakiyomi, jar, directory):
    """All records by both engines: each expression has the same values, and the same rows have none."""
    make_values(directory)
    with open(os.path.join(directory, "values.toml"), "w", encoding="utf-8") as pipeline:
        pipeline.write(values_pipeline().replace("OUT", "values.out"))
    run([sakiyomi, "stream", "run", "values.toml", "--unpinned", "-q"], directory)
    run([sakiyomi, "stream", "export", "values.toml", "--to", "flink", "values", "-q"], directory)
    run(["java", "-Xmx2g", "-jar", jar, "values", "values.flink"], directory)
    found_all = 0
    for at in [None, *range(len(PARTIAL))]:
        suffix, sink = ("", "sink.out") if at is None else (f".{at}", f"sink.out{at}")
        with open(os.path.join(directory, f"values.out{suffix}"), encoding="utf-8") as file:
            expected = rows(file)
        found = rows(written_by_flink(os.path.join(directory, "values.flink"), sink))
        found_all += found.total()
        if found != expected:
            text = "all" if at is None else PARTIAL[at]
            for line, other in zip(sorted((expected - found).elements()), sorted((found - expected).elements())):
                line, other = json.loads(line), json.loads(other)
                differences = [(key, line[key], other[key]) for key in line if line[key] != other[key]]
                named = [(TOTAL[int(key[1:])] if key[1:].isdigit() else key, *rest) for key, *rest in differences]
                print(f"{line}: {named}", file=sys.stderr)
                break
            missing, more = (expected - found).total(), (found - expected).total()
            sys.exit(f"values: {text}: {missing} rows are missing, {more} are too many")
    print(f"values: {len(TOTAL)} expressions that have a value, and {len(PARTIAL)} that may have none: {found_all} rows of both are equal")


def written_by_flink(out, sink="sink.out"):
    lines = []
    for root, _, names in os.walk(os.path.join(out, sink)):
        for name in names:
            if ".inprogress" in name:
                continue  # rows that no checkpoint has: an attempt that was restarted leaves them
            with open(os.path.join(root, name), encoding="utf-8") as file:
                lines += file.readlines()
    return lines


def check(name, sakiyomi, jar, directory):
    for file, out in [("whole.toml", "whole.json"), ("part.toml", "part.json")]:
        with open(os.path.join(directory, file), "w", encoding="utf-8") as pipeline:
            pipeline.write(PIPELINES[name].replace("OUT", out))
    remove(os.path.join(directory, "whole.json"), os.path.join(directory, "flink"))
    run([sakiyomi, "stream", "run", "whole.toml", "--unpinned", "-q"], directory)
    with open(os.path.join(directory, "whole.json"), encoding="utf-8") as file:
        expected = rows(file)
    job, state = handed_over(sakiyomi, directory)
    sink = next(node for node in job["nodes"] if node["kind"] == "sink")
    with open(sink["path"], "rb") as file:
        before = file.read(sink["length"]).decode().splitlines()
    for parallelism in ["1", "2"]:
        remove(os.path.join(directory, "flink"))
        run(["java", "-Xmx2g", "-jar", jar, "export", "flink", parallelism], directory)
        after = written_by_flink(os.path.join(directory, "flink"))
        found = rows(before) + rows(after)
        if found != expected:
            missing, more = list((expected - found).elements()), list((found - expected).elements())
            sys.exit(f"{name}: {len(missing)} rows are missing, such as {missing[:3]}; {len(more)} are too many, such as {more[:3]}")
        print(f"{name}: {len(before)} rows of sakiyomi and {len(after)} of Flink with {parallelism} instances are the "
              f"{expected.total()} of a single run; {state} lines of state")
        if not before or not after:
            sys.exit(f"{name}: the hand-over was not in the middle")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sakiyomi, jar = map(os.path.abspath, sys.argv[1:3])
    names = sys.argv[3:] or ["values", *PIPELINES]
    with tempfile.TemporaryDirectory(prefix="sakiyomi-flink-") as directory:
        make_inputs(directory)
        for name in names:
            if name == "values":
                check_values(sakiyomi, jar, directory)
                continue
            check(name, sakiyomi, jar, directory)
    print(f"{len(names)} passed, 0 failed")


if __name__ == "__main__":
    main()
