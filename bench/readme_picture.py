#!/usr/bin/env python3
"""Draws docs/run.svg, the picture of README.md: one job alone and with `sakiyomi run`, on one time scale.

    sakiyomi mount files /mnt/far --drive fixed:latency=10ms,parallel=64,bandwidth=200MB/s
    sakiyomi run --dry-run --out alone -- md5sum /mnt/far/big.tar
    sakiyomi run --out with -- md5sum /mnt/far/big.tar
    bench/readme_picture.py alone with > docs/run.svg

The page cache is emptied between the two runs. Shaded: intervals of 25 ms of which the program waited for more than
half.
"""

import json
import sys
from pathlib import Path

WIDTH, LEFT, PANEL, GAP, TOP = 880, 20, 96, 52, 34
INTERVAL_NS = 25_000_000
PROGRAM, PREFETCHER, WAITING = "#0072B2", "#E69F00", "#F7D9C4"


def load(directory):
    result = json.loads((Path(directory) / "result.json").read_text())["result"]
    return result["elapsed_ns"], result["readings"][0]["points"]


def line(points, key, x, y):
    return " ".join(f"{x(point['at_ns']):.1f},{y(point[key]):.1f}" for point in points)


def waited_until(points, ns):
    """Returns the waiting time up to an instant, interpolated between two points."""
    after = next((index for index, point in enumerate(points) if point["at_ns"] >= ns), None)
    if after is None or after == 0:
        return points[-1 if after is None else 0]["io_wait_ns"]
    one, other = points[after - 1], points[after]
    share = (ns - one["at_ns"]) / max(other["at_ns"] - one["at_ns"], 1)
    return one["io_wait_ns"] + share * (other["io_wait_ns"] - one["io_wait_ns"])


def waits(points, elapsed_ns):
    """Yields the intervals in which the program mostly waited; adjacent ones are joined."""
    start = None
    for begin in range(0, elapsed_ns, INTERVAL_NS):
        end = min(begin + INTERVAL_NS, elapsed_ns)
        is_waiting = waited_until(points, end) - waited_until(points, begin) > (end - begin) / 2
        if is_waiting and start is None:
            start = begin
        elif not is_waiting and start is not None:
            yield start, begin
            start = None
    if start is not None:
        yield start, elapsed_ns


def panel(top, title, elapsed_ns, points, scale_ns, has_prefetcher):
    x = lambda ns: LEFT + (WIDTH - 2 * LEFT) * ns / scale_ns
    y = lambda read: top + PANEL * (1 - read / points[-1]["main_bytes"])
    yield f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{title}</text>'
    for start, end in waits(points, elapsed_ns):
        yield f'<rect x="{x(start):.1f}" y="{top}" width="{x(end) - x(start):.1f}" height="{PANEL}" fill="{WAITING}"/>'
    yield f'<path d="M{LEFT} {top + PANEL}H{WIDTH - LEFT}" stroke="#888"/>'
    if has_prefetcher:
        yield f'<polyline fill="none" stroke="{PREFETCHER}" stroke-width="2" points="{line(points, "prefetched_bytes", x, y)}"/>'
    yield f'<polyline fill="none" stroke="{PROGRAM}" stroke-width="2" points="{line(points, "main_bytes", x, y)}"/>'
    yield f'<path d="M{x(elapsed_ns):.1f} {top}V{top + PANEL}" stroke="#24292F"/>'
    anchor = "end" if elapsed_ns > scale_ns / 2 else "start"
    shift = -6 if anchor == "end" else 6
    yield f'<text x="{x(elapsed_ns) + shift:.1f}" y="{top + PANEL - 8}" text-anchor="{anchor}">{elapsed_ns / 1e9:.1f} s</text>'


def main():
    alone, hidden = (load(directory) for directory in sys.argv[1:3])
    scale_ns = max(alone[0], hidden[0])
    height = TOP + 2 * PANEL + GAP + 34
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" font-family="sans-serif" '
          'font-size="14" fill="#24292F">')
    print(f'<rect width="{WIDTH}" height="{height}" fill="white"/>')
    print("\n".join(panel(TOP, "md5sum big.tar", *alone, scale_ns, False)))
    print("\n".join(panel(TOP + PANEL + GAP, "sakiyomi run -- md5sum big.tar", *hidden, scale_ns, True)))
    at, foot = LEFT, height - 12
    for color, words in [(PROGRAM, "read by the program"), (PREFETCHER, "prefetched"), (WAITING, "the program waits for I/O")]:
        print(f'<rect x="{at}" y="{foot - 10}" width="18" height="10" fill="{color}"/>')
        print(f'<text x="{at + 24}" y="{foot}">{words}</text>')
        at += 50 + 8 * len(words)
    print("</svg>")


if __name__ == "__main__":
    main()
