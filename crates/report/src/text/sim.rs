//! The summary of one simulation.

use std::fmt::Write as _;

use sakiyomi_model::ReadClass;

use super::style::{Style, provenance};
use crate::number::{bytes, count, duration, percent, ratio};
use crate::schema::{Document, SimResult, Spread};
use crate::{label, verdict};

const GREEN: &str = "32";
const CYAN: &str = "36";
const YELLOW: &str = "33";
const MAGENTA: &str = "35";
const RED: &str = "31";
const GREY: &str = "90";

/// Columns of the longest bar.
const BAR: usize = 30;

/// What one simulation found, readable at a glance.
#[must_use]
pub fn sim(document: &Document<SimResult>, style: Style) -> String {
    let result = &document.result;
    let mut text = style.replayed(&result.trace, &result.drive, result.settings.iter().chain(&result.replay));
    let _ = writeln!(text, "\n{}\n", style.wrap(&verdict::paragraph(&verdict::sim(result))));
    commands(&mut text, result, style);
    cache(&mut text, result, style);
    seeks(&mut text, result, style);
    responses(&mut text, result, style);
    disk_time(&mut text, result, style);
    let _ = writeln!(text, "{}", style.paint(GREY, &style.wrap(&provenance(&document.run))));
    text
}

fn commands(text: &mut String, result: &SimResult, style: Style) {
    let _ = writeln!(text, "{}", style.heading("Commands"));
    let mut parts = vec![
        format!("{} in {}", count(result.commands), duration(result.simulated_ns)),
        format!("{} reads ({})", count(result.reads), bytes(result.read_bytes)),
        format!("{} writes ({})", count(result.writes), bytes(result.written_bytes)),
    ];
    for (number, name) in [(result.flushes, "flushes"), (result.discards, "discards")] {
        if number > 0 {
            parts.push(format!("{} {name}", count(number)));
        }
    }
    if result.writes > 0 {
        parts.push(format!(
            "{} of the writes absorbed",
            percent(ratio(result.writes_absorbed, result.writes))
        ));
    }
    if result.warm_up_ns > 0 {
        parts.push(format!("after {} of warm-up", duration(result.warm_up_ns)));
    }
    let _ = writeln!(text, "  {}\n", style.wrap(&parts.join(", ")).replace('\n', "\n  "));
}

fn cache(text: &mut String, result: &SimResult, style: Style) {
    let _ = writeln!(text, "{}  {} hit", style.heading("Reads"), percent(result.hit_ratio));
    for class in ReadClass::ALL {
        let reads = label::reads_of(&result.read_counts, class);
        bar_row(text, label::read(class), &count(reads), ratio(reads, result.reads), colour(class), style);
    }
    text.push('\n');
}

fn colour(class: ReadClass) -> &'static str {
    match class {
        ReadClass::FullHit => GREEN,
        ReadClass::ActiveHit => CYAN,
        ReadClass::NearMiss => YELLOW,
        ReadClass::PurgedMiss => MAGENTA,
        ReadClass::PureMiss => RED,
    }
}

fn seeks(text: &mut String, result: &SimResult, style: Style) {
    let (seeks, total) = (result.seeks, result.seeks.total());
    let _ = writeln!(text, "{}  {}", style.heading("Seeks"), count(total));
    for (name, number, code) in [
        ("read", seeks.read, RED),
        ("read near miss", seeks.read_near_miss, YELLOW),
        ("write", seeks.write, GREEN),
    ] {
        bar_row(text, name, &count(number), ratio(number, total), code, style);
    }
    text.push('\n');
}

fn disk_time(text: &mut String, result: &SimResult, style: Style) {
    let time = result.disk_time_ns;
    let parts = [
        ("idle", time.idle, GREY),
        ("read seek", time.read_seek, RED),
        ("read data", time.read_data, YELLOW),
        ("write seek", time.write_seek, GREEN),
        ("write data", time.write_data, CYAN),
    ];
    let total = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.1));
    let _ = writeln!(text, "{}  {}", style.heading("Disk time"), duration(total));
    for (name, ns, code) in parts {
        bar_row(text, name, &duration(ns), ratio(ns, total), code, style);
    }
    text.push('\n');
}

fn bar_row(text: &mut String, name: &str, amount: &str, share: f64, code: &str, style: Style) {
    let bar = style.bar(share, BAR.min(style.width() / 3), code);
    let line = format!("  {name:<15} {amount:>12} {:>8}  {bar}", percent(share));
    let _ = writeln!(text, "{}", line.trim_end());
}

fn responses(text: &mut String, result: &SimResult, style: Style) {
    let row = |name: &str, spread: &Spread| {
        let times = [spread.mean, spread.p50, spread.p90, spread.p99, spread.p999, spread.max];
        std::iter::once(format!("  {name}")).chain(times.map(duration)).collect()
    };
    let rows = vec![
        row("all commands", &result.response_ns),
        row("reads", &result.read_response_ns),
        row("writes", &result.write_response_ns),
        row("in the device", &result.device_ns),
    ];
    let header = ["Response", "mean", "median", "p90", "p99", "p99.9", "longest"];
    text.push_str(&style.table(&header, rows, 1));
    let queue = result.host_queue;
    if queue.backlog_max > 0 {
        let _ = writeln!(
            text,
            "  host's queue: {} on average, {} at most, up to {} commands waiting",
            duration(queue.wait_mean_ns),
            duration(queue.wait_max_ns),
            count(queue.backlog_max)
        );
    }
    if queue.held_back > 0 {
        let _ = writeln!(
            text,
            "  {} requests came late because the host's queue was full",
            count(queue.held_back)
        );
    }
    text.push('\n');
}
