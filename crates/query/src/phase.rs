//! Bytes, elapsed time, CPU time and I/O wait of each phase of a job.

mod busy;

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sakiyomi_os::cpu::user_and_system_of_this_thread;

use sakiyomi_io::IoStats;
use serde::Serialize;

use busy::BusyTime;

/// The figures of one phase, summed over its threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Phase {
    /// Its name: `read`, `write runs`.
    pub name: String,
    /// Bytes transferred by its I/O; those of spilled data before compression.
    pub bytes: u64,
    /// Bytes of spilled data on disk, after compression; 0 for phases that neither write nor read spilled data.
    pub stored_bytes: u64,
    /// Time during which at least one thread worked on the phase, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time in user mode, I/O engine threads included, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in kernel mode, I/O engine threads included, in nanoseconds.
    pub system_ns: u64,
    /// Time that its computing threads waited for I/O, in nanoseconds.
    pub waited_ns: u64,
}

/// The phases of a job, in the order in which they began.
#[derive(Debug, Default)]
pub struct Phases {
    phases: Mutex<Vec<Known>>,
}

/// A phase so far.
#[derive(Debug)]
struct Known {
    phase: Phase,
    /// The elapsed time counted so far.
    busy: BusyTime,
}

impl Phases {
    /// Adds figures to the phase of the same name, or creates it. The added interval ends now; the part of it that
    /// other threads already reported is counted once.
    pub fn add(&self, phase: Phase) {
        self.add_at(phase, Instant::now());
    }

    fn add_at(&self, phase: Phase, now: Instant) {
        let mut phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        let place = phases.iter().position(|known| known.phase.name == phase.name).unwrap_or_else(|| {
            let known = Phase { name: phase.name.clone(), ..Phase::default() };
            phases.push(Known { phase: known, busy: BusyTime::default() });
            phases.len() - 1
        });
        let Known { phase: known, busy } = &mut phases[place];
        let begun = now.checked_sub(Duration::from_nanos(phase.elapsed_ns));
        known.elapsed_ns += begun.map_or(phase.elapsed_ns, |begun| nanos(busy.add(begun..now)));
        known.bytes += phase.bytes;
        known.stored_bytes += phase.stored_bytes;
        known.user_ns += phase.user_ns;
        known.system_ns += phase.system_ns;
        known.waited_ns += phase.waited_ns;
    }

    /// Returns all phases so far.
    #[must_use]
    pub fn list(&self) -> Vec<Phase> {
        let phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        phases.iter().map(|known| known.phase.clone()).collect()
    }
}

/// The phases of a job, or of one side of its join, whose name is appended to those of its phases: `read left`.
#[derive(Clone, Copy, Debug)]
pub struct SidePhases<'a> {
    pub(crate) phases: &'a Phases,
    pub(crate) side: Option<&'static str>,
}

impl SidePhases<'_> {
    /// Adds figures to a phase, as [`Phases::add`].
    pub fn add(&self, mut phase: Phase) {
        if let Some(side) = self.side {
            phase.name = format!("{} {side}", phase.name);
        }
        self.phases.add(phase);
    }

    /// Returns all phases of the job so far.
    #[must_use]
    pub fn list(&self) -> Vec<Phase> {
        self.phases.list()
    }

    /// Returns the bytes of rows that were written to spill files so far.
    #[must_use]
    pub fn spilled_bytes(&self) -> u64 {
        let is_spill = |phase: &Phase| SPILL_PHASE_NAMES.iter().any(|name| phase.name.starts_with(name));
        self.list().iter().filter(|phase| is_spill(phase)).map(|phase| phase.bytes).sum()
    }

    /// Adds the transferred bytes and the I/O wait of a stream to a phase.
    pub(crate) fn add_io(&self, name: &str, stats: IoStats) {
        let (bytes, waited_ns) = (stats.bytes, nanos(stats.waiting));
        self.add(Phase { name: name.to_owned(), bytes, waited_ns, ..Phase::default() });
    }
}

/// Beginnings of the names of phases that write spill files.
const SPILL_PHASE_NAMES: [&str; 2] = ["write runs", "write groups"];

/// Returns a duration in nanoseconds, saturating at `u64::MAX`.
#[must_use]
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

thread_local! {
    /// User and system time of the meters that ended within the current one of the thread.
    static INNER: Cell<[Duration; 2]> = const { Cell::new([Duration::ZERO; 2]) };
}

/// Measures the time and CPU time of the calling thread from creation to [`Meter::stop`]. The CPU time of a meter that
/// starts and stops in between counts for that one only: a join that sorts its input is not charged for the sort.
#[derive(Debug)]
pub(crate) struct Meter {
    begun: Instant,
    cpu: [Duration; 2],
    /// [`INNER`] of the surrounding meter.
    outer: [Duration; 2],
}

impl Meter {
    /// Starts measuring the calling thread.
    pub(crate) fn start() -> Meter {
        let (user, system) = user_and_system_of_this_thread();
        let outer = INNER.replace([Duration::ZERO; 2]);
        Meter { begun: Instant::now(), cpu: [user, system], outer }
    }

    /// Returns the figures since the start; must run on the same thread. The caller supplies bytes and I/O wait.
    pub(crate) fn stop(self, name: &str, bytes: u64, waited: Duration) -> Phase {
        let (user, system) = user_and_system_of_this_thread();
        let all = [user.saturating_sub(self.cpu[0]), system.saturating_sub(self.cpu[1])];
        let inner = INNER.replace([self.outer[0] + all[0], self.outer[1] + all[1]]);
        Phase {
            name: name.to_owned(),
            bytes,
            stored_bytes: 0,
            elapsed_ns: nanos(self.begun.elapsed()),
            user_ns: nanos(all[0].saturating_sub(inner[0])),
            system_ns: nanos(all[1].saturating_sub(inner[1])),
            waited_ns: nanos(waited),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_threads_spend_side_by_side_counts_once_and_their_cpu_time_adds_up() {
        let (phases, begun) = (Phases::default(), Instant::now());
        let add = |until_ms: u64, elapsed_ms: u64| {
            let (elapsed_ns, user_ns) = (elapsed_ms * 1_000_000, elapsed_ms * 1_000_000);
            let phase = Phase { name: "sort".to_owned(), elapsed_ns, user_ns, ..Phase::default() };
            phases.add_at(phase, begun + Duration::from_millis(until_ms));
        };
        add(10, 10);
        add(12, 10);
        add(13, 0);
        add(30, 5);
        let phase = &phases.list()[0];
        assert_eq!((phase.elapsed_ns, phase.user_ns), (17_000_000, 25_000_000));
        // A thread that worked all the time reports last.
        add(31, 31);
        assert_eq!(phases.list()[0].elapsed_ns, 31_000_000);
    }

    #[test]
    fn the_cpu_time_of_an_inner_meter_is_not_that_of_the_outer_one() {
        let cpu = |phase: &Phase| phase.user_ns + phase.system_ns;
        let outer = Meter::start();
        let mut inner_ns = 0;
        for _ in 0..2 {
            let (inner, begun) = (Meter::start(), Instant::now());
            while begun.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            inner_ns += cpu(&inner.stop("inner", 0, Duration::ZERO));
        }
        let (user, system) = user_and_system_of_this_thread();
        let all = nanos((user + system).saturating_sub(outer.cpu.iter().sum()));
        let phase = outer.stop("outer", 0, Duration::ZERO);
        // Nothing but the loop's own work is left.
        assert!(cpu(&phase) <= all.saturating_sub(inner_ns) + 5_000_000, "{phase:?}: {inner_ns} of {all} ns");
        assert!(phase.elapsed_ns >= 40_000_000);
    }

    #[test]
    fn phases_of_a_side_have_its_name_and_spilled_bytes_are_those_of_all_sides() {
        let phases = Phases::default();
        let of = |side| SidePhases { phases: &phases, side };
        let add = |side, name: &str, bytes| {
            of(side).add(Phase { name: name.to_owned(), bytes, ..Phase::default() });
        };
        add(None, "write runs", 1);
        add(Some("left"), "write runs", 2);
        add(Some("right"), "write groups", 4);
        add(Some("right"), "write", 8);
        let names: Vec<String> = phases.list().into_iter().map(|phase| phase.name).collect();
        assert_eq!(names, ["write runs", "write runs left", "write groups right", "write right"]);
        assert_eq!(of(None).spilled_bytes(), 7);
    }
}
