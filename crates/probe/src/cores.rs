//! Cost of a message from one core to another, by distance: to a spinning receiver, and to a sleeping receiver.
//!
//! - *Hop*: two pinned threads write to two cache lines in turn. One way is half a round trip; each batch of round
//!   trips gives one value, and the result is the median of the batches: a batch in which a thread was preempted is
//!   an outlier.
//! - *Wake-up*: a pinned thread unparks (futex) another one that has been asleep for a while. One way is from before
//!   the call until the other thread runs; the duration of the call is the waker's cost.
//!
//! Both threads are in the ordinary scheduling class, and give up after [`PAIR_TIME_MAX`]: other programs may occupy
//! the cores for any time.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sakiyomi_os::affinity::{pin, usable_cpus};
use sakiyomi_os::topology::{Cpus, Distance, Topology};
use serde::{Deserialize, Serialize};

use crate::Error;

/// Maximum time to measure a pair of cores, half of it for hops.
pub const PAIR_TIME_MAX: Duration = Duration::from_millis(200);

/// Round trips per batch: long compared to two readings of the clock, short compared to a time slice.
const BATCH_ROUNDS: u64 = 200;

/// Maximum batches per pair.
const BATCHES_MAX: usize = 101;

/// Maximum wake-ups per pair.
const WAKES_MAX: usize = 101;

/// Sleep of a receiver before it is woken: longer than the kernel's idle loop polls (haltpoll: 200 µs), so that its
/// core is idle as well.
const RECEIVER_SLEEP: Duration = Duration::from_micros(300);

/// Spins between two readings of the clock.
const SPINS_PER_LOOK: u32 = 1 << 12;

/// Cost of a message between two cores at one distance; `None` where it could not be measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreCost {
    /// The distance.
    #[serde(with = "distance_by_name")]
    pub distance: Distance,
    /// The measured CPUs: the first one sent or woke.
    pub cpus: [usize; 2],
    /// Median latency of a hop in nanoseconds. `None` within one CPU, where only one of the threads can run.
    pub hop_ns: Option<f64>,
    /// Latency of a hop in the fastest batch, in nanoseconds.
    pub hop_min_ns: Option<f64>,
    /// Median time from the wake-up call until the receiver runs, in nanoseconds.
    pub wake_ns: Option<f64>,
    /// Shortest time from the wake-up call until the receiver runs, in nanoseconds.
    pub wake_min_ns: Option<f64>,
    /// Median duration of the wake-up call, in nanoseconds.
    pub waker_ns: Option<f64>,
}

/// Returns `same-cpu`, `smt-sibling`, `shared-cache`, `same-node` or `other-node`.
#[must_use]
pub fn distance_name(distance: Distance) -> &'static str {
    match distance {
        Distance::SameCpu => "same-cpu",
        Distance::SmtSibling => "smt-sibling",
        Distance::SharedCache => "shared-cache",
        Distance::SameNode => "same-node",
        Distance::OtherNode => "other-node",
    }
}

mod distance_by_name {
    use sakiyomi_os::topology::Distance;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(distance: &Distance, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(super::distance_name(*distance))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Distance, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = Distance::ALL.into_iter().find(|distance| super::distance_name(*distance) == name);
        found.ok_or_else(|| de::Error::custom(format_args!("there is no distance `{name}`")))
    }
}

/// Measures one pair of CPUs for each distance between those that this thread may use, the nearest first.
///
/// # Errors
/// If the system does not report the usable CPUs, and those of `go_on`, which is called before each pair.
pub fn measure(go_on: &mut dyn FnMut() -> Result<(), Error>) -> Result<Vec<CoreCost>, Error> {
    let pairs = Topology::of_machine().pairs(&usable_cpus()?);
    let mut costs = Vec::new();
    for (distance, a, b) in pairs {
        go_on()?;
        let hops = if a == b { Vec::new() } else { hops(a, b) };
        let (wakes, calls) = wakes(a, b);
        costs.push(CoreCost {
            distance,
            cpus: [a, b],
            hop_ns: median(&hops),
            hop_min_ns: least(&hops),
            wake_ns: median(&wakes),
            wake_min_ns: least(&wakes),
            waker_ns: median(&calls),
        });
    }
    Ok(costs)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

/// A number alone on its cache lines: processors fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Alone(AtomicU64);

impl Alone {
    /// Spins until the number is `value`; returns false if `deadline` passes first.
    fn wait_for(&self, value: u64, deadline: Instant) -> bool {
        loop {
            for _ in 0..SPINS_PER_LOOK {
                if self.0.load(Ordering::Acquire) >= value {
                    return true;
                }
                spin_loop();
            }
            if Instant::now() >= deadline {
                return false;
            }
        }
    }
}

/// Returns the latency of a hop in nanoseconds for each batch; empty if a thread could not be pinned.
fn hops(a: usize, b: usize) -> Vec<f64> {
    let (ping, pong) = (Alone::default(), Alone::default());
    let deadline = Instant::now() + PAIR_TIME_MAX / 2;
    thread::scope(|scope| {
        let echo = || {
            let Ok(_pinned) = pin(&Cpus::from([b])) else { return };
            for round in 1..=BATCHES_MAX as u64 * BATCH_ROUNDS {
                if !ping.wait_for(round, deadline) {
                    return;
                }
                pong.0.store(round, Ordering::Release);
            }
        };
        if thread::Builder::new().spawn_scoped(scope, echo).is_err() {
            return Vec::new();
        }
        let Ok(_pinned) = pin(&Cpus::from([a])) else { return Vec::new() };
        let (mut batches, mut round) = (Vec::new(), 0);
        'all: while batches.len() < BATCHES_MAX {
            let begun = Instant::now();
            for _ in 0..BATCH_ROUNDS {
                round += 1;
                ping.0.store(round, Ordering::Release);
                if !pong.wait_for(round, deadline) {
                    break 'all;
                }
            }
            batches.push(begun.elapsed().as_nanos() as f64 / (2 * BATCH_ROUNDS) as f64);
        }
        batches
    })
}

/// Returns the latency of each wake-up, and the duration of each wake-up call, in nanoseconds.
fn wakes(a: usize, b: usize) -> (Vec<f64>, Vec<f64>) {
    let begun = Instant::now();
    let deadline = begun + PAIR_TIME_MAX / 2;
    // Requested wake-ups; observed wake-ups, and their time in nanoseconds since `begun`.
    let (asked, seen, woken_at, is_over) =
        (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let now = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    thread::scope(|scope| {
        let sleeper = || {
            let _pinned = pin(&Cpus::from([b]));
            for wake in 1.. {
                // Spurious wake-ups of a thread are possible.
                while asked.load(Ordering::Acquire) < wake && !is_over.load(Ordering::Acquire) {
                    thread::park();
                }
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                woken_at.store(now(), Ordering::Relaxed);
                seen.store(wake, Ordering::Release);
            }
        };
        let Ok(sleeper) = thread::Builder::new().spawn_scoped(scope, sleeper) else {
            return (Vec::new(), Vec::new());
        };
        let _pinned = pin(&Cpus::from([a]));
        let (mut wakes, mut calls) = (Vec::new(), Vec::new());
        for wake in 1..=WAKES_MAX as u64 {
            thread::sleep(RECEIVER_SLEEP);
            let before = now();
            asked.store(wake, Ordering::Release);
            sleeper.thread().unpark();
            let after = now();
            while seen.load(Ordering::Acquire) < wake && Instant::now() < deadline {
                thread::sleep(RECEIVER_SLEEP / 4);
            }
            if Instant::now() >= deadline {
                break;
            }
            wakes.push(woken_at.load(Ordering::Relaxed).saturating_sub(before) as f64);
            calls.push(after.saturating_sub(before) as f64);
        }
        is_over.store(true, Ordering::Release);
        sleeper.thread().unpark();
        (wakes, calls)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_distance_is_measured_once_in_bounded_time() {
        let begun = Instant::now();
        let costs = measure(&mut || Ok(())).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(!costs.is_empty() && costs.is_sorted_by(|a, b| a.distance < b.distance));
        for cost in costs {
            assert_eq!(cost.distance == Distance::SameCpu, cost.cpus[0] == cost.cpus[1]);
            assert!(cost.distance != Distance::SameCpu || cost.hop_ns.is_none());
            assert!(cost.hop_min_ns <= cost.hop_ns && cost.wake_min_ns <= cost.wake_ns);
        }
    }

    #[test]
    fn it_can_be_ended() {
        assert!(matches!(measure(&mut || Err(Error::Interrupted)), Err(Error::Interrupted)));
    }
}
