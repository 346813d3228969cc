//! Figures of a server. All times and rates are on the drive's time line.

use sakiyomi_mount::{Past, RatesSeen};
use sakiyomi_nbd::{Finished, Snapshot};
use sakiyomi_report::ServeResult;

use crate::command::mount::result::{by_class, rates_between, ratio, times};

/// Returns the statistics of a server as those of a mount, which has the same.
pub(super) fn as_mount(seen: &Snapshot) -> sakiyomi_mount::Snapshot {
    let Snapshot { at, busy, ref totals, rates, .. } = *seen;
    let rates = rates.map(|(owners, past)| RatesSeen { owners, past, bypass: None });
    sakiyomi_mount::Snapshot { at, busy, totals: totals.clone(), rates }
}

/// Returns the result of a server, without its options and windows.
pub(super) fn result(finished: &Finished) -> ServeResult {
    let sakiyomi_mount::Snapshot { at, busy, totals, rates } = as_mount(&finished.seen);
    ServeResult {
        elapsed_ns: at.0,
        connections: finished.seen.connections,
        accesses: totals.accesses,
        refused: finished.seen.refused,
        read_bytes: totals.read_bytes,
        written_bytes: totals.written_bytes,
        response_ns: times(&totals.response),
        lateness_ns: (totals.lateness.count() > 0).then(|| times(&totals.lateness)),
        busy_ratio: busy.and_then(|busy| ratio(busy.as_secs_f64(), at.as_secs_f64())),
        by_class: by_class(|class| totals.by_class[class]),
        recorded: finished.recorded,
        rates: rates.as_ref().map(|rates| rates_between(&Past::default(), rates)),
        ..ServeResult::default()
    }
}
