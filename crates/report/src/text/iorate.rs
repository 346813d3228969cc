//! Who uses a regulated device, and how well their rates are kept.

use std::fmt::Write as _;

use super::style::{Style, one_line};
use crate::number::{NONE, count, duration, times, whole_percent};
use crate::schema::{IorateDevice, IorateOwner, IorateResult, IorateTarget};

/// Of an accuracy that is further from 1 than this, one is told.
const ACCURATE: f64 = 0.1;

pub(super) const RED: &str = "1;31";

/// The device, and a table of those who use it.
#[must_use]
pub fn iorate(result: &IorateResult, style: Style) -> String {
    let mut text = String::new();
    for line in device(&result.device) {
        let _ = writeln!(text, "{}", style.wrap(&line));
    }
    if let Some(line) = iorate_bypass(&result.device) {
        let _ = writeln!(text, "{}", style.paint(RED, &style.wrap(&line)));
    }
    if result.owners.is_empty() {
        return text + "\nNobody has a rate here.\n";
    }
    let columns = fitting(&[RATE, IDEAL, MEAN, ACCURACY, COV, IOS, LATE, QUEUE], &result.owners, style);
    let rows = result.owners.iter().map(|owner| row(&columns, owner)).collect();
    let _ = write!(text, "\n{}", style.table(&header(&columns), rows, 1));
    if result.owners.iter().any(|owner| owner.best_effort) {
        let _ = writeln!(text, "\n{}", style.wrap(BEST_EFFORT));
    }
    text
}

const BEST_EFFORT: &str = "* cannot be kept always; kept as well as can be";

/// The device in two lines: what it is, and what it does.
pub(super) fn device(device: &IorateDevice) -> [String; 2] {
    let mut is = format!("{}: ", one_line(&device.name));
    let _ = match device.service_ns {
        0 => write!(is, "no I/O measured yet"),
        service => write!(is, "an I/O takes {}", duration(service)),
    };
    if device.parallel_ratio > 1.05 {
        let _ = write!(is, ", {} side by side", times(device.parallel_ratio));
    }
    let _ = write!(is, "; allowance {}, policy {}", device.allowance, one_line(&device.policy));
    let mut does = String::new();
    if let Some(busy) = device.busy_ratio {
        let _ = write!(does, "busy {}, ", whole_percent(busy));
    }
    if let Some(rate) = device.requests_per_s {
        let _ = write!(does, "{} requests/s, ", per_second(rate));
    }
    let _ = write!(
        does,
        "{} in it, {} waiting, {} answered",
        count(device.in_device),
        count(device.waiting),
        count(device.requests)
    );
    [is, does]
}

/// That rates cannot be kept, where they cannot.
#[must_use]
pub fn iorate_bypass(device: &IorateDevice) -> Option<String> {
    let bypass = device.bypass.as_ref()?;
    Some(format!(
        "BYPASSED: {} requests/s ({}) reach {} past the mount; no rate can be kept",
        per_second(bypass.requests_per_s),
        whole_percent(bypass.share_ratio),
        one_line(&bypass.device)
    ))
}

/// One line a look for the device and one for each who uses it.
#[must_use]
pub fn iorate_lines(result: &IorateResult) -> String {
    let at = format!("{:>8.1} s", result.at_ns as f64 / 1e9);
    let [_, does] = device(&result.device);
    let mut text = format!("{at}  {}: {does}\n", one_line(&result.device.name));
    if let Some(line) = iorate_bypass(&result.device) {
        let _ = writeln!(text, "{at}  {line}");
    }
    for owner in &result.owners {
        let _ = writeln!(text, "{at}  {}", iorate_owner(owner));
    }
    text
}

/// One who uses the device, in a line: `process 7 (cat): 20 %, ideal 50.5 ms, mean 50.6 ms, …`.
#[must_use]
pub fn iorate_owner(owner: &IorateOwner) -> String {
    // Of one that has ended it may not be known.
    let name = if owner.name.is_empty() { String::new() } else { format!(" ({})", one_line(&owner.name)) };
    let mut text = match &owner.target {
        IorateTarget::Process { pid } => format!("process {pid}{name}: "),
        IorateTarget::Tree { pid } => format!("process {pid}{name} and all that it starts: "),
        IorateTarget::Group { path } => format!("control group {}: ", one_line(path)),
    };
    let mut parts = vec![if owner.has_rate() { rate(owner) } else { "no rate".to_owned() }];
    parts.extend(owner.best_effort.then(|| "as well as can be".to_owned()));
    parts.extend(owner.ideal_ns.map(|ideal| format!("ideal {}", duration(ideal))));
    parts.extend(owner.mean_ns.map(|mean| format!("mean {}", duration(mean))));
    parts.extend(owner.accuracy_ratio.map(|accuracy| format!("accuracy {}", exact(accuracy))));
    parts.extend(owner.cov_ratio.map(|cov| format!("CoV {}", exact(cov))));
    parts.extend(owner.ios_per_s.map(|rate| format!("{} I/Os/s", per_second(rate))));
    parts.push(format!("{} I/Os", count(owner.ios)));
    if owner.has_rate() {
        parts.push(format!("{} late", count(owner.late)));
    }
    if owner.unanswered > 0 {
        parts.push(format!("{} waiting", count(owner.unanswered)));
    }
    text.push_str(&parts.join(", "));
    text
}

/// A column of the table.
pub(super) type Column = (&'static str, fn(&IorateOwner) -> String);

pub(super) const RATE: Column = ("rate", |owner| {
    let mark = if owner.best_effort { " *" } else { "" };
    if owner.has_rate() { rate(owner) + mark } else { NONE.to_owned() }
});
pub(super) const IDEAL: Column = ("ideal", |owner| owner.ideal_ns.map_or(NONE.to_owned(), duration));
pub(super) const MEAN: Column = ("mean", |owner| owner.mean_ns.map_or(NONE.to_owned(), duration));
pub(super) const ACCURACY: Column = ("accuracy", |owner| owner.accuracy_ratio.map_or(NONE.to_owned(), exact));
pub(super) const COV: Column = ("CoV", |owner| owner.cov_ratio.map_or(NONE.to_owned(), exact));
pub(super) const PER_SECOND: Column = ("I/Os/s", |owner| owner.ios_per_s.map_or(NONE.to_owned(), per_second));
pub(super) const IOS: Column = ("I/Os", |owner| count(owner.ios));
pub(super) const LATE: Column =
    ("late", |owner| if owner.has_rate() { count(owner.late) } else { NONE.to_owned() });
pub(super) const QUEUE: Column = ("queue", |owner| count(owner.unanswered));

/// What can be spared where the terminal is narrow, the first first.
const DISPENSABLE: [Column; 6] = [IOS, LATE, COV, IDEAL, QUEUE, PER_SECOND];

/// Those of the columns that have room.
pub(super) fn fitting(columns: &[Column], owners: &[IorateOwner], style: Style) -> Vec<Column> {
    let mut columns = columns.to_vec();
    for (dispensable, _) in DISPENSABLE {
        let rows: Vec<Vec<String>> = owners.iter().map(|owner| row(&columns, owner)).collect();
        if style.fits(&header(&columns), &rows, 1) {
            break;
        }
        columns.retain(|(name, _)| *name != dispensable);
    }
    columns
}

pub(super) fn header(columns: &[Column]) -> Vec<&'static str> {
    std::iter::once("who").chain(columns.iter().map(|&(name, _)| name)).collect()
}

pub(super) fn row(columns: &[Column], owner: &IorateOwner) -> Vec<String> {
    std::iter::once(who(owner)).chain(columns.iter().map(|(_, cell)| cell(owner))).collect()
}

/// `4711 tar`, `group /batch`.
pub(crate) fn who(owner: &IorateOwner) -> String {
    let name = one_line(&owner.name);
    match &owner.target {
        IorateTarget::Process { pid } => format!("{pid} {name}"),
        IorateTarget::Tree { pid } => format!("{pid} {name} and children"),
        IorateTarget::Group { path } => format!("group {}", one_line(path)),
    }
}

fn rate(owner: &IorateOwner) -> String {
    match (owner.rate_percent, owner.every_ns) {
        (Some(percent), _) => format!("{percent} %"),
        (None, Some(every)) => format!("every {}", duration(every)),
        (None, None) => NONE.to_owned(),
    }
}

/// Whether its I/O takes clearly longer or shorter than it should.
pub(super) fn is_off(owner: &IorateOwner) -> bool {
    owner.accuracy_ratio.is_some_and(|accuracy| (accuracy - 1.0).abs() > ACCURATE)
}

/// `1.004`, `12.3`.
fn exact(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => NONE.to_owned(),
        ratio if ratio.abs() < 9.9995 => format!("{ratio:.3}"),
        ratio => times(ratio),
    }
}

/// `19.8`, `1,234`.
fn per_second(rate: f64) -> String {
    match rate {
        rate if !rate.is_finite() => NONE.to_owned(),
        rate if rate.abs() < 99.95 => format!("{rate:.1}"),
        rate => count(rate.abs().round() as u64),
    }
}
