//! Verdicts on the observed time of a mount and of the device behind it.

use crate::number::{bytes, count, duration, percent, whole_percent};
use crate::schema::{IorateOwner, MountResult, TopResult};

/// Title of a mount: `deskstar-7k250 under /mnt/disk`.
pub(crate) fn mount_title(result: &MountResult) -> String {
    match &result.drive {
        Some(drive) => format!("{drive} under {}", result.directory),
        None => format!("Files under {}", result.directory),
    }
}

/// Sentences about a mount.
pub(crate) fn mount(result: &MountResult) -> Vec<String> {
    let mut sentences = vec![format!(
        "{} accesses in {}: {} read, {} written.",
        count(result.accesses),
        duration(result.elapsed_ns),
        bytes(result.read_bytes),
        bytes(result.written_bytes)
    )];
    if result.accesses > 0 {
        sentences.push(format!(
            "An access takes {} on average, and 99 % of them take no more than {}.",
            duration(result.response_ns.mean),
            duration(result.response_ns.p99)
        ));
    }
    sentences
        .extend(result.busy_ratio.map(|busy| format!("The drive is busy {} of the time.", percent(busy))));
    if let Some(rates) = result.rates.as_ref().filter(|rates| rates.ios > 0) {
        let accuracy = rates
            .accuracy_ratio
            .map(|ratio| format!(" take {ratio:.3} times their ideal time on average, and"));
        sentences.push(format!(
            "The {} I/Os of owners with a rate{} are late in {} of the cases.",
            count(rates.ios),
            accuracy.unwrap_or_default(),
            percent(rates.late as f64 / rates.ios as f64)
        ));
    }
    sentences
}

/// Sentences about a regulated device.
pub(crate) fn top(result: &TopResult) -> Vec<String> {
    let (Some(first), Some(last)) = (result.windows.first(), result.windows.last()) else {
        return vec!["The device did no I/O between two looks.".to_owned()];
    };
    let elapsed_ns = last.end_ns.saturating_sub(first.start_ns);
    let requests = result.windows.iter().fold(0, |sum: u64, window| sum.saturating_add(window.requests));
    let busy =
        result.windows.iter().try_fold(0, |sum: u64, window| Some(sum.saturating_add(window.busy_ns?)));
    let busy = busy.filter(|_| elapsed_ns > 0).map(|busy| busy as f64 / elapsed_ns as f64);
    let mut sentences = vec![format!(
        "The device answered {} requests in {}{}.",
        count(requests),
        duration(elapsed_ns),
        busy.map_or_else(String::new, |busy| format!(" and was busy {} of it", whole_percent(busy.min(1.0))))
    )];
    let rated = result.owners.iter().filter(|owner| owner.has_rate());
    sentences.extend(rated.filter_map(accuracy).take(MOST_OWNERS));
    sentences
}

/// Sentences about owners; the table has the others.
const MOST_OWNERS: usize = 4;

fn accuracy(owner: &IorateOwner) -> Option<String> {
    let ratio = owner.accuracy_ratio?;
    Some(format!(
        "The last I/Os of {} take {ratio:.3} times their ideal time, {} of {} were late.",
        owner.name,
        count(owner.late),
        count(owner.ios)
    ))
}
