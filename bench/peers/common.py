"""Shared part of the peers: reads a statement as JSON from the first argument, prints its figures as JSON.

Each peer is a fresh process. The statement's time is taken inside, from before the statement to its last row; start-up,
imports and connecting are in the whole process's time, which `bench/query.py` takes from outside.
"""

import json
import sys
import time


def peak_bytes():
    """The largest resident memory of this process (VmHWM)."""
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def main(prepare):
    """`prepare` takes the job and returns the function that runs its statement; the function may return rows."""
    job = json.loads(sys.argv[1])
    statement = prepare(job)
    begun = time.perf_counter()
    rows = statement()
    elapsed = time.perf_counter() - begun
    print(json.dumps({"statement_s": elapsed, "peak_bytes": peak_bytes(), "rows": rows}, default=str))


# TPC-H query 1, with its columns spelled out.
Q1 = """select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
from {table} where l_shipdate <= date '1998-09-02' group by 1, 2 order by 1, 2"""
