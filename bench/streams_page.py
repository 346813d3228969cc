"""The page of streams.py: charts of latency and cores over time, with the relocations, as HTML and SVG without anything
else."""

import html
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1080, 250, 64, 8, 8, 26

COLORS = {"one core": "#8a8a8a", "static": "#c0392b", "threads": "#8e44ad", "stub": "#d68910", "adaptive": "#1f6fb2",
           "oracle": "#229954"}

STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }
table { border-collapse: collapse } td, th { border-bottom: 1px solid #8886; padding: .25em .8em .25em 0; text-align: left }
svg { width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: currentColor }
.grid { stroke: #8884; stroke-width: 1 } .phase { stroke: #888; stroke-dasharray: 3 3 } .move { stroke: #1f6fb2; stroke-width: 1.5 }
.line { fill: none; stroke-width: 1.4 } .met { color: #229954 } .missed { color: #c0392b }
.key { display: inline-block; margin-right: 1.4em } .key i { display: inline-block; width: 1.6em; height: .25em; margin-right: .4em; vertical-align: middle }
@media print { body { margin: 0; max-width: none } }
"""


def time_text(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:g} {unit}"
    return f"{ns:g} ns"


class Chart:
    """Lines over time, on a scale of latencies by powers of ten or of small numbers."""

    def __init__(self, title, end_ns, values, is_latency):
        self.title, self.end_ns, self.is_latency, self.parts = title, end_ns, is_latency, []
        if is_latency:
            self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
            self.high = max(self.high, self.low + 1)
            ticks = range(self.low, self.high + 1)
        else:
            self.low, self.high = 0, max(values) + 0.5
            ticks = range(int(max(values)) + 1)
        for tick in ticks:
            y = self.place(tick)
            text = time_text(10 ** tick) if is_latency else tick
            self.parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/><text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        for second in range(0, int(end_ns * 1e-9) + 1, 5 if end_ns > 2e10 else 2):
            self.parts.append(f'<text x="{self.x(second * 1e9):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{second} s</text>')

    def x(self, ns):
        return LEFT + ns / self.end_ns * (WIDTH - LEFT - RIGHT)

    def place(self, value):
        return TOP + (self.high - value) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)

    def y(self, value):
        return self.place(math.log10(max(value, 1)) if self.is_latency else value)

    def line(self, name, points):
        path = "M" + "L".join(f"{self.x(at):.1f} {self.y(value):.1f}" for at, value in points if at <= self.end_ns)
        self.parts.append(f'<path class="line" stroke="{COLORS[name]}" d="{path}"><title>{name}</title></path>')

    def mark(self, kind, at, text):
        x = self.x(at)
        self.parts.append(f'<path class="{kind}" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"><title>{html.escape(text)}</title></path>')

    def svg(self):
        label = html.escape(self.title)
        return f'<h3>{label}</h3><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(self.parts)}</svg>'


def charts(pattern):
    runs = [run for run in pattern["runs"] if run["round"] == 0 and run["bins"]]
    end = pattern["phases"][-1]["to_ns"]
    adaptive = next(run for run in runs if run["arm"] == "adaptive")

    def chart(title, values, is_latency, lines):
        drawn = Chart(title, end, values, is_latency)
        for phase in pattern["phases"]:
            drawn.mark("phase", phase["from_ns"], f"{phase['rate_per_s']:.0f} tuples/s, {phase['passed_ratio']:.0%} pass the filter")
        for change in adaptive["changes"]:
            drawn.mark("move", change["at_ns"], f"{change['at_ns'] * 1e-9:.3f} s: {change['reason']}, {change['duration_ns'] * 1e-6:.2f} ms")
        for name, points in lines:
            drawn.line(name, points)
        return drawn.svg()

    for title, column in (("Mean latency of each 100 ms", 2), ("99th percentile of each 100 ms", 3)):
        lines = [(run["arm"], [(bin[0], bin[column]) for bin in run["bins"]]) for run in runs]
        yield chart(title, [value for _, points in lines for _, value in points if value > 0] or [1], True, lines)
    lines = []
    for run in runs:
        if run["arm"] not in ("adaptive", "oracle"):
            continue
        points, cores = [(0, run["cores"])], run["cores"]
        for change in run["changes"]:
            points += [(change["at_ns"], cores), (change["at_ns"], change["cores"])]
            cores = change["cores"]
        lines.append((run["arm"], points + [(end, cores)]))
    yield chart("Cores in use", [2], False, lines)


def page(patterns, goals):
    words = {True: ("met", "met"), False: ("missed", "missed"), None: ("", "not judged")}
    rows = "".join(f"<tr><td>{html.escape(goal['goal'])}<td>{html.escape(goal['bound'])}<td>{html.escape(goal['measured'])}"
                   f'<td class="{words[goal["met"]][0]}">{words[goal["met"]][1]}' for goal in goals)
    keys = "".join(f'<span class="key"><i style="background:{color}"></i>{name}</span>' for name, color in COLORS.items())
    body = "".join(f"<h2>Pattern: {html.escape(pattern['name'])}</h2><p>{keys}</p>{''.join(charts(pattern))}" for pattern in patterns)
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>Placed streams</title><style>{STYLE}</style><h1>Placed streams</h1>"
            f"<p>A chain of eight operators on two cores. The load changes at the dashed lines; at the blue lines the adaptive "
            f"arm has moved operators. Latencies count from the time at which a tuple was due.</p>"
            f"<table><tr><th>Goal<th>Bound<th>Measured<th></tr>{rows}</table>{body}</html>\n")
