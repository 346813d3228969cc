// One script for every page: charts are read out, by pointer or keyboard; tables are sorted and folded; charts over time and
// tables can be had as CSV. Without it the page is complete.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const FOLDED_FROM = 25, SHOWN = 15;

  const element = (name, text, parent, className = "") => {
    const child = document.createElement(name);
    child.textContent = text;
    if (className) child.className = className;
    parent.append(child);
    return child;
  };

  const button = (text, parent, className, pressed) => {
    const made = element("button", text, parent, className);
    made.type = "button";
    made.addEventListener("click", pressed);
    return made;
  };

  const save = (name, lines) => {
    const cell = (text) => /[",\n]/.test(text) ? `"${String(text).replaceAll('"', '""')}"` : text;
    const csv = lines.map((line) => line.map(cell).join(",")).join("\n") + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    link.download = name.replace(/[^\w.-]+/g, "-") + ".csv";
    link.click();
    URL.revokeObjectURL(link.href);
  };

  // Tables.

  const tools = (table) => {
    const body = table.tBodies[0], rows = [...body.rows];
    const bar = element("div", "", table.parentElement, "tools");
    let folded = rows.length >= FOLDED_FROM;
    const fold = () => [...body.rows].forEach((row, index) => row.classList.toggle("folded", folded && index >= SHOWN));
    if (folded) {
      const label = () => folded ? `Show all ${rows.length} rows` : `Show the first ${SHOWN} rows`;
      const toggle = button(label(), bar, "fold", () => {
        folded = !folded;
        toggle.textContent = label();
        toggle.setAttribute("aria-expanded", !folded);
        fold();
      });
      toggle.setAttribute("aria-expanded", "false");
    }
    button("CSV", bar, "csv", () => {
      save(table.dataset.name, [table.tHead.rows[0], ...rows].map((row) => [...row.cells].map((cell) => cell.textContent)));
    });
    fold();
    if ("sorted" in table.dataset) [...table.tHead.rows[0].cells].forEach((head, column) => sortable(head, column, body, rows, fold));
  };

  const sortable = (head, column, body, rows, fold) => {
    if (head.tagName !== "TH") return;
    const name = [...head.childNodes];
    const sort = button("", head, "", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const keyed = rows.map((row) => {
        const cell = row.cells[column], text = cell?.textContent ?? "";
        return { row, text, number: cell?.dataset.v === undefined ? NaN : Number(cell.dataset.v) };
      });
      const sign = descending ? -1 : 1;
      // What has no number comes last, whichever way.
      const empty = (key) => key.text === "" || key.text === "–";
      keyed.sort((a, b) =>
        empty(a) - empty(b)
        || isNaN(a.number) - isNaN(b.number)
        || sign * (isNaN(a.number) ? a.text.localeCompare(b.text, "en", { numeric: true }) : a.number - b.number));
      body.append(...keyed.map((key) => key.row));
      fold();
    });
    sort.append(...name);
  };

  document.querySelectorAll("table[data-name]").forEach(tools);

  // Charts.

  const scaled = (value, units) => {
    const [scale, unit] = units.find(([scale]) => Math.abs(value) >= scale) ?? units.at(-1);
    const number = value / scale;
    return `${Number.isInteger(number) && number < 1000 ? number : number.toPrecision(3)} ${unit}`;
  };
  const duration = (ns) => scaled(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);
  const size = (bytes) => scaled(bytes, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"], [1, "B"]]);
  const rate = (bytes) => scaled(bytes, [[1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]]);
  const instant = (ns) => {
    if (ns < 120e9) return duration(ns);
    const minutes = Math.floor(ns / 60e9);
    const seconds = `${minutes % 60} min ${(ns / 1e9 % 60).toFixed(1)} s`;
    return minutes < 60 ? seconds : `${Math.floor(minutes / 60)} h ${seconds}`;
  };
  const share = (part, whole) => whole > 0 ? ` (${(100 * part / whole).toFixed(1)} %)` : "";
  const plain = (value) => Number.isInteger(value) ? String(value) : value.toPrecision(4);

  // For each kind of chart: a value in words, and what its column in the CSV ends in.
  const KINDS = {
    share_of_counts: [(value, sum) => value + share(value, sum), ""],
    share_of_time: [(value, sum) => duration(value) + share(value, sum), "_ns"],
    counts: [plain, ""],
    per_second: [(value) => plain(value) + "/s", "_per_s"],
    bytes_per_second: [rate, "_bytes_per_s"],
    times: [duration, "_ns"],
    bytes: [size, "_bytes"],
    ratios: [(value) => `${(100 * value).toFixed(1)} %`, "_ratio"],
    accuracies: [plain, ""],
  };

  const data = document.getElementById("series");
  const series = data ? JSON.parse(data.textContent) : { charts: [], spans: [] };

  // The last span that begins at or before the instant, if the instant lies in it.
  const spanAt = (spans, ns) => {
    let low = 0, high = spans.start_ns.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans.start_ns[middle] <= ns) low = middle + 1; else high = middle;
    }
    return low > 0 && ns <= spans.end_ns[low - 1] ? low - 1 : -1;
  };

  const readOut = (chart, box, ns) => {
    box.replaceChildren();
    chart.panels.forEach((panel, index) => {
      const spans = series.spans[chart.spans[index]], line = element("div", "", box);
      if (panel.name) element("b", panel.name + " ", line);
      const span = spanAt(spans, ns);
      if (span < 0) return line.append("nothing here");
      line.append(`${instant(spans.start_ns[span])} to ${instant(spans.end_ns[span])}`);
      const sum = panel.layers.reduce((sum, layer) => sum + (layer.values[span] ?? 0), 0);
      for (const layer of panel.layers) {
        const value = layer.values[span];
        element("i", "", line).style.background = layer.color;
        line.append(`${layer.label} ${value === null ? "–" : KINDS[chart.kind][0](value, sum)}`);
      }
    });
  };

  const table = (chart) => {
    const labels = [...new Set(chart.panels.flatMap((panel) => panel.layers.map((layer) => layer.label)))];
    const heads = labels.map((label) => label.replaceAll(" ", "_") + KINDS[chart.kind][1]);
    const lines = [["run", "start_ns", "end_ns", ...heads]];
    chart.panels.forEach((panel, index) => {
      const { start_ns, end_ns } = series.spans[chart.spans[index]];
      const layers = labels.map((label) => panel.layers.find((layer) => layer.label === label));
      start_ns.forEach((start, span) => {
        lines.push([panel.name, start, end_ns[span], ...layers.map((layer) => layer?.values[span] ?? "")]);
      });
    });
    return lines;
  };

  const views = [];

  // A cursor over every chart over time at once, and the numbers of the span under it.
  const overTime = (chart, svg, box) => {
    const [left, top, right, bottom] = svg.dataset.plot.split(" ").map(Number);
    const cursor = document.createElementNS(SVG, "line");
    cursor.setAttribute("class", "cursor");
    cursor.setAttribute("y1", top);
    cursor.setAttribute("y2", bottom);
    cursor.style.display = "none";
    svg.append(cursor);
    const length = chart.to_ns - chart.from_ns;
    const view = {
      show(ns) {
        const x = left + (ns - chart.from_ns) / (length || 1) * (right - left);
        cursor.setAttribute("x1", x);
        cursor.setAttribute("x2", x);
        cursor.style.display = x < left || x > right ? "none" : "";
        readOut(chart, box, ns);
      },
      hide() { cursor.style.display = "none"; },
    };
    views.push(view);
    let at = chart.from_ns;
    const show = (ns) => views.forEach((view) => view.show(at = ns));
    const moved = (event) => {
      const bounds = svg.getBoundingClientRect();
      const x = (event.clientX - bounds.left) / bounds.width * svg.viewBox.baseVal.width;
      if (x >= left && x <= right) show(chart.from_ns + (x - left) / (right - left) * length);
      else views.forEach((view) => view.hide());
    };
    svg.addEventListener("pointermove", moved);
    svg.addEventListener("pointerdown", moved);
    svg.addEventListener("pointerleave", () => views.forEach((view) => view.hide()));
    return (steps) => {
      const { start_ns, end_ns } = series.spans[chart.spans[0]];
      if (!start_ns.length) return;
      const next = Math.min(Math.max(spanAt({ start_ns, end_ns }, at) + steps, 0), start_ns.length - 1);
      show((start_ns[next] + end_ns[next]) / 2);
    };
  };

  // The words of the mark under the pointer, or of one after the other.
  const marks = (svg, box) => {
    const all = [...svg.querySelectorAll(":scope :is(path, rect, circle) > title")].map((title) => title.parentElement);
    let hot = null;
    const show = (mark) => {
      hot?.classList.remove("hot");
      hot = mark;
      if (!mark) return;
      box.textContent = mark.querySelector("title").textContent;
      mark.classList.add("hot");
    };
    const marked = (event) => {
      const mark = event.target.closest("path, rect, circle");
      show(mark && mark.querySelector("title") ? mark : null);
    };
    svg.addEventListener("pointerover", marked);
    svg.addEventListener("pointerdown", marked);
    svg.addEventListener("pointerleave", () => show(null));
    return (steps) => show(all[(Math.max(all.indexOf(hot), -1) + steps + all.length) % all.length]);
  };

  document.querySelectorAll("figure").forEach((figure) => {
    const chart = series.charts.find((chart) => chart.name === figure.id);
    const box = document.createElement("div");
    box.className = "readout";
    box.setAttribute("aria-live", "polite");
    // Room for its lines from the start: nothing may move under the pointer.
    if (chart) box.style.minHeight = `${1.5 * chart.panels.length}em`;
    figure.append(box);
    figure.querySelectorAll("svg").forEach((svg) => {
      const step = chart ? overTime(chart, svg, box) : marks(svg, box);
      svg.tabIndex = 0;
      svg.addEventListener("keydown", (event) => {
        const steps = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!steps) return;
        event.preventDefault();
        step(steps);
      });
    });
    if (chart) button("CSV", figure.querySelector("figcaption"), "csv", () => save(chart.name, table(chart)));
  });
})();
