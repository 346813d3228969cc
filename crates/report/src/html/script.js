// A cursor over all charts over time, with the numbers of the chunk under it; and each chart's numbers as CSV.
"use strict";
(() => {
  const series = JSON.parse(document.getElementById("series").textContent);
  const SVG = "http://www.w3.org/2000/svg";

  const scaled = (value, units) => {
    const [scale, unit] = units.find(([scale]) => value >= scale) ?? units.at(-1);
    return `${scale === 1 ? value : (value / scale).toPrecision(3)} ${unit}`;
  };
  const duration = (ns) => scaled(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);
  const instant = (ns) => {
    if (ns < 120e9) return duration(ns);
    const minutes = Math.floor(ns / 60e9);
    const seconds = `${minutes % 60} min ${(ns / 1e9 % 60).toFixed(1)} s`;
    return minutes < 60 ? seconds : `${Math.floor(minutes / 60)} h ${seconds}`;
  };
  const percent = (part, whole) => whole > 0 ? ` (${(100 * part / whole).toFixed(1)} %)` : "";

  // The last chunk that begins at or before the instant, if the instant lies in it.
  const chunkAt = (run, ns) => {
    let low = 0, high = run.start_ns.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (run.start_ns[middle] <= ns) low = middle + 1; else high = middle;
    }
    return low > 0 && ns <= run.end_ns[low - 1] ? low - 1 : -1;
  };

  const valueText = (kind, value, sum) => {
    if (value === null) return "–";
    if (kind === "times") return duration(value);
    if (kind === "share_of_time") return duration(value) + percent(value, sum);
    return value + (kind === "share_of_counts" ? percent(value, sum) : "");
  };

  const element = (name, text, parent) => {
    const child = document.createElement(name);
    child.textContent = text;
    parent.append(child);
    return child;
  };

  const readOut = (chart, box, ns) => {
    box.replaceChildren();
    chart.panels.forEach((panel, index) => {
      const run = series.runs[index];
      const line = element("div", "", box);
      if (panel.run) element("b", panel.run + " ", line);
      const chunk = chunkAt(run, ns);
      if (chunk < 0) return line.append("no chunk here");
      line.append(`${instant(run.start_ns[chunk])} to ${instant(run.end_ns[chunk])}`);
      const sum = panel.layers.reduce((sum, layer) => sum + (layer.values[chunk] ?? 0), 0);
      for (const layer of panel.layers) {
        element("i", "", line).style.background = layer.colour;
        line.append(`${layer.label} ${valueText(chart.kind, layer.values[chunk], sum)}`);
      }
    });
  };

  const csv = (chart) => {
    const unit = chart.kind.endsWith("time") || chart.kind === "times" ? "_ns" : "";
    const layers = chart.panels[0].layers.map((layer) => layer.label.replaceAll(" ", "_") + unit);
    const lines = [["run", "start_ns", "end_ns", ...layers].join(",")];
    chart.panels.forEach((panel, index) => {
      const { start_ns, end_ns } = series.runs[index];
      start_ns.forEach((start, chunk) => {
        const values = panel.layers.map((layer) => layer.values[chunk] ?? "");
        lines.push([panel.run, start, end_ns[chunk], ...values].join(","));
      });
    });
    return lines.join("\n") + "\n";
  };

  const views = series.charts.map((chart) => {
    const figure = document.getElementById(chart.name);
    const svg = figure.querySelector("svg");
    const cursor = document.createElementNS(SVG, "line");
    cursor.setAttribute("class", "cursor");
    cursor.setAttribute("y1", series.top);
    cursor.setAttribute("y2", svg.viewBox.baseVal.height - series.below);
    cursor.style.display = "none";
    svg.append(cursor);
    const link = element("a", "CSV", figure.querySelector("figcaption"));
    link.className = "csv";
    link.href = "#";
    link.download = chart.name + ".csv";
    // Made only when it is asked for; the browser follows the link after this has run.
    link.addEventListener("click", () => {
      link.href = URL.createObjectURL(new Blob([csv(chart)], { type: "text/csv" }));
    });
    const box = figure.querySelector(".readout");
    // Room for its lines from the start: nothing may move under the pointer.
    box.style.minHeight = `${1.5 * chart.panels.length}em`;
    return { chart, svg, cursor, box };
  });

  const hide = () => {
    for (const view of views) view.cursor.style.display = "none";
  };

  for (const { svg } of views) {
    svg.addEventListener("pointermove", (event) => {
      const bounds = svg.getBoundingClientRect();
      const x = (event.clientX - bounds.left) / bounds.width * series.width;
      if (x < series.left || x > series.right) return hide();
      const share = (x - series.left) / (series.right - series.left);
      const ns = series.from_ns + share * (series.to_ns - series.from_ns);
      for (const view of views) {
        view.cursor.setAttribute("x1", x);
        view.cursor.setAttribute("x2", x);
        view.cursor.style.display = "";
        readOut(view.chart, view.box, ns);
      }
    });
    svg.addEventListener("pointerleave", hide);
  }
})();
