//! Charts of I/O engines: throughput, CPU time, and the trade-off between them (Ueda 2013, figures 1 and 2).

mod cpu;
mod throughput;
mod tradeoff;

use crate::chart::axis::Axis;
use crate::chart::ends::NAME_HEIGHT;
use crate::chart::frame::{Key, KeyShape, PanelFrame};
use crate::chart::layout::short;
use crate::chart::{Chart, palette};
use crate::document::Machine;
use crate::number;
use crate::result::{Group, groups, limit_name};
use crate::result::{ProbeCase, ProbeResult};

/// Height of a row with its gap, in pixels.
const ROW_HEIGHT: u32 = 44;
/// Length at which the label of a case is truncated; the table has the whole label.
const LABEL_LENGTH: usize = 46;
/// Length at which the name of a target with its access is truncated.
const NAME_LENGTH: usize = 60;

/// Returns the charts; empty if no engine was measured.
pub(crate) fn charts(result: &ProbeResult, machine: &Machine) -> Vec<Chart> {
    let groups = groups(result);
    if groups.is_empty() {
        return Vec::new();
    }
    vec![throughput::chart(&groups), cpu::chart(&groups, machine.cores), tradeoff::chart(&groups)]
}

/// Returns the legend of the engines that occur.
fn method_keys(groups: &[Group<'_>], shape: KeyShape) -> Vec<Key> {
    let occurs = |name: &str| groups.iter().flat_map(|group| &group.cases).any(|case| case.method == name);
    let known = palette::METHODS.into_iter().filter(|&(name, _)| occurs(name));
    known.map(|(label, color)| Key::new(label, color, shape)).collect()
}

/// Returns a panel with a row for each case.
fn rows_panel(group: &Group<'_>, x: Axis) -> PanelFrame {
    PanelFrame {
        name: short(&group.name, NAME_LENGTH),
        x,
        y: Axis::rows(group.cases.iter().map(|case| row_label(group, case)).collect()).titled(group.shared()),
        height: ROW_HEIGHT,
    }
}

fn row_label(group: &Group<'_>, case: &ProbeCase) -> String {
    short(&group.label(case), LABEL_LENGTH)
}

/// Returns the description of a case for its point or bar.
fn words(group: &Group<'_>, case: &ProbeCase) -> String {
    let block = if group.block_sizes_differ() { "" } else { &*number::round_bytes(case.block_bytes) };
    format!(
        "{}{}{block}: {} (runs {}), CPU {} of a core, {} s/GB, busiest thread {}, {}",
        group.label(case),
        if block.is_empty() { "" } else { " " },
        number::rate(case.throughput_bytes_per_s),
        number::rate_range(
            case.throughput_bytes_per_s,
            case.throughput_range_bytes_per_s.min,
            case.throughput_range_bytes_per_s.max
        ),
        number::whole_percent(case.user_ratio + case.system_ratio + case.kernel_threads_ratio),
        number::cpu_per_gb(case.cpu_ns_per_byte),
        number::whole_percent(case.busiest_thread_ratio),
        limit_name(case.verdict)
    )
}

/// Returns the height of a panel with `names` names at its right.
fn height_for(names: usize) -> u32 {
    /// Height of a panel with few names, in pixels.
    const PANEL_HEIGHT_MIN: u32 = 360;
    PANEL_HEIGHT_MIN.max(NAME_HEIGHT.saturating_mul(u32::try_from(names).unwrap_or(u32::MAX)))
}

/// Returns the throughput of the slowest and the fastest run of a case.
fn range(case: &ProbeCase) -> [f64; 2] {
    [case.throughput_range_bytes_per_s.min, case.throughput_range_bytes_per_s.max]
}

/// Returns every rate of a group, for the extent of an axis.
fn rates(group: &Group<'_>) -> impl Iterator<Item = f64> {
    group.cases.iter().flat_map(|case| [case.throughput_bytes_per_s].into_iter().chain(range(case)))
}
