//! Sentences about a simulation, and about its differences from another one.

use sakiyomi_model::{Class, ReadClass};

use super::SimResult;
use crate::label;
use crate::number::{self, count, duration, percent};

/// Returns sentences about a simulation.
pub(super) fn verdict(result: &SimResult) -> Vec<String> {
    if result.commands == 0 {
        return vec!["No command completed.".to_owned()];
    }
    let mut sentences = Vec::new();
    if result.reads == 0 {
        sentences.push("No reads.".to_owned());
    } else {
        sentences.push(format!("{} of the reads hit.", percent(result.hit_ratio)));
        sentences.extend(miss_cost(result));
    }
    let response = &result.response_ns;
    sentences.push(format!(
        "A command takes {} on average, the worst {}.",
        duration(response.mean),
        duration(response.max)
    ));
    sentences.push(format!("The disk is idle {} of the time.", percent(result.disk_time_ns.idle_ratio())));
    sentences
}

/// Describes the cost of a miss compared with a full hit (Hosogi 2013, section 3: 1 to 209 times the slowest hit).
fn miss_cost(result: &SimResult) -> Option<String> {
    let miss = mean_device_ns(result, |class| !class.is_hit())?;
    let hit = mean_device_ns(result, |class| class == ReadClass::FullHit);
    let against = match hit {
        Some(hit) if hit > 0.0 => format!(", {} times a full hit", number::times(miss / hit)),
        _ => String::new(),
    };
    Some(format!("A miss costs {} on average{against}.", duration(miss.round() as u64)))
}

/// Returns the mean time in the device of the reads of some classes in nanoseconds; `None` if there were none.
fn mean_device_ns(result: &SimResult, wanted: impl Fn(ReadClass) -> bool) -> Option<f64> {
    let (mut commands, mut total_ns) = (0.0, 0.0);
    for row in &result.breakdown_mean_ns {
        if let Some(Class::Read(class)) = label::class_named(&row.class)
            && wanted(class)
        {
            commands += row.commands as f64;
            total_ns += row.commands as f64 * row.total_ns() as f64;
        }
    }
    (commands > 0.0).then(|| total_ns / commands)
}

/// Returns sentences about the changes from A to B.
pub(crate) fn compare(a: &SimResult, b: &SimResult) -> Vec<String> {
    if a.commands == 0 || b.commands == 0 {
        return vec![
            "At least one of the runs has no completed command: there is nothing to compare.".to_owned(),
        ];
    }
    let mut sentences = Vec::new();
    if !same_workload(a, b) {
        sentences.push("A and B did different work, so no figure is marked as better or worse.".to_owned());
    }
    if a.reads > 0 && b.reads > 0 {
        sentences.push(format!(
            "B hits {} of the reads against {} in A.",
            percent(b.hit_ratio),
            percent(a.hit_ratio)
        ));
    }
    let (mean_a, mean_b) = (a.response_ns.mean, b.response_ns.mean);
    let (worst_a, worst_b) = (a.response_ns.max, b.response_ns.max);
    let opposed = mean_a.cmp(&mean_b) == worst_b.cmp(&worst_a) && mean_a != mean_b;
    sentences.push(format!(
        "The mean response {}, {} the worst {}.",
        movement(mean_a, mean_b, duration),
        if opposed { "but" } else { "and" },
        movement(worst_a, worst_b, duration)
    ));
    sentences.push(format!("The number of seeks {}.", movement(a.seeks.total(), b.seeks.total(), count)));
    sentences.push(format!(
        "The disk is idle {} of the time against {} in A.",
        percent(b.disk_time_ns.idle_ratio()),
        percent(a.disk_time_ns.idle_ratio())
    ));
    sentences
}

/// Describes a change: `falls from 5.12 ms to 2.48 ms (−51.6 %)`.
fn movement(from: u64, to: u64, text: impl Fn(u64) -> String) -> String {
    if from == to {
        return format!("stays at {}", text(from));
    }
    let verb = if to < from { "falls" } else { "rises" };
    let change = match from {
        0 => String::new(),
        _ if to / from >= 10 => format!(" ({} times)", number::times(to as f64 / from as f64)),
        _ => {
            let sign = if to < from { "−" } else { "+" };
            format!(" ({sign}{})", percent(to.abs_diff(from) as f64 / from as f64))
        }
    };
    format!("{verb} from {} to {}{change}", text(from), text(to))
}

/// Returns whether two results are of the same workload, so that one can be called better.
pub(crate) fn same_workload(a: &SimResult, b: &SimResult) -> bool {
    let work = |of: &SimResult| (of.commands, of.reads, of.writes, of.read_bytes, of.written_bytes);
    a.trace == b.trace && a.replay == b.replay && a.warm_up_ns == b.warm_up_ns || work(a) == work(b)
}
