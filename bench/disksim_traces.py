#!/usr/bin/env python3
"""What the measured traces of DiskSim's drives say of their caches, as docs/explanation/accuracy.md cites it.

    bench/disksim_traces.py

The traces are those in traces/. A line of a trace is: operation, label, first sector, sectors, service time and delay in
microseconds; one request at a time is outstanding.
"""

import gzip
import statistics
from pathlib import Path

TRACES = Path(__file__).resolve().parent.parent / "traces"
HIT_MAX_US = 2_500  # A read after the last one that takes less had no rotational latency worth mentioning.
AHEAD_MAX_SECTORS = 100  # So far behind the last read that a read-ahead on its track has read it.


def requests(name):
    with gzip.open(TRACES / name, "rt") as lines:
        words = (line.split() for line in lines)
        return [(op, label, int(first), int(first) + int(count), float(us)) for op, label, first, count, us, _ in words]


def reads_after_reads(trace):
    """Pairs of a read and the read after it, with the request before."""
    for before, last, this in zip(trace, trace[1:], trace[2:]):
        if last[0] == this[0] == "R":
            yield before, last, this


def main():
    for drive, name in (("atlas_III", "disksim/atlas_III"), ("barracuda", "disksim/barracuda"), ("cheetah9LP", "cheetah9LP")):
        trace = requests(f"{name}.trace.gz")
        again = [this[4] for _, last, this in reads_after_reads(trace) if last[2] <= this[2] and this[3] <= last[3]]
        ahead = {False: [], True: []}
        for before, last, this in reads_after_reads(trace):
            if 0 < this[2] - last[3] < AHEAD_MAX_SECTORS:
                ahead[before[0] == "R" and before[3] == last[2]].append(this[4] < HIT_MAX_US)
        single, pair = (100 * statistics.mean(ahead[is_pair]) for is_pair in (False, True))
        print(f"{drive}: {len(again)} reads of what was just read, median {statistics.median(again) / 1e3:.1f} ms; "
              f"reads further on: {single:.0f} % in less than 2.5 ms after one read, {pair:.0f} % after two in sequence")
    trace = requests("disksim/hp_c2247a.trace.gz")
    writes = [(last, this) for last, this in zip([None, *trace], trace) if this[0] == "W"]
    right = sum((last is not None and last[0] == "W" and last[3] != this[2]) == (this[1] == "Trip") for last, this in writes)
    print(f"hp_c2247a: a third disconnection of a write that follows a write elsewhere: right for {right} of {len(writes)}")


if __name__ == "__main__":
    main()
