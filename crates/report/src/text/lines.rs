//! A regulated device and its users as lines, one sample after the other.

use std::fmt::Write as _;

use crate::number::{count, duration, per_second};
use crate::result::{IorateOwner, IorateResult, IorateTarget};
use crate::value::Value;
use crate::words::one_line;

/// Returns for each sample one line for the device and one for each of its owners.
#[must_use]
pub fn iorate_lines(result: &IorateResult) -> String {
    let at = format!("{:>8.1} s", result.at_ns as f64 / 1e9);
    let [_, does] = result.device.describe();
    let mut text = format!("{at}  {}: {does}\n", one_line(&result.device.name));
    if let Some(bypass) = &result.device.bypass {
        let _ = writeln!(text, "{at}  {}", bypass.describe());
    }
    for owner in &result.owners {
        let _ = writeln!(text, "{at}  {}", iorate_owner(owner));
    }
    text
}

/// Describes an owner in a line: `process 7 (cat): 20 %, ideal 50.5 ms, mean 50.6 ms, …`.
#[must_use]
pub fn iorate_owner(owner: &IorateOwner) -> String {
    // The name of a process that has exited may be unknown.
    let name = if owner.name.is_empty() { String::new() } else { format!(" ({})", one_line(&owner.name)) };
    let mut text = match &owner.target {
        IorateTarget::Process { pid } => format!("process {pid}{name}: "),
        IorateTarget::Tree { pid } => format!("process {pid}{name} with its descendants: "),
        IorateTarget::Group { path } => format!("control group {}: ", one_line(path)),
    };
    let mut parts = vec![owner.rate().unwrap_or_else(|| "no rate".to_owned())];
    parts.extend(owner.best_effort.then(|| "best effort".to_owned()));
    parts.extend(owner.ideal_ns.map(|ideal| format!("ideal {}", duration(ideal))));
    parts.extend(owner.mean_ns.map(|mean| format!("mean {}", duration(mean))));
    parts.extend(
        owner.accuracy_ratio.map(|accuracy| format!("accuracy {}", Value::Number(accuracy, 3).text())),
    );
    parts.extend(owner.cov_ratio.map(|cov| format!("CoV {}", Value::Number(cov, 3).text())));
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
