//! Figures of a mount, as a result and as a line per second. All times and rates are on the drive's time line.

use sakiyomi_drive::observe::Latency;
use sakiyomi_model::{Class, Nanos};
use sakiyomi_mount::Past;
use sakiyomi_mount::{Finished, RatesSeen, Snapshot};
use sakiyomi_report::MountResult;
use sakiyomi_report::result::{MountClass, MountRates, MountTimes};
use serde::Serialize;

/// Figures between two samples, a second apart.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Second {
    at_ns: u64,
    accesses_per_s: f64,
    read_bytes_per_s: f64,
    written_bytes_per_s: f64,
    in_flight: u64,
    /// Share of the drive's reads that needed no positioning; `None` without reads.
    hit_ratio: Option<f64>,
    /// `None` without a drive.
    busy_ratio: Option<f64>,
    by_class: Vec<MountClass>,
    /// `None` without `--regulate`.
    rates: Option<MountRates>,
}

/// Returns the statistics of the rates since a sample: for a second, or for the whole time.
pub(crate) fn rates_between(before: &Past, now: &RatesSeen) -> MountRates {
    let RatesSeen { owners, past, bypass } = now;
    let ios = past.ios - before.ios;
    MountRates {
        owners: *owners as u64,
        ios,
        late: past.late - before.late,
        accuracy_ratio: ratio(past.accuracy_sum - before.accuracy_sum, ios as f64),
        bypass: bypass.as_ref().map(crate::command::iorate::result::bypass),
    }
}

fn rates_in_words(rates: &MountRates) -> String {
    let accuracy = rates.accuracy_ratio.map_or("-".to_owned(), |accuracy| format!("{accuracy:.3}"));
    let late = ratio(rates.late as f64, rates.ios as f64).unwrap_or(0.0) * 100.0;
    format!("accuracy {accuracy}, {late:.0} % late")
}

impl Second {
    pub(crate) fn between(before: &Snapshot, now: &Snapshot) -> Second {
        let elapsed = now.at.saturating_sub(before.at);
        let a_second =
            |count: u64, earlier: u64| ratio((count - earlier) as f64, elapsed.as_secs_f64()).unwrap_or(0.0);
        let (old, new) = (&before.totals, &now.totals);
        let (reads, hits) = new.reads_and_hits();
        let (reads_before, hits_before) = old.reads_and_hits();
        let busy = before.busy.zip(now.busy).map(|(before, now)| now.saturating_sub(before));
        Second {
            at_ns: now.at.0,
            accesses_per_s: a_second(new.accesses, old.accesses),
            read_bytes_per_s: a_second(new.read_bytes, old.read_bytes),
            written_bytes_per_s: a_second(new.written_bytes, old.written_bytes),
            in_flight: new.in_flight,
            hit_ratio: ratio((hits - hits_before) as f64, (reads - reads_before) as f64),
            busy_ratio: busy
                .and_then(|busy| ratio(busy.as_secs_f64(), elapsed.as_secs_f64()))
                .map(|ratio| ratio.min(1.0)),
            by_class: by_class(|class| new.by_class[class] - old.by_class[class]),
            rates: now.rates.as_ref().map(|rates| {
                let before = before.rates.as_ref().map_or(Past::default(), |rates| rates.past);
                rates_between(&before, rates)
            }),
        }
    }

    pub(crate) fn describe(&self) -> String {
        let share =
            |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        let rates = self.rates.as_ref().filter(|rates| rates.owners > 0);
        let rates = rates
            .map_or(String::new(), |rates| format!("  rates {:>3}  {}", rates.owners, rates_in_words(rates)));
        format!(
            "{:>7.1} s  {:>8.0} IOPS  read {:>7.1} MB/s  written {:>7.1} MB/s  in flight {:>3}  hits {:>5}  busy {:>5}{rates}",
            Nanos(self.at_ns).as_secs_f64(),
            self.accesses_per_s,
            self.read_bytes_per_s / 1e6,
            self.written_bytes_per_s / 1e6,
            self.in_flight,
            share(self.hit_ratio),
            share(self.busy_ratio),
        )
    }
}

pub(crate) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

pub(crate) fn by_class(count: impl Fn(usize) -> u64) -> Vec<MountClass> {
    let counts = Class::ALL.iter().enumerate().map(|(place, class)| (class.name(), count(place)));
    let occurring = counts.filter(|&(_, count)| count > 0);
    occurring.map(|(class, count)| MountClass { class: class.to_owned(), count }).collect()
}

pub(crate) fn times(of: &Latency) -> MountTimes {
    let quantile = |share| of.quantile(share).0;
    MountTimes { mean: of.mean().0, p50: quantile(0.5), p99: quantile(0.99), max: of.max().0 }
}

/// Returns the result of a mount, without its options and windows.
pub(crate) fn result(finished: &Finished) -> MountResult {
    let Snapshot { at, busy, totals, rates } = &finished.seen;
    MountResult {
        elapsed_ns: at.0,
        accesses: totals.accesses,
        read_bytes: totals.read_bytes,
        written_bytes: totals.written_bytes,
        response_ns: times(&totals.response),
        lateness_ns: (totals.lateness.count() > 0).then(|| times(&totals.lateness)),
        busy_ratio: busy.and_then(|busy| ratio(busy.as_secs_f64(), at.as_secs_f64())),
        by_class: by_class(|class| totals.by_class[class]),
        recorded: finished.recorded,
        rates: rates.as_ref().map(|rates| rates_between(&Past::default(), rates)),
        ..MountResult::default()
    }
}
