//! How much of the CPUs other programs and other guests of the host took.

use std::fs;
use std::time::{Duration, Instant};

use sakiyomi_os::cpu::of_this_process;

/// Clock ticks of `/proc/stat`, which are hundredths of a second on Linux.
const TICK: Duration = Duration::from_millis(10);

/// A moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    at: Instant,
    /// CPUs that were told of.
    cpus: u32,
    busy: Duration,
    stolen: Duration,
    own: Duration,
}

impl Moment {
    /// Now. Takes 50 µs.
    pub(crate) fn now() -> Moment {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cpus = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
        let mut moment = Moment {
            at: Instant::now(),
            cpus: 0,
            busy: Duration::ZERO,
            stolen: Duration::ZERO,
            own: of_this_process(),
        };
        for line in cpus {
            // `cpu0 user nice system idle iowait irq softirq steal ...`
            let ticks: Vec<u32> =
                line.split_ascii_whitespace().skip(1).map_while(|text| text.parse().ok()).collect();
            let at = |index: usize| TICK * ticks.get(index).copied().unwrap_or(0);
            moment.cpus += 1;
            moment.busy += at(0) + at(1) + at(2) + at(5) + at(6);
            moment.stolen += at(7);
        }
        moment
    }

    /// The share of all CPUs' time since then that others took, from 0 to 1; within 20 ms of the time. It is 0 where
    /// the kernel does not tell.
    pub(crate) fn others_ratio(&self, now: &Moment) -> f64 {
        let stolen = now.stolen.saturating_sub(self.stolen);
        let busy = now.busy.saturating_sub(self.busy);
        let others = busy.saturating_sub(now.own.saturating_sub(self.own)) + stolen;
        let all = (now.at - self.at) * now.cpus;
        if all.is_zero() { 0.0 } else { (others.as_secs_f64() / all.as_secs_f64()).min(1.0) }
    }

    /// Time since then that the host gave to other guests.
    pub(crate) fn stolen(&self, now: &Moment) -> Duration {
        now.stolen.saturating_sub(self.stolen)
    }
}
