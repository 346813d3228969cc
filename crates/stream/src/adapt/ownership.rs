//! Whether the CPU of a worker is its own.
//!
//! A worker that polls on a CPU that another thread wants takes time from it, and is itself preempted for whole time
//! slices, so that a hop of 150 ns becomes one of milliseconds. The kernel accounts for the time in which a thread was
//! ready to run and had no CPU, and the time in which the host ran another guest. Where both together exceed a few
//! percent, the worker is to park as soon as it has nothing to do. It then disturbs no other thread, so after a while
//! polling is tried again; each trial that fails doubles that while.

/// Length of a window of accounting.
const WINDOW_NS: u64 = 200_000_000;

/// Share of the time without a CPU from which on it counts as shared: far above what interrupts and the threads of
/// this runtime take, far below the half that another thread which always runs would take.
const WAITED_MAX_RATIO: f64 = 0.05;

/// Time after which polling is tried again, at first.
const RETRIAL_MIN_NS: u64 = 2_000_000_000;

/// Time between trials after several failed ones.
const RETRIAL_MAX_NS: u64 = 128_000_000_000;

/// Watches the CPU of one worker.
#[derive(Clone, Debug)]
pub(crate) struct CpuWatch {
    window: Option<Window>,
    shared_since_ns: Option<u64>,
    retrial_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since_ns: u64,
    waited_ns: u64,
}

/// A change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ownership {
    /// Others use the CPU; with the share of the time without it.
    Shared(f64),
    Owned,
}

impl CpuWatch {
    pub(crate) fn new() -> CpuWatch {
        CpuWatch { window: None, shared_since_ns: None, retrial_ns: RETRIAL_MIN_NS }
    }

    /// Told for how long the worker has been kept waiting for its CPU until `now_ns`, in all. What has changed.
    pub(crate) fn add(&mut self, now_ns: u64, waited_ns: u64) -> Option<Ownership> {
        let window = *self.window.get_or_insert(Window { since_ns: now_ns, waited_ns });
        let passed_ns = now_ns.saturating_sub(window.since_ns);
        if passed_ns < WINDOW_NS {
            return None;
        }
        self.window = Some(Window { since_ns: now_ns, waited_ns });
        let waited_ratio = waited_ns.saturating_sub(window.waited_ns) as f64 / passed_ns as f64;
        match self.shared_since_ns {
            None if waited_ratio > WAITED_MAX_RATIO => {
                self.shared_since_ns = Some(now_ns);
                Some(Ownership::Shared(waited_ratio))
            }
            Some(_) if waited_ratio > WAITED_MAX_RATIO => {
                // Time without waiting counts from here.
                self.shared_since_ns = Some(now_ns);
                None
            }
            Some(since_ns) if now_ns - since_ns >= self.retrial_ns => {
                self.shared_since_ns = None;
                self.retrial_ns = (self.retrial_ns * 2).min(RETRIAL_MAX_NS);
                Some(Ownership::Owned)
            }
            _ => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the times in milliseconds at which the CPU is found shared or owned, while it waits for this share.
    fn changes(end_ms: u64, waited_ratio: impl Fn(u64, bool) -> f64) -> Vec<(u64, bool)> {
        let (mut watch, mut waited_ns, mut changes) = (CpuWatch::new(), 0, Vec::new());
        for ms in (0..end_ms).step_by(5) {
            let is_shared = changes.last().is_some_and(|&(_, is_shared)| is_shared);
            waited_ns += (waited_ratio(ms, is_shared) * 5e6) as u64;
            if let Some(change) = watch.add(ms * MS, waited_ns) {
                changes.push((ms, matches!(change, Ownership::Shared(_))));
            }
        }
        changes
    }

    #[test]
    fn a_cpu_of_its_own_stays_so() {
        assert_eq!(changes(10_000, |_, _| 0.02), []);
        // A single time slice of another thread.
        assert_eq!(changes(10_000, |ms, _| if ms == 500 { 1.6 } else { 0.0 }), []);
    }

    #[test]
    fn a_shared_cpu_is_found_within_two_windows_and_its_own_again_after_a_while() {
        let changes = changes(10_000, |ms, _| if (1_050..4_000).contains(&ms) { 0.5 } else { 0.0 });
        assert!(
            matches!(changes[..], [(shared, true), (owned, false)]
            if shared <= 1_050 + 400 && (6_000..6_500).contains(&owned)),
            "{changes:?}"
        );
    }

    #[test]
    fn polling_beside_another_thread_is_tried_ever_less_often() {
        // A worker that parks at once is not kept waiting, and one that polls is.
        let changes = changes(600_000, |_, is_shared| if is_shared { 0.0 } else { 0.5 });
        let trials = changes.iter().filter(|(_, is_shared)| !is_shared).count();
        assert!((5..=10).contains(&trials), "{changes:?}");
    }
}
