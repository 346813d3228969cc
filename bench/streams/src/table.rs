//! The result as text.

use std::fmt::Write;

use crate::compare::{Comparison, Engine, Figures, RecordComparison};

/// Tables of all comparisons.
#[must_use]
pub fn text(comparisons: &[Comparison], records: &[RecordComparison]) -> String {
    let mut peaks = vec![words(["query", "workers", "engine", "events/s", "CPU ns/event"])];
    let mut rates = vec![words([
        "query", "workers", "events/s", "of peak", "engine", "rows", "p50", "p99", "p99.9", "max", "CPU s",
        "of s",
    ])];
    for comparison in comparisons {
        let Comparison { query, workers, .. } = comparison;
        for peak in &comparison.peaks {
            peaks.push(vec![
                format!("Q{query}"),
                workers.to_string(),
                name(peak.engine).to_owned(),
                count(peak.events_per_s),
                format!("{:.0}", peak.event_cpu_ns),
            ]);
        }
        for rate in &comparison.rates {
            for figures in &rate.engines {
                let mut row = vec![
                    format!("Q{query}"),
                    workers.to_string(),
                    count(rate.events_per_s),
                    format!("{:.0} %", rate.peak_ratio * 100.0),
                    name(figures.engine).to_owned(),
                    rate.rows.to_string(),
                ];
                row.extend(cells(figures));
                rates.push(row);
            }
        }
    }
    let mut text = String::new();
    if !comparisons.is_empty() {
        text += &format!("Peaks\n\n{}\nLatencies at the same rates\n\n{}", aligned(&peaks), aligned(&rates));
    }
    if !records.is_empty() {
        let _ = write!(
            text,
            "\nPipelines in TOML and programs in Rust, lines of JSON\n\n{}",
            aligned(&record_rows(records))
        );
    }
    text
}

fn record_rows(records: &[RecordComparison]) -> Vec<Vec<String>> {
    let mut rows = vec![words([
        "query",
        "lines",
        "TOML lines/s",
        "Rust lines/s",
        "ratio",
        "TOML CPU ns",
        "Rust CPU ns",
    ])];
    rows.extend(records.iter().map(|record| {
        vec![
            format!("Q{}", record.query),
            record.lines.to_string(),
            count(record.pipeline_lines_per_s),
            count(record.program_lines_per_s),
            format!("{:.2}", record.throughput_ratio),
            format!("{:.0}", record.pipeline_line_cpu_ns),
            format!("{:.0}", record.program_line_cpu_ns),
        ]
    }));
    rows
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn name(engine: Engine) -> &'static str {
    match engine {
        Engine::Sakiyomi => "sakiyomi",
        Engine::Timely => "timely",
    }
}

fn cells(figures: &Figures) -> [String; 6] {
    let optional = |time: Option<u64>| time.map_or_else(|| "-".to_owned(), time_text);
    [
        time_text(figures.p50_ns),
        optional(figures.p99_ns),
        optional(figures.p99_9_ns),
        time_text(figures.latency_max_ns),
        format!("{:.2}", figures.cpu_s),
        format!("{:.2}", figures.elapsed_s),
    ]
}

/// A time with three digits and its unit.
fn time_text(time_ns: u64) -> String {
    let time_ns = time_ns as f64;
    let (value, unit) = match time_ns {
        ..1e3 => (time_ns, "ns"),
        ..1e6 => (time_ns / 1e3, "µs"),
        ..1e9 => (time_ns / 1e6, "ms"),
        _ => (time_ns / 1e9, "s"),
    };
    let decimals = if value >= 100.0 || unit == "ns" { 0 } else { 1 };
    format!("{value:.decimals$} {unit}")
}

/// A number in thousands or millions.
fn count(value: f64) -> String {
    if value >= 1e6 { format!("{:.2} M", value / 1e6) } else { format!("{:.0} k", value / 1e3) }
}

/// Rows of equal length with their columns aligned to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(row.len(), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}")).collect();
        text += &cells.join("  ");
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_unit() {
        let texts = [0, 999, 1_500, 123_456, 12_345_678, 2_000_000_000].map(time_text);
        assert_eq!(texts, ["0 ns", "999 ns", "1.5 µs", "123 µs", "12.3 ms", "2.0 s"]);
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [words(["a", "µs"]), words(["100", "2"])];
        assert_eq!(aligned(&rows), "  a  µs\n100   2\n");
    }
}
