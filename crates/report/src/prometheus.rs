//! Metrics for a monitoring system: the text format of Prometheus, version 0.0.4.
//!
//! By convention, names end in their base unit, `_seconds` or `_ratio`, and counters in `_total`.

mod daemon;
mod stream;

pub use daemon::daemon;
pub use stream::stream;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::result::{IorateDevice, IorateOwner, IorateResult, IorateTarget};
use crate::words::one_line;

/// Returns the metrics of a regulated device and of each of its owners.
#[must_use]
pub fn iorate(result: &IorateResult) -> String {
    let device = labels(&[("mount", &result.mount), ("device", &result.device.name)]);
    // A PID may be reused; only its latest owner is shown, since series must be unique.
    let latest: BTreeMap<&IorateTarget, &IorateOwner> =
        result.owners.iter().map(|owner| (&owner.target, owner)).collect();
    let owners: Vec<(String, &IorateOwner)> =
        latest.into_values().map(|owner| (owner_labels(&result.mount, owner), owner)).collect();
    let mut text = String::new();
    for (name, help, figure) in DEVICE {
        family(&mut text, name, help, figure(&result.device).map(|value| (&*device, value)));
    }
    for (name, help, figure) in OWNER {
        let samples = owners.iter().filter_map(|(labels, owner)| Some((&**labels, figure(owner)?)));
        family(&mut text, name, help, samples);
    }
    text
}

type Figure<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

const DEVICE: &[Figure<IorateDevice>] = &[
    ("device_service_seconds", "Measured service time of an I/O.", |device| {
        (device.service_ns > 0).then(|| seconds(device.service_ns))
    }),
    (
        "device_allowance",
        "Unregulated requests that may be in the device when a regulated one arrives.",
        |device| Some(f64::from(device.allowance)),
    ),
    ("device_parallel_ratio", "Measured number of requests that the device serves in parallel.", |device| {
        Some(device.parallel_ratio)
    }),
    ("device_requests_in_flight", "Requests in the device.", |device| Some(device.in_device as f64)),
    ("device_requests_waiting", "Requests that wait for admission to the device.", |device| {
        Some(device.waiting as f64)
    }),
    ("device_requests_total", "Requests answered since the mount.", |device| Some(device.requests as f64)),
    ("device_busy_seconds_total", "Time that the device was busy since the mount.", |device| {
        device.busy_ns.map(seconds)
    }),
    ("device_bypassed", "1 while requests bypass the mount, so that no rate can be guaranteed.", |device| {
        Some(f64::from(u8::from(device.bypass.is_some())))
    }),
    ("device_bypass_ratio", "Share of the device's requests that bypass the mount.", |device| {
        Some(device.bypass.as_ref().map_or(0.0, |bypass| bypass.share_ratio))
    }),
];

const OWNER: &[Figure<IorateOwner>] = &[
    ("iorate_share_ratio", "Requested share of the device.", |owner| {
        owner.rate_percent.map(|percent| f64::from(percent) / 100.0)
    }),
    ("iorate_interval_seconds", "Requested time per I/O.", |owner| owner.every_ns.map(seconds)),
    ("iorate_best_effort", "1 if the rate was accepted without a guarantee.", |owner| {
        owner.has_rate().then(|| f64::from(u8::from(owner.best_effort)))
    }),
    ("iorate_ideal_seconds", "Ideal time of an I/O.", |owner| owner.ideal_ns.map(seconds)),
    ("iorate_mean_seconds", "Mean time of the last I/Os.", |owner| owner.mean_ns.map(seconds)),
    ("iorate_accuracy_ratio", "Mean of actual over ideal time of the last I/Os.", |owner| {
        owner.accuracy_ratio
    }),
    ("iorate_variation_ratio", "Coefficient of variation of the times of the last I/Os.", |owner| {
        owner.cov_ratio
    }),
    ("iorate_unanswered", "Requests that have not been answered.", |owner| Some(owner.unanswered as f64)),
    ("iorate_ios_total", "I/Os since the rate was set, or since they were first seen.", |owner| {
        Some(owner.ios as f64)
    }),
    ("iorate_late_total", "I/Os that the device did not complete in time.", |owner| {
        owner.has_rate().then_some(owner.late as f64)
    }),
];

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Writes all samples of one metric, which must be consecutive; nothing without samples.
fn family<'a>(text: &mut String, name: &str, help: &str, samples: impl IntoIterator<Item = (&'a str, f64)>) {
    let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
    let mut samples = samples.into_iter().filter(|(_, value)| value.is_finite()).peekable();
    if samples.peek().is_some() {
        let _ = writeln!(text, "# HELP sakiyomi_{name} {help}\n# TYPE sakiyomi_{name} {kind}");
    }
    for (labels, value) in samples {
        let _ = writeln!(text, "sakiyomi_{name}{labels} {value}");
    }
}

fn owner_labels(mount: &str, owner: &IorateOwner) -> String {
    let process = |kind, pid: u32| {
        labels(&[("mount", mount), ("kind", kind), ("pid", &pid.to_string()), ("name", &owner.name)])
    };
    match &owner.target {
        IorateTarget::Process { pid } => process("process", *pid),
        IorateTarget::Tree { pid } => process("tree", *pid),
        IorateTarget::Group { path } => labels(&[("mount", mount), ("kind", "group"), ("group", path)]),
    }
}

fn labels(labels: &[(&str, &str)]) -> String {
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", labels.join(","))
}

/// Escapes a label's value. Control characters, which could move a cursor, are replaced.
fn escaped(value: &str) -> String {
    one_line(&value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        assert_eq!(labels(&[("a", "\\ \" \n"), ("b", "先")]), r#"{a="\\ \" \n",b="先"}"#);
    }
}
